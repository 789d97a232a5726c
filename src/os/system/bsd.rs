// SPDX-License-Identifier: MPL-2.0
//! What FreeBSD and macOS have in common, as heirs of BSD.

use std::io;
use std::net::{SocketAddrV4, SocketAddrV6};
use std::os::fd::RawFd;
use std::time::Duration;

use libc::c_int;

use super::Acks;

/// No flag: a stream socket refuses MSG_EOR there. What is written may share segments.
pub const fn whole_record() -> c_int {
    0
}

/// Not to be had.
pub fn bind_to_interface(_: RawFd, _: &str) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::ENOTSUP))
}

/// Not to be had.
pub fn set_priority(_: RawFd, _: c_int) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(libc::ENOTSUP))
}

/// The kernel does not tell what is unacknowledged: nothing, then, so that a peer that owes an
/// acknowledgement is given up when TCP itself does.
pub fn acks(_: RawFd) -> io::Result<Acks> {
    Ok(Acks {
        unacked: 0,
        probes: 0,
        last_ack: Duration::ZERO,
        oldest: Duration::ZERO,
    })
}

/// In C's form.
pub fn sockaddr_in(a: &SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_len: size_of::<libc::sockaddr_in>() as u8,
        sin_family: libc::AF_INET as _,
        sin_port: a.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(a.ip().octets()),
        },
        sin_zero: [0; 8],
    }
}

/// In C's form.
pub fn sockaddr_in6(a: &SocketAddrV6) -> libc::sockaddr_in6 {
    libc::sockaddr_in6 {
        sin6_len: size_of::<libc::sockaddr_in6>() as u8,
        sin6_family: libc::AF_INET6 as _,
        sin6_port: a.port().to_be(),
        sin6_flowinfo: a.flowinfo(),
        sin6_addr: libc::in6_addr {
            s6_addr: a.ip().octets(),
        },
        sin6_scope_id: a.scope_id(),
    }
}
