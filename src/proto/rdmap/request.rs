// SPDX-License-Identifier: MPL-2.0
//! What this side asks of the peer (RFC 5040 section 5): numbers our messages
//! and matches READ responses to our READs.

use std::collections::VecDeque;

use crate::error::{Error, Result};
use crate::wire::ddp::{Header, Tagged, Untagged};
use crate::wire::fault::{Cause, Fault};
use crate::wire::rdmap::{Opcode, ReadRequest, SendKind, QN_READ, QN_SEND, READ_REQUEST_LEN};

/// Our messages of one connection.
#[derive(Debug)]
pub struct Requester {
    send_msn: u32,
    read_msn: u32,
    ord: u16,
    reads: VecDeque<Open>,
}

#[derive(Debug)]
struct Open {
    request: ReadRequest,
    token: u64,
    /// Bytes that are here.
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
        Header::Untagged(Untagged {
            last: true,
            ulp: Opcode::Send(kind).control(),
            ulp_word: if kind.invalidates() { invalidate } else { 0 },
            qn: QN_SEND,
            msn: take(&mut self.send_msn),
            mo: 0,
        })
    }

    /// Header of the first segment of a WRITE.
    #[inline]
    pub fn write(&self, stag: u32, to: u64) -> Header {
        Header::Tagged(Tagged {
            last: true,
            ulp: Opcode::Write.control(),
            stag,
            to,
        })
    }

    /// Header and payload of a READ request. `Error::Again` when `ord` are open.
    pub fn read(
        &mut self,
        request: ReadRequest,
        token: u64,
    ) -> Result<(Header, [u8; READ_REQUEST_LEN])> {
        if self.reads.len() >= usize::from(self.ord) {
            return Err(Error::Again);
        }
        self.reads.push_back(Open {
            request,
            token,
            at: 0,
        });
        let header = Header::Untagged(Untagged {
            last: true,
            ulp: Opcode::ReadRequest.control(),
            ulp_word: 0,
            qn: QN_READ,
            msn: take(&mut self.read_msn),
            mo: 0,
        });
        Ok((header, request.encode()))
    }

    /// READs asked for and not complete.
    pub fn open_reads(&self) -> usize {
        self.reads.len()
    }

    /// Where a READ response segment of `len` payload bytes goes. Changes nothing: the same
    /// segment may be looked at when its header is here.
    pub fn locate(&self, header: &Tagged, len: usize) -> std::result::Result<Arrived, Fault> {
        let Some(read) = self.reads.front() else {
            return Err(Fault::new(
                Cause::OPCODE,
                "READ response that answers no READ",
            ));
        };
        let (request, at) = (&read.request, read.at);
        // A READ of nothing names no memory, so its stag and offset mean nothing.
        if request.len > 0 {
            if header.stag != request.sink_stag {
                return Err(Fault::new(
                    Cause::TAGGED_STAG,
                    "READ response with another stag than its READ",
                ));
            }
            if header.to != request.sink_to.wrapping_add(u64::from(at)) {
                return Err(Fault::new(
                    Cause::TAGGED_BOUNDS,
                    "READ response out of turn",
                ));
            }
        }
        let left = (request.len - at) as usize;
        if len > left || header.last != (len == left) {
            return Err(Fault::new(
                Cause::TAGGED_BOUNDS,
                "READ response of another length than its READ",
            ));
        }
        Ok(Arrived {
            token: read.token,
            at,
            done: header.last,
        })
    }

    /// A READ response segment of `len` payload bytes is here whole (CRC checked).
    pub fn on_response(
        &mut self,
        header: &Tagged,
        len: usize,
    ) -> std::result::Result<Arrived, Fault> {
        let arrived = self.locate(header, len)?;
        if arrived.done {
            self.reads.pop_front();
        } else if let Some(read) = self.reads.front_mut() {
            read.at += len as u32;
        }
        Ok(arrived)
    }
}

/// The number to use now; the next one stays.
fn take(msn: &mut u32) -> u32 {
    let now = *msn;
    *msn = now.wrapping_add(1);
    now
}
