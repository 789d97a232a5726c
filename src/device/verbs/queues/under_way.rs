// SPDX-License-Identifier: MPL-2.0
//! What is under way on a send queue, and what a completion tells of it.
//!
//! Completions come in the order of the work requests, save those of READs over siw,
//! which tells of later SENDs first. A work request's id is the connection's
//! generation and a sequence number, so that a completion that is not of a request
//! under way is recognised and dropped.

use std::collections::VecDeque;

use super::super::cq::{Done, Outcome};
use crate::device::region::{Filled, Posted};

/// What completions told.
#[derive(Default)]
pub(in super::super) struct Told {
    pub(in super::super) received: Vec<Filled>,
    pub(in super::super) sent: u16,
    pub(in super::super) reads: Vec<u64>,
    /// The first failure that is not a mere flush: status and vendor code.
    pub(in super::super) failure: Option<(u32, u32)>,
    /// Work was flushed: the queue pair is in its error state.
    pub(in super::super) flushed: bool,
}

/// A SEND under way: its sequence number, and the slot, unless the device copied it.
type SendOut = (u32, Option<Posted>);
/// A READ likewise; its token, and where its bytes go.
type ReadOut<T> = (u32, u64, T);

/// SENDs and READs posted and not told complete; `T`: what a READ fills.
pub(super) struct UnderWay<T> {
    sends: VecDeque<SendOut>,
    reads: VecDeque<ReadOut<T>>,
}

impl<T> Default for UnderWay<T> {
    fn default() -> UnderWay<T> {
        UnderWay {
            sends: VecDeque::new(),
            reads: VecDeque::new(),
        }
    }
}

impl<T> UnderWay<T> {
    /// How many SENDs.
    pub(super) fn sends(&self) -> usize {
        self.sends.len()
    }

    /// How many READs.
    pub(super) fn reads(&self) -> usize {
        self.reads.len()
    }

    /// The sequence number of the oldest.
    pub(super) fn oldest(&self) -> Option<u32> {
        let send = self.sends.front().map(|(seq, _)| *seq);
        let read = self.reads.front().map(|(seq, ..)| *seq);
        match (send, read) {
            (Some(send), Some(read)) if is_before(read, send) => Some(read),
            (send, read) => send.or(read),
        }
    }

    /// A SEND from that slot is posted.
    pub(super) fn post_send(&mut self, seq: u32, slot: Posted) {
        self.sends.push_back((seq, Some(slot)));
    }

    /// A READ is posted.
    pub(super) fn post_read(&mut self, seq: u32, token: u64, target: T) {
        self.reads.push_back((seq, token, target));
    }

    /// Whether the device has copied the latest SENDs, the last first: their slots are free.
    pub(super) fn free_copied(&mut self, copied: impl Iterator<Item = bool>) {
        for (copied, (_, slot)) in copied.zip(self.sends.iter_mut().rev()) {
            if copied {
                *slot = None;
            }
        }
    }

    /// Give up all READs; what they would have filled.
    pub(super) fn end_reads(&mut self) -> impl Iterator<Item = T> + '_ {
        self.reads.drain(..).map(|(_, _, target)| target)
    }

    /// What a completion ends; `false`: it is of nothing under way.
    pub(super) fn settle(&mut self, generation: u32, done: &Done, told: &mut Told) -> bool {
        let UnderWay { sends, reads } = self;
        let seq = done.wr_id as u32;
        let read = reads.iter().position(|(read, ..)| *read == seq);
        let send = sends.iter().position(|(send, _)| *send == seq);
        if done.wr_id != id(generation, seq) || (read.is_none() && send.is_none()) {
            return false;
        }
        let failed = match done.outcome {
            Outcome::Bytes(_) => false,
            Outcome::Failed { status, vendor } => {
                told.fail(status, vendor);
                true
            }
        };
        // SENDs before it may have had no completion of their own: they went well. READs
        // have one always, and over siw that may come after those of later SENDs.
        while sends.front().is_some_and(|(send, _)| is_before(*send, seq)) {
            sends.pop_front();
            told.sent += 1;
        }
        if send.is_some() {
            sends.pop_front();
            told.sent += u16::from(!failed);
        }
        if let Some((_, token, _)) = read.and_then(|read| reads.remove(read)) {
            if !failed {
                told.reads.push(token);
            }
        }
        true
    }
}

impl Told {
    pub(super) fn fail(&mut self, status: u32, vendor: u32) {
        if status == rdma_sys::ibv_wc_status::IBV_WC_WR_FLUSH_ERR {
            self.flushed = true;
        } else {
            self.failure.get_or_insert((status, vendor));
        }
    }
}

/// The id of a work request.
pub(super) fn id(generation: u32, seq: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(seq)
}

/// Whether a request was posted before another one.
fn is_before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

#[cfg(test)]
mod tests;
