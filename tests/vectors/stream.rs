// SPDX-License-Identifier: MPL-2.0
//! A whole stream, cut everywhere: what comes out does not depend on how the
//! bytes came in.

use zmq_rdma::proto::ddp::place::{tagged, Placement, Queue};
use zmq_rdma::proto::mpa::framing::{Deframer, Parsed};
use zmq_rdma::wire::ddp::{Access, Header, Window};
use zmq_rdma::wire::rdmap::{Opcode, QN_SEND};

use crate::vector;

/// A receiver strung together as an endpoint does it: messages of queue 0 in
/// order, and a window that WRITEs go to.
struct Receiver {
    deframer: Deframer,
    input: Vec<u8>,
    queue: Queue,
    slot: Vec<u8>,
    messages: Vec<Vec<u8>>,
    window: Vec<u8>,
}

const SLOT: usize = 64;
const BASE: u64 = 0x7_0000_0000;

impl Receiver {
    fn new() -> Receiver {
        let mut queue = Queue::new(QN_SEND);
        queue.post(3);
        Receiver {
            deframer: Deframer::new(true),
            input: Vec::new(),
            queue,
            slot: Vec::new(),
            messages: Vec::new(),
            window: vec![0; 32],
        }
    }

    fn on_bytes(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        loop {
            let (consumed, ulpdu) = match self.deframer.parse(&self.input).unwrap() {
                Parsed::Need(n) => {
                    assert!(n > self.input.len());
                    return;
                }
                Parsed::Fpdu { consumed, ulpdu } => (consumed, ulpdu.to_vec()),
            };
            self.input.drain(..consumed);
            self.on_ulpdu(&ulpdu);
        }
    }

    fn on_ulpdu(&mut self, ulpdu: &[u8]) {
        let header = Header::decode(ulpdu).unwrap();
        let payload = &ulpdu[header.len()..];
        match (Opcode::of(&header).unwrap(), header) {
            (Opcode::Send(_), Header::Untagged(h)) => {
                let placement = self.queue.on_segment(&h, payload.len(), SLOT).unwrap();
                self.slot.extend_from_slice(payload);
                if !matches!(placement, Placement::Part { last: false, .. }) {
                    self.messages.push(std::mem::take(&mut self.slot));
                }
            }
            (Opcode::Write, Header::Tagged(h)) => {
                let window = Window {
                    base: BASE,
                    len: self.window.len() as u64,
                };
                let at = tagged(&h, payload.len(), |_| Access::Granted(window)).unwrap() as usize;
                self.window[at..at + payload.len()].copy_from_slice(payload);
            }
            other => panic!("unexpected {other:?}"),
        }
    }
}

fn stream() -> Vec<u8> {
    [
        "send hello",
        "write empty",
        "send part 1",
        "write",
        "send part 2",
    ]
    .into_iter()
    .flat_map(vector)
    .collect()
}

fn check(receiver: &Receiver, how: &str) {
    assert_eq!(receiver.messages, [&b"hello"[..], b"abcdefghij"], "{how}");
    assert_eq!(receiver.window[16..20], [0xde, 0xad, 0xbe, 0xef], "{how}");
    assert!(receiver.input.is_empty(), "{how}");
    assert_eq!(receiver.queue.posted(), 1, "{how}");
}

#[test]
fn a_stream_gives_the_same_byte_by_byte_and_at_every_split() {
    let stream = stream();
    let mut receiver = Receiver::new();
    for byte in &stream {
        receiver.on_bytes(std::slice::from_ref(byte));
    }
    check(&receiver, "byte by byte");
    for cut in 0..=stream.len() {
        let mut receiver = Receiver::new();
        let (a, b) = stream.split_at(cut);
        receiver.on_bytes(a);
        receiver.on_bytes(b);
        check(&receiver, &format!("split at {cut}"));
    }
}
