// SPDX-License-Identifier: MPL-2.0
//! The I/O thread's side of a connection: it posts, polls, arms and
//! acknowledges, and asks the control thread for the rest. The doors of the
//! contract are here; what happens when the crank is turned is in `turn`.

mod turn;

use std::net::SocketAddr;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::addr;
use super::cm::Token;
use super::control::{self, Dial, Job};
use super::device::{Context, Transport};
use super::explain::Between;
use super::mailbox::Mailbox;
use super::mr::{Region, Target, Use};
use super::qp::Attributes;
use super::queues::{Gaze, Queues, Told};
use crate::device::region::Free;
use crate::device::silence::Silence;
use crate::device::{self, Caps, Event, Kind, Options, Ready, Remote, PRIVATE_DATA_MAX};
use crate::error::{Error, Result};

/// Flushed work without a word of the CM for so long: the link is dead.
const FLUSH_GRACE: Duration = Duration::from_secs(1);

/// From so many bytes on a READ costs less than the copies that it spares: over InfiniBand and RoCE (rxe),
/// and over iWARP (siw).
pub const READS_PAY_FROM: usize = 256 << 10;
const READS_PAY_FROM_IWARP: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// We ask; nothing is heard yet.
    Dialing,
    /// The peer asks; we have not answered.
    Requested,
    /// We said yes; the last handshake message is on its way.
    Accepting,
    /// We said no.
    Rejecting,
    Open,
    Dead(Error),
}

/// One end of a connection.
pub struct Endpoint {
    token: Token,
    mailbox: Arc<Mailbox>,
    phase: Phase,
    queues: Option<Box<Queues>>,
    between: Between,
    options: Options,
    /// Receives asked for before there were queues.
    early: u16,
    /// Found outside of `poll`, not yet told.
    told: Told,
    /// Memory lent to the peer.
    exposed: Vec<Region>,
    /// Disconnect when all that was posted has been sent.
    parting: bool,
    /// `reserve` had nothing to give.
    blocked: bool,
    /// The oldest send under way as `probe` saw it, and since when.
    oldest: Option<(u32, Instant)>,
    silence: Silence,
    flushed_since: Option<Instant>,
    /// How it was turned last.
    gaze: Gaze,
}

impl Endpoint {
    /// Start to connect.
    pub(super) fn dial(
        to: SocketAddr,
        from: Option<SocketAddr>,
        private: &[u8],
        options: &Options,
    ) -> Result<Endpoint> {
        fits(private)?;
        let between = Between {
            device: "verbs".into(),
            local: from.unwrap_or(addr::unspecified(to)),
            peer: to,
            gid: [0; 16],
            port: 0,
        };
        let mailbox = Arc::new(Mailbox::new()?);
        let token = control::new_token();
        control::submit(Job::Dial(Dial {
            token,
            to,
            from,
            private: private.to_vec(),
            options: options.clone(),
            mailbox: Arc::clone(&mailbox),
            tries: 0,
        }));
        let phase = Phase::Dialing;
        Ok(Endpoint::new(token, mailbox, phase, between, options))
    }

    /// A peer asks; the mailbox will hold its queues and its request.
    pub(super) fn incoming(
        token: Token,
        mailbox: Arc<Mailbox>,
        between: &Between,
        options: &Options,
    ) -> Endpoint {
        Endpoint::new(token, mailbox, Phase::Requested, between.clone(), options)
    }

    fn new(
        token: Token,
        mailbox: Arc<Mailbox>,
        phase: Phase,
        between: Between,
        options: &Options,
    ) -> Endpoint {
        Endpoint {
            token,
            mailbox,
            phase,
            queues: None,
            between,
            options: options.clone(),
            early: 0,
            told: Told::default(),
            exposed: Vec::new(),
            parting: false,
            blocked: false,
            oldest: None,
            silence: Silence::default(),
            flushed_since: None,
            gaze: Gaze::Asleep,
        }
    }

    /// What the device settled on; `Again` before there is a queue pair.
    pub fn attributes(&self) -> Result<Attributes> {
        match &self.queues {
            Some(queues) => queues.attributes(),
            None => Err(Error::Again),
        }
    }

    fn alive(&self) -> Result<()> {
        match &self.phase {
            Phase::Dead(why) => Err(why.clone()),
            _ => Ok(()),
        }
    }

    /// Dead from now on: the descriptor is and stays readable.
    fn die(&mut self, why: Error) {
        if !matches!(self.phase, Phase::Dead(_)) {
            self.phase = Phase::Dead(why);
            self.mailbox.poke();
        }
    }

    /// Pass a result on; an error is the end, unless it says otherwise.
    fn mortal<T>(&mut self, done: Result<T>) -> Result<T> {
        if let Err(why) = &done {
            if !matches!(why, Error::Again | Error::Misuse(_)) {
                self.die(why.clone());
            }
        }
        done
    }

    /// No memory of the caller's is the device's to use any more.
    fn give_back(&mut self) {
        if let Some(queues) = &mut self.queues {
            queues.quiesce();
            if !self.exposed.is_empty() {
                queues.fail();
            }
        }
        self.exposed.clear();
    }

    /// Queues of a connection that stands, or soon will.
    fn standing(&mut self) -> Result<&mut Queues> {
        self.alive()?;
        match (&self.phase, &mut self.queues) {
            (Phase::Open, Some(queues)) => Ok(queues),
            _ => Err(Error::Misuse("the connection does not stand")),
        }
    }

