// SPDX-License-Identifier: MPL-2.0
//! Slot size and depths, from defaults and from what the user set as
//! ZMQ_SNDBUF and ZMQ_RCVBUF: the bytes in flight each way stay below them.

use std::sync::Arc;

use super::link::AHEAD;
use crate::device::region::pool;
use crate::device::{self, Choice};
use crate::proto::flow::credit::CONTROL_PLACES;
use crate::proto::flow::negotiate;
use crate::wire::frame::{FEATURE_READ, HEADER};
use crate::wire::hello::{Offer, GRANT_MIN, SLOT_PAYLOAD_MIN};

/// Payload bytes of a slot: one batch of libzmq's encoder, unless the device wants others.
pub const SLOT_PAYLOAD: usize = 8192;
/// Receives posted on a busy link at most. A device whose slots are pinned memory
/// takes fewer (`device::fit`).
pub const RECV_DEPTH: u16 = 128;
/// Receives posted on an idle link, and told in the hello.
pub const RECV_IDLE: u16 = 4;
/// DATA that may wait in the send queue at most.
pub const SEND_DEPTH: u16 = 128;
/// Whether large bodies are READ from where they are, rather than copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rendezvous {
    /// Never, in either direction.
    #[default]
    Off,
    /// From the size on from which the device has use for it, if ever.
    Auto,
    /// From so many bytes on, wherever the device can.
    From(usize),
}

impl Rendezvous {
    /// The same, and off where it would leave all to the device and none that may serve has use for it.
    pub fn over(self, choice: Choice) -> Rendezvous {
        match self {
            Rendezvous::Auto if device::reads_pay_from(choice).is_none() => Rendezvous::Off,
            other => other,
        }
    }
}

/// How one side of a link is opened: what the device needs, and what the peer is told.
#[derive(Debug, Clone)]
pub struct Sizes {
    /// For the device; slot size and depths are set here, the rest is the caller's.
    pub device: device::Options,
    /// Our offer to the peer.
    pub offer: Offer,
    /// What is sent to be READ; the offer says whether.
    pub rendezvous: Rendezvous,
    /// While it is held, the messages that may be READ come from the pool.
    pub pool: Option<Arc<pool::User>>,
}

/// What a link does with large bodies.
#[derive(Debug, Clone)]
pub struct Large {
    /// See [`Sizes`].
    pub rendezvous: Rendezvous,
    /// See [`Sizes`].
    pub pool: Option<Arc<pool::User>>,
    /// Bytes that it READs before they are asked for, at most.
    pub ahead: usize,
}

impl Sizes {
    /// `options` as the user has it; `sndbuf` and `rcvbuf` in it bound the windows.
    pub fn new(choice: Choice, mut options: device::Options) -> Sizes {
        let most = device::slot_size(choice, SLOT_PAYLOAD + HEADER) - HEADER;
        let payload = match options.rcvbuf {
            Some(bytes) => most.min(bytes / usize::from(GRANT_MIN)),
            None => most,
        }
        .max(SLOT_PAYLOAD_MIN as usize);
        options.slot_size = payload + HEADER;
        options.recv_depth = depth(options.rcvbuf, payload, GRANT_MIN, RECV_DEPTH);
        options.send_depth = depth(options.sndbuf, payload, 1, SEND_DEPTH) + CONTROL_PLACES;
        device::fit(choice, &mut options);
        let payload = options.slot_size - HEADER;
        let idle = RECV_IDLE.min(options.recv_depth);
        Sizes {
            device: options,
            offer: negotiate::offer(0, payload as u32, idle),
            rendezvous: Rendezvous::Off,
            pool: None,
        }
    }

    /// With large bodies READ from where they are, if the peer agrees.
    pub fn with_rendezvous(mut self, rendezvous: Rendezvous) -> Sizes {
        self.rendezvous = rendezvous;
        self.offer.features = match rendezvous {
            Rendezvous::Off => 0,
            Rendezvous::Auto | Rendezvous::From(_) => FEATURE_READ,
        };
        self
    }

    /// What of this concerns large bodies.
    pub fn large(&self) -> Large {
        Large {
            rendezvous: self.rendezvous,
            pool: self.pool.clone(),
            ahead: self.device.rcvbuf.map_or(AHEAD, |bytes| bytes.min(AHEAD)),
        }
    }

    /// With a pool of up to `cap` bytes for the messages that may be READ, where any may.
    pub fn with_pool(mut self, choice: Choice, cap: usize) -> Sizes {
        let from = match self.rendezvous {
            Rendezvous::Off => None,
            Rendezvous::Auto => device::reads_pay_from(choice),
            Rendezvous::From(bytes) => Some(bytes),
        };
        let user = |from| Arc::new(pool::User::new(from, cap));
        self.pool = from.filter(|_| cap > 0).map(user);
        self
    }
}

fn depth(bytes: Option<usize>, payload: usize, least: u16, most: u16) -> u16 {
    match bytes {
        Some(bytes) => {
            u16::try_from(bytes / payload).map_or(most, |slots| slots.clamp(least, most))
        }
        None => most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(sndbuf: Option<usize>, rcvbuf: Option<usize>) -> Sizes {
        let options = device::Options {
            sndbuf,
            rcvbuf,
            ..device::Options::default()
        };
        Sizes::new(Choice::Soft, options)
    }

    #[test]
    fn the_default_window_is_a_mebibyte() {
        let s = sizes(None, None);
        assert_eq!((s.device.slot_size, s.device.recv_depth), (8200, 128));
        assert_eq!((s.offer.slot_payload, s.offer.grant), (8192, 4));
        assert_eq!(s.device.send_depth, 132);
    }

    #[test]
    fn auto_asks_nothing_of_a_peer_where_no_device_reads() {
        let auto = |choice| sizes(None, None).with_rendezvous(Rendezvous::Auto.over(choice));
        assert_eq!(auto(Choice::Soft).offer.features, 0);
        let told = Rendezvous::From(1).over(Choice::Soft);
        assert_eq!(told, Rendezvous::From(1));
        let pooled = auto(Choice::Soft).with_pool(Choice::Soft, 1 << 20);
        assert!(pooled.pool.is_none());
    }

    #[test]
    fn a_small_rcvbuf_caps_the_bytes_in_flight() {
        let s = sizes(Some(8192), Some(4096));
        assert!(s.offer.slot_payload as usize * usize::from(s.device.recv_depth) <= 4096);
        assert_eq!(s.device.send_depth, 8 + CONTROL_PLACES);
        let tiny = sizes(Some(1), Some(1));
        assert_eq!(tiny.offer.slot_payload, SLOT_PAYLOAD_MIN);
        assert_eq!(tiny.device.send_depth, 1 + CONTROL_PLACES);
    }
}
