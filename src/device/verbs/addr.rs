// SPDX-License-Identifier: MPL-2.0
//! Socket addresses as the RDMA CM takes them. It does not know IPv4 addresses
//! in IPv6's clothes (`::ffff:10.0.0.1`), as a socket that speaks both has them:
//! they are taken off on the way down, and put on again on the way up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::os::addr::to_raw;

/// A `struct sockaddr` of ours, to be passed by pointer.
pub(super) struct Raw(libc::sockaddr_storage);

impl Raw {
    pub(super) fn new(addr: SocketAddr) -> Raw {
        Raw(to_raw(&plain(addr)).0)
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        std::ptr::addr_of_mut!(self.0).cast()
    }
}

fn plain(addr: SocketAddr) -> SocketAddr {
    match addr.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), addr.port()),
        IpAddr::V6(_) => addr,
    }
}

/// An address of the CM's in the family of `other`, which whoever asks speaks. It has an
/// interface only if that belongs to it, as a socket would have it.
pub(super) fn like(other: SocketAddr, addr: SocketAddr) -> SocketAddr {
    match addr.ip() {
        IpAddr::V4(ip) if other.is_ipv6() => {
            SocketAddr::new(ip.to_ipv6_mapped().into(), addr.port())
        }
        IpAddr::V6(ip) if ip.segments()[0] & 0xffc0 != 0xfe80 => {
            SocketAddr::new(ip.into(), addr.port())
        }
        _ => addr,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::addr::from_raw;

    #[test]
    fn the_cm_sees_no_mapped_address() {
        let mapped: SocketAddr = "[::ffff:10.1.2.3]:4".parse().unwrap();
        let plain: SocketAddr = "10.1.2.3:4".parse().unwrap();
        let other: SocketAddr = "[fd00::1]:4".parse().unwrap();
        assert_eq!(from_raw(&Raw::new(mapped).0), Some(plain));
        assert_eq!(from_raw(&Raw::new(plain).0), Some(plain));
        assert_eq!(from_raw(&Raw::new(other).0), Some(other));
    }

    #[test]
    fn who_speaks_ipv6_hears_it() {
        let mapped: SocketAddr = "[::ffff:10.1.2.3]:4".parse().unwrap();
        let plain: SocketAddr = "10.1.2.3:4".parse().unwrap();
        let other: SocketAddr = "[fd00::1]:4".parse().unwrap();
        assert_eq!(like(other, plain), mapped);
        assert_eq!(like(plain, plain), plain);
        assert_eq!(like(mapped, other), other);
        let scoped =
            |ip: &str| SocketAddr::V6(std::net::SocketAddrV6::new(ip.parse().unwrap(), 4, 0, 3));
        assert_eq!(like(other, scoped("fd00::1")), other);
        assert_eq!(like(other, scoped("fe80::1")), scoped("fe80::1"));
    }
}
