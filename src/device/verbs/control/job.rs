// SPDX-License-Identifier: MPL-2.0
//! What the control thread is asked to do, and the inbox where it is asked.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::super::cm::{Id, Token};
use super::super::device::Keeper;
use super::super::mailbox::Mailbox;
use super::super::queues::Queues;
use super::{Control, Listen};
use crate::device::Options;
use crate::error::{Error, Result};
use crate::os::bell::Handover;
use crate::os::{self, PerProcess};

/// A request to the control thread.
pub(in super::super) enum Job {
    Listen(Listen),
    Unlisten(Token),
    Dial(Dial),
    /// The way is found and receives are posted: ask the peer.
    Connect(Token),
    /// The peer was asked; here is the id again.
    Asked(Token, Id, Result<()>),
    Accept(Token, Vec<u8>),
    Reject(Token, Vec<u8>),
    Disconnect(Token),
    /// The endpoint is gone: destroy what it was.
    Drop(Token, Option<Box<Queues>>),
    /// Wake it in a while: it met the memory cap.
    Starved(Weak<Mailbox>),
    /// A device was opened by a look at it.
    Seen(Id),
    /// Nothing hangs on a device any more.
    Retire(Keeper),
}

/// A connection to be made.
pub(in super::super) struct Dial {
    pub(in super::super) token: Token,
    pub(in super::super) to: SocketAddr,
    pub(in super::super) from: Option<SocketAddr>,
    pub(in super::super) private: Vec<u8>,
    pub(in super::super) options: Options,
    pub(in super::super) mailbox: Arc<Mailbox>,
    /// Ports found taken so far.
    pub(in super::super) tries: u8,
}

/// Where jobs wait.
pub(super) type Inbox = Handover<Job>;

/// The control thread's inbox, while it runs.
static INBOX: PerProcess<Mutex<Option<Arc<Inbox>>>> = PerProcess::new();

/// Who uses verbs: a process's generation and one more; 0: nobody yet.
static USER: AtomicU32 = AtomicU32::new(0);

fn inbox() -> MutexGuard<'static, Option<Arc<Inbox>>> {
    INBOX.get().lock().unwrap_or_else(|e| e.into_inner())
}

/// The name of a new listener or connection; never 0, never given again.
pub(in super::super) fn new_token() -> Token {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Whether verbs may be used here: not in a forked child of a process that
/// used them, whose devices are its parent's.
pub(in super::super) fn usable() -> bool {
    let user = USER.load(Ordering::Relaxed);
    user == 0 || user == os::generation() + 1
}

/// Have the control thread run.
pub(in super::super) fn start() -> Result<()> {
    os::watch_fork();
    if !usable() {
        return Err(Error::Unreachable(
            "a forked child cannot use the RDMA devices its parent used; exec first".into(),
        ));
    }
    let mut inbox = inbox();
    if inbox.is_none() {
        USER.store(os::generation() + 1, Ordering::Relaxed);
        let fresh = Arc::new(Inbox::new()?);
        Control::new(Arc::clone(&fresh))?.launch()?;
        *inbox = Some(fresh);
    }
    Ok(())
}

/// Ask the control thread. In a forked child, which has none, the job and what
/// it holds are left alone: they are the parent's.
pub(in super::super) fn submit(job: Job) {
    if !usable() {
        return std::mem::forget(job);
    }
    let inbox = inbox().clone();
    match inbox {
        Some(inbox) => inbox.put(job),
        None => std::mem::forget(job),
    }
}

/// Let go of a device, where that may take its time.
pub(in super::super) fn retire(keeper: Keeper) {
    submit(Job::Retire(keeper));
}