    /// Where memory of the caller's can be registered.
    fn registering(&mut self, addr: *mut u8) -> Result<(Arc<Context>, NonNull<u8>)> {
        let addr = NonNull::new(addr).ok_or(Error::Misuse("null memory"))?;
        let context = Arc::clone(self.standing()?.device().context());
        if !context.may_pin_foreign_pages() {
            return Err(Error::Misuse("this kernel does not offer READs"));
        }
        Ok((context, addr))
    }
}

impl device::Endpoint for Endpoint {
    fn kind(&self) -> Kind {
        Kind::Verbs
    }

    fn device_name(&self) -> &str {
        &self.between.device
    }

    fn caps(&self) -> Caps {
        let context = self.queues.as_ref().map(|queues| queues.device().context());
        Caps {
            slot_size: self.options.slot_size,
            recv_depth: self.options.recv_depth,
            send_depth: self.options.send_depth,
            detects_idle_death: false,
            reads: context.is_some_and(|context| context.may_pin_foreign_pages()),
            reads_pay_from: context.map(|context| match context.transport() {
                Transport::Ib => READS_PAY_FROM,
                Transport::Iwarp => READS_PAY_FROM_IWARP,
            }),
            reads_at_once: context.map_or(1, |context| context.reads_at_once()),
            may_lend: context.is_some(),
            gathers: false,
        }
    }

    fn ready(&self) -> Ready {
        Ready {
            fd: self.mailbox.fd(),
            read: true,
            write: false,
        }
    }

    fn local_addr(&self) -> SocketAddr {
        self.between.local
    }

    fn peer_addr(&self) -> SocketAddr {
        self.between.peer
    }

    fn accept(&mut self, private: &[u8]) -> Result<()> {
        self.answer(private, Phase::Accepting)?;
        control::submit(Job::Accept(self.token, private.to_vec()));
        Ok(())
    }

    fn reject(&mut self, private: &[u8]) -> Result<()> {
        self.answer(private, Phase::Rejecting)?;
        control::submit(Job::Reject(self.token, private.to_vec()));
        Ok(())
    }

    fn post_recvs(&mut self, n: u16) -> Result<u16> {
        self.alive()?;
        if self.queues.is_none() {
            let early = self.early.saturating_add(n).min(self.options.recv_depth);
            let more = early - self.early;
            self.early = early;
            return Ok(more);
        }
        let posted = self.post(n);
        self.mortal(posted)
    }

    fn reserve(&mut self) -> Result<Option<Free>> {
        let reserved = self.find_slot();
        self.mortal(reserved)
    }

    fn post_send(&mut self, slot: Free, len: usize) -> Result<()> {
        if len > slot.capacity() {
            return Err(Error::Misuse("a message longer than its slot"));
        }
        let posted = self.standing()?.post_send(slot, len);
        self.mortal(posted)
    }

    fn flush(&mut self) -> Result<u16> {
        self.alive()?;
        let flushed = self.hand_over();
        self.mortal(flushed)?;
        Ok(std::mem::take(&mut self.told.sent))
    }

    unsafe fn expose(&mut self, addr: *const u8, len: usize) -> Result<Remote> {
        let bytes = u32::try_from(len).map_err(|_| Error::Misuse("more than 4 GiB at once"))?;
        let (context, at) = self.registering(addr.cast_mut())?;
        // SAFETY: the caller keeps it valid and unwritten until `hide` or the
        // drop, both of which deregister it first; the device only reads it.
        let region = unsafe { Region::register(&context, at, len, Use::Source) }?;
        let remote = Remote {
            key: region.remote_key(),
            addr: addr as u64,
            len: bytes,
        };
        self.exposed.push(region);
        Ok(remote)
    }

    fn hide(&mut self, key: u32) -> Result<()> {
        let at = self
            .exposed
            .iter()
            .position(|region| region.remote_key() == key)
            .ok_or(Error::Misuse("nothing is exposed under this key"))?;
        self.exposed.swap_remove(at);
        Ok(())
    }

    unsafe fn post_read(&mut self, to: *mut u8, from: Remote, token: u64) -> Result<()> {
        let (context, at) = self.registering(to)?;
        // SAFETY: the caller keeps it valid and to us alone until `ReadDone`, when the device is
        // done with it, or the drop, which deregisters it first.
        let target = unsafe { Target::new(&context, at, from.len as usize) }?;
        let posted = self
            .standing()?
            .post_read(target, to as u64, from, token)
            .and_then(|()| self.reap());
        self.mortal(posted)
    }

    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        self.alive()?;
        self.gaze = Gaze::Asleep;
        let turned = self.turn(events);
        self.mortal(turned)
    }

    fn look(&mut self, told: bool, events: &mut Vec<Event>) -> Result<()> {
        self.alive()?;
        self.gaze = Gaze::Awake { told };
        let turned = self.turn(events);
        self.mortal(turned)
    }

    fn probe(&mut self, now: Instant) -> Result<Duration> {
        self.alive()?;
        let probed = self.look_after(now);
        self.mortal(probed)
    }

    fn abort(&mut self) {
        self.give_back();
        self.die(Error::Reset("ended from this side".into()));
    }

    fn disconnect(&mut self) -> Result<()> {
        self.alive()?;
        self.parting = true;
        let parted = self.hand_over();
        self.mortal(parted)?;
        self.part_if_done();
        Ok(())
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // The rest may wait.
        self.give_back();
        control::submit(Job::Drop(self.token, self.queues.take()));
    }
}

fn fits(private: &[u8]) -> Result<()> {
    if private.len() > PRIVATE_DATA_MAX {
        return Err(Error::Misuse("more private data than any device carries"));
    }
    Ok(())
}
