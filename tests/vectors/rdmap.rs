// SPDX-License-Identifier: MPL-2.0
//! RDMAP: opcodes, READs from both ends, TERMINATE.

use proptest::prelude::*;
use zmq_rdma::error::Error;
use zmq_rdma::proto::rdmap::request::{Arrived, Requester};
use zmq_rdma::proto::rdmap::respond::{Responder, Response};
use zmq_rdma::proto::rdmap::terminate::{on_terminate, Terminate};
use zmq_rdma::wire::ddp::{Access, Header, Tagged, Untagged, Window};
use zmq_rdma::wire::fault::{Cause, Fault};
use zmq_rdma::wire::rdmap::{self, Opcode, ReadRequest, SendKind};

use crate::{fpdu, vector};

const READ: ReadRequest = ReadRequest {
    sink_stag: 0xa01,
    sink_to: 0x1000,
    len: 3000,
    source_stag: 0xb02,
    source_to: 0x7f00_0000_2000,
};

const KINDS: [SendKind; 4] = [
    SendKind::Plain,
    SendKind::Invalidate,
    SendKind::Solicited,
    SendKind::SolicitedInvalidate,
];

/// ULPDU of a vector.
fn ulpdu(name: &str) -> Vec<u8> {
    let fpdu = vector(name);
    let len = usize::from(u16::from_be_bytes([fpdu[0], fpdu[1]]));
    fpdu[2..2 + len].to_vec()
}

fn untagged(control: u8, qn: u32) -> Header {
    Header::Untagged(Untagged {
        last: true,
        ulp: control,
        ulp_word: 0,
        qn,
        msn: 1,
        mo: 0,
    })
}

#[test]
fn opcodes_are_what_the_vectors_say() {
    for (name, opcode) in [
        ("send hello", Opcode::Send(SendKind::Plain)),
        (
            "send solicited invalidate",
            Opcode::Send(SendKind::SolicitedInvalidate),
        ),
        ("write", Opcode::Write),
        ("read request", Opcode::ReadRequest),
        ("read response 1", Opcode::ReadResponse),
        ("terminate crc", Opcode::Terminate),
    ] {
        let header = Header::decode(&ulpdu(name)).unwrap();
        assert_eq!(Opcode::of(&header), Ok(opcode), "{name}");
        assert_eq!(opcode.control(), header.ulp(), "{name}");
    }
    for (control, kind) in (0x43..).zip(KINDS) {
        let opcode = Opcode::Send(kind);
        assert_eq!(Opcode::of(&untagged(control, 0)), Ok(opcode));
        assert_eq!(opcode.control(), control);
        assert_eq!(kind.invalidates(), control % 2 == 0);
    }
}

#[test]
fn wrong_versions_opcodes_models_and_queues_are_faults() {
    let cause = |header| Opcode::of(&header).unwrap_err().cause;
    for version in [0x03, 0x83, 0xc3] {
        assert_eq!(cause(untagged(version, 0)), Cause::RDMAP_VERSION);
    }
    for opcode in 8..16 {
        assert_eq!(cause(untagged(0x40 | opcode, 0)), Cause::OPCODE);
    }
    for tagged in [0x41, 0x43, 0x44, 0x45, 0x46, 0x47] {
        assert_eq!(cause(fpdu::tagged(tagged, 0, 0, true)), Cause::OPCODE);
    }
    for write_or_response in [0x40, 0x42] {
        assert_eq!(cause(untagged(write_or_response, 0)), Cause::OPCODE);
    }
    for (control, qn) in [(0x43, 1), (0x41, 0), (0x47, 1), (0x46, 7)] {
        assert_eq!(cause(untagged(control, qn)), Cause::UNTAGGED_QN);
    }
}

#[test]
fn requests_are_numbered_from_one_in_each_queue() {
    let mut requester = Requester::new(2);
    assert_eq!(requester.send(SendKind::Plain, 9), fpdu::send(1, 0, true));
    assert_eq!(requester.send(SendKind::Plain, 9), fpdu::send(2, 0, true));
    let (header, payload) = requester.read(READ, 77).unwrap();
    let bytes = ulpdu("read request");
    assert_eq!(Header::decode(&bytes), Ok(header));
    assert_eq!(payload, bytes[18..]);
    let Header::Untagged(send) = requester.send(SendKind::SolicitedInvalidate, 0xcafe_0001) else {
        panic!("a SEND is untagged")
    };
    assert_eq!((send.msn, send.ulp_word, send.ulp), (3, 0xcafe_0001, 0x46));
    let write = requester.write(0x1234_5678, 0x7_0000_0010);
    assert_eq!(Header::decode(&ulpdu("write")), Ok(write));
}

