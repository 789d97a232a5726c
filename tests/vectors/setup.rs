// SPDX-License-Identifier: MPL-2.0
//! MPA connection setup: the frames, and both machines.

use zmq_rdma::error::Error;
use zmq_rdma::proto::mpa::negotiate::{Agreed, Answer, Heard, Initiator, Responder, Rtr, Wishes};
use zmq_rdma::wire::fault::Cause;
use zmq_rdma::wire::mpa::{Decoded, Enhanced, Kind, Revision, Setup, PRIVATE_MAX, SETUP_LEN};

use crate::vector;

fn depths(ird: u16, ord: u16) -> Option<Enhanced> {
    Some(Enhanced {
        ird,
        ord,
        ..Enhanced::default()
    })
}

fn setup(kind: Kind, revision: Revision, private: &[u8]) -> Setup<'_> {
    Setup {
        kind,
        markers: false,
        crc: true,
        reject: false,
        revision,
        enhanced: None,
        private,
    }
}

/// Every frame and what it says.
fn frames() -> Vec<(&'static str, Setup<'static>)> {
    let request = |revision, private| setup(Kind::Request, revision, private);
    let reply = |revision, private| setup(Kind::Reply, revision, private);
    vec![
        (
            "request 1 bare",
            Setup {
                crc: false,
                ..request(Revision::One, b"")
            },
        ),
        (
            "request 1 markers",
            Setup {
                markers: true,
                ..request(Revision::One, b"zmq")
            },
        ),
        (
            "request 2",
            Setup {
                enhanced: depths(16, 16),
                ..request(Revision::Two, b"zmq")
            },
        ),
        (
            "request 2 peer to peer",
            Setup {
                crc: false,
                enhanced: Some(Enhanced {
                    peer_to_peer: true,
                    rtr_send: false,
                    rtr_write: true,
                    rtr_read: true,
                    ird: 5,
                    ord: 7,
                }),
                ..request(Revision::Two, b"")
            },
        ),
        ("reply 1", reply(Revision::One, b"ok")),
        (
            "reply 2",
            Setup {
                enhanced: depths(4, 8),
                ..reply(Revision::Two, b"ok")
            },
        ),
        (
            "reply 2 markers",
            Setup {
                markers: true,
                enhanced: depths(16, 16),
                ..reply(Revision::Two, b"")
            },
        ),
        (
            "reply 2 reject",
            Setup {
                reject: true,
                enhanced: depths(16, 16),
                ..reply(Revision::Two, b"no")
            },
        ),
    ]
}

#[test]
fn frames_are_read_and_written_as_the_vectors_say() {
    for (name, setup) in frames() {
        let bytes = vector(name);
        let read = Setup::decode(setup.kind, &bytes);
        assert_eq!(read, Ok(Decoded::Value(setup, bytes.len())), "{name}");
        let mut written = Vec::new();
        setup.encode(&mut written);
        assert_eq!(written, bytes, "{name}");
    }
}

#[test]
fn every_cut_asks_for_more_and_never_for_too_much() {
    for (name, setup) in frames() {
        let bytes = vector(name);
        for cut in 0..bytes.len() {
            match Setup::decode(setup.kind, &bytes[..cut]) {
                Ok(Decoded::Need(n)) => assert!(cut < n && n <= bytes.len(), "{name} at {cut}"),
                other => panic!("{name} at {cut}: {other:?}"),
            }
        }
        let mut more = bytes.clone();
        more.extend_from_slice(&vector("send hello"));
        let read = Setup::decode(setup.kind, &more);
        assert_eq!(read, Ok(Decoded::Value(setup, bytes.len())), "{name}");
    }
}

#[test]
fn strangers_are_refused_at_their_first_byte() {
    for stranger in [
        &b"G"[..],
        b"GET / HTTP/1.1\r\n",
        b"\xff",
        b"MPB",
        b"SSH-2.0-x",
    ] {
        for kind in [Kind::Request, Kind::Reply] {
            let fault = Setup::decode(kind, stranger).unwrap_err();
            assert_eq!(fault.cause, Cause::SETUP);
            assert!(fault.what.contains("another protocol"));
        }
    }
    // A reply is not a request, and the other way about.
    assert!(Setup::decode(Kind::Request, &vector("reply 2")[..10]).is_err());
    assert!(Setup::decode(Kind::Reply, &vector("request 2")[..10]).is_err());
}

#[test]
fn nonsense_in_a_frame_is_a_fault() {
    let change = |name: &str, at: usize, to: u8| {
        let mut bytes = vector(name);
        bytes[at] = to;
        bytes
    };
    for (bytes, what) in [
        (change("request 2", 17, 0), "revision 0"),
        (change("request 2", 17, 3), "revision 3"),
        (change("request 2", 18, 2), "512 + 7 bytes of private data"),
        (change("request 2", 19, 3), "enhanced words cut short"),
    ] {
        let fault = Setup::decode(Kind::Request, &bytes).expect_err(what);
        assert_eq!(fault.cause, Cause::SETUP, "{what}");
    }
}

