// SPDX-License-Identifier: MPL-2.0
//! What a fault device is to do, and the chance that decides when.

use crate::error::Error;

/// In how many of a thousand cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct PerMille(pub u16);

/// What is done to private data on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Private {
    /// Nothing.
    #[default]
    Whole,
    /// Cut to so many bytes.
    Short(usize),
    /// Filled up with zeros to so many bytes, as InfiniBand does.
    Padded(usize),
    /// Bits are flipped.
    Garbled,
}

impl Private {
    pub(super) fn spoil(self, mut bytes: Vec<u8>, chance: &mut Chance) -> Vec<u8> {
        match self {
            Private::Whole => {}
            Private::Short(len) => bytes.truncate(len),
            Private::Padded(len) => bytes.resize(len.max(bytes.len()), 0),
            Private::Garbled => chance.garble(&mut bytes),
        }
        bytes
    }
}

/// How an endpoint ends before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// The connection is cut.
    Reset,
    /// The device is gone.
    DeviceLoss,
    /// The peer is silent.
    TimedOut,
    /// The peer was not ready to receive, again and again.
    NotReady,
}

impl Death {
    pub(super) fn error(self) -> Error {
        match self {
            Death::Reset => Error::Reset("cut by the fault device".into()),
            Death::DeviceLoss => Error::Device {
                op: "fault device",
                code: libc::ENODEV,
            },
            Death::TimedOut => Error::TimedOut,
            Death::NotReady => Error::Device {
                op: "SEND to a peer that is not ready",
                code: libc::EIO,
            },
        }
    }
}

/// What to do, and how often. The default does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Plan {
    /// Where chance begins.
    pub seed: u64,
    /// A poll tells nothing of one kind: of what was sent, or of what came.
    pub delay: PerMille,
    /// A poll, or `Sent`, tells less than there is.
    pub split: PerMille,
    /// A poll tells nothing of what was sent: completions come behind the peer's grants.
    pub late_sent: PerMille,
    /// The peer is not ready for a SEND: it goes some calls later, and all behind it too.
    pub not_ready: PerMille,
    /// `reserve` has no slot for now.
    pub starve: PerMille,
    /// `post_recvs` posts fewer than asked.
    pub stint: PerMille,
    /// Memory of the caller cannot be registered.
    pub unregistrable: PerMille,
    /// A received message has flipped bits.
    pub garble: PerMille,
    /// A received message is cut short.
    pub truncate: PerMille,
    /// A received message comes twice.
    pub duplicate: PerMille,
    /// What is done to private data.
    pub private: Private,
    /// Everything is lost, both ways, after so many calls; only `probe` finds out.
    pub silence: Option<u32>,
    /// End like this after so many calls.
    pub death: Option<(Death, u32)>,
    /// An `accept` fails with this errno.
    pub accept_fails: Option<(PerMille, i32)>,
}

impl Plan {
    /// Everything that a healthy device may do: no byte is lost or spoilt.
    pub fn rough(seed: u64) -> Plan {
        Plan {
            seed,
            delay: PerMille(300),
            split: PerMille(300),
            starve: PerMille(100),
            stint: PerMille(200),
            ..Plan::default()
        }
    }
}

/// Numbers that look random and are not (splitmix64).
#[derive(Debug, Clone)]
pub(super) struct Chance(pub u64);

impl Chance {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// One case more: is it one of them?
    pub fn hits(&mut self, often: PerMille) -> bool {
        // Never asked, never drawn: a plan that does nothing disturbs no other.
        often.0 > 0 && self.next() % 1000 < u64::from(often.0)
    }

    /// Flip one to three bits.
    pub fn garble(&mut self, bytes: &mut [u8]) {
        if bytes.is_empty() {
            return;
        }
        for _ in 0..1 + self.below(3) {
            let at = self.below(bytes.len());
            bytes[at] ^= 1 << self.below(8);
        }
    }

    /// 0 to `n - 1`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}
