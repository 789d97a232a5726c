// SPDX-License-Identifier: MPL-2.0
//! The raw-descriptor corner of the soft device: one TCP socket, every system
//! call that std has no safe door for, and what errno means at each of them.
#![allow(unsafe_code)]

mod errno;

use std::io::{self, IoSlice};
use std::mem::{self, MaybeUninit};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use libc::{c_int, c_void};

use crate::device::Options;
use crate::error::{Error, Result};
use crate::os::addr::{from_raw, no_addr, to_raw};
use crate::os::system::{self, Acks};
use crate::os::{get_option, set_option};

use errno::{address_error, connect_error, device_error, stream_error};

/// A non-blocking, close-on-exec TCP socket. Closed on drop.
pub(super) struct Tcp {
    socket: TcpStream,
}

/// How far a connect has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connect {
    /// Still under way; the descriptor turns writable.
    Pending,
    /// Both directions are open.
    Done,
}

impl Tcp {
    /// Bind and listen.
    pub fn listening(addr: SocketAddr, o: &Options) -> Result<Tcp> {
        let tcp = Tcp::open(&addr, o)?;
        if addr.is_ipv6() {
            let only = c_int::from(!o.dual_stack);
            tcp.set("IPV6_V6ONLY", libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, only)?;
        }
        tcp.bind(&addr)?;
        let backlog = c_int::try_from(o.backlog).unwrap_or(c_int::MAX);
        // SAFETY: listen takes no pointers; the descriptor is ours.
        let rc = unsafe { libc::listen(tcp.fd(), backlog) };
        check(rc).map_err(|e| address_error("listen", &e))?;
        Ok(tcp)
    }

    /// Begin to connect; `connect` goes on with it.
    pub fn dialing(to: &SocketAddr, source: Option<&SocketAddr>, o: &Options) -> Result<Tcp> {
        let tcp = Tcp::open(to, o)?;
        if let Some(source) = source {
            tcp.bind(source)?;
        }
        Ok(tcp)
    }

    /// Start the connect, or ask how far it has come: the kernel answers both
    /// by the same call.
    pub fn connect(&self, to: &SocketAddr) -> Result<Connect> {
        let (raw, len) = to_raw(to);
        let raw: *const libc::sockaddr_storage = &raw;
        // SAFETY: `raw` is a socket address of `len` bytes.
        let rc = unsafe { libc::connect(self.fd(), raw.cast(), len) };
        match check(rc) {
            Ok(()) => Ok(Connect::Done),
            Err(e) => match e.raw_os_error() {
                Some(libc::EINPROGRESS | libc::EALREADY | libc::EINTR) => Ok(Connect::Pending),
                Some(libc::EISCONN) => Ok(Connect::Done),
                _ => Err(connect_error(&e)),
            },
        }
    }

