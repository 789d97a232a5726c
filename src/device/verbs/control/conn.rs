// SPDX-License-Identifier: MPL-2.0
//! A connection as the control thread sees it: the CM's side of its life. The
//! bytes are its endpoint's.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdma_sys::rdma_cm_event_type as cm;

use super::super::addr;
use super::super::cm::{CmEvent, Id, Token};
use super::super::device::{Context, Device, Transport};
use super::super::explain::{self, Between};
use super::super::mailbox::{Mailbox, News};
use super::super::qp;
use super::super::queues::Queues;
use super::super::route;
use super::super::sys;
use super::calls::{self, Call};
use super::{Control, Dial};
use crate::device::PrivateData;
use crate::error::{Error, Result};

/// The kernel's own patience in resolving an address (ARP, ND) or a route.
const RESOLVE: Duration = Duration::from_secs(4);

/// Ports tried at most.
const TRIES: u8 = 16;

/// A connection.
pub(super) struct Conn {
    /// `None` while `calls` has it.
    id: Option<Id>,
    mailbox: Arc<Mailbox>,
    peer: SocketAddr,
    device: Option<Arc<Device>>,
    /// Dialing: what to ask with.
    dial: Option<Dial>,
    /// The endpoint went while `calls` had the id: destroyed as that returns.
    doomed: Option<Option<Box<Queues>>>,
}

impl Conn {
    /// One that a peer asks for.
    pub(super) fn incoming(
        id: Id,
        peer: SocketAddr,
        mailbox: Arc<Mailbox>,
        device: Arc<Device>,
    ) -> Conn {
        Conn {
            peer,
            id: Some(id),
            mailbox,
            device: Some(device),
            dial: None,
            doomed: None,
        }
    }

    pub(super) fn id(&self) -> Option<&Id> {
        self.id.as_ref()
    }

    pub(super) fn is_on(&self, context: &Arc<Context>) -> bool {
        let device = self.device.as_ref();
        device.is_some_and(|device| Arc::ptr_eq(device.context(), context))
    }

    pub(super) fn tell(&self, news: News) {
        self.mailbox.post(news);
    }

    fn on_event(&self, event: CmEvent) {
        match event.kind {
            cm::RDMA_CM_EVENT_ESTABLISHED => {
                let local = self.id.as_ref().and_then(Id::local_addr);
                let local = local.map(|local| addr::like(self.peer, local));
                self.tell(News::Established(PrivateData(event.private), local));
            }
            cm::RDMA_CM_EVENT_DISCONNECTED => {
                // Answer, so that the peer need not wait; all that it sent is
                // in the completion queue by now.
                if let Some(id) = &self.id {
                    let _ = id.disconnect();
                }
                self.tell(News::Disconnected);
            }
            cm::RDMA_CM_EVENT_REJECTED if explain::is_peers_word(event.status, &event.private) => {
                self.tell(News::Rejected(PrivateData(event.private)));
            }
            cm::RDMA_CM_EVENT_REJECTED | cm::RDMA_CM_EVENT_UNREACHABLE => {
                self.unanswered(event.kind, event.status);
            }
            cm::RDMA_CM_EVENT_ADDR_ERROR
            | cm::RDMA_CM_EVENT_ROUTE_ERROR
            | cm::RDMA_CM_EVENT_CONNECT_ERROR => {
                let error = explain::unconnected(event.kind, event.status, self.peer);
                self.tell(News::Failed(error));
            }
            cm::RDMA_CM_EVENT_ADDR_CHANGE => {
                let text = format!("the hardware address on the way to {} changed", self.peer);
                self.tell(News::Failed(Error::Reset(text)));
            }
            _ => {}
        }
    }
}

impl Conn {
    /// Nobody there takes an RDMA connection.
    fn unanswered(&self, kind: cm::Type, status: i32) {
        route::note_averse(self.peer, Instant::now());
        self.tell(News::Failed(explain::unconnected(kind, status, self.peer)));
    }
}

/// Between whom a connection is, once its id is bound; for a side that speaks the family of `like`.
pub(super) fn between(id: &Id, device: &Device, like: SocketAddr) -> Between {
    let seen = |addr: Option<SocketAddr>| {
        addr.map_or(addr::unspecified(like), |addr| addr::like(like, addr))
    };
    Between {
        device: device.context().name().to_string(),
        local: seen(id.local_addr()),
        peer: seen(id.peer_addr()),
        gid: id.gid(),
        port: id.port(),
    }
}