fn response(name: &str) -> (Tagged, usize) {
    let bytes = ulpdu(name);
    match Header::decode(&bytes).unwrap() {
        Header::Tagged(header) => (header, bytes.len() - 14),
        Header::Untagged(_) => panic!("{name} is untagged"),
    }
}

#[test]
fn read_responses_fill_their_read() {
    let mut requester = Requester::new(2);
    requester.read(READ, 77).unwrap();
    requester.read(READ, 78).unwrap();
    assert!(matches!(requester.read(READ, 79), Err(Error::Again)));
    let arrived = |token, at, done| Ok(Arrived { token, at, done });
    let (header, len) = response("read response 1");
    assert_eq!(requester.locate(&header, len), arrived(77, 0, false));
    assert_eq!(requester.on_response(&header, len), arrived(77, 0, false));
    let (header, len) = response("read response 2");
    assert_eq!(requester.on_response(&header, len), arrived(77, 2996, true));
    assert_eq!(requester.open_reads(), 1);
    assert!(requester.read(READ, 79).is_ok());
}

#[test]
fn a_read_response_that_fits_no_read_is_a_fault() {
    let (header, len) = response("read response 1");
    let mut requester = Requester::new(1);
    let fault = requester.on_response(&header, len).unwrap_err();
    assert_eq!(fault.cause, Cause::OPCODE);
    requester.read(READ, 1).unwrap();
    let cases = [
        (Tagged { stag: 1, ..header }, len, Cause::TAGGED_STAG),
        (
            Tagged {
                to: 0x1001,
                ..header
            },
            len,
            Cause::TAGGED_BOUNDS,
        ),
        (
            Tagged {
                last: true,
                ..header
            },
            len,
            Cause::TAGGED_BOUNDS,
        ),
        (header, 3000, Cause::TAGGED_BOUNDS),
        (
            Tagged {
                last: true,
                ..header
            },
            3001,
            Cause::TAGGED_BOUNDS,
        ),
    ];
    for (header, len, cause) in cases {
        assert_eq!(
            requester.on_response(&header, len).map_err(|f| f.cause),
            Err(cause)
        );
    }
    requester.on_response(&header, len).unwrap();
    let again = requester.on_response(&header, len).unwrap_err();
    assert_eq!(again.cause, Cause::TAGGED_BOUNDS);
}

#[test]
fn a_read_of_nothing_names_no_memory() {
    let nothing = ReadRequest {
        len: 0,
        source_stag: 0,
        ..READ
    };
    let mut requester = Requester::new(1);
    requester.read(nothing, 5).unwrap();
    let header = Tagged {
        last: true,
        ulp: 0x42,
        stag: 0,
        to: 99,
    };
    assert!(requester.on_response(&header, 0).unwrap().done);

    let mut responder = Responder::new(1);
    let lookup = |_| panic!("looked up for nothing");
    responder.on_request(&nothing.encode(), lookup).unwrap();
    assert_eq!(responder.poll_response().unwrap().len, 0);
}

#[test]
fn reads_are_answered_in_order_and_counted() {
    let granted = |_| {
        Access::Granted(Window {
            base: 0x7f00_0000_1000,
            len: 0x2000,
        })
    };
    let request = &ulpdu("read request")[18..];
    let mut responder = Responder::new(2);
    responder.on_request(request, granted).unwrap();
    let expected = Response {
        header: fpdu::tagged(0x42, 0xa01, 0x1000, true),
        stag: 0xb02,
        at: 0x1000,
        len: 3000,
    };
    assert_eq!(responder.poll_response(), Some(expected));
    assert_eq!(responder.poll_response(), None);
    responder.on_request(request, granted).unwrap();
    let fault = responder.on_request(request, granted).unwrap_err();
    assert_eq!(fault.cause, Cause::UNTAGGED_NO_BUFFER);
    assert_eq!(responder.open(), 2);
    responder.on_sent();
    responder.on_request(request, granted).unwrap();
}

