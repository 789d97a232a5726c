// SPDX-License-Identifier: MPL-2.0
//! Agreeing on a version, features and sizes, in one request and one reply.

use crate::error::{Error, Result};
use crate::wire::frame::VERSION;
use crate::wire::hello::{Hello, Offer, Reason};

/// What both sides hold to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Feature bits that both have.
    pub features: u32,
    /// Payload bytes of one of our SENDs at most: the peer's receive slot.
    pub send_payload: u32,
    /// Receives that the peer has posted for us.
    pub grant: u16,
}

/// Our side's offer.
pub fn offer(features: u32, slot_payload: u32, grant: u16) -> Offer {
    Offer {
        least: VERSION,
        most: VERSION,
        features,
        slot_payload,
        grant,
    }
}

/// The acceptor's answer: terms and a reply, or a reject with the words for our log.
pub fn answer(private: &[u8], ours: Offer) -> std::result::Result<(Terms, Hello), (Hello, Error)> {
    let reject = |reason| Hello::Reject {
        reason,
        least: ours.least,
        most: ours.most,
    };
    let theirs = match Hello::decode(private) {
        Ok(Hello::Request(theirs)) => theirs,
        Ok(_) => {
            let why = Error::Malformed("the connection request is not a request");
            return Err((reject(Reason::Malformed), why));
        }
        Err(why) => return Err((reject(Reason::Malformed), why)),
    };
    let most = ours.most.min(theirs.most);
    if most < ours.least.max(theirs.least) {
        let why = Error::Incompatible(versions_apart(theirs.least, theirs.most));
        return Err((reject(Reason::Version), why));
    }
    let features = ours.features & theirs.features;
    let reply = Offer {
        least: most,
        most,
        features,
        ..ours
    };
    Ok((terms(features, ours, theirs), Hello::Reply(reply)))
}

/// The initiator's reading of the reply.
pub fn conclude(private: &[u8], ours: Offer) -> Result<Terms> {
    match Hello::decode(private)? {
        Hello::Reply(theirs) => {
            if !(ours.least..=ours.most).contains(&theirs.most) {
                return Err(Error::Malformed("the peer chose a version not offered"));
            }
            if theirs.features & !ours.features != 0 {
                return Err(Error::Malformed("the peer chose features not offered"));
            }
            Ok(terms(theirs.features, ours, theirs))
        }
        _ => Err(Error::Malformed("the reply is not a reply")),
    }
}

/// What a reject says, in words.
pub fn refusal(private: &[u8]) -> Error {
    match Hello::decode(private) {
        Ok(Hello::Reject {
            reason: Reason::Version,
            least,
            most,
        }) => Error::Incompatible(versions_apart(least, most)),
        Ok(Hello::Reject {
            reason: Reason::Malformed,
            ..
        }) => Error::Incompatible(Reason::Malformed.to_string()),
        Ok(Hello::Reject { reason, .. }) => Error::Refused(reason.to_string()),
        _ => Error::Incompatible("it does not speak the zmq-rdma stream protocol".into()),
    }
}

fn terms(features: u32, ours: Offer, theirs: Offer) -> Terms {
    Terms {
        features,
        send_payload: theirs.slot_payload.min(ours.slot_payload),
        grant: theirs.grant,
    }
}

fn versions_apart(least: u8, most: u8) -> String {
    format!(
        "it speaks versions {least} to {most} of the stream protocol, we speak {VERSION}; \
         run the same zmq-rdma release on both sides"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_reach_the_same_terms() {
        let client = offer(0b11, 8192, 4);
        let server = offer(0b10, 4096, 8);
        let (at_server, reply) = answer(&Hello::Request(client).encode(), server).unwrap();
        let at_client = conclude(&reply.encode(), client).unwrap();
        assert_eq!(at_server.features, 0b10);
        assert_eq!(at_client.features, 0b10);
        assert_eq!((at_server.send_payload, at_server.grant), (4096, 4));
        assert_eq!((at_client.send_payload, at_client.grant), (4096, 8));
    }

    #[test]
    fn a_version_mismatch_is_told_on_both_sides() {
        let future = Offer {
            least: 2,
            most: 3,
            ..offer(0, 8192, 4)
        };
        let request = Hello::Request(future).encode();
        let (reject, ours) = answer(&request, offer(0, 8192, 4)).unwrap_err();
        assert!(ours.to_string().contains("versions 2 to 3"), "{ours}");
        let theirs = refusal(&reject.encode());
        assert!(theirs.to_string().contains("versions 1 to 1"), "{theirs}");
    }

    #[test]
    fn only_a_refusal_that_may_pass_is_worth_another_try() {
        let reject = |reason| {
            let (least, most) = (1, 1);
            refusal(
                &Hello::Reject {
                    reason,
                    least,
                    most,
                }
                .encode(),
            )
        };
        assert!(matches!(reject(Reason::Limit), Error::Refused(_)));
        assert!(matches!(reject(Reason::Malformed), Error::Incompatible(_)));
        assert!(matches!(reject(Reason::Version), Error::Incompatible(_)));
    }

    #[test]
    fn a_later_version_range_that_includes_ours_is_accepted() {
        let wide = Offer {
            least: 1,
            most: 9,
            ..offer(0xffff_ffff, 8192, 4)
        };
        let (_, reply) = answer(&Hello::Request(wide).encode(), offer(0, 8192, 4)).unwrap();
        assert!(conclude(&reply.encode(), wide).is_ok());
    }

    #[test]
    fn garbage_is_refused_in_words() {
        assert!(answer(b"GET / HTTP/1.1\r\nHost: x\r\n", offer(0, 8192, 4)).is_err());
        assert!(matches!(refusal(&[]), Error::Incompatible(_)));
        let request = Hello::Request(offer(0, 64, 4)).encode();
        let (_, reply) = answer(&request, offer(0, 64, 4)).unwrap();
        let mut bytes = reply.encode();
        bytes[11] = 1;
        assert!(
            conclude(&bytes, offer(0, 64, 4)).is_err(),
            "a feature not offered"
        );
    }
}