impl Control {
    pub(super) fn dial(&mut self, dial: Dial) {
        let mailbox = Arc::clone(&dial.mailbox);
        if let Err(why) = self.start_dial(dial) {
            mailbox.post(News::Failed(why));
        }
    }

    fn start_dial(&mut self, dial: Dial) -> Result<()> {
        let id = self.resolve(&dial)?;
        let conn = Conn {
            id: Some(id),
            mailbox: Arc::clone(&dial.mailbox),
            peer: dial.to,
            device: None,
            dial: Some(dial),
            doomed: None,
        };
        if let Some(dial) = &conn.dial {
            self.conns.insert(dial.token, conn);
        }
        Ok(())
    }

    fn resolve(&self, dial: &Dial) -> Result<Id> {
        let id = Id::new(&self.channel, dial.token)?;
        id.set_tos(dial.options.tos);
        id.set_reuse();
        id.resolve_addr(dial.from, dial.to, RESOLVE)
            .map_err(|why| as_event(cm::RDMA_CM_EVENT_ADDR_ERROR, why, dial.to))?;
        Ok(id)
    }

    /// An event of a connection; those of one that is gone already are dropped.
    pub(super) fn on_conn_event(&mut self, event: CmEvent) {
        let token = event.token;
        let step = match event.kind {
            cm::RDMA_CM_EVENT_ADDR_RESOLVED => self.on_address(token),
            cm::RDMA_CM_EVENT_ROUTE_RESOLVED => self.on_route(token),
            _ => {
                if event.kind == cm::RDMA_CM_EVENT_ESTABLISHED {
                    self.on_established(token);
                }
                if let Some(conn) = self.conns.get(&token) {
                    conn.on_event(event);
                }
                return;
            }
        };
        self.tell_failure(token, step);
    }

    fn tell_failure(&self, token: Token, step: Result<()>) {
        if let (Err(why), Some(conn)) = (step, self.conns.get(&token)) {
            conn.tell(News::Failed(why));
        }
    }

    fn on_address(&mut self, token: Token) -> Result<()> {
        let Some(id) = self.id_of(token) else {
            return Ok(());
        };
        id.set_ack_timeout();
        id.resolve_route(RESOLVE)
    }

    fn on_route(&mut self, token: Token) -> Result<()> {
        let Some(mut conn) = self.conns.remove(&token) else {
            return Ok(());
        };
        let made = self.prepare(&mut conn);
        let answer = match made {
            Ok(Some((queues, between))) => {
                conn.tell(News::Ready(queues, between));
                Ok(())
            }
            Ok(None) => self.take_another_port(&mut conn),
            Err(why) => Err(why),
        };
        self.conns.insert(token, conn);
        answer
    }

    /// The RDMA CM numbers its ports apart from TCP; siw finds out when it
    /// connects that ours is taken there. Begin again: it will be another.
    fn take_another_port(&self, conn: &mut Conn) -> Result<()> {
        if let Some(dial) = &mut conn.dial {
            dial.tries += 1;
            conn.id = Some(self.resolve(dial)?);
        }
        Ok(())
    }

    /// `None`: its port will not do.
    fn prepare(&mut self, conn: &mut Conn) -> Result<Option<(Box<Queues>, Between)>> {
        let (Some(id), Some(dial)) = (&conn.id, &conn.dial) else {
            return Err(Error::Misuse("a route for a connection that is not dialed"));
        };
        let device = self.device_of(id)?;
        let between = between(id, &device, conn.peer);
        let may_choose = dial.from.is_none_or(|from| from.port() == 0) && dial.tries < TRIES;
        if device.context().transport() == Transport::Iwarp
            && may_choose
            && !sys::tcp_port_is_free(between.local)
        {
            return Ok(None);
        }
        let queues = Queues::new(&device, id, &dial.options)?;
        conn.device = Some(device);
        Ok(Some((Box::new(queues), between)))
    }

