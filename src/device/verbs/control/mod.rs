// SPDX-License-Identifier: MPL-2.0
//! The control thread: everything about verbs that may wait. It owns the CM's
//! event channel, all ids (and with them the queue pairs) and the devices; it
//! is told what to do by jobs, and tells endpoints and listeners by mailbox
//! and door. It starts with the first use and lives as long as the process.

mod calls;
mod conn;
mod events;
mod job;
mod listen;

use std::collections::HashMap;
use std::ffi::c_int;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use rdma_sys as c;

use super::cm::{Channel, CmEvent, Id, Token};
use super::device::{self, Context, Device};
use super::mailbox::{Mailbox, News};
use super::sys::{self, Watch};
use crate::error::Result;
use conn::Conn;
use events::{next_async_event, Subject, COMM_EST, CQ_ERR, DEVICE_FATAL, PORT_ACTIVE, PORT_ERR};
use job::Inbox;
pub(super) use job::{new_token, retire, start, submit, usable, Dial, Job};
pub(super) use listen::{Door, Listen};

const KEY_JOBS: u64 = 0;
const KEY_CM: u64 = 1;
/// Keys from here on: a device's descriptor.
const KEY_DEVICES: u64 = 1 << 32;

/// An endpoint that met the memory cap looks again after this.
const STARVED: Duration = Duration::from_millis(10);

/// What the control thread knows.
struct Control {
    // Field order is drop order: ids before the channel.
    conns: HashMap<Token, Conn>,
    listeners: HashMap<Token, listen::Listening>,
    devices: Vec<Arc<Device>>,
    starved: Vec<(Instant, Weak<Mailbox>)>,
    /// When a dial is given up.
    deadlines: Vec<(Instant, Token)>,
    channel: Channel,
    watch: Watch,
    inbox: Arc<Inbox>,
}

/// Handed to the thread as it starts.
static START: Mutex<Option<Control>> = Mutex::new(None);

impl Control {
    fn new(inbox: Arc<Inbox>) -> Result<Control> {
        // Before any registration.
        device::prepare_for_forks();
        let (channel, watch) = (Channel::new()?, Watch::new()?);
        watch.add(inbox.bell().fd(), KEY_JOBS)?;
        watch.add(channel.fd(), KEY_CM)?;
        Ok(Control {
            conns: HashMap::new(),
            listeners: HashMap::new(),
            devices: Vec::new(),
            starved: Vec::new(),
            deadlines: Vec::new(),
            channel,
            watch,
            inbox,
        })
    }

    /// Start the thread.
    fn launch(self) -> Result<()> {
        *START.lock().unwrap_or_else(|e| e.into_inner()) = Some(self);
        crate::os::spawn("zmq-rdma-cm", || {
            let start = START.lock().unwrap_or_else(|e| e.into_inner()).take();
            if let Some(mut control) = start {
                control.run();
            }
        })
    }

    fn run(&mut self) {
        loop {
            let keys = self.watch.wait(self.timeout());
            for key in keys {
                self.serve(key);
            }
            contained(|| self.on_time(Instant::now()));
        }
    }

    fn serve(&mut self, key: u64) {
        match key {
            KEY_JOBS => {
                for job in self.inbox.take() {
                    contained(|| self.on_job(job));
                }
            }
            KEY_CM => {
                while let Some(event) = self.channel.next() {
                    contained(|| self.on_cm_event(event));
                }
            }
            device => contained(|| self.on_device_events(device - KEY_DEVICES)),
        }
    }

    fn on_job(&mut self, job: Job) {
        match job {
            Job::Listen(listen) => self.listen(listen),
            Job::Unlisten(token) => drop(self.listeners.remove(&token)),
            Job::Dial(dial) => self.dial(dial),
            Job::Connect(token) => self.connect(token),
            Job::Asked(token, id, asked) => self.on_asked(token, id, asked),
            Job::Accept(token, private) => self.accept(token, &private),
            Job::Reject(token, private) => self.reject(token, &private),
            Job::Disconnect(token) => self.disconnect(token),
            Job::Drop(token, queues) => self.destroy(token, queues),
            Job::Starved(mailbox) => self.starved.push((Instant::now() + STARVED, mailbox)),
            // One that cannot be watched is used by nobody either.
            Job::Seen(id) => drop(self.device_of(&id)),
            Job::Retire(keeper) => keeper.dismiss(),
        }
    }

    fn on_cm_event(&mut self, event: CmEvent) {
        match event.kind {
            c::rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST => self.on_request(event),
            c::rdma_cm_event_type::RDMA_CM_EVENT_DEVICE_REMOVAL => self.on_removal(&event),
            _ => self.on_conn_event(event),
        }
    }

