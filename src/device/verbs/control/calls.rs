// SPDX-License-Identifier: MPL-2.0
//! Calls that may wait for the network: made on threads of their own, a
//! bounded number of them, which end when there is nothing left to do. The
//! control thread must not wait, for a host that does not answer would hold up
//! every other connection for minutes.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

use super::super::cm::{Id, Token};
use super::job::{submit, Job};
use crate::error::{Error, Result};

/// Threads at once at most; further calls wait their turn.
const THREADS: usize = 32;

/// An `rdma_connect` to be made.
pub(super) struct Call {
    pub(super) token: Token,
    pub(super) id: Id,
    pub(super) private: Vec<u8>,
    pub(super) reads_in: u8,
    pub(super) reads_out: u8,
}

impl Call {
    /// Make it here; gives the id back.
    pub(super) fn make(self) -> (Id, Result<()>) {
        let asked = self
            .id
            .connect(&self.private, self.reads_in, self.reads_out);
        (self.id, asked)
    }
}

struct Calls {
    waiting: VecDeque<Call>,
    threads: usize,
}

fn calls() -> MutexGuard<'static, Calls> {
    static CALLS: Mutex<Calls> = Mutex::new(Calls {
        waiting: VecDeque::new(),
        threads: 0,
    });
    CALLS.lock().unwrap_or_else(|e| e.into_inner())
}

/// Make it elsewhere; its end is told as `Job::Asked`.
pub(super) fn make_aside(call: Call) {
    let mut all = calls();
    all.waiting.push_back(call);
    if all.threads >= THREADS {
        return;
    }
    all.threads += 1;
    drop(all);
    if let Err(why) = crate::os::spawn("zmq-rdma-call", work) {
        calls().threads -= 1;
        give_up(why);
    }
}

fn work() {
    loop {
        let mut all = calls();
        let Some(call) = all.waiting.pop_front() else {
            all.threads -= 1;
            return;
        };
        drop(all);
        let token = call.token;
        let (id, asked) = call.make();
        submit(Job::Asked(token, id, asked));
    }
}

/// No thread could be started: unless others are at work, nobody will make the calls.
fn give_up(why: Error) {
    let mut all = calls();
    if all.threads == 0 {
        for call in all.waiting.drain(..) {
            submit(Job::Asked(call.token, call.id, Err(why.clone())));
        }
    }
}
