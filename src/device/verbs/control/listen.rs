// SPDX-License-Identifier: MPL-2.0
//! Listening, as the control thread does it: binds, turns requests into
//! endpoints that wait at the listener's door, and binds anew when the device
//! of a listener went and came back.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::super::addr;
use super::super::cm::{CmEvent, Id, Token};
use super::super::endpoint::Endpoint;
use super::super::explain;
use super::super::mailbox::{Mailbox, News};
use super::super::queues::Queues;
use super::super::route::is_ours;
use super::conn::{between, Conn};
use super::{new_token, Control};
use crate::device::{Options, PrivateData};
use crate::error::{Error, Result};
use crate::os::bell::Bell;

/// A listener whose device went looks for it this often.
const AGAIN: Duration = Duration::from_millis(500);

/// Ports tried at most, where one may be chosen.
const PORTS: usize = 16;

/// Where new connections wait for the listener.
pub(in super::super) struct Door {
    bell: Bell,
    waiting: Mutex<VecDeque<Result<Box<Endpoint>>>>,
}

impl Door {
    pub(in super::super) fn new() -> Result<Door> {
        Ok(Door {
            bell: Bell::new()?,
            waiting: Mutex::new(VecDeque::new()),
        })
    }

    /// Readable while somebody waits.
    pub(in super::super) fn fd(&self) -> RawFd {
        self.bell.fd()
    }

    /// The next who waits.
    pub(in super::super) fn admit(&self) -> Result<Box<Endpoint>> {
        let mut waiting = self.lock();
        let next = waiting.pop_front();
        if waiting.is_empty() {
            self.bell.silence();
        }
        next.unwrap_or(Err(Error::Again))
    }

    fn put(&self, one: Result<Box<Endpoint>>) {
        let mut waiting = self.lock();
        waiting.push_back(one);
        self.bell.ring();
    }

