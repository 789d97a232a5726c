// SPDX-License-Identifier: MPL-2.0
//! Credits: how many SENDs may go, and when to tell the peer that it may send.
//!
//! A grant is cumulative, modulo 2^16: "you may have sent so many SENDs since
//! the start". It counts only receives that are already posted, so a SEND
//! always finds one, and RNR cannot happen. Space in our own send queue is
//! counted apart, since a peer's grant can overtake our completion.
//!
//! Why nobody waits for ever. DATA leaves two credits to control frames, and
//! the last one may be spent only by a frame that brings the peer at least two
//! new credits. So the two sides are never both at zero; a side at zero has
//! left at most all but two of the peer's receives full of DATA that nobody
//! reads, so the peer owes it two, and owes them at once ([`Receiver::is_due`],
//! third clause). And since one CREDIT makes the other side owe only one, two
//! idle sides fall silent. A stalled reader in one direction never stops the other.

use crate::error::{Error, Result};
use crate::wire::hello::GRANT_MAX;

/// Places of the send queue that DATA leaves to control frames.
pub const CONTROL_PLACES: u16 = 4;

/// Credits that DATA needs: itself and the two that it leaves.
const DATA_NEEDS: u16 = 3;

/// Our right to send.
#[derive(Debug)]
pub struct Sender {
    /// SENDs posted since the start.
    sent: u16,
    /// The peer's cumulative grant.
    granted: u16,
    /// SENDs posted that the device has not yet reported complete.
    in_queue: u16,
    depth: u16,
}

impl Sender {
    /// `granted`: the peer's hello; `depth`: places in the send queue.
    pub fn new(granted: u16, depth: u16) -> Sender {
        Sender {
            sent: 0,
            granted,
            in_queue: 0,
            depth: depth.max(CONTROL_PLACES + 1),
        }
    }

    /// Credits left.
    pub fn credits(&self) -> u16 {
        self.granted.wrapping_sub(self.sent)
    }

    /// One DATA may go now.
    pub fn data_may_go(&self) -> bool {
        self.credits() >= DATA_NEEDS && self.in_queue < self.depth - CONTROL_PLACES
    }

    /// One control frame that brings the peer `fresh` credits may go now.
    pub fn control_may_go(&self, fresh: u16) -> bool {
        self.has_place()
            && match self.credits() {
                0 => false,
                1 => fresh >= 2,
                _ => true,
            }
    }

    /// After the next frame no DATA may go, for want of credits.
    pub fn next_is_last(&self) -> bool {
        self.credits() <= DATA_NEEDS
    }

    /// DATA could go but for want of credits.
    pub fn wants_credit(&self) -> bool {
        self.credits() < DATA_NEEDS
    }

    /// The send queue has a place.
    pub fn has_place(&self) -> bool {
        self.in_queue < self.depth
    }

    /// A frame was posted that costs no credit.
    pub fn on_answer_posted(&mut self) {
        self.in_queue += 1;
    }

    /// SENDs posted and not complete.
    pub fn in_queue(&self) -> u16 {
        self.in_queue
    }

    /// A frame was posted.
    pub fn on_posted(&mut self) {
        self.sent = self.sent.wrapping_add(1);
        self.in_queue += 1;
    }

    /// The device reports `n` sends complete.
    pub fn on_complete(&mut self, n: u16) {
        self.in_queue = self.in_queue.saturating_sub(n);
    }

    /// Nothing is left in the send queue.
    pub fn is_drained(&self) -> bool {
        self.in_queue == 0
    }

    /// A frame brought the peer's cumulative grant.
    pub fn on_grant(&mut self, grant: u16) -> Result<()> {
        let more = grant.wrapping_sub(self.granted);
        if more > GRANT_MAX || self.credits().saturating_add(more) > GRANT_MAX {
            return Err(Error::Malformed(
                "grant goes back, or past the most allowed",
            ));
        }
        self.granted = grant;
        Ok(())
    }
}

/// The receives that we post and the grants that we owe.
#[derive(Debug)]
pub struct Receiver {
    /// Receives posted since the start: what may be granted.
    posted: u16,
    /// What the peer has been told.
    told: u16,
    /// SENDs received since the start.
    received: u16,
    /// Of what is posted and not told: earned by frames other than CREDIT.
    owed_for_data: u16,
    /// Receives outstanding that we aim at.
    window: u16,
    least: u16,
    most: u16,
    /// SENDs received that still hold their slot.
    held: u16,
    peer_blocked: bool,
    busy_since_tick: bool,
}

impl Receiver {
    /// `posted` receives were told to the peer in the hello; the window moves
    /// between that and `most`.
    pub fn new(posted: u16, most: u16) -> Receiver {
        Receiver {
            posted,
            told: posted,
            received: 0,
            owed_for_data: 0,
            window: posted,
            least: posted,
            most: most.max(posted),
            held: 0,
            peer_blocked: false,
            busy_since_tick: false,
        }
    }

    /// A SEND arrived. `data`: it holds its slot until `on_consumed`, and earns credit.
    pub fn on_received(&mut self, data: bool, blocked: bool) -> Result<()> {
        if self.told == self.received {
            return Err(Error::Malformed("SEND without credit"));
        }
        self.received = self.received.wrapping_add(1);
        if data {
            self.held += 1;
            self.busy_since_tick = true;
            if blocked && self.window < self.most {
                self.window = (self.window * 2).min(self.most);
            }
        }
        self.peer_blocked = blocked;
        Ok(())
    }

    /// The bytes of one DATA have been read; its slot is free.
    pub fn on_consumed(&mut self) {
        self.held = self.held.saturating_sub(1);
        self.owed_for_data = self.owed_for_data.saturating_add(1);
    }

