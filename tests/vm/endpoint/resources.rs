// SPDX-License-Identifier: MPL-2.0
//! What connections cost, and that it is given back.

use std::fs;

use zmq_rdma::device::{verbs, Event, Kind};
use zmq_rdma::error::Error;

use crate::pair::{accept, audit, pattern, wait, Lab, Side};

/// Connect and close, over and over: descriptors, pinned memory and memory are flat.
pub fn cycles(lab: &Lab) {
    let rounds = |n: u32| {
        for round in 0..n {
            let (mut server, mut client) = lab.pair(8);
            let bytes = pattern(round.into(), 5000.min(lab.options.slot_size));
            client.send(&bytes);
            assert!(server.receive().bytes() == bytes);
            if round % 3 == 0 {
                client.endpoint.disconnect().unwrap();
            }
        }
        audit();
    };
    // What is made once is made by then.
    rounds(10);
    let before = settled();
    rounds(90);
    let after = settled();
    println!("lab: after 10 and after 100: {before:?} {after:?}");
    assert_eq!(before.fds, after.fds);
    assert_eq!(before.pinned, after.pinned);
    assert!(after.rss_kib < before.rss_kib + 2048);
}

#[derive(Debug, PartialEq)]
struct Books {
    fds: usize,
    pinned: usize,
    rss_kib: usize,
}

/// The books once the control thread has destroyed what was dropped.
fn settled() -> Books {
    let take = || Books {
        fds: fs::read_dir("/proc/self/fd").unwrap().count(),
        pinned: verbs::books::pinned(),
        rss_kib: rss_kib(),
    };
    let mut last = take();
    let mut same = 0;
    while same < 200 {
        std::thread::yield_now();
        let now = take();
        same = if now.fds == last.fds { same + 1 } else { 0 };
        last = now;
    }
    last
}

fn rss_kib() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Forty at once, dialed before any is answered.
pub fn crowd(lab: &Lab) {
    let mut listener = lab.listen();
    let at = listener.local_addr();
    let mut clients: Vec<_> = (0..40).map(|_| lab.dial(at, b"hello")).collect();
    let mut servers = Vec::new();
    let mut standing = vec![false; clients.len()];
    while servers.len() < clients.len() || standing.contains(&false) {
        match listener.accept() {
            Ok(endpoint) => {
                let mut server = crate::pair::Side::new(endpoint);
                assert!(matches!(server.next(), Event::Request(_)));
                server.endpoint.post_recvs(4).unwrap();
                server.endpoint.accept(b"welcome").unwrap();
                servers.push(server);
                continue;
            }
            Err(Error::Again) => {}
            Err(why) => panic!("{why}"),
        }
        for (client, standing) in clients.iter_mut().zip(&mut standing) {
            client.turn().unwrap();
            if let Some(event) = client.events.pop_front() {
                assert!(matches!(event, Event::Established(_)), "{event:?}");
                *standing = true;
            }
        }
        for server in &mut servers {
            server.turn().unwrap();
        }
        let mut fds: Vec<_> = clients.iter().map(|c| c.endpoint.ready()).collect();
        fds.extend(servers.iter().map(|s| s.endpoint.ready()));
        fds.push(listener.ready());
        if servers.len() < clients.len() || standing.contains(&false) {
            wait(&fds);
        }
    }
    for (i, client) in clients.iter_mut().enumerate() {
        client.send(&pattern(i as u64, 100));
        if lab.client == Kind::Soft {
            // See `Lab::nudge`.
            client.send(&pattern(i as u64, 100));
        }
    }
    let mut seen: Vec<_> = servers
        .iter_mut()
        .map(|server| loop {
            match server.next() {
                Event::Received(filled) => break filled.bytes().to_vec(),
                Event::Established(_) => {}
                other => panic!("{other:?}"),
            }
        })
        .collect();
    let mut sent: Vec<_> = (0..40).map(|i| pattern(i, 100)).collect();
    seen.sort();
    sent.sort();
    assert!(seen == sent);
}

/// Messages as large as a slot, one after the other, arrive.
fn fifty_whole_slots(lab: &Lab, server: &mut Side, client: &mut Side) {
    for i in 0..50 {
        let bytes = pattern(i, lab.options.slot_size);
        client.send(&bytes);
        assert!(server.receive().bytes() == bytes);
        assert_eq!(server.endpoint.post_recvs(1), Ok(1));
    }
}

