// SPDX-License-Identifier: MPL-2.0
//! What soft connections leave behind, and what they cost while idle: counted
//! in this process, so the tests here take turns.
#![allow(unsafe_code)]

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};

use zmq_rdma::device::soft::{Endpoint, Listener, CHUNK};
use zmq_rdma::device::{Endpoint as _, Event, Listener as _, Options, Ready};
use zmq_rdma::error::Error;
use zmq_rdma::os;

static TURNS: Mutex<()> = Mutex::new(());

fn my_turn() -> MutexGuard<'static, ()> {
    TURNS.lock().unwrap_or_else(|e| e.into_inner())
}

fn wait(ready: Ready) {
    let out = if ready.write { libc::POLLOUT } else { 0 };
    os::wait(ready.fd, libc::POLLIN | out);
}

/// Poll until there is an event.
fn next(endpoint: &mut Endpoint) -> Result<Event, Error> {
    let mut events = Vec::new();
    loop {
        wait(endpoint.ready());
        endpoint.poll(&mut events)?;
        events.retain(|event| !matches!(event, Event::Sent(_)));
        if let Some(event) = events.pop() {
            assert!(events.is_empty(), "one at a time");
            return Ok(event);
        }
    }
}

fn listener() -> Listener {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    Listener::new(any, &Options::default()).unwrap()
}

fn connect(listener: &mut Listener) -> (Endpoint, Endpoint) {
    let o = Options::default();
    let mut ours = Endpoint::dial(listener.local_addr(), None, b"", &o).unwrap();
    ours.post_recvs(4).unwrap();
    let mut events = Vec::new();
    while ours.ready().write {
        wait(ours.ready());
        ours.poll(&mut events).unwrap();
    }
    wait(listener.ready());
    let mut theirs = listener.accept_endpoint().unwrap();
    theirs.post_recvs(4).unwrap();
    assert!(matches!(next(&mut theirs), Ok(Event::Request(_))));
    theirs.accept(b"").unwrap();
    assert!(matches!(next(&mut theirs), Ok(Event::Established(_))));
    assert!(matches!(next(&mut ours), Ok(Event::Established(_))));
    (ours, theirs)
}

fn send(from: &mut Endpoint, to: &mut Endpoint, len: usize) {
    let slot = from.reserve().unwrap().unwrap();
    from.post_send(slot, len).unwrap();
    from.flush().unwrap();
    match next(to) {
        Ok(Event::Received(filled)) => assert_eq!(filled.bytes().len(), len),
        other => panic!("{other:?}"),
    }
    to.post_recvs(1).unwrap();
}

/// Everything a connection may do, and its end.
fn live_and_die(listener: &mut Listener) {
    let (mut a, mut b) = connect(listener);
    send(&mut a, &mut b, 8000);
    send(&mut b, &mut a, 10);
    let source = vec![7u8; 70_000];
    let mut sink = vec![0u8; 70_000];
    // SAFETY: `source` outlives `b`.
    let remote = unsafe { b.expose(source.as_ptr(), source.len()) }.unwrap();
    // SAFETY: `sink` outlives `a`, and is looked at only after `ReadDone`.
    unsafe { a.post_read(sink.as_mut_ptr(), remote, 1) }.unwrap();
    a.flush().unwrap();
    let mut events = Vec::new();
    while events.is_empty() {
        wait(b.ready());
        b.poll(&mut Vec::new()).unwrap();
        wait(a.ready());
        a.poll(&mut events).unwrap();
    }
    assert!(matches!(events[..], [Event::ReadDone(1)]));
    assert_eq!(source, sink);
    a.disconnect().unwrap();
    assert!(matches!(next(&mut b), Ok(Event::Disconnected)));
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn row_06_ten_thousand_connections_leave_nothing() {
    let _turn = my_turn();
    let mut listener = listener();
    for _ in 0..100 {
        live_and_die(&mut listener);
    }
    let before = (open_descriptors(), resident());
    for _ in 0..10_000 {
        live_and_die(&mut listener);
    }
    assert_eq!(open_descriptors(), before.0);
    let grown = resident().saturating_sub(before.1);
    assert!(grown < 1 << 20, "{grown} bytes more than before");
}

#[test]
fn idle_connections_cost_next_to_nothing() {
    const N: usize = 300;
    let _turn = my_turn();
    let mut listener = listener();
    live_and_die(&mut listener);
    let before = resident();
    let mut held = Vec::new();
    for _ in 0..N {
        let (mut a, mut b) = connect(&mut listener);
        // Lent and copied, in each direction.
        for len in [8000, 10] {
            send(&mut a, &mut b, len);
            send(&mut b, &mut a, len);
        }
        held.push((a, b));
    }
    let each = resident().saturating_sub(before) / (2 * N);
    assert!(each < 8 << 10, "{each} bytes an idle endpoint");
    const { assert!(CHUNK > 8 << 10) };
}

#[test]
fn a_process_without_descriptors_left_still_listens() {
    let _turn = my_turn();
    let mut listener = listener();
    let to = listener.local_addr();
    let visitor = std::net::TcpStream::connect(to).unwrap();
    let mut taken = Vec::new();
    let full = loop {
        match std::fs::File::open("/dev/null") {
            Ok(file) => taken.push(file),
            Err(why) => break why,
        }
        if taken.len() == 1 {
            lower_limit(open_descriptors() + 8);
        }
    };
    assert_eq!(full.raw_os_error(), Some(libc::EMFILE));
    let refused = listener.accept_endpoint().map(drop);
    let emfile = |op| Error::Device {
        op,
        code: libc::EMFILE,
    };
    assert_eq!(refused, Err(emfile("accept")));
    let o = Options::default();
    let dialed = Endpoint::dial(to, None, b"", &o).map(drop);
    assert_eq!(dialed, Err(emfile("socket")));
    drop(taken);
    listener.accept_endpoint().unwrap();
    drop(visitor);
    lower_limit(usize::MAX);
    live_and_die(&mut listener);
}

/// The soft limit on descriptors, up to the hard one.
fn lower_limit(to: usize) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is writable.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit.rlim_cur = limit.rlim_max.min(to as libc::rlim_t);
    // SAFETY: `limit` is readable.
    let rc = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    assert_eq!(rc, 0);
}