    /// Receives to post now, so that the window is full.
    pub fn wanted(&self) -> u16 {
        self.window.saturating_sub(self.outstanding() + self.held)
    }

    /// `n` receives were posted.
    pub fn on_posted(&mut self, n: u16) {
        self.posted = self.posted.wrapping_add(n);
    }

    /// The grant to put into the next frame; the peer is told by it.
    pub fn tell(&mut self) -> u16 {
        self.told = self.posted;
        self.owed_for_data = 0;
        self.told
    }

    /// What the next frame brings the peer.
    pub fn fresh(&self) -> u16 {
        self.posted.wrapping_sub(self.told)
    }

    /// A frame of its own must carry the grant now.
    pub fn is_due(&self) -> bool {
        // Not the window: there may be no memory for one so wide.
        self.due(self.fresh(), self.outstanding() + self.held)
    }

    /// `is_due` would hold once the receives wanted are posted.
    pub fn would_be_due(&self) -> bool {
        let places = self.outstanding() + self.held + self.owed_for_data;
        self.due(self.fresh() + self.wanted(), places.min(self.window))
    }

    /// `owed` credits, of `places` for the peer's SENDs.
    fn due(&self, owed: u16, places: u16) -> bool {
        let for_data = self.owed_for_data.min(owed);
        let left = self.told.wrapping_sub(self.received);
        for_data >= (places / 2).max(1)
            || (self.peer_blocked && for_data >= (places / 4).max(1))
            || (left <= 2 && owed >= 2)
    }

    /// Some seconds have passed: an idle link gives receives back.
    pub fn on_tick(&mut self) {
        if !self.busy_since_tick {
            self.window = self.least;
        }
        self.busy_since_tick = false;
    }

    /// Receives posted and not filled.
    pub fn outstanding(&self) -> u16 {
        self.posted.wrapping_sub(self.received)
    }

    /// DATA received and not read.
    pub fn held(&self) -> u16 {
        self.held
    }

    /// The window aimed at.
    pub fn window(&self) -> u16 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_leaves_two_credits_and_the_last_is_for_those_who_bring_some() {
        let mut sender = Sender::new(3, 36);
        assert!(sender.data_may_go());
        sender.on_posted();
        assert!(!sender.data_may_go());
        assert!(sender.control_may_go(0));
        sender.on_posted();
        assert!(!sender.control_may_go(1));
        assert!(sender.control_may_go(2));
        sender.on_posted();
        assert!(!sender.control_may_go(2));
    }

    #[test]
    fn row_16_a_grant_that_overtakes_our_completions_does_not_overflow_the_queue() {
        let mut sender = Sender::new(4, 8);
        for _ in 0..3 {
            sender.on_posted();
        }
        assert!(!sender.data_may_go());
        sender.on_grant(100).unwrap();
        assert!(sender.data_may_go());
        sender.on_posted();
        assert!(!sender.data_may_go(), "four control places are left");
        assert!(sender.control_may_go(0));
        sender.on_complete(1);
        assert!(sender.data_may_go());
    }

    #[test]
    fn grants_wrap_and_never_go_back() {
        let mut sender = Sender::new(4, 36);
        let mut grant = 4u16;
        for _ in 0..70_000 {
            sender.on_posted();
            sender.on_complete(1);
            grant = grant.wrapping_add(1);
            sender.on_grant(grant).unwrap();
            assert_eq!(sender.credits(), 4);
        }
        assert!(sender.on_grant(grant.wrapping_sub(1)).is_err());
        assert!(sender.on_grant(grant.wrapping_add(GRANT_MAX)).is_err());
    }

    #[test]
    fn a_send_without_credit_is_the_peers_fault() {
        let mut receiver = Receiver::new(4, 8);
        for _ in 0..4 {
            receiver.on_received(true, false).unwrap();
        }
        assert!(receiver.on_received(true, false).is_err());
    }

    #[test]
    fn held_data_earns_nothing_until_consumed() {
        let mut receiver = Receiver::new(4, 4);
        for _ in 0..3 {
            receiver.on_received(true, true).unwrap();
        }
        assert_eq!(receiver.wanted(), 0);
        assert!(!receiver.is_due());
        receiver.on_consumed();
        assert_eq!(receiver.wanted(), 1);
        receiver.on_posted(1);
        assert!(receiver.is_due(), "a blocked peer is told at a quarter");
    }

    #[test]
    fn where_memory_is_short_credit_is_due_by_what_there_is() {
        let mut receiver = Receiver::new(4, 128);
        for _ in 0..2 {
            receiver.on_received(true, true).unwrap();
            receiver.on_consumed();
        }
        assert_eq!((receiver.window(), receiver.wanted()), (16, 14));
        receiver.on_posted(6);
        receiver.tell();
        for due in [false, true] {
            receiver.on_received(true, true).unwrap();
            receiver.on_consumed();
            receiver.on_posted(1);
            assert_eq!(receiver.is_due(), due, "at a quarter of eight");
        }
        assert!(receiver.wanted() > 0);
    }

    #[test]
    fn a_blocked_peer_makes_the_window_grow_and_idleness_shrinks_it() {
        let mut receiver = Receiver::new(4, 32);
        receiver.on_received(true, true).unwrap();
        assert_eq!(receiver.window(), 8);
        receiver.on_consumed();
        assert_eq!(receiver.wanted(), 5);
        receiver.on_tick();
        assert_eq!(receiver.window(), 8, "it was busy");
        receiver.on_tick();
        assert_eq!(receiver.window(), 4);
    }
}
