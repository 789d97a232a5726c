// SPDX-License-Identifier: MPL-2.0
//! The soft device: iWARP (MPA, DDP, RDMAP; RFC 5044, 6581, 5041, 5040) over a
//! TCP socket that the caller's thread drives. No thread of its own, no
//! privilege, no hardware; the kernel's siw can be at the other end.
//!
//! One connection, outbound: `endpoint` -> `open` -> `outbound` (messages to segments to FPDUs) ->
//! `tcp` (one gathered write). Inbound: `open` -> `tcp` -> `inbound` (a chunk, FPDUs in place) -> `place`
//! (each segment to where it belongs) -> events. `rdma` is where the two meet for
//! READ and WRITE, `stag` what the peer may touch, `setup` the way to a connection, `probe` the
//! watch over a silent peer, `memory` what all connections share.

mod endpoint;
mod inbound;
mod listen;
mod memory;
mod open;
mod outbound;
mod place;
mod probe;
mod rdma;
mod setup;
mod stag;
mod tcp;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use super::Options;
use crate::error::Result;

pub use endpoint::Endpoint;
pub use listen::Listener;
pub use memory::{CHUNK, RECV_CAP, SEND_CAP};

/// Listen at `addr` (port 0: any).
pub fn listen(addr: SocketAddr, options: &Options) -> Result<Box<dyn super::Listener>> {
    Ok(Box::new(Listener::new(addr, options)?))
}

/// Begin to connect to `to`, from `source` if given, with `private` data in the request.
pub fn dial(
    to: SocketAddr,
    source: Option<SocketAddr>,
    private: &[u8],
    options: &Options,
) -> Result<Box<dyn super::Endpoint>> {
    Ok(Box::new(Endpoint::dial(to, source, private, options)?))
}
