// SPDX-License-Identifier: MPL-2.0
//! The verbs device: rdma-core through rdma-sys, for InfiniBand, RoCE and
//! iWARP, hardware or the kernel's rxe and siw. One C object a file:
//!
//! - `control` (a thread): ids and events of the CM (`cm`), devices (`device`)
//! - `endpoint` (the caller's I/O thread): a connection's `queues`, made of a
//!   queue pair (`qp`) and completion queues (`cq`)
//! - `mr`: registered memory, drawn from one budget (`memlock`)
//! - between the two threads: jobs one way, a `mailbox` or a door the other
//!
//! An address or a peer that has no RDMA device is an error here; whether to
//! fall back on the soft device is decided above, by [`available`].
#![allow(unsafe_code)]

mod addr;
mod cm;
mod control;
mod cq;
mod device;
mod diag;
mod endpoint;
mod explain;
mod listen;
mod mailbox;
mod memlock;
mod mr;
mod names;
mod news;
mod qp;
mod queues;
mod quirk;
mod route;
mod sys;

use std::net::SocketAddr;

pub use endpoint::{Endpoint, READS_PAY_FROM};
pub use memlock::{fit, SLOT};
pub use names::interface_of;
pub(super) use names::iwarp_interfaces;
pub(super) use news::News;
pub use qp::Attributes;
pub use route::{address_of, any_device, available};
pub(super) use route::{has_address, interfaces, serves};
pub(super) use sys::Watch;

use crate::device::{Listener, Options};
use crate::error::{AddressFault, Error, Result};

/// Listen at `addr` with the RDMA CM. Waits for the control thread to have
/// bound it, which takes a few system calls.
pub fn listen(mut addr: SocketAddr, options: &Options) -> Result<Box<dyn Listener>> {
    start().map_err(|_| Error::Address(AddressFault::NoDevice))?;
    if let (Some(interface), true) = (&options.interface, addr.ip().is_unspecified()) {
        let ip = address_of(interface, addr).ok_or(Error::Address(AddressFault::NoDevice))?;
        addr.set_ip(ip);
    }
    Ok(Box::new(listen::Listener::open(addr, options)?))
}

/// Start to connect to `to`, from `source` if given, with `private` data in the request.
pub fn dial(
    to: SocketAddr,
    source: Option<SocketAddr>,
    private: &[u8],
    options: &Options,
) -> Result<Box<dyn crate::device::Endpoint>> {
    Ok(Box::new(open(to, source, private, options)?))
}

/// As [`dial`], for who needs to know that it is verbs.
pub fn open(
    to: SocketAddr,
    mut source: Option<SocketAddr>,
    private: &[u8],
    options: &Options,
) -> Result<Endpoint> {
    start()?;
    if let (Some(interface), None) = (&options.interface, source) {
        let ip = address_of(interface, to).ok_or(Error::Address(AddressFault::NoDevice))?;
        source = Some(SocketAddr::new(ip, 0));
    }
    Endpoint::dial(to, source, private, options)
}

fn start() -> Result<()> {
    if !any_device() {
        return Err(Error::Unreachable(
            "this machine has no RDMA device that this process may use \
             (see rdma link, and /dev/infiniband/rdma_cm)"
                .into(),
        ));
    }
    control::start()
}

/// Books that tests check.
pub mod books {
    use std::sync::atomic::Ordering;

    use super::{cq, memlock, queues};

    /// Completion events taken, and acknowledged, in this process. Equal when
    /// every connection is destroyed.
    pub fn events() -> (u64, u64) {
        let taken = cq::EVENTS.load(Ordering::Relaxed);
        (taken, cq::ACKS.load(Ordering::Relaxed))
    }

    /// Completions that only a sweep found: see `queues::RESCUES`.
    pub fn rescues() -> u64 {
        queues::RESCUES.load(Ordering::Relaxed)
    }

    /// Completions that were of no work request under way.
    pub fn stale() -> u64 {
        queues::STALE.load(Ordering::Relaxed)
    }

    /// Bytes pinned by this process.
    pub fn pinned() -> usize {
        memlock::pinned()
    }
}
