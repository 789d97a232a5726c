// SPDX-License-Identifier: MPL-2.0
//! Bytes of the stream that the receiver READs from where they are: RTS stands
//! in their place, RDONE gives their memory back, RSTOP declines.
//!
//! An answer costs no credit: who sends an RTS has posted a receive for it, beyond those
//! that it grants. So an answer can always go, whatever the two readers do.
//!
//! RSTOP is for good. The receiver drops what came from that RTS on, until DATA with
//! RESUMED; the sender sends all of it once more, as DATA. For that it keeps what it sent
//! behind an open RTS, and therefore sends little there.

use std::collections::VecDeque;

use crate::error::{Error, Result};

/// RTS not answered at most, and so receives for answers.
pub const MOST_OPEN: u16 = 4;
/// DATA bytes sent behind open RTS at most.
pub const BEHIND: usize = 8192;
/// A receive depth from which some of it may be kept for answers.
pub const DEPTH_LEAST: u16 = 2 * MOST_OPEN;

/// What an answer settles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    /// RTS that are done, oldest first.
    pub done: u16,
    /// The others are refused: send their bytes, and what was sent behind them, as DATA.
    pub stopped: bool,
}

#[derive(Debug, Default)]
struct Open {
    /// The bytes that it stands for.
    len: u64,
    /// DATA bytes sent behind it, before the next.
    behind: usize,
}

/// Our RTS.
#[derive(Debug, Default)]
pub struct Asker {
    /// RTS sent in all, those answered with RDONE; modulo 2^32.
    sent: u32,
    done: u32,
    open: VecDeque<Open>,
    /// Receives posted for answers of RTS that were answered together.
    spare: u16,
    stopped: bool,
    /// The next DATA is the first after RSTOP.
    resuming: bool,
    /// Bytes to be sent once more.
    again: u64,
}

impl Asker {
    /// One more RTS may go, as far as this is concerned.
    pub fn may_ask(&self) -> bool {
        !self.stopped && self.open.len() < usize::from(MOST_OPEN)
    }

    /// The peer has refused; no more RTS.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// A receive must be posted for the answer of the next RTS.
    pub fn wants_receive(&self) -> bool {
        self.spare == 0
    }

    /// It was.
    pub fn on_receive_posted(&mut self) {
        self.spare += 1;
    }

    /// RTS that wait for an answer: what is sent now must be kept.
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Bytes to be sent once more, before all else.
    pub fn again(&self) -> u64 {
        self.again
    }

    /// Every byte sent has a good end.
    pub fn is_settled(&self) -> bool {
        self.open.is_empty() && self.again == 0
    }

    /// DATA bytes that may go in one frame of `most`.
    pub fn room(&self, most: usize) -> usize {
        if self.open.is_empty() {
            return most;
        }
        let behind: usize = self.open.iter().map(|open| open.behind).sum();
        most.min(BEHIND - behind.min(BEHIND))
    }

    /// An RTS of `len` bytes was posted.
    pub fn on_rts(&mut self, len: u64) {
        self.sent = self.sent.wrapping_add(1);
        self.spare = self.spare.saturating_sub(1);
        self.open.push_back(Open { len, behind: 0 });
    }

    /// DATA of `len` bytes is about to be posted; whether it is the first after RSTOP.
    pub fn on_data(&mut self, len: usize) -> bool {
        if let Some(last) = self.open.back_mut() {
            last.behind += len;
        }
        self.again = self.again.saturating_sub(len as u64);
        std::mem::take(&mut self.resuming)
    }