#[test]
fn reserved_bits_and_revision_1_s_flag_mean_nothing() {
    let mut bytes = vector("request 1 markers");
    bytes[16] |= 0x1f;
    let Ok(Decoded::Value(setup, _)) = Setup::decode(Kind::Request, &bytes) else {
        panic!("refused")
    };
    assert_eq!((setup.enhanced, setup.private), (None, &b"zmq"[..]));
}

#[test]
fn an_initiator_asks_and_hears() {
    let mut initiator = Initiator::new(Wishes::default(), b"zmq").unwrap();
    assert_eq!(initiator.poll_output(), Some(vector("request 2")));
    assert_eq!(initiator.poll_output(), None);
    let reply = vector("reply 2");
    for cut in 0..reply.len() {
        let heard = initiator.on_bytes(&reply[..cut]);
        assert!(matches!(heard, Ok(Heard::Need(n)) if n > cut), "at {cut}");
    }
    let agreed = Agreed {
        revision: Revision::Two,
        crc: true,
        markers: false,
        ird: 8,
        ord: 4,
        rtr: None,
    };
    let heard = initiator.on_bytes(&reply);
    assert_eq!(
        heard,
        Ok(Heard::Frame {
            consumed: reply.len(),
            private: &b"ok"[..],
            says: Answer::Accepted(agreed)
        })
    );
}

fn answer(wishes: Wishes, reply: &[u8]) -> Result<Answer, Cause> {
    match Initiator::new(wishes, b"").unwrap().on_bytes(reply) {
        Ok(Heard::Frame { says, .. }) => Ok(says),
        Ok(Heard::Need(n)) => panic!("needs {n}"),
        Err(fault) => Err(fault.cause),
    }
}

