// SPDX-License-Identifier: MPL-2.0
//! The machines of DDP: messages cut into segments, and put together again.

use zmq_rdma::proto::ddp::place::{self, Placement, Queue};
use zmq_rdma::proto::ddp::segment::Segments;
use zmq_rdma::wire::ddp::{Access, Header, Tagged, Untagged, Window};

use crate::input::Input;
use crate::meter::bounded;

/// A list of calls on a queue, beside a model of it; messages cut on the way.
pub fn machine(data: &[u8]) {
    let mut input = Input::new(data);
    let capacity = input.u16() as usize % 20_000;
    let mut model = Model {
        queue: Queue::new(3),
        capacity,
        posted: 0,
        msn: 1,
        at: 0,
    };
    for _ in 0..200 {
        if input.ended() {
            break;
        }
        match input.within(0, 3) {
            0 => model.post(input.u8().into()),
            1 => model.message(&mut input),
            2 => model.stranger(&mut input),
            _ => window(&mut input),
        }
    }
}

struct Model {
    queue: Queue,
    capacity: usize,
    posted: u32,
    msn: u32,
    at: u32,
}

impl Model {
    fn post(&mut self, n: u16) {
        self.queue.post(n);
        self.posted += u32::from(n);
        assert_eq!(self.queue.posted(), self.posted);
    }

    /// A message as our own sender cuts it: every byte once, in order, none in a segment too many.
    fn message(&mut self, input: &mut Input<'_>) {
        let len = u32::from(input.u16());
        let mulpdu = 19 + input.u16() as usize % 9000;
        let first = Untagged {
            last: true,
            ulp: input.u8(),
            ulp_word: input.u32(),
            qn: 3,
            msn: self.msn,
            mo: 0,
        };
        let (mut at, mut ended, mut count) = (0, false, 0);
        let mut refused = self.at > 0;
        for (header, range) in Segments::new(Header::Untagged(first), len, mulpdu) {
            assert!(!ended, "a segment after the last");
            assert_eq!(range.start, at);
            assert!(header.len() + range.len() <= mulpdu);
            at = range.end;
            ended = header.last();
            count += 1;
            let Header::Untagged(header) = header else {
                panic!("another kind");
            };
            assert_eq!(header.mo as usize, range.start);
            refused = refused || !self.segment(&header, range.len());
        }
        assert!(ended && at == len as usize);
        assert_eq!(count, (len as usize).div_ceil(mulpdu - 18).max(1));
        if !refused {
            assert_eq!(self.at, 0);
        }
    }

    /// A segment that may be right in parts.
    fn stranger(&mut self, input: &mut Input<'_>) {
        let near = |input: &mut Input<'_>, right: u32| match input.within(0, 7) {
            0 => input.u32(),
            1 => right.wrapping_add(1),
            _ => right,
        };
        let header = Untagged {
            last: input.bool(),
            ulp: input.u8(),
            ulp_word: 0,
            qn: near(input, 3),
            msn: near(input, self.msn),
            mo: near(input, self.at),
        };
        let len = input.u16() as usize;
        self.segment(&header, len);
    }

    /// One segment, to the queue and to the model; whether it was taken.
    fn segment(&mut self, header: &Untagged, len: usize) -> bool {
        let end = self.at as usize + len;
        let good = header.qn == 3
            && self.posted > 0
            && header.msn == self.msn
            && header.mo == self.at
            && (len > 0 || header.last)
            && end <= self.capacity;
        let capacity = self.capacity;
        let placed = bounded(0, || self.queue.on_segment(header, len, capacity));
        assert_eq!(
            placed.is_ok(),
            good,
            "{header:?} of {len} bytes: {placed:?}"
        );
        let Ok(placement) = placed else {
            return false;
        };
        let expected = match (self.at, header.last) {
            (0, true) => Placement::Whole,
            (at, last) => Placement::Part {
                at: at as usize,
                last,
            },
        };
        assert_eq!(placement, expected);
        if header.last {
            self.at = 0;
            self.msn = self.msn.wrapping_add(1);
            self.posted -= 1;
        } else {
            self.at = end as u32;
        }
        assert_eq!(self.queue.posted(), self.posted);
        true
    }
}

/// What a tagged segment may touch lies in its window, every byte of it.
fn window(input: &mut Input<'_>) {
    let window = Window {
        base: input.u64(),
        len: input.u32().into(),
    };
    let header = Tagged {
        last: input.bool(),
        ulp: input.u8(),
        stag: input.u32(),
        to: if input.bool() {
            window.base.wrapping_add(input.u32().into())
        } else {
            input.u64()
        },
    };
    let len = input.u16() as usize;
    let access = match input.within(0, 5) {
        0 => Access::Unknown,
        1 => Access::Foreign,
        2 => Access::Denied,
        _ => Access::Granted(window),
    };
    let mut asked = 0;
    let placed = place::tagged(&header, len, |stag| {
        assert_eq!(stag, header.stag);
        asked += 1;
        access
    });
    assert_eq!(asked, usize::from(len > 0));
    match placed {
        Ok(at) if len > 0 => {
            assert!(matches!(access, Access::Granted(_)));
            assert!(at + len as u64 <= window.len);
            assert_eq!(window.base.wrapping_add(at), header.to);
        }
        Ok(at) => assert_eq!(at, 0),
        Err(_) => assert!(len > 0),
    }
}
