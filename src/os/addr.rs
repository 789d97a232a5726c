// SPDX-License-Identifier: MPL-2.0
//! Socket addresses in C's form, for system calls, the RDMA CM and the C doors.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::mem;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{c_int, socklen_t};

use super::system;

/// Bytes of room for an address.
pub fn storage_len() -> socklen_t {
    mem::size_of::<libc::sockaddr_storage>() as socklen_t
}

/// Room for one.
pub fn no_addr() -> libc::sockaddr_storage {
    // SAFETY: all-zero is a valid sockaddr_storage (AF_UNSPEC).
    unsafe { mem::zeroed() }
}

/// As the kernel wants it, with its length.
pub fn to_raw(addr: &SocketAddr) -> (libc::sockaddr_storage, socklen_t) {
    let mut raw = no_addr();
    let at: *mut libc::sockaddr_storage = &mut raw;
    match addr {
        SocketAddr::V4(a) => {
            let v4 = system::sockaddr_in(a);
            // SAFETY: a sockaddr_storage has room and alignment for any address.
            unsafe { at.cast::<libc::sockaddr_in>().write(v4) };
            (raw, mem::size_of_val(&v4) as socklen_t)
        }
        SocketAddr::V6(a) => {
            let v6 = system::sockaddr_in6(a);
            // SAFETY: as above.
            unsafe { at.cast::<libc::sockaddr_in6>().write(v6) };
            (raw, mem::size_of_val(&v6) as socklen_t)
        }
    }
}

/// As the kernel gave it; `None` if it is no address of the internet.
pub fn from_raw(raw: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let at: *const libc::sockaddr_storage = raw;
    match c_int::from(raw.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says so, and the storage is large enough.
            let v4 = unsafe { at.cast::<libc::sockaddr_in>().read() };
            let ip = v4.sin_addr.s_addr.to_ne_bytes().into();
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { at.cast::<libc::sockaddr_in6>().read() };
            let ip = v6.sin6_addr.s6_addr.into();
            let port = u16::from_be(v6.sin6_port);
            Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Network interfaces of this process's network, with their addresses; one that has none
/// is there once.
pub fn of_interfaces() -> Vec<(String, Option<IpAddr>)> {
    let mut list = std::ptr::null_mut();
    // SAFETY: room for the answer.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: an entry of the list, which is freed below.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        // SAFETY: a NUL-terminated string of the list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        found.push((name.to_string_lossy().into_owned(), address(entry)));
    }
    // SAFETY: made by getifaddrs, freed once.
    unsafe { libc::freeifaddrs(list) };
    found
}

fn address(entry: &libc::ifaddrs) -> Option<IpAddr> {
    // SAFETY: null, or a socket address that lives as long as the list.
    let family = i32::from(unsafe { entry.ifa_addr.as_ref() }?.sa_family);
    let size = match family {
        libc::AF_INET => mem::size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => mem::size_of::<libc::sockaddr_in6>(),
        _ => return None,
    };
    let mut storage = no_addr();
    let to = std::ptr::addr_of_mut!(storage).cast::<u8>();
    // SAFETY: an address of this family has this size, and the storage more.
    unsafe { std::ptr::copy_nonoverlapping(entry.ifa_addr.cast(), to, size) };
    Some(from_raw(&storage)?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_the_kernel_s_form() {
        for text in [
            "127.0.0.1:80",
            "[::1]:65535",
            "[fe80::1%3]:9",
            "10.77.0.1:5555",
            "[fd77::1]:7",
            "[fe80::1%3]:65535",
            "0.0.0.0:0",
        ] {
            let addr: SocketAddr = text.parse().unwrap();
            assert_eq!(from_raw(&to_raw(&addr).0), Some(addr), "{text}");
        }
        assert_eq!(from_raw(&no_addr()), None);
    }

    #[test]
    fn a_foreign_family_is_no_address() {
        let (mut raw, _) = to_raw(&"1.2.3.4:5".parse().unwrap());
        raw.ss_family = libc::AF_UNIX as libc::sa_family_t;
        assert_eq!(from_raw(&raw), None);
    }
}
