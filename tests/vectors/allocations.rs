// SPDX-License-Identifier: MPL-2.0
//! Nothing that a peer sends makes the receiving side allocate, and sending in
//! place does not either: counted by an allocator of our own.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use zmq_rdma::proto::ddp::place::{Placement, Queue};
use zmq_rdma::proto::ddp::segment::Segments;
use zmq_rdma::proto::mpa::framing::{Deframer, Framer, Parsed};
use zmq_rdma::proto::mpa::negotiate::{Responder, Wishes};
use zmq_rdma::wire::ddp::Header;
use zmq_rdma::wire::rdmap::Opcode;

use crate::{fpdu, vector};

struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on; `alloc` took it from there.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(what: impl FnOnce()) -> usize {
    let before = COUNT.get();
    what();
    COUNT.get() - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(count(|| drop(Box::new(7u32))), 1);
}

#[test]
fn receiving_allocates_nothing() {
    let bytes = vector("send hello");
    let mut queue = Queue::new(0);
    queue.post(1);
    let deframer = Deframer::new(true);
    // Once before: what is looked up once a process is not of interest.
    let _ = deframer.parse(&bytes);
    let allocated = count(|| {
        let Ok(Parsed::Fpdu { ulpdu, .. }) = deframer.parse(&bytes) else {
            panic!("not found")
        };
        let header = Header::decode(ulpdu).unwrap();
        assert!(matches!(Opcode::of(&header), Ok(Opcode::Send(_))));
        let Header::Untagged(header) = header else {
            panic!("tagged")
        };
        let placed = queue.on_segment(&header, ulpdu.len() - 18, 4096);
        assert_eq!(placed, Ok(Placement::Whole));
    });
    assert_eq!(allocated, 0);
}

#[test]
fn the_largest_lengths_allocate_nothing() {
    let mut request = vector("request 2");
    request[18..20].copy_from_slice(&512u16.to_be_bytes());
    let mut responder = Responder::new(Wishes::default());
    let allocated = count(|| {
        assert!(responder.on_bytes(&request).is_ok());
        assert!(Deframer::new(true).parse(&[0xff; 100]).is_ok());
    });
    assert_eq!(allocated, 0);
}

#[test]
fn sealing_allocates_nothing() {
    let payload = [7; 8200];
    let framer = Framer::new(true, false);
    let _ = framer.seal(&fpdu::send(1, 0, true), &payload);
    let allocated = count(|| {
        for (header, range) in Segments::new(fpdu::send(1, 0, true), 8200, 1454) {
            let (head, tail) = framer.seal(&header, &payload[range]);
            assert_eq!(head.bytes().len(), 20);
            assert!(tail.bytes().len() >= 4);
        }
    });
    assert_eq!(allocated, 0);
}
