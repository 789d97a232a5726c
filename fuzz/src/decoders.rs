// SPDX-License-Identifier: MPL-2.0
//! Every decoder on raw bytes. What it accepts survives being encoded and
//! decoded again; what it asks for lies ahead and within its limit; what it
//! refuses it refuses by its own cause; and none of it takes memory that the bytes chose.

use zmq_rdma::error::Error;
use zmq_rdma::proto::flow::negotiate;
use zmq_rdma::proto::rdmap::terminate;
use zmq_rdma::wire::ddp::{Breach, Header, Window};
use zmq_rdma::wire::fault::{Cause, Fault};
use zmq_rdma::wire::frame::{self, Frame, Rts, Type};
use zmq_rdma::wire::hello::{self, Hello, Offer};
use zmq_rdma::wire::mark;
use zmq_rdma::wire::mpa::{Decoded, Kind, Setup, PRIVATE_MAX, SETUP_LEN};
use zmq_rdma::wire::rdmap::{self as rdmap_wire, Opcode, ReadRequest, Terminate};

use crate::input::Input;
use crate::meter::bounded;

/// MPA requests and replies.
pub fn mpa(data: &[u8]) {
    for kind in [Kind::Request, Kind::Reply] {
        match bounded(0, || Setup::decode(kind, data)) {
            Ok(Decoded::Need(need)) => {
                assert!(need > data.len() && need <= SETUP_LEN + PRIVATE_MAX);
            }
            Ok(Decoded::Value(setup, used)) => mpa_value(kind, data, setup, used),
            Err(fault) => {
                assert_eq!(fault.cause, Cause::SETUP);
                // What comes after does not make it better.
                let longer = [data, &[0; 64]].concat();
                assert_eq!(Setup::decode(kind, &longer), Err(fault));
            }
        }
    }
}

fn mpa_value(kind: Kind, data: &[u8], setup: Setup<'_>, used: usize) {
    assert!(used <= data.len() && used <= SETUP_LEN + PRIVATE_MAX);
    let mut again = Vec::new();
    setup.encode(&mut again);
    let decoded = Setup::decode(kind, &again);
    assert_eq!(decoded, Ok(Decoded::Value(setup, again.len())));
    assert_eq!(again.len(), used);
    // Reserved flags and a revision's unused words are all that may differ.
    assert_eq!((&again[..16], &again[17..20]), (&data[..16], &data[17..20]));
    assert!(data[..used].ends_with(setup.private));
    for cut in [0, 1, SETUP_LEN - 1, SETUP_LEN, used.saturating_sub(1)] {
        if cut < used {
            let decoded = Setup::decode(kind, &data[..cut]);
            assert!(
                matches!(decoded, Ok(Decoded::Need(need)) if need > cut && need <= used),
                "{decoded:?} of {cut} bytes of {used}"
            );
        }
    }
}

/// DDP headers, and the windows of tagged offsets.
pub fn ddp(data: &[u8]) {
    match bounded(0, || Header::decode(data)) {
        Ok(header) => {
            let len = header.len();
            assert!(len <= data.len() && Header::len_of(data[0]) == len);
            let mut again = [0; 18];
            assert_eq!(header.encode(&mut again), len);
            assert_eq!(Header::decode(&again[..len]), Ok(header));
            // The reserved bits of the first byte are all that may differ.
            assert_eq!(again[0], data[0] & 0xc3);
            assert_eq!(again[1..len], data[1..len]);
            let _ = opcode(&header);
        }
        Err(fault) => assert_eq!(fault.cause.layer, 1),
    }
    let mut input = Input::new(data);
    let (base, len) = (input.u64(), input.u64());
    let (to, n) = (input.u64(), input.u64());
    let (end, top) = (
        u128::from(to) + u128::from(n),
        u128::from(base) + u128::from(len),
    );
    let expected = if end > u128::from(u64::MAX) {
        Err(Breach::Wrap)
    } else if to < base || end > top {
        Err(Breach::Bounds)
    } else {
        Ok(to - base)
    };
    assert_eq!(Window { base, len }.offset(to, n), expected);
}

fn opcode(header: &Header) -> Result<Opcode, Fault> {
    let opcode = Opcode::of(header)?;
    assert_eq!(opcode.control() & 0xcf, header.ulp() & 0xcf);
    match header {
        Header::Tagged(_) => assert_eq!(opcode.queue(), None),
        Header::Untagged(h) => assert_eq!(opcode.queue(), Some(h.qn)),
    }
    Ok(opcode)
}

