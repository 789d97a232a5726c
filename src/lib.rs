// SPDX-License-Identifier: MPL-2.0
//! RDMA as a transport of ZeroMQ: the map of the house.
//!
//! ```text
//!   libzmq                      calls go DOWN, results return as values;
//! 6 glue    C++ inside libzmq   the only thing that speaks UP is one
//!   ------- include/zmq_rdma.h  readiness fd a connection. No callback
//! 5 abi     C doors, guards     into the host but the log line.
//! 4 stream  bytes over a link
//! 3 device  verbs | soft        (siblings that have never met)
//! 2 proto   machines, no I/O
//! 1 wire    bytes <-> values
//! ```
//!
//! Follow one message outbound: `glue/rdma_engine.cpp` -> `abi::ops` ->
//! `stream::link` -> `proto::flow` (how much may go) -> a slot of
//! `device::region` -> `device::soft::endpoint` -> `proto::{rdmap, ddp, mpa}`
//! -> one `sendmsg`. See docs/design.md for the reasons.

// What needs a system that src/os knows is left out elsewhere; wire and proto need none.
#[cfg(unix)]
pub mod abi;
#[cfg(unix)]
pub mod device;
pub mod error;
#[cfg(unix)]
pub mod os;
pub mod proto;
#[cfg(unix)]
pub mod stream;
pub mod wire;

#[cfg(not(any(unix, feature = "machines-only")))]
compile_error!(
    "zmq-rdma: there is no device for this system yet, so no transport; its wire formats and \
     machines alone build with `--features machines-only`"
);
#[cfg(all(feature = "verbs", not(target_os = "linux")))]
compile_error!("zmq-rdma: the verbs device is of Linux; configure --without-rdma-verbs");
