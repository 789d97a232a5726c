// SPDX-License-Identifier: MPL-2.0
//! The work queues of one connection as its endpoint keeps book of them: which
//! slot is posted where, and what a completion sets free.

mod under_way;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use super::cm::Id;
use super::cq::{Completions, Outcome};
use super::device::Device;
use super::memlock::{LEAN_RECVS, LEAN_SENDS};
use super::mr::{Target, Use};
use super::qp::{Attributes, Kind, Piece, Qp, Work, BATCH};
use crate::device::armed::{until_armed, Insurance};
use crate::device::region::{Free, Posted, Slab};
use crate::device::{Options, Remote};
use crate::error::{Error, Result};
use under_way::{id, UnderWay};

pub(super) use under_way::Told;

/// READs posted at once; more wait here.
const READS: u16 = 16;

/// Completions that were of no request under way. None, if all devices are sane.
pub(super) static STALE: AtomicU64 = AtomicU64::new(0);
/// Completions that nobody would have told us of, had the sweep not looked. None, if
/// all providers keep their word.
pub(super) static RESCUES: AtomicU64 = AtomicU64::new(0);

/// What whoever turns the crank does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gaze {
    /// It sleeps on the descriptor.
    Asleep,
    /// It looks again. `told`: the descriptor was readable.
    Awake { told: bool },
}

struct WaitingRead {
    target: Target,
    piece: Piece,
    from: Remote,
    token: u64,
}

/// Queue pair, completion queues, and what is posted to them.
///
/// The queue pair itself belongs to the connection's id, on the control
/// thread, which destroys the id first and this after it; so the slots in here
/// outlive the device's use of them.
pub(super) struct Queues {
    qp: Qp,
    completions: Completions,
    insurance: Insurance,
    recvs: VecDeque<(u32, Posted)>,
    under_way: UnderWay<Target>,
    /// Not yet handed to the device: the latest of those under way.
    held: Vec<Work>,
    waiting: VecDeque<WaitingRead>,
    generation: u32,
    next_recv: u32,
    next_send: u32,
    recv_slab: Arc<Slab>,
    send_slab: Arc<Slab>,
    recv_depth: u16,
    send_depth: u16,
    signaled_from: usize,
    device: Arc<Device>,
}

impl Queues {
    /// Create completion queues and the queue pair of `id`, each large enough
    /// for everything that may be posted.
    pub(super) fn new(device: &Arc<Device>, id: &Id, options: &Options) -> Result<Queues> {
        static GENERATION: AtomicU32 = AtomicU32::new(0);
        let context = device.context();
        context.alive()?;
        let (recvs, sends) = context.limits().places(options, READS.into())?;
        let completions = Completions::new(context, recvs, sends)?;
        let qp = Qp::create(id, &completions, recvs, sends)?;
        Ok(Queues {
            qp,
            completions,
            insurance: Insurance::default(),
            recvs: VecDeque::new(),
            under_way: UnderWay::default(),
            held: Vec::new(),
            waiting: VecDeque::new(),
            generation: GENERATION.fetch_add(1, Ordering::Relaxed),
            next_recv: 0,
            next_send: 0,
            recv_slab: device.slab(Use::Recv, options.slot_size),
            send_slab: device.slab(Use::Send, options.slot_size),
            recv_depth: options.recv_depth,
            send_depth: options.send_depth,
            signaled_from: context.signaled_from(),
            device: Arc::clone(device),
        })
    }

    pub(super) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    pub(super) fn fd(&self) -> std::os::fd::RawFd {
        self.completions.fd()
    }

    /// SENDs posted and not told complete.
    pub(super) fn sends_out(&self) -> u16 {
        self.under_way.sends() as u16
    }

    /// READs posted and not told complete.
    pub(super) fn reads_out(&self) -> u16 {
        self.under_way.reads() as u16
    }

    /// Receives posted and not filled.
    pub(super) fn recvs_out(&self) -> u16 {
        self.recvs.len() as u16
    }

