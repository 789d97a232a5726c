// SPDX-License-Identifier: MPL-2.0
//! The soft device over real loopback connections. Endpoints are polled only
//! when poll(2) says that their descriptor is ready for what they asked: a
//! descriptor that should have spoken and did not fails the test.
#![allow(unsafe_code)]

mod handshake;
mod hostile;
mod other_iwarp;
mod rdma;
mod send;

use std::net::SocketAddr;
use std::os::fd::RawFd;

use super::{Endpoint, Listener};
use crate::device::{Endpoint as _, Event, Listener as _, Options, PrivateData, Ready};
use crate::error::{Error, Result};

/// Nothing in these tests takes longer, unless it hangs.
const PATIENCE_MS: i32 = 20_000;

/// Wait until one of `ready` is ready; which ones are.
pub(super) fn wait(ready: &[Ready]) -> Vec<bool> {
    let mut fds: Vec<libc::pollfd> = ready
        .iter()
        .map(|r| libc::pollfd {
            fd: r.fd,
            events: if r.read { libc::POLLIN } else { 0 } | if r.write { libc::POLLOUT } else { 0 },
            revents: 0,
        })
        .collect();
    // SAFETY: `fds` is an array of that many pollfds.
    let n = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as _, PATIENCE_MS) };
    assert!(n > 0, "no descriptor turned ready");
    fds.iter().map(|fd| fd.revents != 0).collect()
}

/// Whether `fd` is readable now.
fn readable(fd: RawFd) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 }
}

/// An endpoint and all that it has told.
pub(super) struct Peer {
    pub endpoint: Endpoint,
    pub events: Vec<Event>,
    pub sent: usize,
    pub error: Option<Error>,
}

impl Peer {
    fn new(endpoint: Endpoint) -> Peer {
        Peer {
            endpoint,
            events: Vec::new(),
            sent: 0,
            error: None,
        }
    }

    /// Poll, as after its descriptor was ready.
    fn poll(&mut self) {
        let before = self.events.len();
        if let Err(why) = self.endpoint.poll(&mut self.events) {
            assert!(readable(self.endpoint.ready().fd), "dead and not readable");
            self.error = Some(why);
        }
        for event in &self.events[before..] {
            if let Event::Sent(n) = event {
                self.sent += usize::from(*n);
            }
        }
        self.events.retain(|event| !matches!(event, Event::Sent(_)));
    }

    /// Wait for it alone until it has an event or an error.
    fn next(&mut self) -> Result<Event> {
        loop {
            if !self.events.is_empty() {
                return Ok(self.events.remove(0));
            }
            if let Some(why) = &self.error {
                return Err(why.clone());
            }
            wait(&[self.endpoint.ready()]);
            self.poll();
        }
    }

    fn flush(&mut self) {
        self.sent += usize::from(self.endpoint.flush().unwrap());
    }

    /// Post one SEND, if there is a slot.
    fn post(&mut self, bytes: &[u8]) -> bool {
        let Some(mut slot) = self.endpoint.reserve().unwrap() else {
            return false;
        };
        slot.write(0, bytes);
        self.endpoint.post_send(slot, bytes.len()).unwrap();
        true
    }

    fn send(&mut self, bytes: &[u8]) {
        assert!(self.post(bytes));
        self.flush();
    }

    fn received(&mut self) -> Vec<u8> {
        match self.next() {
            Ok(Event::Received(filled)) => filled.bytes().to_vec(),
            other => panic!("{other:?} instead of a SEND"),
        }
    }
}

/// Wait for any of `peers`, poll those that are ready.
pub(super) fn turn(peers: &mut [&mut Peer]) {
    let ready: Vec<Ready> = peers.iter().map(|peer| peer.endpoint.ready()).collect();
    for (peer, ready) in peers.iter_mut().zip(wait(&ready)) {
        if ready && peer.error.is_none() {
            peer.poll();
        }
    }
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn listener(o: &Options) -> Listener {
    Listener::new(loopback(), o).unwrap()
}

fn accept(listener: &mut Listener) -> Peer {
    wait(&[listener.ready()]);
    Peer::new(listener.accept_endpoint().unwrap())
}

/// The acceptor's half of the handshake: its request.
fn asked(acceptor: &mut Peer) -> PrivateData {
    match acceptor.next() {
        Ok(Event::Request(private)) => private,
        other => panic!("{other:?} instead of a request"),
    }
}

fn established(peer: &mut Peer) -> PrivateData {
    match peer.next() {
        Ok(Event::Established(private)) => private,
        other => panic!("{other:?} instead of a connection"),
    }
}

/// A connection that stands, all receives posted: initiator, acceptor.
fn pair(o: &Options) -> (Peer, Peer) {
    let mut listener = listener(o);
    let dialed = Endpoint::dial(listener.local_addr(), None, b"ask", o).unwrap();
    stand(dialed, &mut listener, o)
}

fn stand(dialed: Endpoint, listener: &mut Listener, o: &Options) -> (Peer, Peer) {
    let mut initiator = Peer::new(dialed);
    initiator.endpoint.post_recvs(o.recv_depth).unwrap();
    let mut acceptor = accept(listener);
    while acceptor.events.is_empty() {
        turn(&mut [&mut initiator, &mut acceptor]);
    }
    assert_eq!(asked(&mut acceptor).0, b"ask");
    acceptor.endpoint.post_recvs(o.recv_depth).unwrap();
    acceptor.endpoint.accept(b"answer").unwrap();
    assert_eq!(established(&mut acceptor).0, b"");
    assert_eq!(established(&mut initiator).0, b"answer");
    (initiator, acceptor)
}

/// The initiator speaks first, so that the acceptor may.
fn greet(initiator: &mut Peer, acceptor: &mut Peer) {
    initiator.send(b"hello");
    assert_eq!(acceptor.received(), b"hello");
    acceptor.endpoint.post_recvs(1).unwrap();
}

/// Bytes that repeat nowhere near.
fn pattern(seed: usize, len: usize) -> Vec<u8> {
    let mut x = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        bytes.extend_from_slice(&x.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
