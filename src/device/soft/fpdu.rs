// SPDX-License-Identifier: MPL-2.0
//! What waits for TCP: FPDUs, in pieces for a gathered write, and messages of
//! several segments that are being cut into them.

use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

use crate::device::region::{Exposed, Filled};
use crate::proto::ddp::segment::Segments;
use crate::proto::mpa::framing::{Framer, Head, Tail};
use crate::wire::ddp::Header;

/// What a message's payload is cut from.
pub(super) enum Body {
    Slot(Arc<Filled>),
    Memory(Exposed),
}

impl Body {
    fn bytes(&self) -> &[u8] {
        match self {
            Body::Slot(slot) => slot.bytes(),
            Body::Memory(memory) => memory.bytes(),
        }
    }

    fn share(&self) -> Body {
        match self {
            Body::Slot(slot) => Body::Slot(Arc::clone(slot)),
            Body::Memory(memory) => Body::Memory(*memory),
        }
    }
}

/// What is complete once an FPDU has been handed over.
#[derive(Clone, Copy)]
pub(super) enum Completes {
    Nothing,
    Posted,
    Answer { stag: u32, len: u32 },
}

/// A message of several segments, half framed.
pub(super) struct Cut {
    pub segments: Segments,
    pub body: Body,
    /// Where the message begins in the body.
    pub base: usize,
    pub completes: Completes,
}

pub(super) enum Pieces {
    Whole(Filled),
    Gathered(Filled, Exposed, Tail),
    Parts(Head, Body, Range<usize>, Tail),
    Copied(Vec<u8>),
}

pub(super) struct Fpdu {
    pub pieces: Pieces,
    pub completes: Completes,
}

impl Fpdu {
    pub fn pieces(&self) -> [&[u8]; 3] {
        match &self.pieces {
            Pieces::Whole(bytes) => [bytes.bytes(), &[], &[]],
            Pieces::Copied(bytes) => [bytes, &[], &[]],
            Pieces::Gathered(first, second, tail) => [first.bytes(), second.bytes(), tail.bytes()],
            Pieces::Parts(head, body, range, tail) => {
                [head.bytes(), &body.bytes()[range.clone()], tail.bytes()]
            }
        }
    }

    pub fn len(&self) -> usize {
        self.pieces().iter().map(|piece| piece.len()).sum()
    }

    /// The pieces without the first `skip` bytes.
    pub fn rest(&self, mut skip: usize) -> [IoSlice<'_>; 3] {
        self.pieces().map(|piece| {
            let gone = skip.min(piece.len());
            skip -= gone;
            IoSlice::new(&piece[gone..])
        })
    }
}

pub(super) fn next_segment(cut: &mut Cut, framer: &mut Framer, markers: bool) -> Option<Fpdu> {
    let (header, range) = cut.segments.next()?;
    let range = cut.base + range.start..cut.base + range.end;
    let completes = if header.last() {
        cut.completes
    } else {
        Completes::Nothing
    };
    let payload = &cut.body.bytes()[range.clone()];
    if markers {
        return Some(copied(framer, &header, payload, completes));
    }
    let (head, tail) = framer.seal(&header, payload);
    Some(Fpdu {
        pieces: Pieces::Parts(head, cut.body.share(), range, tail),
        completes,
    })
}

/// An FPDU in a buffer of its own: for the few and short, and for peers that want markers.
pub(super) fn copied(
    framer: &mut Framer,
    header: &Header,
    payload: &[u8],
    completes: Completes,
) -> Fpdu {
    let mut bytes = Vec::new();
    framer.copy(header, payload, &mut bytes);
    Fpdu {
        pieces: Pieces::Copied(bytes),
        completes,
    }
}