    /// The sequence number of the oldest send under way.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.under_way.oldest()
    }

    /// A SEND may be posted now; if not, the end of one under way will tell.
    pub(super) fn has_room(&self) -> bool {
        self.sends_out() < self.send_depth
            && (self.sends_out() < LEAN_SENDS || self.is_ample(&self.send_slab))
    }

    fn is_ample(&self, slab: &Slab) -> bool {
        self.device.context().budget().is_ample(slab.spare())
    }

    /// Fewer receives are posted than the connection may have whatever others hold.
    pub(super) fn is_short(&self) -> bool {
        self.recvs_out() < self.recv_depth.min(LEAN_RECVS)
    }

    pub(super) fn attributes(&self) -> Result<Attributes> {
        self.qp.attributes()
    }

    /// Post up to `n` receives; how many were. Fewer than asked: memory is capped.
    pub(super) fn post_recvs(&mut self, n: u16) -> Result<u16> {
        let wide = self.recv_depth > LEAN_RECVS && self.is_ample(&self.recv_slab);
        let depth = match wide {
            true => self.recv_depth,
            false => self.recv_depth.min(LEAN_RECVS),
        };
        let room = usize::from(depth).saturating_sub(self.recvs.len());
        let n = usize::from(n).min(room);
        let mut posted = 0;
        while posted < n {
            let mut batch = [(0, Piece::default()); BATCH];
            let want = (n - posted).min(BATCH);
            let got = self.stage_recvs(&mut batch[..want])?;
            self.qp.post_recvs(&batch[..got])?;
            posted += got;
            if got < want {
                break;
            }
        }
        Ok(posted as u16)
    }

    fn stage_recvs(&mut self, batch: &mut [(u64, Piece)]) -> Result<usize> {
        for (got, place) in batch.iter_mut().enumerate() {
            let Some(slot) = or_capped(self.recv_slab.take())? else {
                return Ok(got);
            };
            let slot = slot.post();
            *place = (
                self.wr_id(self.next_recv),
                Piece::of(&slot, slot.capacity()),
            );
            self.recvs.push_back((self.next_recv, slot));
            self.next_recv = self.next_recv.wrapping_add(1);
        }
        Ok(batch.len())
    }

    /// A slot to send from; `None`: memory is capped.
    pub(super) fn take_slot(&self) -> Result<Option<Free>> {
        or_capped(self.send_slab.take())
    }

    /// Put a SEND in the queue; held until `flush`, or until a batch is full.
    pub(super) fn post_send(&mut self, slot: Free, len: usize) -> Result<()> {
        if self.sends_out() >= self.send_depth {
            return Err(Error::Misuse("more sends than the queue holds"));
        }
        let slot = slot.post();
        let work = Work {
            wr_id: self.wr_id(self.next_send),
            piece: Piece::of(&slot, len),
            kind: Kind::Send,
            signaled: len >= self.signaled_from,
        };
        self.under_way.post_send(self.next_send, slot);
        self.hold(work)
    }

    /// READ into registered memory.
    pub(super) fn post_read(
        &mut self,
        target: Target,
        addr: u64,
        from: Remote,
        token: u64,
    ) -> Result<()> {
        let piece = Piece {
            addr,
            len: from.len,
            key: target.local_key(),
        };
        self.waiting.push_back(WaitingRead {
            target,
            piece,
            from,
            token,
        });
        self.start_reads()
    }

    fn start_reads(&mut self) -> Result<()> {
        while self.reads_out() < READS {
            let Some(read) = self.waiting.pop_front() else {
                break;
            };
            let work = Work {
                wr_id: self.wr_id(self.next_send),
                piece: read.piece,
                kind: Kind::Read {
                    addr: read.from.addr,
                    key: read.from.key,
                },
                signaled: true,
            };
            self.under_way
                .post_read(self.next_send, read.token, read.target);
            self.hold(work)?;
        }
        self.flush()
    }

    fn hold(&mut self, work: Work) -> Result<()> {
        self.next_send = self.next_send.wrapping_add(1);
        self.held.push(work);
        if self.held.len() == BATCH {
            self.flush()?;
        }
        Ok(())
    }

    /// Hand what is held to the device. The last of a batch is signaled: it
    /// tells of all before it, and no send is ever left without an end.
    pub(super) fn flush(&mut self) -> Result<()> {
        let Some(last) = self.held.last_mut() else {
            return Ok(());
        };
        last.signaled = true;
        self.qp.post_sends(&self.held)?;
        // What the device copied is free already.
        let held = self.held.iter().rev();
        let held = held.filter(|work| matches!(work.kind, Kind::Send));
        let copied = held.map(|work| self.qp.takes_inline(work.piece.len as usize));
        self.under_way.free_copied(copied);
        self.held.clear();
        Ok(())
    }

    /// Take in all completions. `wants_sends`: the descriptor of who falls asleep must tell
    /// of the next finished send too; it always tells of the next receive.
    pub(super) fn poll(&mut self, told: &mut Told, gaze: Gaze, wants_sends: bool) -> Result<()> {
        if gaze != (Gaze::Awake { told: false }) {
            self.completions.take_events();
        }
        if gaze != Gaze::Asleep {
            self.poll_recvs(told)?;
            self.poll_sends(told)?;
            return self.start_waiting();
        }
        until_armed(
            self,
            |q| q.poll_recvs(told).and_then(|()| q.poll_sends(told)),
            |q| {
                let recv = q.completions.recv.arm()?;
                let send = (wants_sends || q.reads_out() > 0) && q.completions.send.arm()?;
                Ok(recv || send)
            },
        )?;
        self.start_waiting()
    }

    fn start_waiting(&mut self) -> Result<()> {
        match self.waiting.is_empty() {
            true => Ok(()),
            false => self.start_reads(),
        }
    }

    /// Take in finished sends alone; `arm` to be woken by the next.
    pub(super) fn reap(&mut self, told: &mut Told, arm: bool) -> Result<()> {
        self.poll_sends(told)?;
        if arm && self.completions.send.arm()? {
            self.poll_sends(told)?;
        }
        Ok(())
    }

    /// Look for what came in without being asked to: see [`RESCUES`].
    pub(super) fn sweep(&mut self, told: &mut Told) -> Result<()> {
        let before = told.received.len();
        self.poll_recvs(told)?;
        let (armed, events) = self.completions.recv.told();
        let found = told.received.len() - before;
        if self.insurance.on_sweep(armed, found, events) {
            RESCUES.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn poll_recvs(&mut self, told: &mut Told) -> Result<()> {
        let Queues {
            completions,
            recvs,
            generation,
            ..
        } = self;
        let mut torn = false;
        completions.recv.poll(|done| {
            let is_next = recvs
                .front()
                .is_some_and(|(seq, _)| id(*generation, *seq) == done.wr_id);
            if !is_next {
                STALE.fetch_add(1, Ordering::Relaxed);
                return;
            }
            let slot = recvs.pop_front().map(|(_, slot)| slot);
            match (done.outcome, slot) {
                (Outcome::Bytes(n), Some(slot)) if n as usize <= slot.capacity() => {
                    told.received.push(slot.filled(n as usize));
                }
                (Outcome::Bytes(_), _) => torn = true,
                (Outcome::Failed { status, vendor }, _) => told.fail(status, vendor),
            }
        })?;
        if torn {
            return Err(Error::Malformed("a receive longer than its slot"));
        }
        Ok(())
    }

    fn poll_sends(&mut self, told: &mut Told) -> Result<()> {
        let Queues {
            completions,
            under_way,
            generation,
            ..
        } = self;
        completions.send.poll(|done| {
            if !under_way.settle(*generation, &done, told) {
                STALE.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        Ok(())
    }

    /// Stop the device's use of memory that is not ours: READs under way end,
    /// their registrations go. Only good for dropping afterwards.
    pub(super) fn quiesce(&mut self) {
        self.waiting.clear();
        if self.under_way.reads() > 0 {
            // A queue pair that is in error already says so; all the same to us.
            let _ = self.qp.fail();
            // Deregistered here, while their memory is still vouched for.
            for target in self.under_way.end_reads() {
                target.revoke(self.device.context());
            }
        }
    }

    /// Stop all work, so that memory lent to the peer can be taken back.
    pub(super) fn fail(&self) {
        let _ = self.qp.fail();
    }

    fn wr_id(&self, seq: u32) -> u64 {
        id(self.generation, seq)
    }
}

impl Piece {
    fn of(slot: &Posted, len: usize) -> Piece {
        Piece {
            addr: slot.addr().as_ptr() as u64,
            len: len as u32,
            key: slot.key(),
        }
    }
}

/// A cap that is met is no error here: `None`.
fn or_capped(taken: Result<Option<Free>>) -> Result<Option<Free>> {
    match taken {
        Err(Error::Limit(_)) => Ok(None),
        other => other,
    }
}
