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
//! -> one `writev`. See docs/design.md for the reasons.

pub mod abi;
pub mod device;
pub mod error;
pub mod os;
pub mod proto;
pub mod stream;
pub mod wire;