    /// No more may wait; one always may, as at a TCP listener.
    fn is_full(&self, backlog: u32) -> bool {
        self.lock().len() >= backlog.max(1) as usize
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Result<Box<Endpoint>>>> {
        self.waiting.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// A listener to be.
pub(in super::super) struct Listen {
    pub(in super::super) token: Token,
    pub(in super::super) addr: SocketAddr,
    pub(in super::super) options: Options,
    pub(in super::super) door: Arc<Door>,
    pub(in super::super) reply: SyncSender<Result<SocketAddr>>,
}

/// A listener.
pub(super) struct Listening {
    /// `None`: its device is gone; look again then.
    id: Option<Id>,
    again: Option<Instant>,
    addr: SocketAddr,
    options: Options,
    door: Arc<Door>,
}

impl Listening {
    /// When something is to be done for it.
    pub(super) fn due(&self) -> Option<Instant> {
        self.again
    }
}

/// Of one that overlaps with another's, a wildcard beside an address of the machine's, the
/// kernel says that it is not available: not that it is in use.
fn in_use(addr: SocketAddr, why: Error) -> Error {
    match why {
        Error::Device { op, code } if code == libc::EADDRNOTAVAIL && is_ours(addr.ip()) => {
            Error::Device {
                op,
                code: libc::EADDRINUSE,
            }
        }
        other => other,
    }
}

impl Control {
    pub(super) fn listen(&mut self, listen: Listen) {
        let opened = self.open_listener(listen.token, listen.addr, &listen.options);
        let reply = opened.map(|(id, addr)| {
            let listening = Listening {
                id: Some(id),
                again: None,
                addr,
                options: listen.options,
                door: listen.door,
            };
            self.listeners.insert(listen.token, listening);
            addr
        });
        // Whoever asked waits for it; if not, the listener is dropped next.
        let _ = listen.reply.send(reply.map_err(explain::address));
    }

    /// Listen. Where a port may be chosen, one that TCP has taken already (siw
    /// needs it too) is no reason to fail: there are others.
    fn open_listener(
        &self,
        token: Token,
        addr: SocketAddr,
        options: &Options,
    ) -> Result<(Id, SocketAddr)> {
        let mut opened = self.open_listener_once(token, addr, options);
        for _ in 0..PORTS {
            let taken =
                matches!(&opened, Err(Error::Device { code, .. }) if *code == libc::EADDRINUSE);
            if !taken || addr.port() != 0 {
                break;
            }
            opened = self.open_listener_once(token, addr, options);
        }
        opened
    }

    fn open_listener_once(
        &self,
        token: Token,
        addr: SocketAddr,
        options: &Options,
    ) -> Result<(Id, SocketAddr)> {
        let id = Id::new(&self.channel, token)?;
        id.set_reuse();
        id.set_tos(options.tos);
        if addr.is_ipv6() {
            id.set_ipv6_only(!options.dual_stack);
        }
        id.bind(addr)
            .and_then(|()| id.listen(options.backlog.try_into().unwrap_or(i32::MAX)))
            .map_err(|why| in_use(addr, why))?;
        let bound = id.local_addr().unwrap_or(addr);
        Ok((id, addr::like(addr, bound)))
    }

    /// A peer asks to connect.
    pub(super) fn on_request(&mut self, event: CmEvent) {
        let Some(mut id) = event.incoming else { return };
        let Some(listening) = self.listeners.get(&event.token) else {
            return;
        };
        let (door, options) = (Arc::clone(&listening.door), listening.options.clone());
        if door.is_full(options.backlog) {
            let _ = id.reject(&[]);
            return;
        }
        let token = new_token();
        id.set_token(token);
        id.set_tos(options.tos);
        let like = listening.addr;
        door.put(self.admit(id, token, like, &options, event.private));
    }

    fn admit(
        &mut self,
        id: Id,
        token: Token,
        like: SocketAddr,
        options: &Options,
        private: Vec<u8>,
    ) -> Result<Box<Endpoint>> {
        let made = Mailbox::new().and_then(|mailbox| {
            let device = self.device_of(&id)?;
            let queues = Queues::new(&device, &id, options)?;
            Ok((Arc::new(mailbox), device, Box::new(queues)))
        });
        let (mailbox, device, queues) = made.inspect_err(|_| {
            let _ = id.reject(&[]);
        })?;
        let between = between(&id, &device, like);
        let peer = between.peer;
        let endpoint = Endpoint::incoming(token, Arc::clone(&mailbox), &between, options);
        mailbox.post(News::Ready(queues, between));
        mailbox.post(News::Request(PrivateData(private)));
        self.conns
            .insert(token, Conn::incoming(id, peer, mailbox, device));
        Ok(Box::new(endpoint))
    }

    /// The device beneath a listener is gone.
    pub(super) fn listener_lost(&mut self, token: Token) {
        if let Some(listening) = self.listeners.get_mut(&token) {
            listening.id = None;
            listening.again = Some(Instant::now() + AGAIN);
        }
    }

    /// Bind what was lost, where that is possible again.
    pub(super) fn listen_again(&mut self, now: Instant) {
        let due: Vec<Token> = self
            .listeners
            .iter()
            .filter(|(_, listening)| listening.again.is_some_and(|again| again <= now))
            .map(|(token, _)| *token)
            .collect();
        for token in due {
            let Some(mut listening) = self.listeners.remove(&token) else {
                continue;
            };
            match self.open_listener(token, listening.addr, &listening.options) {
                Ok((id, _)) => {
                    listening.id = Some(id);
                    listening.again = None;
                }
                Err(_) => listening.again = Some(now + AGAIN),
            }
            self.listeners.insert(token, listening);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_connection_may_wait_whatever_the_backlog() {
        let door = Door::new().unwrap();
        assert!(!door.is_full(0) && !door.is_full(1));
        door.put(Err(Error::Again));
        assert!(door.is_full(0) && door.is_full(1));
        assert!(!door.is_full(2) && !door.is_full(u32::MAX));
    }
}
