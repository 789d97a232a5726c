// SPDX-License-Identifier: MPL-2.0
//! Connections of Linux's siw, byte for byte: what it says is read as meant, and its
//! CRC32C is ours. Most are one round of rdma-core's rping: the initiator tells by SEND
//! where its memory is, the responder READs it, says so, is told where to, WRITEs, says so.
//! Those between two siw in MPA revision 1 are two SENDs each way of its ucmatose.

use zmq_rdma::proto::mpa::framing::{Deframer, Parsed};
use zmq_rdma::proto::mpa::negotiate::{Answer, Heard, Initiator, Responder, Wishes};
use zmq_rdma::wire::ddp::Header;
use zmq_rdma::wire::mpa::{Decoded, Kind, Revision, Setup};
use zmq_rdma::wire::rdmap::{Opcode, ReadRequest, SendKind, QN_READ, QN_SEND};

use crate::section;

const SEND: Opcode = Opcode::Send(SendKind::Plain);
/// Bytes of a ping, its NUL with it; and of ucmatose's SENDs.
const PING: u32 = 32;

/// Name, revision, whether CRCs are used, and whose ends are siw's.
const CONNECTIONS: [(&str, Revision, bool, bool); 7] = [
    ("mpa2", Revision::Two, false, true),
    ("mpa2 crc", Revision::Two, true, true),
    ("mpa1", Revision::One, false, true),
    ("mpa1 crc", Revision::One, true, true),
    ("soft client", Revision::Two, true, false),
    ("soft server", Revision::Two, true, false),
    ("soft server mpa1", Revision::One, true, false),
];

/// The bytes of one direction: `initiator` or `responder`.
fn direction(name: &str, side: &str) -> Vec<u8> {
    section(include_str!("siw.txt"), &format!("{name} {side}"))
}

/// The frame that begins a direction, and what follows.
fn setup(kind: Kind, bytes: &[u8]) -> (Setup<'_>, &[u8]) {
    match Setup::decode(kind, bytes) {
        Ok(Decoded::Value(setup, consumed)) => (setup, &bytes[consumed..]),
        other => panic!("{other:?}"),
    }
}

/// One message: all of these fit a segment.
struct Message<'a> {
    opcode: Opcode,
    header: Header,
    payload: &'a [u8],
}

impl Message<'_> {
    /// Key and offset of a SEND of rping's, after the check that it is the `msn`th.
    fn advertised(&self, msn: u32) -> (u32, u64) {
        self.is_send(msn, 16);
        let (addr, rest) = self.payload.split_at(8);
        let (key, len) = rest.split_at(4);
        assert_eq!(len, PING.to_be_bytes());
        let key = u32::from_be_bytes(key.try_into().unwrap());
        (key, u64::from_be_bytes(addr.try_into().unwrap()))
    }

    fn is_send(&self, expected: u32, len: usize) {
        assert_eq!((self.opcode, self.payload.len()), (SEND, len));
        let Header::Untagged(header) = self.header else {
            panic!("a SEND is untagged")
        };
        assert!(header.last && header.qn == QN_SEND && header.mo == 0);
        assert_eq!(header.msn, expected);
    }

    /// Where a tagged message goes.
    fn place(&self) -> (u32, u64) {
        match self.header {
            Header::Tagged(header) if header.last => (header.stag, header.to),
            other => panic!("{other:?} instead of a tagged segment"),
        }
    }
}

/// All messages of a direction.
fn messages(bytes: &[u8], crc: bool) -> Vec<Message<'_>> {
    let deframer = Deframer::new(crc);
    let mut rest = bytes;
    let mut all = Vec::new();
    while !rest.is_empty() {
        let Ok(Parsed::Fpdu { consumed, ulpdu }) = deframer.parse(rest) else {
            panic!("{:?}", deframer.parse(rest))
        };
        rest = &rest[consumed..];
        let header = Header::decode(ulpdu).unwrap();
        all.push(Message {
            opcode: Opcode::of(&header).unwrap(),
            header,
            payload: &ulpdu[header.len()..],
        });
    }
    all
}