#[test]
fn a_read_is_checked_against_its_source() {
    let window = |base, len| Access::Granted(Window { base, len });
    let base = READ.source_to;
    for (access, cause) in [
        (Access::Unknown, Cause::READ_STAG),
        (Access::Foreign, Cause::READ_FOREIGN),
        (Access::Denied, Cause::ACCESS),
        (window(base, 2999), Cause::READ_BOUNDS),
        (window(base + 1, 5000), Cause::READ_BOUNDS),
    ] {
        let mut responder = Responder::new(1);
        let checked = responder.on_request(&READ.encode(), |stag| {
            assert_eq!(stag, 0xb02);
            access
        });
        assert_eq!(checked.map_err(|fault| fault.cause), Err(cause));
        assert_eq!(responder.open(), 0);
    }
    let wrap = ReadRequest {
        source_to: u64::MAX - 10,
        ..READ
    };
    let fault = Responder::new(1)
        .on_request(&wrap.encode(), |_| window(0, u64::MAX))
        .unwrap_err();
    assert_eq!(fault.cause, Cause::READ_WRAP);
    for len in [0, 27, 29] {
        assert!(ReadRequest::decode(&vec![0; len]).is_err());
    }
}

#[test]
fn terminates_are_built_as_the_vectors_say() {
    let fault = |cause| Fault::new(cause, "");
    for (name, cause, offender) in [
        ("terminate crc", Cause::CRC, None),
        ("terminate crc", Cause::CRC, Some("send hello")),
        ("terminate msn", Cause::UNTAGGED_MSN, Some("send hello")),
        (
            "terminate read stag",
            Cause::READ_STAG,
            Some("read request"),
        ),
    ] {
        let offender = offender.map(ulpdu);
        let terminate = Terminate::new(&fault(cause), offender.as_deref());
        let bytes = ulpdu(name);
        assert_eq!(Header::decode(&bytes), Ok(terminate.header()), "{name}");
        assert_eq!(terminate.payload(), &bytes[18..], "{name}");
    }
}

#[test]
fn a_terminate_tells_no_header_whose_layout_is_in_doubt() {
    for cause in [
        Cause::RDMAP_VERSION,
        Cause::OPCODE,
        Cause::TAGGED_VERSION,
        Cause::UNTAGGED_VERSION,
        Cause::DDP_CATASTROPHIC,
        Cause::RDMAP_CATASTROPHIC,
        Cause::FRAMING,
    ] {
        let terminate = Terminate::new(&Fault::new(cause, ""), Some(&ulpdu("send hello")));
        assert_eq!(terminate.payload().len(), 4, "{cause}");
    }
    // Cut short: not told, not a panic.
    let bytes = ulpdu("read request");
    for cut in 0..bytes.len() {
        let terminate = Terminate::new(&Fault::new(Cause::READ_STAG, ""), Some(&bytes[..cut]));
        assert_eq!(terminate.payload().len(), 4, "at {cut}");
    }
}

#[test]
fn terminates_are_read_as_the_vectors_say() {
    let bytes = ulpdu("terminate read stag");
    let terminate = rdmap::Terminate::decode(&bytes[18..]).unwrap();
    let offender = ulpdu("read request");
    let segment = terminate.segment.unwrap();
    assert_eq!(terminate.cause, Cause::READ_STAG);
    assert_eq!(usize::from(segment.len), offender.len());
    assert_eq!([segment.ddp, segment.rdmap].concat(), offender);
    for cut in 0..bytes.len() - 18 {
        assert!(rdmap::Terminate::decode(&bytes[18..18 + cut]).is_err());
        assert!(matches!(
            on_terminate(&bytes[18..18 + cut]),
            Error::Malformed(_)
        ));
    }
    let Error::Reset(why) = on_terminate(&ulpdu("terminate crc")[18..]) else {
        panic!("a TERMINATE ends the stream")
    };
    assert!(why.contains("CRC"), "{why}");
}

proptest! {
    /// However the responses are cut, a READ is done when its bytes are, once.
    #[test]
    fn a_read_is_done_when_its_bytes_are(cuts in prop::collection::vec(0u32..700, 1..10), sink_to: u64) {
        let len: u32 = cuts.iter().sum();
        let mut requester = Requester::new(1);
        requester.read(ReadRequest { len, sink_to, ..READ }, 1).unwrap();
        let mut at = 0;
        for (i, cut) in cuts.iter().enumerate() {
            let last = at + cut == len && (i + 1 == cuts.len() || *cut > 0 || len == 0);
            let header = Tagged { last, ulp: 0x42, stag: 0xa01, to: sink_to.wrapping_add(u64::from(at)) };
            let arrived = requester.on_response(&header, *cut as usize).unwrap();
            prop_assert_eq!((arrived.at, arrived.done), (at, last));
            at += cut;
            if last { break }
        }
        prop_assert_eq!(requester.open_reads(), 0);
    }
}
