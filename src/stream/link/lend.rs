// SPDX-License-Identifier: MPL-2.0
//! Large bodies, sent from where they are: in DATA frames that the device
//! gathers, or by an RTS for the peer to READ. And what the peer would not READ, once more.

use super::{Link, Phase};
use crate::device::region::{Exposed, Free};
use crate::device::{Endpoint, Remote};
use crate::error::{Error, Result};
use crate::proto::flow::rendezvous::Settled;
use crate::stream::sizes::Rendezvous;
use crate::wire::frame::{Rts, HEADER};

/// Bytes that one RTS stands for at most: what is registered at once. With 4 MiB, rxe
/// (Linux 6.1) lost packets of each READ and waited for the retry: a seventh of the speed.
const MOST: usize = 1 << 20;

impl Link {
    /// From how many bytes on a body is lent to be READ; `None`: never. As the user
    /// wishes, and as the device has use for it.
    pub fn lends_from(&self) -> Option<usize> {
        let caps = self.endpoint.caps();
        let from = match self.rendezvous {
            Rendezvous::Off => None,
            Rendezvous::Auto => caps.reads_pay_from,
            Rendezvous::From(bytes) => Some(bytes),
        };
        let open = matches!(&self.phase, Phase::Open(flow) if flow.may_ever_ask());
        from.filter(|_| open && caps.reads && caps.may_lend)
    }

    /// Send what credit allows of `len` bytes at `data` without copying them, if
    /// the device can; returns how many were taken. [`Link::returned`] tells
    /// when the memory is the caller's again.
    ///
    /// # Safety
    /// `data` is readable for `len` bytes, and what was taken of it is not written, until
    /// `returned` has counted it or the link is dropped.
    #[allow(unsafe_code)]
    pub unsafe fn lend(&mut self, data: *const u8, len: usize) -> Result<usize> {
        self.reserved = None;
        // SAFETY: the caller's.
        let mut taken = unsafe { self.lend_to_be_read(data, len) }?;
        let by_rts = taken > 0;
        while taken < len && !by_rts {
            let room = match self.reserve() {
                Ok((_, room)) => room,
                Err(why) if taken == 0 => return Err(why),
                Err(_) => break,
            };
            let Some(slot) = self.reserved.take() else {
                break;
            };
            let n = room.min(len - taken);
            // SAFETY: inside what the caller lends; `returned` does not count
            // it before the device has reported this send, or is at its end.
            let body = unsafe { Exposed::new(data.wrapping_add(taken), n) };
            self.gather(slot, body);
            taken += n;
        }
        Ok(taken)
    }

    /// Post DATA of lent bytes.
    fn gather(&mut self, mut slot: Free, body: Exposed) {
        let Phase::Open(flow) = &mut self.phase else {
            return;
        };
        if flow.must_keep() {
            self.loans.keep(body.bytes());
        }
        slot.write(0, &flow.start_data(body.len()));
        self.ledger.sent(body.len());
        self.loans.on_posted();
        self.loans.on_lent(body.len());
        let posted = self.post_lent(slot, body);
        self.die_of(posted);
    }

    #[allow(unsafe_code)]
    fn post_lent(&mut self, slot: Free, body: Exposed) -> Result<()> {
        if !self.endpoint.caps().gathers {
            self.ledger.copied(body.len());
        }
        let from = body.bytes().as_ptr();
        // SAFETY: lent until `returned` counts it, which is after this send is complete.
        unsafe { self.endpoint.post_gather(slot, HEADER, from, body.len()) }
    }

    /// Let the peer READ the body, piece by piece; how many bytes. 0: send it as DATA.
    ///
    /// # Safety
    /// As for `lend`.
    #[allow(unsafe_code)]
    unsafe fn lend_to_be_read(&mut self, data: *const u8, len: usize) -> Result<usize> {
        let worth = |least| len >= least || self.loans.goes_on(data, len);
        if !self.lends_from().is_some_and(worth) {
            return Ok(0);
        }
        let mut taken = 0;
        while taken < len {
            let left = len - taken;
            let piece = left.div_ceil(left.div_ceil(MOST));
            let at = data.wrapping_add(taken);
            // SAFETY: inside what the caller lends.
            match unsafe { self.ask(at, piece, left - piece) } {
                Ok(true) => taken += piece,
                Ok(false) => break,
                Err(why) if taken == 0 => return Err(why),
                Err(_) => break,
            }
        }
        Ok(taken)
    }

