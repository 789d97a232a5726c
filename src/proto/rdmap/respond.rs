// SPDX-License-Identifier: MPL-2.0
//! What the peer asks of this side (RFC 5040 section 5.2): READs are queued,
//! checked, and answered in order.

use std::collections::VecDeque;

use crate::wire::ddp::{Access, Breach, Header, Tagged};
use crate::wire::fault::{Cause, Fault};
use crate::wire::rdmap::{Opcode, ReadRequest};

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
        let request = ReadRequest::decode(payload)?;
        if self.open >= self.ird {
            return Err(Fault::new(
                Cause::UNTAGGED_NO_BUFFER,
                "more READs open than were agreed",
            ));
        }
        // A READ of nothing names no memory: its stag may be anything.
        let at = if request.len == 0 {
            0
        } else {
            source(&request, lookup)?
        };
        self.open += 1;
        self.waiting.push_back(Response {
            header: Header::Tagged(Tagged {
                last: true,
                ulp: Opcode::ReadResponse.control(),
                stag: request.sink_stag,
                to: request.sink_to,
            }),
            stag: request.source_stag,
            at,
            len: request.len,
        });
        Ok(())
    }

    /// The next answer to send. It counts as open until `on_sent`. Look the stag up
    /// again: it may have been hidden since.
    pub fn poll_response(&mut self) -> Option<Response> {
        self.waiting.pop_front()
    }

    /// The last segment of an answer was handed to TCP. One more READ may come (post
    /// a buffer to queue 1).
    pub fn on_sent(&mut self) {
        debug_assert!(self.open as usize > self.waiting.len());
        self.open = self.open.saturating_sub(1);
    }

    /// READs asked and not yet answered in full.
    pub fn open(&self) -> u16 {
        self.open
    }
}

/// Where in its window the source of a READ begins.
fn source(request: &ReadRequest, lookup: impl FnOnce(u32) -> Access) -> Result<u64, Fault> {
    let window = match lookup(request.source_stag) {
        Access::Granted(window) => window,
        Access::Unknown => return Err(Fault::new(Cause::READ_STAG, "READ of an unknown stag")),
        Access::Foreign => {
            return Err(Fault::new(
                Cause::READ_FOREIGN,
                "READ of a stag of another connection",
            ))
        }
        Access::Denied => {
            return Err(Fault::new(
                Cause::ACCESS,
                "stag does not allow the peer to read",
            ))
        }
    };
    window
        .offset(request.source_to, u64::from(request.len))
        .map_err(|breach| match breach {
            Breach::Bounds => Fault::new(Cause::READ_BOUNDS, "READ outside of its window"),
            Breach::Wrap => Fault::new(Cause::READ_WRAP, "READ whose offset wraps"),
        })
}
