// SPDX-License-Identifier: MPL-2.0
//! SENDs on their way through a fault device: those that the peer was not ready
//! for wait for their retry, and all behind them too.

use std::collections::VecDeque;

use crate::device::region::Free;

/// SENDs that wait, and how many are in the queue in all.
#[derive(Default)]
pub(super) struct Outgoing {
    waiting: VecDeque<(Free, usize)>,
    /// Calls until the first is tried again.
    retry: usize,
    /// Posted, and not told complete.
    in_queue: usize,
}

impl Outgoing {
    /// One more is posted; `false`: the queue of `depth` places is full.
    pub fn count(&mut self, depth: u16) -> bool {
        let room = self.in_queue < usize::from(depth);
        self.in_queue += usize::from(room);
        room
    }

    /// `n` were told complete.
    pub fn complete(&mut self, n: u16) {
        self.in_queue = self.in_queue.saturating_sub(usize::from(n));
    }

    /// The peer is not ready: this one waits for `retry` calls.
    pub fn hold(&mut self, slot: Free, len: usize, retry: usize) {
        if self.waiting.is_empty() {
            self.retry = retry;
        }
        self.waiting.push_back((slot, len));
    }

    /// Something waits, so what follows must wait behind it.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// One call passes; once the retry is due, everything that waits.
    pub fn due(&mut self) -> VecDeque<(Free, usize)> {
        if self.retry > 0 {
            self.retry -= 1;
            return VecDeque::new();
        }
        self.all()
    }

    /// Everything that waits, due or not.
    pub fn all(&mut self) -> VecDeque<(Free, usize)> {
        std::mem::take(&mut self.waiting)
    }
}