    /// The next connection of a listening socket. Options were inherited from
    /// it, but for the blocking mode and the priority.
    pub fn accept(&self, o: &Options) -> Result<(Tcp, SocketAddr)> {
        loop {
            let mut raw = no_addr();
            match system::accept(self.fd(), &mut raw) {
                Ok(socket) => {
                    let peer = from_raw(&raw).ok_or(Error::Device {
                        op: "accept",
                        code: libc::EAFNOSUPPORT,
                    })?;
                    let tcp = Tcp::adopt(socket);
                    tcp.prioritize(o)?;
                    return Ok((tcp, peer));
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN) => return Err(Error::Again),
                    _ => return Err(device_error("accept", &e)),
                },
            }
        }
    }

    /// The descriptor.
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// This side's address.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        self.socket
            .local_addr()
            .map_err(|e| device_error("getsockname", &e))
    }

    /// Read into `room`; 0 is the peer's end.
    pub fn read(&self, room: &mut [MaybeUninit<u8>]) -> Result<usize> {
        loop {
            let at = room.as_mut_ptr().cast::<c_void>();
            // SAFETY: `room` is writable for its length.
            let n = unsafe { libc::recv(self.fd(), at, room.len(), 0) };
            if n >= 0 {
                return Ok(n as usize);
            }
            let e = io::Error::last_os_error();
            if e.raw_os_error() != Some(libc::EINTR) {
                return Err(stream_error("recv", &e));
            }
        }
    }

    /// Read up to `most` bytes to the end of `to`; 0 is the peer's end.
    pub fn append(&self, to: &mut Vec<u8>, most: usize) -> Result<usize> {
        let filled = to.len();
        to.reserve(most);
        let n = self.read(&mut to.spare_capacity_mut()[..most])?;
        // SAFETY: the kernel has just written `n` bytes there.
        unsafe { to.set_len(filled + n) };
        Ok(n)
    }

    /// Read into `first`, and what is beyond it into `second`. Returns what
    /// is in `first`, and the bytes in both.
    pub fn read_two<'a>(
        &self,
        first: &'a mut [MaybeUninit<u8>],
        second: &mut [MaybeUninit<u8>],
    ) -> Result<(&'a [u8], usize)> {
        let parts = [room_vec(first), room_vec(second)];
        loop {
            // SAFETY: both parts are writable for their lengths.
            let n = unsafe { libc::readv(self.fd(), parts.as_ptr(), 2) };
            if n >= 0 {
                let n = n as usize;
                let here = n.min(first.len());
                // SAFETY: the kernel has just written the first `here` bytes.
                let got = unsafe { std::slice::from_raw_parts(first.as_ptr().cast(), here) };
                return Ok((got, n));
            }
            let e = io::Error::last_os_error();
            if e.raw_os_error() != Some(libc::EINTR) {
                return Err(stream_error("readv", &e));
            }
        }
    }

    /// Write what the kernel takes of `parts`; `Error::Again` when that is nothing.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        if let [part] = parts {
            return self.write_one(part);
        }
        self.send_parts(parts, libc::MSG_NOSIGNAL)
    }

    /// The same; what is written later goes into other segments, unless the kernel
    /// takes only a part.
    pub fn write_record(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        self.send_parts(parts, libc::MSG_NOSIGNAL | system::whole_record())
    }

    fn send_parts(&self, parts: &[IoSlice<'_>], flags: c_int) -> Result<usize> {
        // SAFETY: all-zero is a valid msghdr (null pointers, zero lengths).
        let mut msg: libc::msghdr = unsafe { mem::zeroed() };
        // An IoSlice is by definition an iovec.
        msg.msg_iov = parts.as_ptr().cast_mut().cast();
        msg.msg_iovlen = parts.len() as _;
        loop {
            // SAFETY: `msg` names `parts` alone, which the kernel only reads.
            let n = unsafe { libc::sendmsg(self.fd(), &msg, flags) };
            if n >= 0 {
                return Ok(n as usize);
            }
            let e = io::Error::last_os_error();
            if e.raw_os_error() != Some(libc::EINTR) {
                return Err(stream_error("sendmsg", &e));
            }
        }
    }

    /// The same for one piece, which costs the kernel less.
    fn write_one(&self, part: &[u8]) -> Result<usize> {
        loop {
            let at = part.as_ptr().cast::<c_void>();
            // SAFETY: `part` is readable for its length.
            let n = unsafe { libc::send(self.fd(), at, part.len(), libc::MSG_NOSIGNAL) };
            if n >= 0 {
                return Ok(n as usize);
            }
            let e = io::Error::last_os_error();
            if e.raw_os_error() != Some(libc::EINTR) {
                return Err(stream_error("send", &e));
            }
        }
    }

    /// No more will be sent: the peer reads an end after all that was written.
    pub fn shut_write(&self) {
        // Only fails when there is no connection left to shut.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Both directions: the descriptor is and stays readable.
    pub fn shut(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Bytes of payload of a full segment towards the peer, as of now.
    pub fn emss(&self) -> Result<usize> {
        let mss: c_int = get_option(self.fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG)
            .map_err(|e| device_error("TCP_MAXSEG", &e))?;
        Ok(usize::try_from(mss).unwrap_or(0))
    }

    /// What the kernel knows of the peer's acknowledgements.
    pub fn acks(&self) -> Result<Acks> {
        system::acks(self.fd()).map_err(|e| device_error("TCP_INFO", &e))
    }

    fn open(addr: &SocketAddr, o: &Options) -> Result<Tcp> {
        let family = if addr.is_ipv6() {
            libc::AF_INET6
        } else {
            libc::AF_INET
        };
        let socket = system::open(family).map_err(|e| device_error("socket", &e))?;
        let tcp = Tcp::adopt(socket);
        tcp.apply(addr, o)?;
        Ok(tcp)
    }

    fn adopt(socket: OwnedFd) -> Tcp {
        Tcp {
            socket: socket.into(),
        }
    }

    fn apply(&self, addr: &SocketAddr, o: &Options) -> Result<()> {
        let socket = libc::SOL_SOCKET;
        self.set("TCP_NODELAY", libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
        if let Some(n) = o.sndbuf {
            self.set("SO_SNDBUF", socket, libc::SO_SNDBUF, clamp(n))?;
        }
        if let Some(n) = o.rcvbuf {
            self.set("SO_RCVBUF", socket, libc::SO_RCVBUF, clamp(n))?;
        }
        if o.tos != 0 {
            // A wish: each family knows one of the two, a dual-stack socket both.
            let tos = c_int::from(o.tos);
            let _ = self.set("IP_TOS", libc::IPPROTO_IP, libc::IP_TOS, tos);
            if addr.is_ipv6() {
                let _ = self.set("IPV6_TCLASS", libc::IPPROTO_IPV6, libc::IPV6_TCLASS, tos);
            }
        }
        self.prioritize(o)?;
        if let Some(name) = &o.interface {
            system::bind_to_interface(self.fd(), name)
                .map_err(|e| address_error("SO_BINDTODEVICE", &e))?;
        }
        self.keep_alive(o.dead_after)
    }

    /// To be done after the type of service, which implies a priority.
    fn prioritize(&self, o: &Options) -> Result<()> {
        match o.priority {
            Some(n) => {
                system::set_priority(self.fd(), n).map_err(|e| device_error("SO_PRIORITY", &e))
            }
            None => Ok(()),
        }
    }

    /// Idle death is the kernel's to find, within `dead_after`.
    fn keep_alive(&self, dead_after: Duration) -> Result<()> {
        let (idle, every, times) = keep_alive_plan(dead_after);
        let tcp = libc::IPPROTO_TCP;
        self.set("SO_KEEPALIVE", libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1)?;
        self.set("TCP_KEEPIDLE", tcp, system::KEEP_IDLE, idle)?;
        self.set("TCP_KEEPINTVL", tcp, libc::TCP_KEEPINTVL, every)?;
        self.set("TCP_KEEPCNT", tcp, libc::TCP_KEEPCNT, times)
    }

    fn bind(&self, addr: &SocketAddr) -> Result<()> {
        self.set("SO_REUSEADDR", libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        let (raw, len) = to_raw(addr);
        let raw: *const libc::sockaddr_storage = &raw;
        // SAFETY: `raw` is a socket address of `len` bytes.
        let rc = unsafe { libc::bind(self.fd(), raw.cast(), len) };
        check(rc).map_err(|e| address_error("bind", &e))
    }

    fn set(&self, op: &'static str, level: c_int, name: c_int, value: c_int) -> Result<()> {
        set_option(self.fd(), level, name, value).map_err(|e| device_error(op, &e))
    }
}

/// Four bytes that nobody can guess.
pub(super) fn random() -> Result<u32> {
    let mut bytes = [0u8; 4];
    system::fill_random(&mut bytes).map_err(|e| device_error("getrandom", &e))?;
    Ok(u32::from_ne_bytes(bytes))
}

/// Seconds idle, seconds between probes, probes, so that their sum is `dead_after`.
fn keep_alive_plan(dead_after: Duration) -> (c_int, c_int, c_int) {
    const PROBES: u64 = 5;
    let total = dead_after.as_secs().clamp(2, 32_000);
    let idle = (total / 2).min(5);
    let times = (total - idle).min(PROBES);
    let every = (total - idle) / times;
    (idle as c_int, every as c_int, times as c_int)
}

fn check(rc: c_int) -> io::Result<()> {
    if rc < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn clamp(n: usize) -> c_int {
    c_int::try_from(n).unwrap_or(c_int::MAX)
}

fn room_vec(room: &mut [MaybeUninit<u8>]) -> libc::iovec {
    libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keep_alive_finds_an_idle_death_within_the_time_given() {
        for secs in 2..200 {
            let (idle, every, times) = keep_alive_plan(Duration::from_secs(secs));
            assert!(idle > 0 && every > 0 && times > 0);
            assert!(idle + every * times <= secs as c_int);
        }
        assert_eq!(keep_alive_plan(Duration::from_secs(10)), (5, 1, 5));
    }

    #[test]
    fn random_is_not_constant() {
        assert!((0..4).any(|_| random().unwrap() != random().unwrap()));
    }
}
