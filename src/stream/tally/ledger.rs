// SPDX-License-Identifier: MPL-2.0
//! What a link tells of itself as it goes: the one writer of its record.

use super::registry::{self, Fate};
use super::{view, Count, Counts, Gauges, Phase, Role, Tally};
use crate::device::Endpoint;
use crate::error::Error;

/// The books of one link.
pub struct Ledger {
    tally: Tally,
    role: Role,
    /// It stood once.
    stood: bool,
    /// Its end is told.
    ended: bool,
    /// It waits, and that is counted.
    stalled: bool,
}

impl Ledger {
    /// A link over `endpoint` begins.
    pub fn open(role: Role, endpoint: &dyn Endpoint) -> Ledger {
        let ledger = Ledger {
            tally: registry::open(),
            role,
            stood: false,
            ended: false,
            stalled: false,
        };
        ledger.name(Phase::Opening, endpoint);
        ledger
    }

    fn name(&self, phase: Phase, endpoint: &dyn Endpoint) {
        let (local, peer) = (endpoint.local_addr(), endpoint.peer_addr());
        self.tally.set_names(
            endpoint.device_name(),
            &local.to_string(),
            &peer.to_string(),
            endpoint.caps().slot_size,
        );
        self.tally.set_kind(phase, self.role, endpoint.kind());
    }

    /// The connection stands, and the peer speaks our protocol.
    pub fn stand(&mut self, endpoint: &dyn Endpoint) {
        if !self.stood {
            self.stood = true;
            self.name(Phase::Open, endpoint);
            registry::happened(match self.role {
                Role::Connected => Fate::Connected,
                Role::Accepted => Fate::Accepted,
            });
        }
    }

    /// This side begins to close.
    pub fn shut(&mut self, endpoint: &dyn Endpoint) {
        self.tally
            .set_kind(Phase::Closing, self.role, endpoint.kind());
    }

    /// This side says no to a peer that asks.
    pub fn reject(&mut self) {
        registry::happened(Fate::RejectSent);
    }

    /// It is over.
    pub fn end(&mut self, why: &Error, endpoint: &dyn Endpoint) {
        self.tally.set_kind(Phase::Dead, self.role, endpoint.kind());
        self.tell_end(*why == Error::Closed);
    }

    fn tell_end(&mut self, in_order: bool) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        registry::happened(match (self.stood, self.role) {
            (true, _) if in_order => Fate::Closed,
            (true, _) => Fate::Died,
            (false, Role::Accepted) => Fate::FailedAccept,
            // The dial counts it.
            (false, Role::Connected) => return,
        });
    }

    /// DATA with so many bytes was posted.
    #[inline]
    pub fn sent(&mut self, bytes: usize) {
        self.stalled = false;
        self.tally.add(Count::DataSent, 1);
        self.tally.add(Count::BytesSent, bytes as u64);
    }

    /// DATA with so many bytes came.
    #[inline]
    pub fn received(&self, bytes: usize) {
        self.tally.add(Count::DataReceived, 1);
        self.tally.add(Count::BytesReceived, bytes as u64);
    }

    /// So many bytes of the stream were copied by this library.
    #[inline]
    pub fn copied(&self, bytes: usize) {
        self.tally.add(Count::BytesCopied, bytes as u64);
    }

    /// The peer has READ so many bytes of the stream.
    pub fn read_by_peer(&self, bytes: usize) {
        self.tally.add(Count::BytesSent, bytes as u64);
        self.tally.add(Count::ReadByPeer, bytes as u64);
    }

    /// So many bytes of the stream were READ from the peer.
    pub fn read_from_peer(&self, bytes: usize) {
        self.tally.add(Count::BytesReceived, bytes as u64);
        self.tally.add(Count::ReadFromPeer, bytes as u64);
    }

    /// Another frame was posted; `ping`: a PING, `rescue`: because HELLO was not answered.
    pub fn control_sent(&self, ping: bool, rescue: bool) {
        self.tally.add(Count::ControlSent, 1);
        self.tally.add(Count::Pings, u64::from(ping));
        self.tally.add(Count::Rescues, u64::from(ping && rescue));
    }

    /// Another frame came.
    pub fn control_received(&self) {
        self.tally.add(Count::ControlReceived, 1);
    }

    /// There is something to send, and it must wait: for credit, or for the device.
    pub fn stall(&mut self, for_credit: bool) {
        if !std::mem::replace(&mut self.stalled, true) {
            self.tally.add(
                if for_credit {
                    Count::CreditStalls
                } else {
                    Count::QueueStalls
                },
                1,
            );
        }
    }

    /// Where the link's user counts its messages, sent and behind it received. Two words of the record: valid for good,
    /// the link's until the ledger is dropped. To be written by whole words, as all of the record is.
    pub fn messages(&self) -> *mut u64 {
        self.tally.messages()
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        view::counts(&view::load(self.tally.0))
    }

    /// How full the link is.
    #[inline]
    pub fn gauges(&self, (credits, sends, receives, unread): (u16, u16, u16, u16)) {
        self.tally.set_gauges(Gauges {
            credits,
            sends,
            receives,
            unread,
        });
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.tell_end(true);
        registry::close(self.tally);
    }
}
