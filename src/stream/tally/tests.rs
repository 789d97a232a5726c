// SPDX-License-Identifier: MPL-2.0
//! A record as its link writes it, as this process reads it, and as another
//! one does.

use std::fs::{self, File};
use std::sync::atomic::Ordering;

use super::registry::{close, open};
use super::{links, process, read, share, Count, Gauges, Link, Phase, Role, Snapshot, Tally};
use crate::device::Kind;

/// What another process would read of this one.
fn from_outside() -> Snapshot {
    let name = "memfd:zmq-rdma-stats";
    let fds = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let is_table = |path: &std::path::PathBuf| {
        fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains(name))
    };
    let path = fds.map(|fd| fd.path()).find(is_table).expect("a table");
    let file = File::open(path).unwrap();
    // Other tests of this program open and close links all the time.
    loop {
        if let Ok(snapshot) = read(&file) {
            return snapshot;
        }
    }
}

/// What this process reads of a link, among those of other tests.
fn mine(tally: Tally) -> Link {
    let id = tally.0[super::ID].load(Ordering::Relaxed);
    links().into_iter().find(|link| link.id == id).unwrap()
}

#[test]
fn a_link_is_seen_from_inside_and_outside() {
    share().unwrap();
    share().unwrap();
    let tally = open();
    let long = "[fe80::1%a-name-as-long-as-they-come]:65535";
    tally.set_names("rxe0", "10.0.0.1:1", long, 8200);
    tally.set_kind(Phase::Open, Role::Accepted, Kind::Verbs);
    tally.add(Count::BytesSent, 70);
    tally.add(Count::BytesSent, 7);
    tally.add(Count::QueueStalls, 3);
    tally.add(Count::BytesCopied, 11);
    tally.add(Count::ReadFromPeer, 13);
    tally.add(Count::MessagesSent, 17);
    tally.add(Count::MessagesReceived, 19);
    let gauges = Gauges {
        credits: 1,
        sends: 2,
        receives: 3,
        unread: u16::MAX,
    };
    tally.set_gauges(gauges);

    let inside = mine(tally);
    let outside = from_outside();
    let seen = outside.links.iter().find(|link| link.id == inside.id);
    assert_eq!(seen, Some(&inside));
    assert_eq!(
        (inside.device.as_str(), inside.peer.as_str()),
        ("rxe0", long)
    );
    assert_eq!((inside.phase, inside.role), (Phase::Open, Role::Accepted));
    assert!(inside.verbs && inside.gauges == gauges);
    assert_eq!(inside.counts.bytes_sent, 77);
    assert_eq!(inside.counts.queue_stalls, 3);
    let counts = inside.counts;
    assert_eq!((counts.bytes_copied, counts.read_from_peer), (11, 13));
    assert_eq!((counts.messages_sent, counts.messages_received), (17, 19));
    assert_eq!(inside.pinned(), (2 + 3 + 65535) * 8200);
    assert_eq!(outside.process.pid, std::process::id());
    assert!(outside.process.counts.bytes_sent >= 77);

    close(tally);
    assert!(from_outside().links.iter().all(|link| link.id != inside.id));
    assert!(links().iter().all(|link| link.id != inside.id));
    let counts = process().counts;
    assert!(
        counts.bytes_sent >= 77 && counts.read_from_peer >= 13 && counts.messages_received >= 19,
        "what is gone stays counted"
    );
}

#[test]
fn another_file_is_no_table() {
    for other in ["/dev/null", "/proc/self/exe"] {
        let error = read(&File::open(other).unwrap()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData, "{other}");
    }
}

#[test]
fn text_is_cut_to_its_place() {
    let tally = open();
    let much = "x".repeat(1000);
    tally.set_names(&much, &much, &much, 1);
    let link = mine(tally);
    assert_eq!(link.device.len(), 31);
    assert_eq!((link.local.len(), link.peer.len()), (95, 95));
    close(tally);
}
