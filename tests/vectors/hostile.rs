// SPDX-License-Identifier: MPL-2.0
//! Any bytes at all: a typed answer, never a panic.

use proptest::prelude::*;
use zmq_rdma::proto::ddp::place::{tagged, Queue};
use zmq_rdma::proto::mpa::framing::{Deframer, Parsed};
use zmq_rdma::proto::mpa::negotiate::{Heard, Initiator, Responder, Wishes};
use zmq_rdma::proto::rdmap::request::Requester;
use zmq_rdma::proto::rdmap::respond;
use zmq_rdma::proto::rdmap::terminate::{on_terminate, Terminate};
use zmq_rdma::wire::ddp::{Access, Header, Window};
use zmq_rdma::wire::fault::Fault;
use zmq_rdma::wire::mpa::{Decoded, Kind, Setup, PRIVATE_MAX, SETUP_LEN};
use zmq_rdma::wire::rdmap::{self, Opcode, ReadRequest};

use crate::vector;

/// Everything an endpoint would do with a ULPDU.
fn take(
    ulpdu: &[u8],
    queues: &mut [Queue; 3],
    requester: &mut Requester,
    responder: &mut respond::Responder,
) -> Result<(), Fault> {
    let header = Header::decode(ulpdu)?;
    let payload = &ulpdu[header.len()..];
    let opcode = Opcode::of(&header)?;
    let window = |_| {
        Access::Granted(Window {
            base: 1 << 40,
            len: 4096,
        })
    };
    match &header {
        Header::Tagged(h) if opcode == Opcode::ReadResponse => {
            requester.on_response(h, payload.len()).map(drop)
        }
        Header::Tagged(h) => {
            let at = tagged(h, payload.len(), window)?;
            assert!(at + payload.len() as u64 <= 4096 || payload.is_empty());
            Ok(())
        }
        Header::Untagged(h) => {
            queues[h.qn as usize].on_segment(h, payload.len(), 128)?;
            match opcode {
                Opcode::ReadRequest => responder.on_request(payload, window),
                Opcode::Terminate => {
                    let _ = on_terminate(payload);
                    Ok(())
                }
                _ => Ok(()),
            }
        }
    }
}

/// Bytes that are somewhat like an FPDU, so that the depths are reached.
fn almost() -> impl Strategy<Value = Vec<u8>> {
    let names = prop::sample::select(vec![
        "send hello",
        "send part 1",
        "send part 2",
        "send solicited invalidate",
        "write",
        "read request",
        "read response 2",
        "terminate msn",
        "terminate read stag",
    ]);
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (names, edits).prop_map(|(name, edits)| {
        let mut bytes = vector(name);
        for (at, to) in edits {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_at_every_decoder(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for kind in [Kind::Request, Kind::Reply] {
            if let Ok(Decoded::Need(n)) = Setup::decode(kind, &bytes) {
                prop_assert!(n <= SETUP_LEN + PRIVATE_MAX);
            }
        }
        if let Ok(header) = Header::decode(&bytes) {
            let _ = Opcode::of(&header);
        }
        let _ = ReadRequest::decode(&bytes);
        let _ = rdmap::Terminate::decode(&bytes);
        let _ = on_terminate(&bytes);
        let deframer = Deframer::new(false);
        match deframer.parse(&bytes) {
            Ok(Parsed::Need(n)) => prop_assert!(n > bytes.len() && n <= 65_535 + 9),
            Ok(Parsed::Fpdu { consumed, ulpdu }) => prop_assert!(ulpdu.len() < consumed && consumed <= bytes.len()),
            Err(_) => {}
        }
        if let Ok(Some((_, open))) = deframer.open(&bytes) {
            prop_assert!(open.consumed() <= bytes.len() && open.left() <= 65_535);
        }
    }

    #[test]
    fn a_frame_with_any_flags_at_both_machines(tail in prop::collection::vec(any::<u8>(), 4..600)) {
        let frame = |name: &str| [&vector(name)[..16], &tail].concat();
        let request = frame("request 2");
        let mut responder = Responder::new(Wishes::default());
        if let Ok(Heard::Frame { consumed, .. }) = responder.on_bytes(&request) {
            prop_assert!(consumed <= request.len());
            let agreed = responder.accept(b"x").unwrap();
            prop_assert!(agreed.ird <= 16 && agreed.ord <= 16);
            let reply = responder.poll_output().unwrap();
            prop_assert!(matches!(Setup::decode(Kind::Reply, &reply), Ok(Decoded::Value(..))));
        }
        let _ = Initiator::new(Wishes::default(), b"").unwrap().on_bytes(&frame("reply 2"));
    }

    #[test]
    fn almost_right_streams_end_in_a_fault_or_not_at_all(fpdus in prop::collection::vec(almost(), 1..30)) {
        let mut queues = [0, 1, 2].map(Queue::new);
        queues.iter_mut().for_each(|queue| queue.post(6));
        let mut requester = Requester::new(2);
        requester.read(ReadRequest { sink_stag: 0xa01, sink_to: 0x1bb4, len: 4, source_stag: 1, source_to: 2 }, 3).unwrap();
        let mut responder = respond::Responder::new(2);
        let stream = fpdus.concat();
        let mut input = &stream[..];
        // The CRC is off, or little would come past it.
        while let Ok(Parsed::Fpdu { consumed, ulpdu }) = Deframer::new(false).parse(input) {
            input = &input[consumed..];
            if let Err(fault) = take(ulpdu, &mut queues, &mut requester, &mut responder) {
                let terminate = Terminate::new(&fault, Some(ulpdu));
                let told = rdmap::Terminate::decode(terminate.payload()).unwrap();
                prop_assert_eq!(told.cause, fault.cause);
                prop_assert!(fault.cause.text().is_some());
                break;
            }
            prop_assert!(responder.open() <= 2);
        }
    }
}
