// SPDX-License-Identifier: MPL-2.0
//! What the kernel gives to wake a thread and to wait: an eventfd and an
//! epoll descriptor; and the two ways in which C tells failure.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use libc::c_int;

use super::addr::Raw;
use crate::error::{Error, Result};

/// The calling thread's errno as an error.
pub(super) fn last(op: &'static str) -> Error {
    crate::os::failed(op, &io::Error::last_os_error())
}

/// The result of a call that answers 0, or -1 with errno.
pub(super) fn checked(op: &'static str, ret: c_int) -> Result<()> {
    if ret < 0 {
        return Err(last(op));
    }
    Ok(())
}

/// The result of a call that answers 0 or an errno value (most of libibverbs;
/// some providers answer -1 with errno instead).
pub(super) fn number(op: &'static str, ret: c_int) -> Result<()> {
    match ret {
        0 => Ok(()),
        code if code > 0 => Err(Error::Device { op, code }),
        _ => Err(last(op)),
    }
}

/// An epoll descriptor that waits for readability.
pub(in crate::device) struct Watch(OwnedFd);

impl Watch {
    pub(in crate::device) fn new() -> Result<Watch> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        checked("epoll_create1", fd)?;
        // SAFETY: just opened, and ours alone.
        Ok(Watch(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub(in crate::device) fn add(&self, fd: RawFd, key: u64) -> Result<()> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: key,
        };
        // SAFETY: `event` is valid for the call.
        let ret = unsafe { libc::epoll_ctl(self.fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
        checked("epoll_ctl", ret)
    }

    pub(in crate::device) fn remove(&self, fd: RawFd) {
        // SAFETY: removal reads no event.
        unsafe {
            libc::epoll_ctl(
                self.fd(),
                libc::EPOLL_CTL_DEL,
                fd,
                std::ptr::null_mut::<libc::epoll_event>(),
            )
        };
    }

    /// Keys of what is readable within `timeout_ms` (-1: wait for ever).
    pub(in crate::device) fn wait(&self, timeout_ms: c_int) -> Vec<u64> {
        const ROOM: usize = 16;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; ROOM];
        // SAFETY: room for the number of events told.
        let n =
            unsafe { libc::epoll_wait(self.fd(), events.as_mut_ptr(), ROOM as c_int, timeout_ms) };
        let n = usize::try_from(n).unwrap_or(0);
        events[..n].iter().map(|event| event.u64).collect()
    }

    pub(in crate::device) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Make a descriptor non-blocking.
pub(super) fn set_nonblocking(fd: RawFd) -> Result<()> {
    // SAFETY: no pointers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    checked("fcntl", flags)?;
    // SAFETY: no pointers.
    let ret = unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) };
    checked("fcntl", ret)
}

/// Whether a TCP socket could be bound there now, as siw will.
pub(super) fn tcp_port_is_free(addr: SocketAddr) -> bool {
    let family = if addr.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return true;
    }
    // SAFETY: just opened, and ours alone.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let yes: c_int = 1;
    let (level, name, start) = (libc::SOL_SOCKET, libc::SO_REUSEADDR, &raw const yes);
    let len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: an int that is valid for the call.
    unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, start.cast(), len) };
    let mut raw = Raw::new(addr);
    let len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: an address that is valid for the call, in storage of that size.
    let ret = unsafe { libc::bind(socket.as_raw_fd(), raw.as_mut_ptr(), len) };
    ret == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EADDRINUSE)
}

/// What tells an open file from another that has its number later.
pub(super) fn identity(fd: RawFd) -> Option<(u64, u64)> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: room for the answer.
    let ret = unsafe { libc::fstat(fd, stat.as_mut_ptr()) };
    if ret != 0 {
        return None;
    }
    // SAFETY: written by the call above.
    let stat = unsafe { stat.assume_init() };
    Some((stat.st_rdev, stat.st_ino))
}

/// Close the file behind a descriptor that others will still close themselves.
pub(super) fn replace_by_null(fd: RawFd) {
    if let Ok(null) = std::fs::File::open("/dev/null") {
        // SAFETY: no pointers.
        unsafe { libc::dup3(null.as_raw_fd(), fd, libc::O_CLOEXEC) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::bell::Bell;

    #[test]
    fn a_bell_is_heard_through_a_watch_until_silenced() {
        let (bell, watch) = (Bell::new().unwrap(), Watch::new().unwrap());
        watch.add(bell.fd(), 7).unwrap();
        assert!(watch.wait(0).is_empty());
        bell.ring();
        bell.ring();
        assert_eq!(watch.wait(0), [7]);
        assert_eq!(watch.wait(0), [7]);
        bell.silence();
        assert!(watch.wait(0).is_empty());
        bell.ring();
        watch.remove(bell.fd());
        assert!(watch.wait(0).is_empty());
    }

    #[test]
    fn a_port_that_somebody_listens_at_is_not_free() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        assert!(!tcp_port_is_free(at));
        assert!(tcp_port_is_free("127.0.0.1:0".parse().unwrap()));
    }

    #[test]
    fn a_replaced_descriptor_is_another_file() {
        let bell = Bell::new().unwrap();
        let before = identity(bell.fd()).unwrap();
        replace_by_null(bell.fd());
        assert_ne!(identity(bell.fd()), Some(before));
        assert_eq!(identity(-1), None);
    }

    #[test]
    fn both_ways_to_fail_are_understood() {
        assert_eq!(number("x", 0), Ok(()));
        let denied = Error::Device {
            op: "x",
            code: libc::EACCES,
        };
        assert_eq!(number("x", libc::EACCES), Err(denied));
        assert!(checked("x", 3).is_ok());
        assert!(set_nonblocking(-1).is_err());
    }
}
