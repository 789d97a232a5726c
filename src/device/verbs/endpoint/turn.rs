// SPDX-License-Identifier: MPL-2.0
//! What happens when the crank is turned: news of the control thread,
//! completions, and what follows from them.

use std::time::{Duration, Instant};

use super::{fits, Endpoint, Phase, FLUSH_GRACE};
use crate::device::region::Free;
use crate::device::verbs::control::{self, Job};
use crate::device::verbs::diag;
use crate::device::verbs::explain::{self, Between};
use crate::device::verbs::mailbox::News;
use crate::device::verbs::queues::{Gaze, Queues};
use crate::device::{Event, PrivateData};
use crate::error::{Error, Result};

/// How the control thread says that it ends.
enum Fate {
    Parted,
    Refused(PrivateData),
    Failed(Error),
}

impl Endpoint {
    pub(super) fn turn(&mut self, events: &mut Vec<Event>) -> Result<()> {
        let mut fate = None;
        for news in self.mailbox.take() {
            match news {
                News::Ready(queues, between) => self.adopt(queues, between)?,
                News::Request(private) => events.push(Event::Request(private)),
                News::Established(private, local) => {
                    self.between.local = local.unwrap_or(self.between.local);
                    self.stand(private, events);
                }
                News::Rejected(private) => fate = fate.or(Some(Fate::Refused(private))),
                News::Disconnected => fate = fate.or(Some(Fate::Parted)),
                News::Failed(why) => fate = fate.or(Some(Fate::Failed(why))),
            }
        }
        let worked = match self.phase {
            Phase::Open | Phase::Accepting => self.work(events, fate.is_some()),
            _ => Ok(()),
        };
        match fate {
            // What came before the end has been taken in; how the rest of the
            // work ended is no news then.
            Some(fate) => self.end(fate, events),
            None => worked,
        }
    }

    fn end(&mut self, fate: Fate, events: &mut Vec<Event>) -> Result<()> {
        match fate {
            Fate::Parted => {
                events.push(Event::Disconnected);
                self.die(Error::Closed);
                Ok(())
            }
            Fate::Refused(private) => {
                events.push(Event::Rejected(private));
                self.die(Error::Refused(format!("{} says no", self.between.peer)));
                Ok(())
            }
            Fate::Failed(why) => Err(why),
        }
    }

    /// The queues are there: post what was asked for before, and go on.
    fn adopt(&mut self, queues: Box<Queues>, between: Between) -> Result<()> {
        self.mailbox.watch(queues.fd())?;
        let budget = queues.device().context().budget();
        self.queues = Some(queues);
        self.between = between;
        let early = std::mem::take(&mut self.early);
        if self.post(early)? < early {
            return Err(budget.exhausted());
        }
        if self.phase == Phase::Dialing {
            control::submit(Job::Connect(self.token));
        }
        Ok(())
    }

    fn stand(&mut self, private: PrivateData, events: &mut Vec<Event>) {
        if matches!(self.phase, Phase::Dialing | Phase::Accepting) {
            self.phase = Phase::Open;
            events.push(Event::Established(private));
        }
    }

    /// Take in completions. `ending`: errors among them are no news.
    fn work(&mut self, events: &mut Vec<Event>, ending: bool) -> Result<()> {
        let wants_sends = self.wants_sends();
        let Some(queues) = &mut self.queues else {
            return Ok(());
        };
        let polled = queues.poll(&mut self.told, self.gaze, wants_sends);
        let mut told = std::mem::take(&mut self.told);
        self.blocked = false;
        if !told.received.is_empty() {
            // Data before the last handshake message: the connection stands.
            self.stand(PrivateData::default(), events);
        }
        events.extend(told.received.drain(..).map(Event::Received));
        // The next turn has its room.
        self.told.received = told.received;
        if told.sent > 0 {
            events.push(Event::Sent(told.sent));
        }
        events.extend(told.reads.into_iter().map(Event::ReadDone));
        // Kept: `probe` asks for it when nobody says why.
        self.told.flushed |= told.flushed;
        if ending {
            return Ok(());
        }
        polled?;
        if let Some((status, vendor)) = told.failure {
            return Err(self.explain(status, vendor));
        }
        self.part_if_done();
        Ok(())
    }

    fn explain(&self, status: u32, vendor: u32) -> Error {
        let mtu = self.attributes().map_or(0, |attributes| attributes.mtu);
        explain::completion((status, vendor), &self.between, mtu, self.port_is_down())
    }

    fn port_is_down(&self) -> bool {
        let port = self.between.port;
        let queues = self.queues.as_ref();
        queues.is_some_and(|queues| queues.device().context().port_is_down(port))
    }

    fn sends_out(&self) -> u16 {
        self.queues.as_ref().map_or(0, |queues| queues.sends_out())
    }

