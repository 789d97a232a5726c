// SPDX-License-Identifier: MPL-2.0
//! Socket addresses as the RDMA CM takes them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::os::addr::to_raw;

/// A `struct sockaddr` of ours, to be passed by pointer.
pub(super) struct Raw(libc::sockaddr_storage);

impl Raw {
    pub(super) fn new(addr: SocketAddr) -> Raw {
        Raw(to_raw(&addr).0)
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        std::ptr::addr_of_mut!(self.0).cast()
    }
}

/// What stands for "no address yet" towards a peer of this family.
pub(super) fn unspecified(like: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match like {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, 0)
}
