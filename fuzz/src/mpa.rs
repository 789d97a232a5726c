// SPDX-License-Identifier: MPL-2.0
//! The machines of MPA: framing, and the agreement that comes before it.

use zmq_rdma::proto::mpa::framing::{mulpdu, Deframer, Framer, Parsed, MARKED_ULPDU_MAX};
use zmq_rdma::proto::mpa::negotiate::{Agreed, Answer, Heard, Initiator, Responder, Wishes};
use zmq_rdma::wire::ddp::{Header, Tagged, Untagged};
use zmq_rdma::wire::fault::Cause;
use zmq_rdma::wire::mpa::{fpdu_len, Revision, CRC_LEN, LENGTH_LEN, ULPDU_MAX};

use crate::input::{pattern, Input};
use crate::meter::bounded;

/// A header of either kind, with a version that DDP takes.
pub fn header(input: &mut Input<'_>) -> Header {
    if input.bool() {
        Header::Tagged(Tagged {
            last: input.bool(),
            ulp: input.u8(),
            stag: input.u32(),
            to: input.u64(),
        })
    } else {
        Header::Untagged(Untagged {
            last: input.bool(),
            ulp: input.u8(),
            ulp_word: input.u32(),
            qn: input.u32(),
            msn: input.u32(),
            mo: input.u32(),
        })
    }
}

