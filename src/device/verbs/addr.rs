// SPDX-License-Identifier: MPL-2.0
//! Socket addresses as the RDMA CM takes and gives them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A `struct sockaddr` of ours, to be passed by pointer.
pub(super) struct Raw(libc::sockaddr_storage);

impl Raw {
    pub(super) fn new(addr: SocketAddr) -> Raw {
        // SAFETY: all zeroes is a valid sockaddr_storage.
        let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let start = std::ptr::addr_of_mut!(storage);
        match addr {
            SocketAddr::V4(v4) => {
                let sin = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(v4.ip().octets()),
                    },
                    sin_zero: [0; 8],
                };
                // SAFETY: the storage is large and aligned enough for any address.
                unsafe { start.cast::<libc::sockaddr_in>().write(sin) }
            }
            SocketAddr::V6(v6) => {
                let sin6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: v6.ip().octets(),
                    },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: the storage is large and aligned enough for any address.
                unsafe { start.cast::<libc::sockaddr_in6>().write(sin6) }
            }
        }
        Raw(storage)
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut libc::sockaddr {
        std::ptr::addr_of_mut!(self.0).cast()
    }
}

/// The address in a storage that C filled; `None` for a family that is neither IPv4 nor IPv6.
pub(super) fn parse(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let start = std::ptr::from_ref(storage);
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says so, and the storage has room for it.
            let sin = unsafe { start.cast::<libc::sockaddr_in>().read() };
            let ip = Ipv4Addr::from(sin.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(sin.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says so, and the storage has room for it.
            let sin6 = unsafe { start.cast::<libc::sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(sin6.sin6_addr.s6_addr);
            let port = u16::from_be(sin6.sin6_port);
            Some(SocketAddrV6::new(ip, port, sin6.sin6_flowinfo, sin6.sin6_scope_id).into())
        }
        _ => None,
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

    #[test]
    fn an_address_goes_to_c_and_back() {
        for text in [
            "10.77.0.1:5555",
            "[fd77::1]:7",
            "[fe80::1%3]:65535",
            "0.0.0.0:0",
        ] {
            let addr: SocketAddr = text.parse().unwrap();
            assert_eq!(parse(&Raw::new(addr).0), Some(addr), "{text}");
        }
    }

    #[test]
    fn a_foreign_family_is_no_address() {
        let mut raw = Raw::new("1.2.3.4:5".parse().unwrap());
        raw.0.ss_family = libc::AF_UNIX as libc::sa_family_t;
        assert_eq!(parse(&raw.0), None);
    }
}