    /// The device that `id` is bound to, opened at first sight.
    fn device_of(&mut self, id: &Id) -> Result<Arc<Device>> {
        let verbs = id.verbs();
        let known = self
            .devices
            .iter()
            .find(|device| Some(device.context().verbs()) == verbs);
        if let Some(device) = known {
            return Ok(Arc::clone(device));
        }
        let keeper = Id::new(&self.channel, new_token())?;
        let local = id.local_addr().map(|mut local| {
            local.set_port(0);
            local
        });
        keeper.bind(local.ok_or(crate::error::Error::Misuse("an id without an address"))?)?;
        let device = Device::new(Context::open(keeper)?);
        let fd = device.context().async_fd();
        sys::set_nonblocking(fd)?;
        self.watch.add(fd, KEY_DEVICES + fd as u64)?;
        self.devices.push(Arc::clone(&device));
        Ok(device)
    }

    fn on_device_events(&mut self, fd: u64) {
        let found = self
            .devices
            .iter()
            .find(|device| device.context().async_fd() as u64 == fd)
            .map(|device| Arc::clone(device.context()));
        let Some(context) = found else { return };
        while let Some((kind, subject)) = next_async_event(&context) {
            match (kind, subject) {
                (DEVICE_FATAL, _) => self.device_gone(&context),
                (PORT_ERR | PORT_ACTIVE, Subject::Port(port)) => {
                    context.note_port(port, kind == PORT_ERR);
                }
                (COMM_EST, Subject::Qp(qp)) => {
                    let mut ids = self.conns.values().filter_map(Conn::id);
                    if let Some(id) = ids.find(|id| id.qp() == qp) {
                        id.notify_established();
                    }
                }
                (CQ_ERR, Subject::Cq(cq)) => self.completions_lost(cq),
                // What else happens to a queue pair shows in its completions.
                _ => {}
            }
        }
    }

    /// Nothing will be heard of what is posted to that queue's connection.
    fn completions_lost(&self, cq: *mut c::ibv_cq) {
        let mut conns = self.conns.values();
        if let Some(conn) = conns.find(|conn| conn.id().is_some_and(|id| id.completes_to(cq))) {
            conn.tell(News::Failed(crate::error::Error::Reset(
                "the RDMA device has lost completions".into(),
            )));
        }
    }

    fn on_removal(&mut self, event: &CmEvent) {
        let found = self
            .devices
            .iter()
            .find(|device| Some(device.context().verbs()) == event.verbs)
            .map(|device| Arc::clone(device.context()));
        if let Some(context) = found {
            self.device_gone(&context);
        }
        if let Some(conn) = self.conns.get(&event.token) {
            conn.tell(News::Failed(crate::error::Error::Reset(
                "the RDMA device is gone".into(),
            )));
        }
        self.listener_lost(event.token);
    }

    /// Every connection on the device ends now; what hangs on the device goes
    /// as the endpoints do, and the context last.
    fn device_gone(&mut self, context: &Arc<Context>) {
        context.set_gone();
        self.watch.remove(context.async_fd());
        for conn in self.conns.values() {
            if conn.is_on(context) {
                conn.tell(News::Failed(context.removed()));
            }
        }
        self.devices
            .retain(|device| !Arc::ptr_eq(device.context(), context));
    }

    fn timeout(&self) -> c_int {
        let starved = self.starved.iter().map(|(due, _)| *due);
        let lost = self.listeners.values().filter_map(|l| l.due());
        let deadlines = self.deadlines.iter().map(|(due, _)| *due);
        match starved.chain(lost).chain(deadlines).min() {
            Some(due) => {
                let ms = due.saturating_duration_since(Instant::now()).as_millis();
                c_int::try_from(ms + 1).unwrap_or(c_int::MAX)
            }
            None => -1,
        }
    }

    fn on_time(&mut self, now: Instant) {
        self.starved.retain(|(due, mailbox)| {
            let hungry = *due > now;
            if !hungry {
                if let Some(mailbox) = mailbox.upgrade() {
                    mailbox.poke();
                }
            }
            hungry
        });
        self.give_up(now);
        self.listen_again(now);
    }
}

/// A defect that shows in one connection must not end the others, nor take the jobs with it that
/// wait behind: queues that are dropped before their queue pair leave their slots to the device.
fn contained(body: impl FnOnce()) {
    // The panic hook has told of it.
    let _ = catch_unwind(AssertUnwindSafe(body));
}