    /// An answer came: `count` RTS are done in all, the others are refused if `stop`.
    pub fn on_answer(&mut self, count: u32, stop: bool) -> Result<Settled> {
        let done = count.wrapping_sub(self.done) as usize;
        let refused = self.open.len().checked_sub(done);
        match refused {
            Some(left) if (stop && left > 0) || (!stop && done > 0) => {}
            _ => return Err(Error::Malformed("an answer to no RTS of ours")),
        }
        self.done = count;
        self.open.drain(..done);
        // One receive was used up by the answer itself.
        self.spare += done as u16 - u16::from(!stop);
        if stop {
            self.stopped = true;
            self.resuming = true;
            self.spare += self.open.len() as u16 - 1;
            let all = self.open.drain(..);
            self.again = all.map(|open| open.len + open.behind as u64).sum();
        }
        Ok(Settled {
            done: done as u16,
            stopped: stop,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stop {
    #[default]
    Never,
    Owed,
    /// Told; until RESUMED all is dropped.
    Dropping,
    Over,
}

/// What is to be done with a frame of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Queue it for the reader.
    Take,
    /// It will come once more.
    Drop,
}

/// The peer's RTS.
#[derive(Debug, Default)]
pub struct Answerer {
    /// RTS taken, done, and told to be done; modulo 2^32.
    taken: u32,
    done: u32,
    told: u32,
    stop: Stop,
}

impl Answerer {
    /// DATA came.
    pub fn on_data(&mut self, resumed: bool) -> Result<Fate> {
        match (self.stop, resumed) {
            (Stop::Dropping, true) => self.stop = Stop::Over,
            (Stop::Never | Stop::Over, false) => {}
            (Stop::Owed | Stop::Dropping, false) => return Ok(Fate::Drop),
            (_, true) => return Err(Error::Malformed("RESUMED without RSTOP")),
        }
        Ok(Fate::Take)
    }

    /// An RTS came.
    pub fn on_rts(&mut self) -> Result<Fate> {
        match self.stop {
            Stop::Never => {
                self.taken = self.taken.wrapping_add(1);
                Ok(Fate::Take)
            }
            Stop::Owed | Stop::Dropping => Ok(Fate::Drop),
            Stop::Over => Err(Error::Malformed("RTS after RSTOP")),
        }
    }

    /// The oldest RTS not done is: READ, or not wanted.
    pub fn on_done(&mut self) {
        debug_assert!(self.is_pending());
        self.done = self.done.wrapping_add(1);
    }

    /// Those not done are refused, and everything from the first of them on is dropped.
    pub fn stop(&mut self) {
        debug_assert!(self.is_pending() && self.stop == Stop::Never);
        self.stop = Stop::Owed;
        self.taken = self.done;
    }

    /// RTS were taken and are not done.
    pub fn is_pending(&self) -> bool {
        self.taken != self.done
    }

    /// Nothing is owed: the end of the stream may come.
    pub fn is_settled(&self) -> bool {
        !self.is_pending() && matches!(self.stop, Stop::Never | Stop::Over)
    }

    /// An RDONE must go.
    pub fn owes_done(&self) -> bool {
        self.stop != Stop::Owed && self.done != self.told
    }

    /// An RSTOP must go.
    pub fn owes_stop(&self) -> bool {
        self.stop == Stop::Owed
    }

    /// The count for the answer, which goes now.
    pub fn tell(&mut self) -> u32 {
        if self.stop == Stop::Owed {
            self.stop = Stop::Dropping;
        }
        self.told = self.done;
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(lens: &[u64]) -> Asker {
        let mut asker = Asker::default();
        for &len in lens {
            assert!(asker.may_ask());
            asker.on_receive_posted();
            asker.on_rts(len);
        }
        asker
    }

    #[test]
    fn answers_come_in_order_and_may_come_together() {
        let mut asker = asked(&[10, 20, 30, 40]);
        assert!(!asker.may_ask());
        let done = |done| Settled {
            done,
            stopped: false,
        };
        assert_eq!(asker.on_answer(1, false), Ok(done(1)));
        assert!(asker.wants_receive(), "the one answer used up its receive");
        assert_eq!(asker.on_answer(4, false), Ok(done(3)));
        assert!(!asker.wants_receive(), "two are left of the three");
        assert!(asker.is_settled());
    }

    #[test]
    fn an_answer_to_nothing_is_the_peers_fault() {
        for (count, stop) in [
            (0, false),
            (3, false),
            (u32::MAX, false),
            (2, true),
            (3, true),
        ] {
            assert!(
                asked(&[1, 1]).on_answer(count, stop).is_err(),
                "{count} {stop}"
            );
        }
        assert!(asked(&[]).on_answer(0, true).is_err());
        let mut stopped = asked(&[1]);
        stopped.on_answer(0, true).unwrap();
        assert!(stopped.on_answer(0, true).is_err(), "a second RSTOP");
        assert!(stopped.on_answer(1, false).is_err(), "RDONE after RSTOP");
    }

    #[test]
    fn a_stop_brings_back_all_that_is_not_done_and_what_came_behind() {
        let mut asker = asked(&[100]);
        assert!(!asker.on_data(7));
        asker.on_receive_posted();
        asker.on_rts(200);
        assert!(!asker.on_data(8));
        let settled = asker.on_answer(1, true).unwrap();
        assert_eq!((settled.done, settled.stopped), (1, true));
        assert_eq!(asker.again(), 208);
        assert!(!asker.may_ask() && !asker.is_settled());
        assert!(asker.on_data(200), "the first is marked");
        assert!(!asker.on_data(8));
        assert!(asker.is_settled());
    }

    #[test]
    fn little_is_sent_behind_an_open_rts() {
        let mut asker = asked(&[100]);
        assert_eq!(asker.room(5000), 5000);
        asker.on_data(5000);
        assert_eq!(asker.room(5000), BEHIND - 5000);
        asker.on_data(BEHIND - 5000);
        assert_eq!(asker.room(5000), 0);
        asker.on_answer(1, false).unwrap();
        assert_eq!(asker.room(5000), 5000);
    }

    #[test]
    fn after_a_stop_all_is_dropped_until_the_stream_is_resumed() {
        let mut answerer = Answerer::default();
        assert!(answerer.on_data(true).is_err());
        assert_eq!(answerer.on_rts(), Ok(Fate::Take));
        answerer.on_done();
        assert!(answerer.owes_done());
        assert_eq!(answerer.on_rts(), Ok(Fate::Take));
        answerer.stop();
        assert!(answerer.owes_stop() && !answerer.owes_done());
        assert_eq!(answerer.on_data(false), Ok(Fate::Drop));
        assert!(Answerer {
            stop: Stop::Owed,
            ..Default::default()
        }
        .on_data(true)
        .is_err());
        assert_eq!(answerer.tell(), 1);
        assert_eq!(answerer.on_rts(), Ok(Fate::Drop));
        assert!(!answerer.is_settled());
        assert_eq!(answerer.on_data(true), Ok(Fate::Take));
        assert_eq!(answerer.on_data(false), Ok(Fate::Take));
        assert!(answerer.is_settled());
        assert!(answerer.on_rts().is_err() && answerer.on_data(true).is_err());
    }
}
