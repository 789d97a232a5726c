// SPDX-License-Identifier: MPL-2.0
//! News of network interfaces, from the kernel: that something has changed, no more.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::sys::{checked, last};
use crate::error::Result;

/// A netlink socket that is told of interfaces that come, change and go.
pub(in crate::device) struct News(OwnedFd);

impl News {
    pub(in crate::device) fn new() -> Result<News> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
        if fd < 0 {
            return Err(last("socket"));
        }
        // SAFETY: just opened, and ours alone.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: all-zero is a valid address: any port.
        let mut at: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        at.nl_family = libc::AF_NETLINK as u16;
        at.nl_groups = libc::RTMGRP_LINK as u32;
        let len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        // SAFETY: an address of `len` bytes.
        let ret = unsafe { libc::bind(fd, std::ptr::addr_of!(at).cast(), len) };
        checked("bind", ret)?;
        Ok(News(socket))
    }

    /// Readable when there is news.
    pub(in crate::device) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Whether there was news since the last time.
    pub(in crate::device) fn take(&self) -> bool {
        let mut any = false;
        let mut waste = [0u8; 4096];
        loop {
            let to = waste.as_mut_ptr().cast();
            // SAFETY: `waste` is writable for its length; what does not fit is dropped.
            let n = unsafe { libc::recv(self.fd(), to, waste.len(), 0) };
            // Too much news is news.
            let lost =
                n < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOBUFS);
            if n <= 0 && !lost {
                return any;
            }
            any = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_news_is_no_news() {
        let news = News::new().unwrap();
        // What came before the first look is nobody's matter.
        news.take();
        assert!(news.fd() >= 0);
    }
}
