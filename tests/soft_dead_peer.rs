// SPDX-License-Identifier: MPL-2.0
//! A peer whose machine is gone: all packets vanish. Played in a network
//! namespace of this thread's own, whose loopback goes down.
#![allow(unsafe_code)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use zmq_rdma::device::soft::{Endpoint, Listener};
use zmq_rdma::device::{Endpoint as _, Event, Listener as _, Options, Ready};
use zmq_rdma::error::{Error, Result};
use zmq_rdma::os;

const DEAD_AFTER: Duration = Duration::from_secs(2);

/// This thread gets a network of its own; false when it may not.
fn alone() -> bool {
    // SAFETY: unshare takes no pointers, and concerns this thread alone.
    let rc = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    if rc != 0 {
        eprintln!("skipped: no network namespace without privilege");
        return false;
    }
    loopback(true);
    true
}

fn loopback(up: bool) {
    // SAFETY: socket takes no pointers.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    assert!(fd >= 0);
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = if up { libc::IFF_UP as i16 } else { 0 };
    // SAFETY: `request` is an ifreq, as this call wants.
    let rc = unsafe { libc::ioctl(fd, libc::SIOCSIFFLAGS, &request) };
    assert_eq!(rc, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: `fd` is ours.
    unsafe { libc::close(fd) };
}

fn wait(ready: Ready) {
    let out = if ready.write { libc::POLLOUT } else { 0 };
    os::wait(ready.fd, libc::POLLIN | out);
}

fn next(endpoint: &mut Endpoint) -> Result<Event> {
    let mut events = Vec::new();
    loop {
        wait(endpoint.ready());
        endpoint.poll(&mut events)?;
        if let Some(event) = events.pop() {
            return Ok(event);
        }
    }
}

fn pair() -> (Endpoint, Endpoint) {
    let o = Options {
        dead_after: DEAD_AFTER,
        ..Options::default()
    };
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let mut listener = Listener::new(any, &o).unwrap();
    let mut ours = Endpoint::dial(listener.local_addr(), None, b"", &o).unwrap();
    let mut events = Vec::new();
    while ours.ready().write {
        wait(ours.ready());
        ours.poll(&mut events).unwrap();
    }
    wait(listener.ready());
    let mut theirs = listener.accept_endpoint().unwrap();
    theirs.post_recvs(4).unwrap();
    assert!(matches!(next(&mut theirs), Ok(Event::Request(_))));
    theirs.accept(b"").unwrap();
    assert!(matches!(next(&mut theirs), Ok(Event::Established(_))));
    assert!(matches!(next(&mut ours), Ok(Event::Established(_))));
    (ours, theirs)
}

#[test]
fn row_21_an_idle_link_to_a_dead_peer_ends_by_itself() {
    if !alone() {
        return;
    }
    let (mut ours, mut theirs) = pair();
    loopback(false);
    assert_eq!(next(&mut ours).err(), Some(Error::TimedOut));
    assert_eq!(next(&mut theirs).err(), Some(Error::TimedOut));
}

#[test]
fn row_26_a_peer_that_owes_an_acknowledgement_is_found_by_the_probe() {
    if !alone() {
        return;
    }
    let (mut ours, _theirs) = pair();
    ours.probe(Instant::now()).unwrap();
    loopback(false);
    let slot = ours.reserve().unwrap().unwrap();
    ours.post_send(slot, 100).unwrap();
    ours.flush().unwrap();
    // The descriptor says nothing: the kernel would go on for minutes. Time
    // passes in the wait, and the probe alone can end this.
    let why = loop {
        let mut fd = libc::pollfd {
            fd: ours.ready().fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one pollfd.
        let n = unsafe { libc::poll(&mut fd, 1, 100) };
        assert_eq!(n, 0, "the kernel was faster");
        if let Err(why) = ours.probe(Instant::now()) {
            break why;
        }
    };
    assert_eq!(why, Error::TimedOut);
    assert_eq!(next(&mut ours).err(), Some(Error::TimedOut));
}