fn accepted(wishes: Wishes, reply: &str) -> Agreed {
    match answer(wishes, &vector(reply)) {
        Ok(Answer::Accepted(agreed)) => agreed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_initiator_takes_what_the_reply_says() {
    let quiet = Wishes {
        crc: false,
        ..Wishes::default()
    };
    assert!(
        accepted(quiet, "reply 2").crc,
        "either side may ask for CRCs"
    );
    assert!(accepted(quiet, "reply 2 markers").markers);
    let agreed = accepted(quiet, "reply 2 unspecified");
    assert_eq!((agreed.ird, agreed.ord), (16, 16));
    let old = Wishes {
        revision: Revision::One,
        ..quiet
    };
    let agreed = accepted(old, "reply 1");
    assert_eq!((agreed.revision, agreed.ird), (Revision::One, 16));
    for reject in ["reply 2 reject", "reply 2 reject without words"] {
        assert_eq!(answer(quiet, &vector(reject)), Ok(Answer::Rejected));
    }
}

#[test]
fn an_initiator_refuses_a_reply_that_does_not_answer() {
    let wishes = Wishes::default();
    let mut wordless = vector("reply 2");
    wordless[16] &= !0x10;
    let narrow = Wishes { ird: 7, ..wishes };
    let old = Wishes {
        revision: Revision::One,
        ..wishes
    };
    for (wishes, reply, cause) in [
        (old, vector("reply 2"), Cause::SETUP),
        (wishes, wordless, Cause::SETUP),
        (wishes, vector("reply 2 peer to peer"), Cause::NO_RTR),
        (narrow, vector("reply 2"), Cause::INSUFFICIENT_IRD),
    ] {
        assert_eq!(answer(wishes, &reply), Err(cause));
    }
}

#[test]
fn an_initiator_asks_again_who_answers_in_an_earlier_revision() {
    let answer = answer(Wishes::default(), &vector("reply 1"));
    assert_eq!(answer, Ok(Answer::Older));
}

fn asked(wishes: Wishes, request: &str) -> Responder {
    let request = vector(request);
    let mut responder = Responder::new(wishes);
    for cut in 0..request.len() {
        let heard = responder.on_bytes(&request[..cut]);
        assert!(matches!(heard, Ok(Heard::Need(n)) if n > cut), "at {cut}");
    }
    match responder.on_bytes(&request) {
        Ok(Heard::Frame { consumed, .. }) => assert_eq!(consumed, request.len()),
        other => panic!("{other:?}"),
    }
    responder
}

#[test]
fn a_responder_answers_with_the_lesser_of_both() {
    let wishes = Wishes {
        ird: 4,
        ord: 8,
        ..Wishes::default()
    };
    let mut responder = asked(wishes, "request 2");
    assert_eq!(responder.poll_output(), None);
    let agreed = responder.accept(b"ok").unwrap();
    assert_eq!((agreed.ird, agreed.ord, agreed.rtr), (4, 8, None));
    assert_eq!(responder.poll_output(), Some(vector("reply 2")));
    assert_eq!(responder.poll_output(), None);
}

#[test]
fn a_responder_answers_in_the_request_s_revision_and_mode() {
    let mut responder = asked(Wishes::default(), "request 1 bare");
    let agreed = responder.accept(b"ok").unwrap();
    assert!(agreed.crc && !agreed.markers);
    assert_eq!(responder.poll_output(), Some(vector("reply 1")));

    let mut responder = asked(Wishes::default(), "request 1 markers");
    assert!(responder.accept(b"").unwrap().markers);

    let mut responder = asked(Wishes::default(), "request 2 peer to peer");
    let agreed = responder.accept(b"ok").unwrap();
    assert_eq!((agreed.ird, agreed.ord), (7, 5));
    assert_eq!(agreed.rtr, Some(Rtr::Write));
    assert_eq!(
        responder.poll_output(),
        Some(vector("reply 2 peer to peer"))
    );

    let mut responder = asked(Wishes::default(), "request 2 unspecified");
    let agreed = responder.accept(b"ok").unwrap();
    assert_eq!((agreed.ird, agreed.ord), (16, 16));
    assert_eq!(responder.poll_output(), Some(vector("reply 2 unspecified")));
}

#[test]
fn a_responder_chooses_among_the_offered_indications() {
    let choose = |ird_flags: u8, ord_flags: u8| {
        let mut request = vector("request 2 peer to peer");
        request[20] = ird_flags;
        request[22] = ord_flags;
        let mut responder = Responder::new(Wishes::default());
        responder.on_bytes(&request).unwrap();
        let rtr = responder.accept(b"").unwrap().rtr;
        let reply = responder.poll_output().unwrap();
        (rtr, reply[20] & 0xc0, reply[22] & 0xc0)
    };
    assert_eq!(choose(0x80, 0x40), (Some(Rtr::Read), 0x80, 0x40));
    assert_eq!(choose(0xc0, 0x00), (Some(Rtr::Send), 0xc0, 0x00));
    assert_eq!(choose(0xc0, 0xc0), (Some(Rtr::Write), 0x80, 0x80));
    assert_eq!(choose(0x80, 0x00), (Some(Rtr::Write), 0x80, 0x80));
    assert_eq!(choose(0x40, 0xc0), (None, 0x00, 0x00));
}

#[test]
fn a_read_indication_needs_room_for_a_read() {
    let mut request = vector("request 2 peer to peer");
    (request[20], request[22]) = (0xc0, 0x40);
    let mut responder = Responder::new(Wishes {
        ird: 0,
        ..Wishes::default()
    });
    responder.on_bytes(&request).unwrap();
    assert_eq!(responder.accept(b"").unwrap().rtr, Some(Rtr::Send));
}

#[test]
fn one_depth_may_be_unspecified_without_the_other() {
    let mut request = vector("request 2 unspecified");
    request[22..24].copy_from_slice(&[0x00, 0x05]);
    let mut responder = Responder::new(Wishes::default());
    responder.on_bytes(&request).unwrap();
    let agreed = responder.accept(b"").unwrap();
    assert_eq!((agreed.ird, agreed.ord), (5, 16));
    let reply = responder.poll_output().unwrap();
    assert_eq!(reply[20..24], [0x00, 0x05, 0x3f, 0xff]);
}

#[test]
fn a_responder_rejects_with_a_reason() {
    let mut responder = asked(Wishes::default(), "request 2");
    responder.reject(b"no").unwrap();
    assert_eq!(responder.poll_output(), Some(vector("reply 2 reject")));
}

#[test]
fn calls_out_of_turn_are_misuse_and_harmless() {
    let long = [0; PRIVATE_MAX + 1];
    assert!(matches!(
        Initiator::new(Wishes::default(), &long),
        Err(Error::Misuse(_))
    ));
    assert!(Initiator::new(Wishes::default(), &long[..PRIVATE_MAX - 4]).is_ok());

    let mut responder = Responder::new(Wishes::default());
    assert!(matches!(responder.accept(b""), Err(Error::Misuse(_))));
    let mut responder = asked(Wishes::default(), "request 2");
    assert!(matches!(responder.accept(&long), Err(Error::Misuse(_))));
    responder.accept(b"").unwrap();
    assert!(matches!(responder.reject(b""), Err(Error::Misuse(_))));
    assert_eq!(
        responder.poll_output().map(|r| r.len()),
        Some(SETUP_LEN + 4)
    );
}

#[test]
fn a_revision_1_responder_refuses_revision_2() {
    let mut responder = Responder::new(Wishes {
        revision: Revision::One,
        ..Wishes::default()
    });
    let fault = responder.on_bytes(&vector("request 2")).unwrap_err();
    assert_eq!(fault.cause, Cause::SETUP);
}