fn ulpdu(header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; header.len()];
    header.encode(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

/// What is framed is found again, whatever the cuts; one spoilt byte is
/// noticed where CRCs are used; a stranger's bytes are taken alike both ways.
pub fn framing(data: &[u8]) {
    let mut input = Input::new(data);
    if input.one_in(2) {
        let crc = input.bool();
        return both_ways_agree(Deframer::new(crc), input.rest());
    }
    let (crc, markers) = (input.bool(), input.one_in(3));
    let mut framer = Framer::new(crc, markers);
    let (mut stream, mut sent) = (Vec::new(), Vec::new());
    while !input.ended() && sent.len() < 8 {
        let header = header(&mut input);
        let most = if markers { MARKED_ULPDU_MAX } else { ULPDU_MAX } - header.len();
        let len = input.u16() as usize % (1 + [40, 600, 5000, most][input.within(0, 3)]);
        let payload = pattern(sent.len() as u64, len);
        if markers || input.bool() {
            framer.copy(&header, &payload, &mut stream);
        } else {
            let (first, second) = payload.split_at(input.within(0, len));
            let (head, tail) = framer.seal_two(&header, first, second);
            stream.extend([head.bytes(), first, second, tail.bytes()].concat());
        }
        sent.push(ulpdu(&header, &payload));
    }
    if markers {
        stream = without_markers(&stream, crc, &sent);
    }
    let whole: usize = sent.iter().map(|ulpdu| fpdu_len(ulpdu.len())).sum();
    assert_eq!(stream.len(), whole);
    // With markers the CRC is over them too, so what is left of them cannot be judged by it.
    let deframer = Deframer::new(crc && !markers);
    let found = deframe(&deframer, &stream, &mut input);
    assert_eq!(found, Ok(sent));
    if crc && !markers && !stream.is_empty() {
        spoil(&deframer, stream, &mut input);
    }
    let emss = usize::from(input.u16());
    let fits = mulpdu(emss, false);
    assert!(emss < 200 || fpdu_len(fits) <= emss);
}

/// Take the stream as it comes: pieces of any size, and never less than was asked for.
fn deframe(
    deframer: &Deframer,
    stream: &[u8],
    input: &mut Input<'_>,
) -> Result<Vec<Vec<u8>>, Cause> {
    let (mut at, mut here, mut found) = (0, 0, Vec::new());
    loop {
        let parsed = bounded(0, || deframer.parse(&stream[at..here]));
        match parsed.map_err(|fault| fault.cause)? {
            Parsed::Need(need) => {
                assert!(need > here - at && need <= fpdu_len(ULPDU_MAX));
                if here == stream.len() {
                    assert_eq!(at, here, "an end in the middle");
                    return Ok(found);
                }
                here = (here + 1 + input.u16() as usize).min(stream.len());
            }
            Parsed::Fpdu { consumed, ulpdu } => {
                found.push(ulpdu.to_vec());
                assert!(consumed > ulpdu.len());
                at += consumed;
            }
        }
    }
}

/// Check each marker and take it away.
fn without_markers(stream: &[u8], crc: bool, sent: &[Vec<u8>]) -> Vec<u8> {
    let (mut plain, mut at) = (Vec::new(), 0);
    for ulpdu in sent {
        let (start, first) = (at, plain.len());
        while plain.len() < first + fpdu_len(ulpdu.len()) {
            // The CRC field is never cut, so the last marker stands before it.
            if at % 512 == 0 {
                let back = u16::from_be_bytes([stream[at + 2], stream[at + 3]]);
                assert_eq!(stream[at..at + 2], [0, 0]);
                // A marker that opens the FPDU points to itself; those after it to the length.
                let length = if start % 512 == 0 { start + 4 } else { start };
                assert_eq!(usize::from(back), at.saturating_sub(length));
                at += 4;
            }
            plain.push(stream[at]);
            at += 1;
        }
        let covered = &stream[start..at - CRC_LEN];
        let sum = if crc {
            zmq_rdma::wire::crc32c::crc32c(covered)
        } else {
            0
        };
        assert_eq!(stream[at - CRC_LEN..at], sum.to_le_bytes());
    }
    assert_eq!(at, stream.len());
    plain
}

/// One byte is wrong: nothing from there on is taken for good. (One in a
/// length field may hide the rest behind a length that never comes.)
fn spoil(deframer: &Deframer, mut stream: Vec<u8>, input: &mut Input<'_>) {
    let at = input.within(0, stream.len() - 1);
    stream[at] ^= input.u8() | 1;
    let mut from = 0;
    loop {
        match deframer.parse(&stream[from..]) {
            Ok(Parsed::Fpdu { consumed, .. }) => {
                from += consumed;
                assert!(from <= at, "a spoilt FPDU was taken");
            }
            Ok(Parsed::Need(_)) => {
                assert!(at == from || at == from + 1, "the spoilt byte was not seen");
                return;
            }
            Err(fault) => {
                assert!(matches!(fault.cause, Cause::CRC | Cause::FRAMING));
                return;
            }
        }
    }
}

/// `parse` on the whole and `open` on its beginning are of one mind.
fn both_ways_agree(deframer: Deframer, stream: &[u8]) {
    let whole = bounded(0, || deframer.parse(stream));
    let opened = bounded(0, || deframer.open(stream));
    match (whole, opened) {
        (Ok(Parsed::Fpdu { consumed, ulpdu }), Ok(Some((header, mut open)))) => {
            assert_eq!(Header::decode(ulpdu), Ok(header));
            assert_eq!(open.consumed() + open.left() + open.tail_len(), consumed);
            let payload = &ulpdu[header.len()..];
            let (first, second) = payload.split_at(payload.len() / 3);
            open.on_payload(first);
            open.on_payload(second);
            let tail = &stream[consumed - open.tail_len()..consumed];
            assert_eq!(open.close(tail), Ok(()));
        }
        (Ok(Parsed::Fpdu { ulpdu, .. }), Err(_)) => assert!(Header::decode(ulpdu).is_err()),
        (Ok(Parsed::Fpdu { ulpdu, .. }), Ok(None)) => {
            panic!("{} bytes are not enough", ulpdu.len())
        }
        (Ok(Parsed::Need(need)), opened) => {
            assert!(need > stream.len());
            if let Ok(Some((_, open))) = opened {
                assert_eq!(open.consumed() + open.left() + open.tail_len(), need);
            }
        }
        (Err(fault), Ok(Some((_, mut open)))) => {
            assert_eq!(fault.cause, Cause::CRC);
            let payload = open.left();
            open.on_payload(&stream[open.consumed()..][..payload]);
            let end = open.consumed() + payload;
            assert!(open.close(&stream[end..end + open.tail_len()]).is_err());
        }
        (Err(fault), _) => {
            assert!(matches!(fault.cause, Cause::CRC | Cause::FRAMING));
            assert!(stream.len() >= LENGTH_LEN);
        }
    }
}

fn wishes(input: &mut Input<'_>) -> Wishes {
    Wishes {
        revision: if input.bool() {
            Revision::Two
        } else {
            Revision::One
        },
        crc: input.bool(),
        ird: input.u16(),
        ord: input.u16(),
    }
}

/// A frame through a wire that cuts it, and spoils it when it is told to.
fn carry<T>(
    mut frame: Vec<u8>,
    input: &mut Input<'_>,
    mut hear: impl FnMut(&[u8]) -> Option<T>,
) -> (bool, Option<T>) {
    let mut spoilt = false;
    while input.one_in(4) && !frame.is_empty() {
        let at = input.within(0, frame.len() - 1);
        let mask = input.u8();
        frame[at] ^= mask;
        spoilt |= mask != 0;
    }
    let mut here = 0;
    while here < frame.len() {
        here = (here + 1 + input.within(0, 200)).min(frame.len());
        if let Some(heard) = hear(&frame[..here]) {
            return (spoilt, Some(heard));
        }
    }
    (spoilt, None)
}

/// Two sides that mean well agree; one that does not is refused or held to what we wished.
pub fn negotiate(data: &[u8]) {
    let mut input = Input::new(data);
    let (ours, theirs) = (wishes(&mut input), wishes(&mut input));
    let asked = pattern(1, input.u16() as usize % 600);
    let said = pattern(2, input.u16() as usize % 600);
    let Ok(mut initiator) = Initiator::new(ours, &asked) else {
        assert!(asked.len() > 508);
        return;
    };
    let request = initiator.poll_output().expect("a request");
    assert_eq!(initiator.poll_output(), None);
    let mut responder = Responder::new(theirs);
    assert!(responder.accept(&[]).is_err() && responder.poll_output().is_none());

    let (spoilt, heard) = carry(request, &mut input, |bytes| {
        match bounded(4096, || responder.on_bytes(bytes)) {
            Ok(Heard::Need(need)) => {
                assert!(need > bytes.len() && need <= 532);
                None
            }
            Ok(Heard::Frame {
                consumed, private, ..
            }) => {
                assert!(consumed <= bytes.len());
                Some(Some(private.to_vec()))
            }
            Err(fault) => {
                assert_eq!(fault.cause, Cause::SETUP);
                Some(None)
            }
        }
    });
    let Some(Some(private)) = heard else {
        assert!(spoilt || ours.revision > theirs.revision);
        return;
    };
    assert!(spoilt || private == asked);
    let reject = input.one_in(4);
    let at_responder = if reject {
        responder.reject(&said).map(|()| None)
    } else {
        responder.accept(&said).map(Some)
    };
    let Ok(at_responder) = at_responder else {
        assert!(said.len() > 508);
        return;
    };
    if let Some(agreed) = &at_responder {
        within(agreed, &theirs);
    }
    assert!(responder.accept(&[]).is_err() && responder.reject(&[]).is_err());
    let reply = responder.poll_output().expect("a reply");
    assert_eq!(responder.poll_output(), None);
    let (spoilt_too, heard) = carry(reply, &mut input, |bytes| {
        match bounded(0, || initiator.on_bytes(bytes)) {
            Ok(Heard::Need(need)) => {
                assert!(need > bytes.len() && need <= 532);
                None
            }
            Ok(Heard::Frame { private, says, .. }) => Some(Ok((private.to_vec(), says))),
            Err(fault) => Some(Err(fault.cause)),
        }
    });
    conclude(&ours, at_responder, spoilt || spoilt_too, &said, heard);
}

/// Nobody gets more READs than either wished.
fn within(agreed: &Agreed, wishes: &Wishes) {
    assert!(agreed.ird <= wishes.ird && agreed.ord <= wishes.ord);
    assert!(agreed.crc || !wishes.crc);
    assert!(agreed.revision <= wishes.revision);
}

type Said = Result<(Vec<u8>, Answer), Cause>;

fn conclude(
    ours: &Wishes,
    at_responder: Option<Agreed>,
    spoilt: bool,
    said: &[u8],
    heard: Option<Said>,
) {
    match heard {
        Some(Ok((private, Answer::Accepted(agreed)))) => {
            within(&agreed, ours);
            assert_eq!(agreed.rtr, None);
            if spoilt {
                return;
            }
            let there = at_responder.expect("an acceptance");
            assert_eq!(private, said);
            assert_eq!((agreed.revision, agreed.crc), (there.revision, there.crc));
            assert!(!agreed.markers && !there.markers && there.rtr.is_none());
            if agreed.revision == Revision::Two {
                assert!(agreed.ord <= there.ird && there.ord <= agreed.ird);
            }
        }
        Some(Ok((private, Answer::Rejected))) => {
            assert!(spoilt || (at_responder.is_none() && private == said));
        }
        // A responder answers in the request's revision.
        Some(Ok((_, Answer::Older)) | Err(_)) | None => assert!(spoilt),
    }
}