    /// Whether the descriptor must tell of finished sends: somebody may wait
    /// for one. While less than half the queue is in use, and no READ is, nobody does.
    fn wants_sends(&self) -> bool {
        let reads = self.queues.as_ref().is_some_and(|q| q.reads_out() > 0);
        reads || self.parting || self.blocked || self.sends_out() > self.options.send_depth / 2
    }

    pub(super) fn part_if_done(&mut self) {
        if self.parting && self.sends_out() == 0 {
            self.parting = false;
            control::submit(Job::Disconnect(self.token));
        }
    }

    /// Look for finished sends outside of `poll`. What else shows is `poll`'s to tell.
    pub(super) fn reap(&mut self) -> Result<()> {
        let arm = self.gaze == Gaze::Asleep && self.wants_sends();
        let Some(queues) = &mut self.queues else {
            return Ok(());
        };
        queues.reap(&mut self.told, arm)?;
        if !self.told.reads.is_empty() || self.told.failure.is_some() {
            self.mailbox.poke();
        }
        Ok(())
    }

    /// Hand what was posted to the device.
    pub(super) fn hand_over(&mut self) -> Result<()> {
        if let (Phase::Open, Some(queues)) = (&self.phase, &mut self.queues) {
            queues.flush()?;
            self.reap()?;
        }
        Ok(())
    }

    pub(super) fn find_slot(&mut self) -> Result<Option<Free>> {
        if !self.standing()?.has_room() {
            // What is held completes only after it was handed over.
            self.blocked = true;
            self.hand_over()?;
        }
        let queues = self.standing()?;
        if !queues.has_room() {
            return Ok(None);
        }
        let slot = queues.take_slot()?;
        self.blocked = slot.is_none();
        if slot.is_none() {
            self.wait_for_memory();
        }
        Ok(slot)
    }

    /// Post up to `n` receives. Without even one, the connection could not go on.
    pub(super) fn post(&mut self, n: u16) -> Result<u16> {
        let Some(queues) = &mut self.queues else {
            return Ok(0);
        };
        let posted = queues.post_recvs(n)?;
        if posted < n && queues.is_short() {
            self.wait_for_memory();
        }
        Ok(posted)
    }

    /// Memory is capped: look again in a while.
    fn wait_for_memory(&self) {
        control::submit(Job::Starved(std::sync::Arc::downgrade(&self.mailbox)));
    }

    pub(super) fn answer(&mut self, private: &[u8], phase: Phase) -> Result<()> {
        self.alive()?;
        fits(private)?;
        if self.phase != Phase::Requested {
            return Err(Error::Misuse("an answer without a request"));
        }
        self.phase = phase;
        Ok(())
    }

    /// The time is `now`: is anything stuck?
    pub(super) fn look_after(&mut self, now: Instant) -> Result<Duration> {
        self.reap()?;
        if let Some(queues) = &mut self.queues {
            queues.sweep(&mut self.told)?;
        }
        if self.told.sent > 0 || !self.told.received.is_empty() {
            self.mailbox.poke();
        }
        if self.told.flushed {
            let since = *self.flushed_since.get_or_insert(now);
            if now.duration_since(since) >= FLUSH_GRACE {
                return Err(Error::Reset("the device gave up without a reason".into()));
            }
        }
        let oldest = self.queues.as_ref().and_then(|queues| queues.oldest());
        self.oldest = match (oldest, self.oldest) {
            (Some(now_oldest), Some((seen, since))) if now_oldest == seen => Some((seen, since)),
            (Some(now_oldest), _) => Some((now_oldest, now)),
            (None, _) => None,
        };
        // It is seen under way, and looked for, a tick late: half and half.
        let limit = self.options.dead_after / 2;
        let gone = self.oldest.map(|(_, since)| now.duration_since(since));
        let left = limit.checked_sub(gone.unwrap_or_default());
        let left = left.filter(|left| !left.is_zero());
        let acknowledged = self.acknowledged(now);
        let left = left.ok_or_else(|| explain::silence(&self.between, self.port_is_down()));
        Ok(left?.min(acknowledged?))
    }

    /// The same of siw's TCP: it tells of a send as complete that nobody acknowledges.
    fn acknowledged(&mut self, now: Instant) -> Result<Duration> {
        // Likewise: what owes it may have been sent a tick after the last one came.
        let limit = self.options.dead_after / 2;
        let Some(interface) = self.siw_interface() else {
            return Ok(limit);
        };
        match diag::acks(self.between.local, self.between.peer, interface) {
            Some(acks) => self.silence.left(limit, &acks, now).ok_or(Error::TimedOut),
            None => Ok(limit),
        }
    }

    fn siw_interface(&self) -> Option<u32> {
        let queues = self.queues.as_ref().filter(|_| self.phase == Phase::Open)?;
        queues.device().context().siw_interface()
    }
}
