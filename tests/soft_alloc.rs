// SPDX-License-Identifier: MPL-2.0
//! The message path allocates nothing: counted by the allocator of this process.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use zmq_rdma::device::soft::{Endpoint, Listener};
use zmq_rdma::device::{Endpoint as _, Event, Listener as _, Options, Ready};
use zmq_rdma::os;

struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all of it is the system's allocator; counting changes nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the same promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the same promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn wait(ready: Ready) {
    let out = if ready.write { libc::POLLOUT } else { 0 };
    os::wait(ready.fd, libc::POLLIN | out);
}

fn next(endpoint: &mut Endpoint, events: &mut Vec<Event>) -> Event {
    loop {
        wait(endpoint.ready());
        endpoint.poll(events).unwrap();
        if let Some(event) = events.pop() {
            assert!(events.is_empty(), "one at a time");
            return event;
        }
    }
}

fn pair() -> (Endpoint, Endpoint) {
    let o = Options::default();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let mut listener = Listener::new(any, &o).unwrap();
    let mut events = Vec::new();
    let mut ours = Endpoint::dial(listener.local_addr(), None, b"", &o).unwrap();
    ours.post_recvs(1).unwrap();
    while ours.ready().write {
        wait(ours.ready());
        ours.poll(&mut events).unwrap();
    }
    wait(listener.ready());
    let mut theirs = listener.accept_endpoint().unwrap();
    theirs.post_recvs(1).unwrap();
    assert!(matches!(next(&mut theirs, &mut events), Event::Request(_)));
    theirs.accept(b"").unwrap();
    assert!(matches!(
        next(&mut theirs, &mut events),
        Event::Established(_)
    ));
    assert!(matches!(
        next(&mut ours, &mut events),
        Event::Established(_)
    ));
    (ours, theirs)
}

/// One SEND there: received, looked at, its receive posted again.
fn send(from: &mut Endpoint, to: &mut Endpoint, len: usize, events: &mut Vec<Event>) {
    let slot = from.reserve().unwrap().unwrap();
    from.post_send(slot, len).unwrap();
    assert_eq!(from.flush(), Ok(1));
    match next(to, events) {
        Event::Received(filled) => assert_eq!(filled.bytes().len(), len),
        other => panic!("{other:?}"),
    }
    to.post_recvs(1).unwrap();
}

#[test]
fn a_send_allocates_nothing() {
    const N: usize = 5000;
    let (mut a, mut b) = pair();
    let mut events = Vec::with_capacity(8);
    let mut there_and_back = |n: usize| {
        for len in std::iter::repeat_n([1, 8200, 2048, 300], n / 4).flatten() {
            send(&mut a, &mut b, len, &mut events);
            send(&mut b, &mut a, len, &mut events);
        }
    };
    there_and_back(200);
    let before = COUNT.load(Ordering::Relaxed);
    there_and_back(N);
    let each = COUNT.load(Ordering::Relaxed) - before;
    // The slabs' free lists are queues that take a block every 31 slots.
    assert!(each * 15 < 2 * N, "{each} allocations in {} SENDs", 2 * N);
}
