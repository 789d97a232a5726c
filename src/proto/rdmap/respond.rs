// SPDX-License-Identifier: MPL-2.0
//! What the peer asks of this side (RFC 5040 section 5.2): READs are queued,
//! checked, and answered in order.

use std::collections::VecDeque;

use crate::wire::ddp::{Access, Header};
use crate::wire::fault::Fault;

/// An answer to a READ: `len` bytes at `at` of the window of `stag`, to be sent in segments
/// that begin with `header`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// Header of the first segment; cut it with `ddp::segment::Segments`.
    pub header: Header,
    /// Source stag. Meaningless when `len` is 0.
    pub stag: u32,
    /// Offset in the window that the lookup granted.
    pub at: u64,
    /// Bytes.
    pub len: u32,
}

/// READs of the peer.
#[derive(Debug)]
pub struct Responder {
    ird: u16,
    open: u16,
    waiting: VecDeque<Response>,
}

impl Responder {
    /// The peer may have `ird` READs open.
    pub fn new(ird: u16) -> Responder {
        Responder {
            ird,
            open: 0,
            waiting: VecDeque::new(),
        }
    }

    /// A READ request's payload (its segment was placed whole in queue 1). The
    /// stag is looked up for the right to be READ.
    pub fn on_request(
        &mut self,
        payload: &[u8],
        lookup: impl FnOnce(u32) -> Access,
    ) -> Result<(), Fault> {
        let _ = (self.ird, self.open, &self.waiting, payload, lookup);
        todo!()
    }

    /// The next answer to send. It counts as open until `on_sent`. Look the stag up
    /// again: it may have been hidden since.
    pub fn poll_response(&mut self) -> Option<Response> {
        todo!()
    }

    /// The last segment of an answer was handed to TCP.
    pub fn on_sent(&mut self) {
        todo!()
    }

    /// READs asked and not yet answered in full.
    pub fn open(&self) -> u16 {
        self.open
    }
}