    /// Ask the peer. On iWARP that may mean to wait for TCP (siw connects
    /// within the call), so it is done aside.
    pub(super) fn connect(&mut self, token: Token) {
        let Some(conn) = self.conns.get_mut(&token) else {
            return;
        };
        let (Some(dial), Some(device)) = (conn.dial.take(), &conn.device) else {
            return;
        };
        let Some(id) = conn.id.take() else { return };
        let context = device.context();
        let limits = context.limits();
        let call = Call {
            token,
            id,
            private: dial.private,
            reads_in: limits.reads_in,
            reads_out: limits.reads_out,
        };
        if let Some(patience) = dial.options.patience {
            self.deadlines.push((Instant::now() + patience, token));
        }
        match context.transport() {
            Transport::Ib => {
                let (id, asked) = call.make();
                self.on_asked(token, id, asked);
            }
            Transport::Iwarp => calls::make_aside(call),
        }
    }

    /// The peer has been asked, or could not be.
    pub(super) fn on_asked(&mut self, token: Token, id: Id, asked: Result<()>) {
        let Some(conn) = self.conns.get_mut(&token) else {
            return;
        };
        conn.id = Some(id);
        if let Some(queues) = conn.doomed.take() {
            return self.destroy(token, queues);
        }
        let peer = conn.peer;
        let asked = asked.map_err(|why| as_event(cm::RDMA_CM_EVENT_CONNECT_ERROR, why, peer));
        self.tell_failure(token, asked);
    }

    fn id_of(&self, token: Token) -> Option<&Id> {
        self.conns.get(&token)?.id()
    }

    fn on_established(&mut self, token: Token) {
        self.deadlines.retain(|(_, other)| *other != token);
        if let Some(conn) = self.conns.get(&token) {
            set_min_rnr_timer(conn);
        }
    }

    /// Give up those who were not answered in time.
    pub(super) fn give_up(&mut self, now: Instant) {
        let Control {
            deadlines, conns, ..
        } = self;
        deadlines.retain(|(due, token)| {
            if *due <= now {
                if let Some(conn) = conns.get(token) {
                    conn.unanswered(cm::RDMA_CM_EVENT_UNREACHABLE, -libc::ETIMEDOUT);
                }
            }
            *due > now
        });
    }

    pub(super) fn accept(&mut self, token: Token, private: &[u8]) {
        let Some(id) = self.id_of(token) else { return };
        id.set_ack_timeout();
        let accepted = id.accept(private);
        self.tell_failure(token, accepted);
    }

    pub(super) fn reject(&mut self, token: Token, private: &[u8]) {
        let Some(conn) = self.conns.get(&token) else {
            return;
        };
        if let Some(id) = &conn.id {
            conn.tell(match id.reject(private) {
                Ok(()) => News::Disconnected,
                Err(why) => News::Failed(why),
            });
        }
    }

    pub(super) fn disconnect(&mut self, token: Token) {
        let Some(conn) = self.conns.get(&token) else {
            return;
        };
        // One that has never stood, or is down already, has nothing to part from.
        if conn.id.as_ref().is_none_or(|id| id.disconnect().is_err()) {
            conn.tell(News::Disconnected);
        }
    }

    /// The endpoint is gone.
    pub(super) fn destroy(&mut self, token: Token, queues: Option<Box<Queues>>) {
        // None: it failed before there was an id, or queues.
        let Some(mut conn) = self.conns.remove(&token) else {
            return;
        };
        let Some(id) = conn.id.take() else {
            conn.doomed = Some(queues);
            self.conns.insert(token, conn);
            return;
        };
        // Tell the peer now, rather than by a time-out of its own.
        let _ = id.disconnect();
        // The queue pair goes with the id; only then may slots and queues go,
        // which the mailbox may still hold.
        drop(id);
        drop(queues);
        drop(conn);
    }
}

fn set_min_rnr_timer(conn: &Conn) {
    let transport = conn.device.as_ref().map(|d| d.context().transport());
    if let (Some(Transport::Ib), Some(id)) = (transport, &conn.id) {
        // A device that cannot goes on with its default; credits make it moot.
        let _ = qp::set_min_rnr_timer(id);
    }
}

/// A call that failed at once, as the event that tells the same later.
fn as_event(kind: cm::Type, why: Error, peer: SocketAddr) -> Error {
    match why {
        Error::Device { code, .. } => explain::unconnected(kind, -code, peer),
        other => other,
    }
}
