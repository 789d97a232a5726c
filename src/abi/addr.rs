// SPDX-License-Identifier: MPL-2.0
//! Socket addresses as they cross the C doors.
#![allow(unsafe_code)]

use std::mem::size_of;
use std::net::SocketAddr;

use super::types::Addr;
use crate::error::{Error, Result};
use crate::os::addr::{from_raw, to_raw};

const _: () = assert!(size_of::<libc::sockaddr_storage>() == 128);

/// C's bytes for `addr`.
pub fn to_c(addr: SocketAddr) -> Addr {
    let (raw, len) = to_raw(&addr);
    Addr {
        // SAFETY: of one size, checked above; zeroed before the address was put in.
        bytes: unsafe { std::mem::transmute::<libc::sockaddr_storage, [u8; 128]>(raw) },
        len,
    }
}

/// Rust's value of `addr`; `None` when its length is 0.
pub fn from_c(addr: &Addr) -> Result<Option<SocketAddr>> {
    if addr.len == 0 {
        return Ok(None);
    }
    // SAFETY: of one size, checked above; any bits are a valid one.
    let raw = unsafe { std::mem::transmute::<[u8; 128], libc::sockaddr_storage>(addr.bytes) };
    from_raw(&raw)
        .filter(|parsed| addr.len as usize >= size_in_c(parsed))
        .map(Some)
        .ok_or(Error::Misuse("an address that is neither IPv4 nor IPv6"))
}

fn size_in_c(addr: &SocketAddr) -> usize {
    match addr {
        SocketAddr::V4(_) => size_of::<libc::sockaddr_in>(),
        SocketAddr::V6(_) => size_of::<libc::sockaddr_in6>(),
    }
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
