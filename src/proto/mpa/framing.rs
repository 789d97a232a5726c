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

use crate::wire::crc32c::{append, crc32c, gather};
use crate::wire::ddp;
use crate::wire::fault::{Cause, Fault};
use crate::wire::mpa::{fpdu_len, pad_len, CRC_LEN, LENGTH_LEN, ULPDU_MAX};

/// Largest ULPDU when markers are on: keeps every marker's 16-bit pointer in range.
pub const MARKED_ULPDU_MAX: usize = 65_000;

const MARKER_LEN: usize = 4;
const MARKER_INTERVAL: usize = 512;
/// RFC 5044 section 5.1: a MULPDU is never less.
const MULPDU_MIN: usize = 128;

/// Largest ULPDU whose FPDU fits one TCP segment of `emss` payload bytes.
/// FPDUs may be larger (up to [`ULPDU_MAX`]); receivers that depend on alignment then
/// only lose speed.
pub fn mulpdu(emss: usize, markers: bool) -> usize {
    let overhead = LENGTH_LEN + CRC_LEN + emss % 4;
    let (marked, max) = if markers {
        (
            MARKER_LEN * emss.div_ceil(MARKER_INTERVAL),
            MARKED_ULPDU_MAX,
        )
    } else {
        (0, ULPDU_MAX)
    };
    emss.saturating_sub(overhead + marked)
        .clamp(MULPDU_MIN, max)
}

/// What goes before the payload: the FPDU's length field and the DDP header.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    bytes: [u8; LENGTH_LEN + ddp::HEADER_MAX],
    len: u8,
}

impl Head {
    #[inline]
    fn new(header: &ddp::Header, payload_len: usize) -> Head {
        let mut bytes = [0; LENGTH_LEN + ddp::HEADER_MAX];
        let header_len = header.encode(&mut bytes[LENGTH_LEN..]);
        let ulpdu_len = header_len + payload_len;
        assert!(ulpdu_len <= ULPDU_MAX, "ULPDU longer than MPA can say");
        bytes[..LENGTH_LEN].copy_from_slice(&(ulpdu_len as u16).to_be_bytes());
        Head {
            bytes,
            len: (LENGTH_LEN + header_len) as u8,
        }
    }

    /// The bytes for the wire.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

const PAD_MAX: usize = 3;

/// What goes after the payload: pad and CRC.
#[derive(Debug, Clone, Copy)]
pub struct Tail {
    bytes: [u8; PAD_MAX + CRC_LEN],
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
    /// Bytes before the next marker is due, when the peer wants them.
    marker_in: Option<usize>,
}

impl Framer {
    /// As negotiated.
    pub fn new(crc: bool, markers: bool) -> Framer {
        Framer {
            crc,
            // The first one opens the first FPDU.
            marker_in: markers.then_some(0),
        }
    }

    /// Whether `copy` must be used for everything.
    #[inline]
    pub fn markers(&self) -> bool {
        self.marker_in.is_some()
    }

    /// Frame one segment in place: write `head.bytes()`, the payload, `tail.bytes()`.
    ///
    /// # Panics
    /// If the ULPDU is longer than the length field can say, or markers are on.
    #[inline]
    pub fn seal(&self, header: &ddp::Header, payload: &[u8]) -> (Head, Tail) {
        self.seal_two(header, payload, &[])
    }

    /// As `seal`, for a payload in two pieces.
    ///
    /// # Panics
    /// As `seal`.
    #[inline]
    pub fn seal_two(&self, header: &ddp::Header, first: &[u8], second: &[u8]) -> (Head, Tail) {
        assert!(!self.markers(), "an FPDU with markers must be copied");
        let len = first.len() + second.len();
        let head = Head::new(header, len);
        let pad = pad_len(header.len() + len);
        let mut tail = Tail {
            bytes: [0; PAD_MAX + CRC_LEN],
            len: (pad + CRC_LEN) as u8,
        };
        if self.crc {
            let crc = gather(&[head.bytes(), first, second, &[0; PAD_MAX][..pad]]);
            tail.bytes[pad..pad + CRC_LEN].copy_from_slice(&crc.to_le_bytes());
        }
        (head, tail)
    }

    /// Append one whole FPDU to `out`, with markers if the peer wants them.
    /// Cheaper than `seal` for short payloads: one pass of the CRC, and no gathering.
    ///
    /// # Panics
    /// If the ULPDU is longer than the length field can say, or, with markers on, than
    /// [`MARKED_ULPDU_MAX`].
    pub fn copy(&mut self, header: &ddp::Header, payload: &[u8], out: &mut Vec<u8>) {
        let head = Head::new(header, payload.len());
        let pad = &[0; PAD_MAX][..pad_len(header.len() + payload.len())];
        let start = out.len();
        let parts = [head.bytes(), payload, pad];
        match &mut self.marker_in {
            None => parts.iter().for_each(|part| out.extend_from_slice(part)),
            Some(marker_in) => {
                assert!(
                    header.len() + payload.len() <= MARKED_ULPDU_MAX,
                    "ULPDU longer than markers can point over"
                );
                mark(marker_in, &parts, out);
            }
        }
        let crc = if self.crc { crc32c(&out[start..]) } else { 0 };
        out.extend_from_slice(&crc.to_le_bytes());
    }
}

/// Write an FPDU up to its CRC field with markers at their places. A marker
/// points back to the length field; one that is due at the FPDU's edge opens the FPDU,
/// points to itself (0), and is under its CRC.
fn mark(marker_in: &mut usize, parts: &[&[u8]], out: &mut Vec<u8>) {
    if *marker_in == 0 {
        out.extend_from_slice(&[0; MARKER_LEN]);
        *marker_in = MARKER_INTERVAL - MARKER_LEN;
    }
    let start = out.len();
    let put_marker = |marker_in: &mut usize, out: &mut Vec<u8>| {
        let back = (out.len() - start) as u16;
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&back.to_be_bytes());
        *marker_in = MARKER_INTERVAL - MARKER_LEN;
    };
    for part in parts {
        let mut part = *part;
        while !part.is_empty() {
            if *marker_in == 0 {
                put_marker(marker_in, out);
            }
            let (now, later) = part.split_at(part.len().min(*marker_in));
            out.extend_from_slice(now);
            *marker_in -= now.len();
            part = later;
        }
    }
    // The CRC field comes next and is never cut: everything is a multiple of 4.
    if *marker_in == 0 {
        put_marker(marker_in, out);
    }
    *marker_in -= CRC_LEN;
}