/// Run with a small RLIMIT_MEMLOCK: it works, or says what to do; and the cap holds.
pub fn memlock(lab: &Lab) {
    let limit = rlimit();
    let worked = std::panic::catch_unwind(|| {
        let (mut server, mut client) = lab.pair(4);
        fifty_whole_slots(lab, &mut server, &mut client);
    });
    let pinned = verbs::books::pinned();
    println!("lab: limit {limit} bytes, pinned {pinned}");
    assert!(worked.is_ok());
    assert!(pinned as u64 <= limit / 4 * 3);
    // More than the limit allows: the excess is told why, the first is unharmed.
    let mut listener = lab.listen();
    let mut all = Vec::new();
    while all.len() < 4000 / lab.options.slot_size.min(400) * 10 {
        let mut client = lab.dial(listener.local_addr(), b"hello");
        let mut server = accept(&mut *listener, Some(&mut client));
        if !matches!(server.try_next(), Ok(Event::Request(_))) {
            break;
        }
        if server.endpoint.post_recvs(8) != Ok(8) {
            break;
        }
        all.push((server, client));
    }
    println!("lab: {} connections within the limit", all.len());
    assert!(verbs::books::pinned() as u64 <= limit / 4 * 3);
}

/// The limit is lowered under a budget that was read off it: what the kernel refuses in one
/// piece is taken in smaller ones, and connections work.
pub fn memlock_lowered(lab: &Lab) {
    let mut lab = lab.clone();
    lab.options.slot_size = 1024;
    verbs::fit(&mut lab.options);
    let lowered = 250 << 10;
    let limit = libc::rlimit {
        rlim_cur: lowered,
        rlim_max: lowered,
    };
    // SAFETY: `limit` is valid for reads.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) }, 0);
    let (mut server, mut client) = lab.pair(4);
    fifty_whole_slots(&lab, &mut server, &mut client);
    let pinned = verbs::books::pinned();
    println!("lab: limit {lowered} bytes, pinned {pinned}");
    assert!(pinned as u64 <= lowered);
}

/// Busy connections have wide windows until half of what may be pinned is in use; from
/// then on they make do with narrow ones, and new ones still come in.
pub fn lean(lab: &Lab) {
    let mut lab = lab.clone();
    (lab.options.recv_depth, lab.options.send_depth) = (1000, 1000);
    lab.options.slot_size = verbs::SLOT;
    verbs::fit(&mut lab.options);
    let wide = lab.options.recv_depth;
    assert_eq!(wide, 64);
    let (mut all, mut windows) = (Vec::new(), Vec::new());
    while windows.last() != Some(&16) {
        let (mut server, client) = lab.pair(4);
        windows.push(4 + server.endpoint.post_recvs(wide).unwrap());
        all.push((server, client));
        assert!(all.len() < 100, "{windows:?}");
    }
    let pinned = verbs::books::pinned() as u64;
    println!("lab: windows {windows:?}, pinned {pinned}");
    assert!(windows.len() > 1 && windows[..windows.len() - 1].iter().all(|w| *w == wide));
    let half = rlimit() / 8 * 3;
    assert!(pinned >= half && pinned <= half + (1 << 20));
    for _ in 0..20 {
        all.push(lab.pair(4));
    }
    // What is given back is there for others.
    all.clear();
    let (mut server, _client) = lab.pair(4);
    assert_eq!(4 + server.endpoint.post_recvs(wide).unwrap(), wide);
}

fn rlimit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: room for the answer.
    unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    limit.rlim_cur
}

/// Children, with and without exec, under load: the parent's traffic goes on.
pub fn fork(lab: &Lab) {
    let (mut server, mut client) = lab.pair(8);
    for i in 0..60u64 {
        client.send(&pattern(i, 4000.min(lab.options.slot_size)));
        if i % 3 == 0 {
            // SAFETY: the child calls nothing but `_exit`.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: ends the child at once, running no destructor.
                unsafe { libc::_exit(0) };
            }
            let mut status = 0;
            // SAFETY: our own child.
            unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!(status, 0);
        } else if i % 10 == 1 {
            let ran = std::process::Command::new("/bin/true").status().unwrap();
            assert!(ran.success());
        }
        let filled = server.receive();
        assert!(
            filled.bytes() == pattern(i, filled.bytes().len()),
            "message {i}"
        );
        drop(filled);
        assert_eq!(server.endpoint.post_recvs(1), Ok(1));
    }
    in_a_child(|| {
        // What the parent opened is the parent's: said so, and nothing hangs.
        let dialed = verbs::dial("10.77.0.2:9".parse().unwrap(), None, b"", &lab.options);
        assert!(matches!(dialed.err(), Some(Error::Unreachable(_))));
        assert_eq!(verbs::available(lab.addr, None), None);
    });
}

fn in_a_child(body: impl FnOnce()) {
    // SAFETY: the control thread holds no lock that `body` takes: it sleeps
    // while nothing happens, and nothing does.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        // SAFETY: ends the child, running no destructor.
        unsafe { libc::_exit(if ran.is_ok() { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: our own child.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
}
