// SPDX-License-Identifier: MPL-2.0
//! MPA full operation (RFC 5044 sections 4 to 6): ULPDUs in FPDUs.
//!
//! Outbound, two shapes. [`Framer::seal`] leaves the payload where it is: the
//! FPDU is head, payload, tail for a gathered write. [`Framer::copy`] appends
//! the whole FPDU to a buffer: for short ones, and for all when the peer wants markers.
//!
//! Inbound, two shapes. [`Deframer::parse`] finds a whole FPDU in a slice,
//! in place. [`Deframer::open`] takes an FPDU's first bytes, so that the rest of its payload
//! can be read straight to where it belongs, with the CRC carried along.

use crate::wire::ddp;
use crate::wire::fault::Fault;
use crate::wire::mpa::LENGTH_LEN;

/// Largest ULPDU whose FPDU fits one TCP segment (RFC 5044, "MULPDU").
pub fn mulpdu(emss: usize, markers: bool) -> usize {
    let _ = (emss, markers);
    todo!()
}

/// What goes before the payload: the FPDU's length field and the DDP header.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    bytes: [u8; LENGTH_LEN + ddp::HEADER_MAX],
    len: u8,
}

impl Head {
    /// The bytes for the wire.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

/// What goes after the payload: pad and CRC.
#[derive(Debug, Clone, Copy)]
pub struct Tail {
    bytes: [u8; 7],
    len: u8,
}

impl Tail {
    /// The bytes for the wire.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

/// Outbound framing of one connection.
#[derive(Debug)]
pub struct Framer {
    crc: bool,
    /// Bytes since the last marker, when the peer wants them.
    marked: Option<u32>,
}

impl Framer {
    /// As negotiated.
    pub fn new(crc: bool, markers: bool) -> Framer {
        Framer {
            crc,
            marked: markers.then_some(0),
        }
    }

    /// Whether `copy` must be used for everything.
    #[inline]
    pub fn markers(&self) -> bool {
        self.marked.is_some()
    }

    /// Frame one segment in place: write `head.bytes()`, the payload, `tail.bytes()`.
    ///
    /// # Panics
    /// If the ULPDU is longer than the length field can say, or markers are on.
    #[inline]
    pub fn seal(&self, header: &ddp::Header, payload: &[u8]) -> (Head, Tail) {
        let _ = (self.crc, header, payload);
        todo!()
    }

    /// Append one whole FPDU to `out`, with markers if the peer wants them.
    ///
    /// # Panics
    /// If the ULPDU is longer than the length field can say.
    pub fn copy(&mut self, header: &ddp::Header, payload: &[u8], out: &mut Vec<u8>) {
        let _ = (header, payload, out);
        todo!()
    }
}

/// What the slice begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A part of an FPDU: the slice must hold this many bytes (at most 64 KiB and 9 bytes).
    Need(usize),
    /// A whole FPDU whose CRC is right.
    Fpdu {
        /// Bytes it takes of the slice.
        consumed: usize,
        /// Its ULPDU: DDP header and payload. May be empty (RFC 6581's zero-length FPDU).
        ulpdu: &'a [u8],
    },
}

/// Inbound framing of one connection.
#[derive(Debug, Clone, Copy)]
pub struct Deframer {
    crc: bool,
}

impl Deframer {
    /// As negotiated.
    pub fn new(crc: bool) -> Deframer {
        Deframer { crc }
    }

    /// Look at the FPDU that `input` begins with.
    #[inline]
    pub fn parse<'a>(&self, input: &'a [u8]) -> Result<Parsed<'a>, Fault> {
        let _ = (self.crc, input);
        todo!()
    }

    /// Look at an FPDU whose end is not here yet. `None`: its header is not all here.
    /// `Some((header, open))`: the input after [`Open::consumed`] bytes
    /// is payload; go on with [`Open::on_payload`]. The CRC has not been
    /// checked: place only where the peer may write, and tell nobody before [`Open::close`].
    pub fn open(&self, input: &[u8]) -> Result<Option<(ddp::Header, Open)>, Fault> {
        let _ = input;
        todo!()
    }
}

/// An FPDU of which the header has been taken and the payload is under way.
#[derive(Debug, Clone, Copy)]
pub struct Open {
    crc: Option<u32>,
    header_len: u8,
    left: u16,
    tail: u8,
}

impl Open {
    /// Bytes of input that the length field and the header took.
    pub fn consumed(&self) -> usize {
        self.header_len as usize
    }

    /// Payload bytes still to come.
    pub fn left(&self) -> usize {
        self.left as usize
    }

    /// The next payload bytes, wherever they were put.
    ///
    /// # Panics
    /// If they are more than `left`.
    pub fn on_payload(&mut self, bytes: &[u8]) {
        let _ = (self.crc, bytes);
        todo!()
    }

    /// Bytes of pad and CRC that follow the payload.
    pub fn tail_len(&self) -> usize {
        self.tail as usize
    }

    /// All payload is here; `tail` is the `tail_len` bytes after it.
    ///
    /// # Panics
    /// If payload is missing or the tail has another length.
    pub fn close(self, tail: &[u8]) -> Result<(), Fault> {
        let _ = tail;
        todo!()
    }
}
