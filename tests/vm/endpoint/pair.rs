// SPDX-License-Identifier: MPL-2.0
//! Two ends of a connection, and how to wait for what they tell: on the
//! descriptor alone, so that a readiness that is not reported hangs the test.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::time::Duration;

use zmq_rdma::device::region::Filled;
use zmq_rdma::device::verbs;
use zmq_rdma::device::{soft, Endpoint, Event, Kind, Listener, Options, Ready};
use zmq_rdma::error::{Error, Result};

/// The guest runs some twenty times slower than the machine beneath.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where and by what.
#[derive(Clone)]
pub struct Lab {
    pub addr: SocketAddr,
    pub source: Option<SocketAddr>,
    pub server: Kind,
    pub client: Kind,
    pub options: Options,
}

impl Lab {
    pub fn of_environment() -> Lab {
        let ip = |name| {
            let text = std::env::var(name).ok()?;
            Some(SocketAddr::new(text.parse::<IpAddr>().expect(name), 0))
        };
        let kind = |name| match std::env::var(name).as_deref() {
            Ok("soft") => Kind::Soft,
            _ => Kind::Verbs,
        };
        let mut options = Options {
            crc: std::env::var("EP_CRC").as_deref() != Ok("off"),
            ..Options::default()
        };
        verbs::fit(&mut options);
        Lab {
            addr: ip("EP_ADDR").expect("EP_ADDR is the address to listen at"),
            source: ip("EP_SOURCE"),
            server: kind("EP_SERVER"),
            client: kind("EP_CLIENT"),
            options,
        }
    }

    /// Skips (which fails the lab's run) where a test makes no sense.
    pub fn verbs_only(&self) {
        if (self.server, self.client) != (Kind::Verbs, Kind::Verbs) {
            println!("skipped: for verbs on both sides");
            std::process::exit(77);
        }
    }

    pub fn listen(&self) -> Box<dyn Listener> {
        self.listen_at(self.addr).expect("listen")
    }

    pub fn listen_at(&self, addr: SocketAddr) -> Result<Box<dyn Listener>> {
        match self.server {
            Kind::Verbs => verbs::listen(addr, &self.options),
            Kind::Soft => soft::listen(addr, &self.options),
        }
    }

    pub fn dial(&self, to: SocketAddr, private: &[u8]) -> Side {
        let dialed = match self.client {
            Kind::Verbs => verbs::dial(to, self.source, private, &self.options),
            Kind::Soft => soft::dial(to, self.source, private, &self.options),
        };
        let mut side = Side::new(dialed.expect("dial"));
        assert_eq!(side.endpoint.post_recvs(4), Ok(4));
        side
    }

    /// A connection that stands: server and client. Each has `recvs` receives posted.
    pub fn pair(&self, recvs: u16) -> (Side, Side) {
        let mut listener = self.listen();
        let mut client = self.dial(listener.local_addr(), b"hello");
        let server = self.welcome(&mut *listener, &mut client, recvs);
        (server, client)
    }

    /// siw may leave the first bytes after its answer lying until more come (its
    /// socket is switched over after the answer was sent): send more, then.
    pub fn nudge(&self, client: &mut Side, server: &mut Side) -> u16 {
        let mut nudges = 0;
        if self.client != Kind::Soft {
            return nudges;
        }
        while server.events.is_empty() {
            server.turn().expect("the server");
            let quiet = server.events.is_empty()
                && !wait_for(&[server.endpoint.ready()], Duration::from_secs(1));
            if quiet {
                client.send(b"nudge");
                nudges += 1;
                assert!(nudges < 3, "not even a nudge helps");
            }
        }
        nudges
    }

    /// Take in the client that is dialing.
    pub fn welcome(&self, listener: &mut dyn Listener, client: &mut Side, recvs: u16) -> Side {
        let mut server = accept(listener, Some(client));
        match server.next_while(client) {
            Event::Request(private) => assert!(private.0.starts_with(b"hello")),
            other => panic!("{other:?} instead of a request"),
        }
        assert_eq!(server.endpoint.post_recvs(recvs), Ok(recvs));
        server.endpoint.accept(b"welcome").expect("accept");
        match client.next_while(&mut server) {
            Event::Established(private) => assert!(private.0.starts_with(b"welcome")),
            other => panic!("{other:?} instead of an answer"),
        }
        assert_eq!(client.endpoint.post_recvs(recvs - 4), Ok(recvs - 4));
        // iWARP: the initiator speaks first.
        client.send(b"first");
        match server.next() {
            Event::Established(_) => {}
            other => panic!("{other:?} instead of established"),
        }
        let nudges = self.nudge(client, &mut server);
        assert_eq!(server.receive().bytes(), b"first");
        (0..nudges).for_each(|_| assert_eq!(server.receive().bytes(), b"nudge"));
        assert_eq!(server.endpoint.post_recvs(1 + nudges), Ok(1 + nudges));
        (server.received, client.received) = (0, 0);
        server
    }
}