/// RDMAP: the READ request, the TERMINATE, and our own words on any segment.
pub fn rdmap(data: &[u8]) {
    match ReadRequest::decode(data) {
        Ok(request) => assert_eq!(request.encode(), data),
        Err(fault) => {
            assert_ne!(data.len(), rdmap_wire::READ_REQUEST_LEN);
            assert_eq!(fault.cause, Cause::RDMAP_UNSPECIFIED);
        }
    }
    if let Ok(told) = bounded(0, || Terminate::decode(data)) {
        let mut again = [0; rdmap_wire::TERMINATE_MAX];
        let len = told.encode(&mut again);
        assert_eq!(Terminate::decode(&again[..len]), Ok(told));
    }
    let why = bounded(1024, || terminate::on_terminate(data));
    assert!(matches!(why, Error::Reset(_) | Error::Malformed(_)));

    let mut input = Input::new(data);
    let cause = Cause {
        layer: input.u8() & 3,
        kind: input.u8() & 3,
        code: input.u8() & 15,
    };
    let ulpdu = input.rest();
    let ours = terminate::Terminate::new(&Fault::new(cause, "fuzz"), Some(ulpdu));
    let told = Terminate::decode(ours.payload()).expect("our own TERMINATE");
    assert_eq!(told.cause, cause);
    if let Some(segment) = told.segment {
        assert_eq!(usize::from(segment.len), ulpdu.len());
        assert!(ulpdu.starts_with(segment.ddp));
        assert!(ulpdu[segment.ddp.len()..].starts_with(segment.rdmap));
    }
}

/// The frames of the stream protocol.
pub fn frame(data: &[u8]) {
    match bounded(0, || Frame::decode(data)) {
        Ok(Frame { header, payload }) => {
            assert_eq!(header.encode(), data[..frame::HEADER]);
            assert_eq!(payload, &data[frame::HEADER..]);
            assert_eq!(payload.len(), header.len as usize);
            let fits = match header.kind {
                Type::Data => !payload.is_empty(),
                Type::Fin => payload.len() == frame::FIN_PAYLOAD,
                Type::Rts => payload.len() == frame::RTS_PAYLOAD,
                Type::Rdone | Type::Rstop => payload.len() == frame::DONE_PAYLOAD,
                _ => payload.is_empty(),
            };
            assert!(fits);
            if let (Type::Rts, Ok(rts)) = (header.kind, Rts::decode(payload)) {
                assert_eq!(rts.encode(), payload);
                assert!(rts.len > 0 && rts.addr.checked_add(rts.len.into()).is_some());
            }
            let counted = frame::done_count(payload);
            assert_eq!(counted.is_ok(), payload.len() == frame::DONE_PAYLOAD);
        }
        Err(why) => assert!(matches!(why, Error::Malformed(_))),
    }
}

fn in_range(offer: &Offer) -> bool {
    (hello::SLOT_PAYLOAD_MIN..=hello::SLOT_PAYLOAD_MAX).contains(&offer.slot_payload)
        && (hello::GRANT_MIN..=hello::GRANT_MAX).contains(&offer.grant)
        && (1..=offer.most).contains(&offer.least)
}

/// The hello.
pub fn hello(data: &[u8]) {
    match bounded(0, || Hello::decode(data)) {
        Ok(decoded) => {
            let again = decoded.encode();
            assert_eq!(Hello::decode(&again), Ok(decoded));
            let padded = [data, &[0; 36]].concat();
            assert_eq!(Hello::decode(&padded), Ok(decoded));
            assert!(Hello::decode(&data[..hello::LEN - 1]).is_err());
            match decoded {
                Hello::Request(offer) => assert!(in_range(&offer)),
                Hello::Reply(offer) => assert!(in_range(&offer) && offer.least == offer.most),
                Hello::Reject { least, most, .. } => assert!(least > 0 && least <= most),
            }
        }
        Err(why) => assert!(matches!(why, Error::Malformed(_))),
    }
}

/// What is made of private data on either side of the handshake.
pub fn private_data(data: &[u8]) {
    let ours = [
        negotiate::offer(0, 64, 4),
        negotiate::offer(3, 8192, 4),
        negotiate::offer(u32::MAX, 1 << 20, 4096),
    ];
    for ours in ours {
        match bounded(1024, || negotiate::answer(data, ours)) {
            Ok((terms, reply)) => {
                let Ok(Hello::Request(theirs)) = Hello::decode(data) else {
                    panic!("terms without a request");
                };
                assert_eq!(
                    terms.send_payload,
                    ours.slot_payload.min(theirs.slot_payload)
                );
                assert_eq!(
                    (terms.grant, terms.features),
                    (theirs.grant, ours.features & theirs.features)
                );
                // Whoever asked so must be able to live with the answer.
                let concluded =
                    negotiate::conclude(&reply.encode(), theirs).expect("our own reply");
                assert_eq!(concluded.send_payload, terms.send_payload);
                assert_eq!(concluded.features, terms.features);
            }
            Err((reject, _)) => {
                let why = negotiate::refusal(&reject.encode());
                assert!(matches!(why, Error::Incompatible(_) | Error::Refused(_)));
            }
        }
        if let Ok(terms) = bounded(0, || negotiate::conclude(data, ours)) {
            assert!(terms.send_payload <= ours.slot_payload);
            assert!(terms.send_payload >= hello::SLOT_PAYLOAD_MIN);
            assert!((hello::GRANT_MIN..=hello::GRANT_MAX).contains(&terms.grant));
            assert_eq!(terms.features & !ours.features, 0);
        }
    }
    let why = bounded(1024, || negotiate::refusal(data));
    assert!(why.to_string().len() < 400);
    let (private, marked) = mark::strip(data);
    assert!(private.len() <= data.len());
    assert!(!marked || mark::put(private) == data);
    assert_eq!(mark::strip(&mark::put(data)), (data, true));
}