fn opcodes(messages: &[Message<'_>]) -> Vec<Opcode> {
    messages.iter().map(|message| message.opcode).collect()
}

#[test]
fn the_setup_is_understood_by_both_machines() {
    for (name, revision, crc, siw_alone) in CONNECTIONS {
        let (ours, theirs) = (direction(name, "initiator"), direction(name, "responder"));
        let (request, _) = setup(Kind::Request, &ours);
        let (reply, _) = setup(Kind::Reply, &theirs);
        for frame in [request, reply] {
            assert_eq!(frame.revision, revision, "{name}");
            assert_eq!(
                frame.enhanced.is_some(),
                revision == Revision::Two,
                "{name}"
            );
            assert!(!frame.markers && !frame.reject, "{name}");
            assert!(!siw_alone || frame.private.is_empty(), "{name}");
        }
        assert_eq!(request.crc || reply.crc, crc, "{name}");

        let wishes = Wishes {
            revision,
            crc: request.crc,
            ..Wishes::default()
        };
        let initiator = Initiator::new(wishes, b"").unwrap();
        let mut initiator = initiator;
        let Ok(Heard::Frame { says, .. }) = initiator.on_bytes(&theirs) else {
            panic!("{name}: no reply")
        };
        assert!(
            matches!(says, Answer::Accepted(agreed) if agreed.crc == crc),
            "{name}"
        );
        let mut responder = Responder::new(Wishes {
            crc: reply.crc,
            ..Wishes::default()
        });
        assert!(
            matches!(responder.on_bytes(&ours), Ok(Heard::Frame { .. })),
            "{name}"
        );
        let agreed = responder.accept(b"").unwrap();
        assert_eq!((agreed.revision, agreed.crc), (revision, crc), "{name}");
    }
}

/// Whether a connection is ucmatose's.
fn is_sends(name: &str) -> bool {
    ["mpa1", "mpa1 crc"].contains(&name)
}

#[test]
fn sends_are_numbered_and_whole() {
    for (name, _, crc, _) in CONNECTIONS {
        if !is_sends(name) {
            continue;
        }
        for (kind, side) in [(Kind::Request, "initiator"), (Kind::Reply, "responder")] {
            let bytes = direction(name, side);
            let sends = messages(setup(kind, &bytes).1, crc);
            assert_eq!(opcodes(&sends), [SEND, SEND], "{name} {side}");
            for (send, msn) in sends.iter().zip(1..) {
                send.is_send(msn, PING as usize);
            }
        }
    }
}

#[test]
fn a_round_of_rping_is_what_it_should_be() {
    for (name, _, crc, _) in CONNECTIONS {
        if is_sends(name) {
            continue;
        }
        let (ours, theirs) = (direction(name, "initiator"), direction(name, "responder"));
        let asks = messages(setup(Kind::Request, &ours).1, crc);
        let answers = messages(setup(Kind::Reply, &theirs).1, crc);
        assert_eq!(opcodes(&asks), [SEND, Opcode::ReadResponse, SEND], "{name}");
        let expected = [Opcode::ReadRequest, SEND, Opcode::Write, SEND];
        assert_eq!(opcodes(&answers), expected, "{name}");

        let read = ReadRequest::decode(answers[0].payload).unwrap();
        let Header::Untagged(header) = answers[0].header else {
            panic!("{name}: a READ request is untagged")
        };
        assert_eq!((header.qn, header.msn), (QN_READ, 1), "{name}");
        let source = asks[0].advertised(1);
        assert_eq!((read.source_stag, read.source_to), source, "{name}");
        assert_eq!(read.len, PING, "{name}");
        assert_eq!(asks[1].place(), (read.sink_stag, read.sink_to), "{name}");
        answers[1].is_send(1, 16);
        assert_eq!(answers[2].place(), asks[2].advertised(2), "{name}");
        answers[3].is_send(2, 16);

        // The ping comes back as it went.
        let ping = asks[1].payload;
        assert_eq!(
            (ping.len(), ping.last()),
            (PING as usize, Some(&0)),
            "{name}"
        );
        assert_eq!(answers[2].payload, ping, "{name}");
        assert!(ping.starts_with(b"rdma-ping-0: "), "{name}");
    }
}

#[test]
fn a_flipped_bit_is_no_message_of_siw() {
    for (name, _, crc, _) in CONNECTIONS {
        let bytes = direction(name, "responder");
        let (_, rest) = setup(Kind::Reply, &bytes);
        let Ok(Parsed::Fpdu { consumed, .. }) = Deframer::new(crc).parse(rest) else {
            panic!("{name}")
        };
        for bit in (0..consumed * 8).filter(|_| crc) {
            let mut spoilt = rest.to_vec();
            spoilt[bit / 8] ^= 1 << (bit % 8);
            let parsed = Deframer::new(true).parse(&spoilt);
            assert!(
                !matches!(parsed, Ok(Parsed::Fpdu { .. })),
                "{name}, bit {bit}"
            );
        }
    }
}