/// The next connection; meanwhile the one that dials, if it is ours, is cranked.
pub fn accept(listener: &mut dyn Listener, mut dialing: Option<&mut Side>) -> Side {
    loop {
        match listener.accept() {
            Ok(endpoint) => return Side::new(endpoint),
            Err(Error::Again) => {}
            Err(why) => panic!("accept: {why}"),
        }
        let mut fds = vec![listener.ready()];
        if let Some(side) = &mut dialing {
            side.turn().expect("dialing");
            fds.push(side.endpoint.ready());
        }
        wait(&fds);
    }
}

/// Block until one of them is ready.
pub fn wait(ready: &[Ready]) {
    assert!(
        wait_for(ready, PATIENCE),
        "nothing happened for {PATIENCE:?}"
    );
}

/// As `wait`; false when the time is up.
pub fn wait_for(ready: &[Ready], patience: Duration) -> bool {
    let mut polls: Vec<_> = ready
        .iter()
        .map(|ready| libc::pollfd {
            fd: ready.fd,
            events: if ready.read { libc::POLLIN } else { 0 }
                | if ready.write { libc::POLLOUT } else { 0 },
            revents: 0,
        })
        .collect();
    let ms = patience.as_millis() as libc::c_int;
    // SAFETY: as many entries as told.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, ms) > 0 }
}

/// Whether a descriptor is readable now.
pub fn readable(fd: RawFd) -> bool {
    let ready = Ready {
        fd,
        read: true,
        write: false,
    };
    wait_for(&[ready], Duration::ZERO)
}

/// One end.
pub struct Side {
    pub endpoint: Box<dyn Endpoint>,
    pub events: VecDeque<Event>,
    /// Messages received and sends completed so far.
    pub received: u64,
    pub sent: u64,
    pub posted: u64,
}

impl Side {
    pub fn new(endpoint: Box<dyn Endpoint>) -> Side {
        Side {
            endpoint,
            events: VecDeque::new(),
            received: 0,
            sent: 0,
            posted: 0,
        }
    }

    /// Turn the crank once.
    pub fn turn(&mut self) -> Result<()> {
        let mut events = Vec::new();
        let polled = self.endpoint.poll(&mut events);
        for event in events {
            match event {
                Event::Sent(n) => self.sent += u64::from(n),
                event => {
                    self.received += u64::from(matches!(event, Event::Received(_)));
                    self.events.push_back(event);
                }
            }
        }
        polled
    }

    /// The next event but `Sent`, or why there is none.
    pub fn try_next(&mut self) -> Result<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let turned = self.turn();
            if self.events.is_empty() {
                turned?;
                wait(&[self.endpoint.ready()]);
            }
        }
    }

    pub fn next(&mut self) -> Event {
        self.try_next().expect("an event")
    }

    /// As `next`, while the other end goes on as well.
    pub fn next_while(&mut self, other: &mut Side) -> Event {
        loop {
            if let Some(event) = self.events.pop_front() {
                return event;
            }
            let turned = self.turn();
            if !self.events.is_empty() {
                continue;
            }
            turned.expect("this side");
            let mut fds = vec![self.endpoint.ready()];
            // One that has reached its end stays readable.
            if other.turn().is_ok() {
                fds.push(other.endpoint.ready());
            }
            wait(&fds);
        }
    }

    pub fn receive(&mut self) -> Filled {
        match self.next() {
            Event::Received(filled) => filled,
            other => panic!("{other:?} instead of a message"),
        }
    }

    /// Post one SEND and hand it over.
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("send");
    }

    pub fn try_send(&mut self, bytes: &[u8]) -> Result<()> {
        let mut slot = loop {
            match self.endpoint.reserve()? {
                Some(slot) => break slot,
                None => {
                    self.turn()?;
                    wait(&[self.endpoint.ready()]);
                }
            }
        };
        slot.write(0, bytes);
        self.endpoint.post_send(slot, bytes.len())?;
        self.posted += 1;
        self.sent += u64::from(self.endpoint.flush()?);
        Ok(())
    }

    /// The error of an end that is dead, after what it still had to tell.
    pub fn death(&mut self) -> Error {
        loop {
            match self.try_next() {
                Ok(Event::Disconnected) => return Error::Closed,
                Ok(_) => {}
                Err(why) => return why,
            }
        }
    }
}

/// Books that must balance when all is dropped.
pub fn audit() {
    // The control thread destroys what was dropped: give it the time it takes.
    let settled = || {
        let (taken, acknowledged) = verbs::books::events();
        taken == acknowledged
    };
    let end = std::time::Instant::now() + PATIENCE;
    while !settled() {
        assert!(std::time::Instant::now() < end, "events not acknowledged");
        std::thread::yield_now();
    }
    assert_eq!(verbs::books::stale(), 0, "stale completions");
    // Row 43 of docs/reports.md.
    assert_eq!(verbs::books::rescues(), 0, "completions without an event");
}

/// Bytes that tell where in a stream they belong.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}
