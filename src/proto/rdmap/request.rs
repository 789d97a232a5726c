// SPDX-License-Identifier: MPL-2.0
//! What this side asks of the peer (RFC 5040 section 5): numbers our messages
//! and matches READ responses to our READs.

use std::collections::VecDeque;

use crate::error::Result;
use crate::wire::ddp::{Header, Tagged};
use crate::wire::fault::Fault;
use crate::wire::rdmap::{ReadRequest, SendKind, READ_REQUEST_LEN};

/// Our messages of one connection.
#[derive(Debug)]
pub struct Requester {
    send_msn: u32,
    read_msn: u32,
    ord: u16,
    reads: VecDeque<Open>,
}

#[derive(Debug)]
#[allow(dead_code)]
struct Open {
    request: ReadRequest,
    token: u64,
    at: u32,
}

/// A READ response segment in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// The READ's token.
    pub token: u64,
    /// Offset of the payload in the READ's sink.
    pub at: u32,
    /// The READ is complete with it.
    pub done: bool,
}

impl Requester {
    /// With at most `ord` READs open.
    pub fn new(ord: u16) -> Requester {
        Requester {
            send_msn: 1,
            read_msn: 1,
            ord,
            reads: VecDeque::new(),
        }
    }

    /// Header of the next SEND's first segment. `invalidate` matters to the kinds that do.
    #[inline]
    pub fn send(&mut self, kind: SendKind, invalidate: u32) -> Header {
        let _ = (kind, invalidate, self.send_msn);
        todo!()
    }

    /// Header of the first segment of a WRITE.
    #[inline]
    pub fn write(&mut self, stag: u32, to: u64) -> Header {
        let _ = (stag, to);
        todo!()
    }

    /// Header and payload of a READ request. `Error::Again` when `ord` are open.
    pub fn read(
        &mut self,
        request: ReadRequest,
        token: u64,
    ) -> Result<(Header, [u8; READ_REQUEST_LEN])> {
        let _ = (request, token, self.read_msn, self.ord);
        todo!()
    }

    /// READs asked for and not complete.
    pub fn open_reads(&self) -> usize {
        self.reads.len()
    }

    /// Where a READ response segment of `len` payload bytes goes. Changes nothing: the same
    /// segment may be looked at when its header is here.
    pub fn locate(&self, header: &Tagged, len: usize) -> std::result::Result<Arrived, Fault> {
        let _ = (header, len);
        todo!()
    }

    /// A READ response segment of `len` payload bytes is here whole (CRC checked).
    pub fn on_response(
        &mut self,
        header: &Tagged,
        len: usize,
    ) -> std::result::Result<Arrived, Fault> {
        let _ = (header, len);
        todo!()
    }
}