    /// Post one RTS; `left` bytes of the same body are to follow. `Again`: not now. False: send
    /// it as DATA.
    ///
    /// # Safety
    /// As for `lend`.
    #[allow(unsafe_code)]
    unsafe fn ask(&mut self, data: *const u8, len: usize, left: usize) -> Result<bool> {
        if self.shut || self.peer_shut {
            return Err(Error::Closed);
        }
        match &self.phase {
            Phase::Open(flow) if flow.rts_may_go() => {}
            Phase::Open(_) => return Err(Error::Again),
            _ => return Err(Error::Closed),
        }
        // SAFETY: the caller's.
        let body = unsafe { Exposed::new(data, len) };
        let asked = self.post_rts(body, left);
        match asked {
            Ok(done) => Ok(done),
            Err(Error::Again) => Err(Error::Again),
            Err(why) => {
                self.die_of(Err(why));
                Err(Error::Closed)
            }
        }
    }

    fn post_rts(&mut self, body: Exposed, left: usize) -> Result<bool> {
        let Phase::Open(flow) = &mut self.phase else {
            return Err(Error::Closed);
        };
        let Some(mut slot) = self.endpoint.reserve()? else {
            self.starved = true;
            return Err(Error::Again);
        };
        if flow.wants_answer_receive() {
            if self.endpoint.post_recvs(1)? == 0 {
                return Ok(false);
            }
            flow.on_answer_receive();
        }
        let Some(Remote { key, addr, len }) = expose(&mut *self.endpoint, body)? else {
            return Ok(false);
        };
        let bytes = flow.start_rts(Rts { addr, key, len }, left > 0);
        self.loans.on_posted();
        self.ledger.control_sent(false, false);
        slot.write(0, &bytes);
        // If that fails, the caller is told that nothing was taken.
        self.endpoint.post_send(slot, bytes.len())?;
        self.loans.on_rts(body, key, left);
        Ok(true)
    }

    /// RTS are done, or refused.
    pub(super) fn on_answer(&mut self, settled: Settled) -> Result<()> {
        for _ in 0..settled.done {
            if let Some((key, len)) = self.loans.on_read() {
                self.hide(key)?;
                self.ledger.read_by_peer(len);
            }
        }
        if settled.stopped {
            for key in self.loans.on_refused() {
                self.hide(key)?;
            }
            // What was begun as an RTS's rest, or reserved before, comes after.
            self.reserved = None;
        }
        Ok(())
    }

    fn hide(&mut self, key: u32) -> Result<()> {
        match self.endpoint.hide(key) {
            Err(Error::Again) => Err(Error::Malformed("an answer before its READ was done")),
            hidden => hidden,
        }
    }

    /// Post DATA of what must be sent once more, as far as there is room; whether any was.
    pub(super) fn post_again(&mut self) -> Result<bool> {
        let mut posted = false;
        loop {
            let Phase::Open(flow) = &mut self.phase else {
                return Ok(posted);
            };
            if !flow.again_may_go() {
                return Ok(posted);
            }
            let Some(mut slot) = self.endpoint.reserve()? else {
                self.starved = true;
                return Ok(posted);
            };
            let most = flow.payload().min(slot.capacity() - HEADER);
            let Some(bytes) = self.loans.again(most) else {
                return Err(Error::Misuse("nothing is there to be sent once more"));
            };
            let len = bytes.len();
            slot.write(HEADER, bytes);
            slot.write(0, &flow.start_data(len));
            self.ledger.sent(len);
            self.ledger.copied(len);
            self.loans.on_posted();
            self.loans.on_again(len);
            self.endpoint.post_send(slot, HEADER + len)?;
            posted = true;
        }
    }

    /// Bytes lent since the start that are the caller's again: they come back in order.
    pub fn returned(&self) -> u64 {
        let (taken, returned) = self.loans.lent();
        match self.phase {
            Phase::Dead(_) => taken,
            _ => returned,
        }
    }
}

/// Let the peer READ it. `None`: this memory will not do, or there is too much of it.
#[allow(unsafe_code)]
fn expose(endpoint: &mut dyn Endpoint, body: Exposed) -> Result<Option<Remote>> {
    // SAFETY: lent until `returned` counts it, which is after `hide`, or
    // after the endpoint's end.
    match unsafe { endpoint.expose(body.bytes().as_ptr(), body.len()) } {
        Ok(remote) => Ok(Some(remote)),
        Err(Error::Limit(_) | Error::Misuse(_) | Error::Again) => Ok(None),
        Err(why) => Err(why),
    }
}
