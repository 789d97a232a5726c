// SPDX-License-Identifier: MPL-2.0
//! siw's connections are TCP connections of the kernel's own, of which the kernel tells
//! anybody (sock_diag(7)): so whether a peer still acknowledges can be known, which verbs on
//! iWARP do not tell: a SEND is complete when this host's TCP has it.

use std::io;
use std::mem::size_of;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::sys;
use crate::error::Result;
use crate::os::system::Acks;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Number of the attribute that holds a `tcp_info`.
const INFO: u16 = 2;
/// The state of a listener.
const LISTENING: u8 = 10;
/// Bytes of a netlink header, of the answer behind it, and of an attribute's header.
const HEADER: usize = 16;
const ANSWER: usize = 72;
const ATTRIBUTE: usize = 4;

/// What the kernel knows of the acknowledgements of the TCP connection between these, on
/// the network interface of this index. `None`: it has no such connection, or does not tell.
pub(super) fn acks(local: SocketAddr, peer: SocketAddr, interface: u32) -> Option<Acks> {
    let mut answer = [0u8; 1024];
    let n = ask(&question(local, peer, interface), &mut answer).ok()?;
    info(answer.get(..n)?).map(|info| Acks::of(&info))
}

fn question(local: SocketAddr, peer: SocketAddr, interface: u32) -> Vec<u8> {
    let family = match local {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    let mut bytes = vec![family as u8, libc::IPPROTO_TCP as u8, 1 << (INFO - 1), 0];
    // In whatever state.
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(peer.port().to_be_bytes());
    bytes.extend(address(local.ip()));
    bytes.extend(address(peer.ip()));
    bytes.extend(interface.to_ne_bytes());
    // Whatever its cookie.
    bytes.extend(u64::MAX.to_ne_bytes());
    let mut all = ((HEADER + bytes.len()) as u32).to_ne_bytes().to_vec();
    all.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    all.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    // Sequence number and sender: there is one question to a socket.
    all.extend([0; 8]);
    all.extend(bytes);
    all
}

fn address(ip: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match ip {
        IpAddr::V4(ip) => bytes[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => bytes.copy_from_slice(&ip.octets()),
    }
    bytes
}

/// The kernel answers within the call, so that this does not wait.
fn ask(question: &[u8], answer: &mut [u8]) -> Result<usize> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG) };
    sys::checked("socket", fd)?;
    // SAFETY: just opened, and ours alone.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let fd = socket.as_raw_fd();
    // SAFETY: so many readable bytes.
    let sent = unsafe { libc::send(fd, question.as_ptr().cast(), question.len(), 0) };
    if sent < 0 {
        return Err(sys::last("send"));
    }
    // SAFETY: so many writable bytes.
    let n = unsafe { libc::recv(fd, answer.as_mut_ptr().cast(), answer.len(), 0) };
    usize::try_from(n).map_err(|_| crate::os::failed("recv", &io::Error::last_os_error()))
}

/// The `tcp_info` of an answer.
fn info(answer: &[u8]) -> Option<libc::tcp_info> {
    let kind = answer.get(4..6)?;
    // Where the connection is gone, a listener of its port is found.
    if kind != SOCK_DIAG_BY_FAMILY.to_ne_bytes() || answer.get(HEADER + 1) == Some(&LISTENING) {
        return None;
    }
    let mut rest = answer.get(HEADER + ANSWER..)?;
    loop {
        let len = usize::from(number(rest, 0)?);
        let body = rest.get(ATTRIBUTE..len)?;
        if number(rest, 2)? == INFO {
            return Some(copied(body));
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_ne_bytes(two))
}

/// As much as the kernel gave; the rest is zero.
fn copied(bytes: &[u8]) -> libc::tcp_info {
    let mut whole = [0u8; size_of::<libc::tcp_info>()];
    let n = bytes.len().min(whole.len());
    whole[..n].copy_from_slice(&bytes[..n]);
    // SAFETY: so many bytes, and a tcp_info is of plain numbers.
    unsafe { std::ptr::read_unaligned(whole.as_ptr().cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_tcp_connection_is_known_to_the_kernel() {
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(at) else {
                assert!(at.starts_with('['), "no loopback");
                continue;
            };
            let to = listener.local_addr().unwrap();
            let mut client = TcpStream::connect(to).unwrap();
            client.write_all(b"hello").unwrap();
            let from = client.local_addr().unwrap();
            let acks = acks(from, to, 0).expect("the kernel tells");
            assert_eq!(acks.probes, 0);
            assert_eq!(super::acks(to, to, 0), None, "the listener");
            drop(listener);
            assert_eq!(super::acks(to, to, 0), None);
        }
    }

    #[test]
    fn an_answer_cut_short_is_none() {
        let mut whole = vec![0; HEADER + ANSWER];
        whole[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        whole.extend([5, 0, 1, 0, 9, 0, 0, 0]);
        whole.extend([12, 0, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(info(&whole).is_some());
        for n in 0..whole.len() {
            assert!(info(&whole[..n]).is_none(), "{n} bytes");
        }
        whole[HEADER + ANSWER] = 0;
        assert!(info(&whole).is_none());
    }
}