/// What the slice begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A part of an FPDU: the slice must hold this many bytes (at most 64 KiB and 8 bytes).
    Need(usize),
    /// A whole FPDU whose CRC is right.
    Fpdu {
        /// Bytes it takes of the slice.
        consumed: usize,
        /// Its ULPDU: DDP header and payload. Empty only for RFC 6581's zero-length FPDU.
        ulpdu: &'a [u8],
    },
}

const SHORT: Fault = Fault::new(Cause::FRAMING, "FPDU shorter than a DDP header");
const BAD_CRC: Fault = Fault::new(Cause::CRC, "FPDU with a wrong CRC");

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

    /// The ULPDU length that `input` begins with.
    #[inline]
    fn ulpdu_len(input: &[u8]) -> Result<Option<usize>, Fault> {
        let Some(len) = input.first_chunk::<LENGTH_LEN>() else {
            return Ok(None);
        };
        match usize::from(u16::from_be_bytes(*len)) {
            0 => Ok(Some(0)),
            len if len < ddp::TAGGED_LEN => Err(SHORT),
            len => Ok(Some(len)),
        }
    }

    /// Look at the FPDU that `input` begins with.
    #[inline]
    pub fn parse<'a>(&self, input: &'a [u8]) -> Result<Parsed<'a>, Fault> {
        let Some(ulpdu_len) = Self::ulpdu_len(input)? else {
            return Ok(Parsed::Need(LENGTH_LEN));
        };
        let consumed = fpdu_len(ulpdu_len);
        let Some(fpdu) = input.get(..consumed) else {
            return Ok(Parsed::Need(consumed));
        };
        let (covered, crc) = fpdu.split_at(consumed - CRC_LEN);
        if self.crc && crc32c(covered).to_le_bytes() != *crc {
            return Err(BAD_CRC);
        }
        let ulpdu = &covered[LENGTH_LEN..LENGTH_LEN + ulpdu_len];
        Ok(Parsed::Fpdu { consumed, ulpdu })
    }

    /// Look at an FPDU whose end is not here yet. `None`: its header is not all here.
    /// `Some((header, open))`: the input after [`Open::consumed`] bytes
    /// is payload; go on with [`Open::on_payload`]. The CRC has not been
    /// checked: place only where the peer may write, and tell nobody before [`Open::close`].
    pub fn open(&self, input: &[u8]) -> Result<Option<(ddp::Header, Open)>, Fault> {
        let Some(ulpdu_len) = Self::ulpdu_len(input)? else {
            return Ok(None);
        };
        let Some(&control) = input.get(LENGTH_LEN) else {
            return Ok(None);
        };
        let header_len = ddp::Header::len_of(control);
        if ulpdu_len < header_len {
            return Err(SHORT);
        }
        let Some(head) = input.get(..LENGTH_LEN + header_len) else {
            return Ok(None);
        };
        let header = ddp::Header::decode(&head[LENGTH_LEN..])?;
        let open = Open {
            crc: self.crc.then(|| crc32c(head)),
            head: head.len() as u8,
            left: (ulpdu_len - header_len) as u16,
            tail: (pad_len(ulpdu_len) + CRC_LEN) as u8,
        };
        Ok(Some((header, open)))
    }
}

/// An FPDU of which the header has been taken and the payload is under way.
#[derive(Debug, Clone, Copy)]
pub struct Open {
    crc: Option<u32>,
    head: u8,
    left: u16,
    tail: u8,
}

impl Open {
    /// Bytes of input that the length field and the header took.
    pub fn consumed(&self) -> usize {
        usize::from(self.head)
    }

    /// Payload bytes still to come.
    pub fn left(&self) -> usize {
        usize::from(self.left)
    }

    /// The next payload bytes, wherever they were put.
    ///
    /// # Panics
    /// If they are more than `left`.
    pub fn on_payload(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.left(), "more payload than the FPDU has");
        self.left -= bytes.len() as u16;
        self.crc = self.crc.map(|crc| append(crc, bytes));
    }

    /// Bytes of pad and CRC that follow the payload.
    pub fn tail_len(&self) -> usize {
        usize::from(self.tail)
    }

    /// All payload is here; `tail` is the `tail_len` bytes after it.
    ///
    /// # Panics
    /// If payload is missing or the tail has another length.
    pub fn close(self, tail: &[u8]) -> Result<(), Fault> {
        assert_eq!(self.left, 0, "payload is missing");
        assert_eq!(tail.len(), self.tail_len(), "not the whole tail");
        let (pad, crc) = tail.split_at(self.tail_len() - CRC_LEN);
        match self.crc {
            Some(sum) if append(sum, pad).to_le_bytes() != *crc => Err(BAD_CRC),
            _ => Ok(()),
        }
    }
}
