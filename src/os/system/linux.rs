// SPDX-License-Identifier: MPL-2.0
//! Linux.
#![allow(unsafe_code)]

use std::io;
use std::net::{SocketAddrV4, SocketAddrV6};
use std::os::fd::RawFd;
use std::time::Duration;

use libc::c_int;

pub use super::atomic_socket::{accept, open};
pub use super::eventfd::Bell;
pub use super::memfd::shared_words;
pub use super::random::fill_random;
use super::Acks;
use crate::os::{get_option, set_option, set_option_bytes, Plain};

/// The option that says after how many idle seconds TCP asks whether the peer is there.
pub const KEEP_IDLE: c_int = libc::TCP_KEEPIDLE;

/// For `sendmsg`: what is written later goes into other segments, where the system can do that.
pub const fn whole_record() -> c_int {
    libc::MSG_EOR
}

/// Send and receive by one network interface alone.
pub fn bind_to_interface(fd: RawFd, name: &str) -> io::Result<()> {
    set_option_bytes(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name.as_bytes())
}

/// The kernel's priority of what a socket sends.
pub fn set_priority(fd: RawFd, priority: c_int) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_PRIORITY, priority)
}

impl Plain for libc::tcp_info {}

/// What the kernel tells of the peer's acknowledgements.
pub fn acks(fd: RawFd) -> io::Result<Acks> {
    get_option(fd, libc::IPPROTO_TCP, libc::TCP_INFO).map(|info| Acks::of(&info))
}

impl Acks {
    /// As a `tcp_info` tells.
    pub fn of(i: &libc::tcp_info) -> Acks {
        // Each retransmission doubles the timeout, so k of them took
        // rto - rto/2^k together; the last was sent `last_data_sent` ago.
        let rto = u64::from(i.tcpi_rto);
        let waited = rto - (rto >> i.tcpi_backoff.min(63));
        Acks {
            unacked: i.tcpi_unacked,
            probes: u32::from(i.tcpi_probes),
            last_ack: Duration::from_millis(u64::from(i.tcpi_last_ack_recv)),
            oldest: Duration::from_micros(waited)
                + Duration::from_millis(u64::from(i.tcpi_last_data_sent)),
        }
    }
}

/// In C's form.
pub fn sockaddr_in(a: &SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
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
        sin6_family: libc::AF_INET6 as _,
        sin6_port: a.port().to_be(),
        sin6_flowinfo: a.flowinfo(),
        sin6_addr: libc::in6_addr {
            s6_addr: a.ip().octets(),
        },
        sin6_scope_id: a.scope_id(),
    }
}
