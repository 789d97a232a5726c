// SPDX-License-Identifier: MPL-2.0
//! Socket addresses in C's layout and in Rust's.
#![allow(unsafe_code)]

use std::mem::size_of;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use super::types::Addr;
use crate::error::{Error, Result};

/// C's bytes for `addr`.
pub fn to_c(addr: SocketAddr) -> Addr {
    let mut out = Addr {
        bytes: [0; 128],
        len: 0,
    };
    match addr {
        SocketAddr::V4(v4) => {
            let c = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            out.len = size_of::<libc::sockaddr_in>() as u32;
            // SAFETY: 128 bytes hold a sockaddr_in; an unaligned write is asked for.
            unsafe {
                out.bytes
                    .as_mut_ptr()
                    .cast::<libc::sockaddr_in>()
                    .write_unaligned(c)
            };
        }
        SocketAddr::V6(v6) => {
            let c = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            };
            out.len = size_of::<libc::sockaddr_in6>() as u32;
            // SAFETY: 128 bytes hold a sockaddr_in6; an unaligned write is asked for.
            unsafe {
                out.bytes
                    .as_mut_ptr()
                    .cast::<libc::sockaddr_in6>()
                    .write_unaligned(c)
            };
        }
    }
    out
}

/// Rust's value of `addr`; `None` when its length is 0.
pub fn from_c(addr: &Addr) -> Result<Option<SocketAddr>> {
    let len = addr.len as usize;
    if len == 0 {
        return Ok(None);
    }
    let family = libc::sa_family_t::from_ne_bytes([addr.bytes[0], addr.bytes[1]]);
    if family == libc::AF_INET as libc::sa_family_t && len >= size_of::<libc::sockaddr_in>() {
        // SAFETY: 128 bytes hold a sockaddr_in, any bits are a valid one.
        let c = unsafe {
            addr.bytes
                .as_ptr()
                .cast::<libc::sockaddr_in>()
                .read_unaligned()
        };
        let ip = c.sin_addr.s_addr.to_ne_bytes().into();
        return Ok(Some(SocketAddrV4::new(ip, u16::from_be(c.sin_port)).into()));
    }
    if family == libc::AF_INET6 as libc::sa_family_t && len >= size_of::<libc::sockaddr_in6>() {
        // SAFETY: 128 bytes hold a sockaddr_in6, any bits are a valid one.
        let c = unsafe {
            addr.bytes
                .as_ptr()
                .cast::<libc::sockaddr_in6>()
                .read_unaligned()
        };
        let ip = Ipv6Addr::from(c.sin6_addr.s6_addr);
        let port = u16::from_be(c.sin6_port);
        let v6 = SocketAddrV6::new(ip, port, c.sin6_flowinfo, c.sin6_scope_id);
        return Ok(Some(v6.into()));
    }
    Err(Error::Misuse("an address that is neither IPv4 nor IPv6"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_to_c_and_back() {
        for text in [
            "127.0.0.1:5555",
            "[::1]:1",
            "[fe80::1%3]:65535",
            "0.0.0.0:0",
        ] {
            let addr: SocketAddr = text.parse().unwrap();
            assert_eq!(from_c(&to_c(addr)).unwrap(), Some(addr));
        }
    }

    #[test]
    fn the_port_is_in_network_order() {
        let c = to_c("1.2.3.4:258".parse().unwrap());
        assert_eq!(c.bytes[2..8], [1, 2, 1, 2, 3, 4]);
    }

    #[test]
    fn other_families_and_short_lengths_are_refused() {
        let mut c = to_c("1.2.3.4:1".parse().unwrap());
        c.len = 8;
        assert!(from_c(&c).is_err());
        c.len = 0;
        assert_eq!(from_c(&c).unwrap(), None);
        c.len = 16;
        c.bytes[0] = libc::AF_UNIX as u8;
        assert!(from_c(&c).is_err());
    }
}
