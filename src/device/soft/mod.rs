// SPDX-License-Identifier: MPL-2.0
//! The soft device: iWARP (MPA, DDP, RDMAP; RFC 5044, 6581, 5041, 5040) over a
//! TCP socket that the caller's thread drives. No thread of its own, no
//! privilege, no hardware; the kernel's siw can be at the other end.
//!
//! One connection, outbound: `endpoint` -> `open` -> `outbound` (messages to segments to FPDUs) ->
//! `tcp` (one gathered write). Inbound: `open` -> `tcp` -> `inbound` (a chunk, FPDUs in place) -> `place`
//! (each segment to where it belongs) -> events. `rdma` is where the two meet for
//! READ and WRITE, `stag` what the peer may touch, `setup` the way to a connection (`redial` a second one), `probe` the
//! watch over a silent peer, `memory` what all connections share.

mod endpoint;
mod fpdu;
mod inbound;
mod listen;
mod memory;
mod open;
mod outbound;
mod place;

mod rdma;
mod redial;
mod setup;
mod stag;
mod tcp;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use super::Options;
use crate::error::{Error, Result};

pub use endpoint::Endpoint;
pub use listen::Listener;
pub use memory::{held, CHUNK, RECV_CAP, SEND_CAP};

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
    let dialed = match Endpoint::dial(to, source, private, options) {
        // A kernel without IPv6; the address may be an IPv4 one in its clothes.
        Err(Error::Device { code, .. }) if code == libc::EAFNOSUPPORT && plain(to) != to => {
            Endpoint::dial(plain(to), source.map(plain), private, options)
        }
        dialed => dialed,
    };
    Ok(Box::new(dialed?))
}

/// The IPv4 address that an IPv6 one stands for, if it does.
fn plain(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}
