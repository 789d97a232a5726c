// SPDX-License-Identifier: MPL-2.0
//! Names to addresses without blocking the caller: a few threads of ours do
//! the waiting, and go away when there is nothing to do.
//!
//! The answer is announced on a pipe end, so that a lookup has a readiness
//! descriptor like everything else.

mod crew;

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::os::{self, PerProcess};
use crew::Crew;

/// A numeric address (zone allowed), or `None` for a name.
pub fn numeric(host: &str, port: u16, ipv6: bool) -> Option<SocketAddr> {
    let (host, scope) = match host.split_once('%') {
        Some((host, zone)) => (host, os::interface_index(zone)?),
        None => (host, 0),
    };
    match host.parse().ok()? {
        IpAddr::V4(ip) if ipv6 => Some(SocketAddr::new(ip.to_ipv6_mapped().into(), port)),
        IpAddr::V4(ip) => Some(SocketAddr::new(ip.into(), port)),
        IpAddr::V6(ip) => Some(SocketAddrV6::new(ip, port, 0, scope).into()),
    }
}

/// How names are resolved.
#[derive(Clone, Copy)]
struct How {
    /// Finds the addresses of a name; blocks.
    find: fn(&str) -> io::Result<Vec<SocketAddr>>,
    /// What a thread of the crew does.
    work: fn(),
}

const SYSTEM: How = How {
    find: |host| Ok((host, 0).to_socket_addrs()?.collect()),
    work: || NAMES.get().crew.work(),
};

/// A lookup, as the thread that answers sees it.
struct Waiter {
    number: u64,
    port: u16,
    ipv6: bool,
    answer: Arc<Mutex<Option<Result<SocketAddr>>>>,
    /// The other end turns readable when this is dropped.
    _announce: UnixStream,
}

/// Those who wait for each name that a thread is at, or will be. A name is asked for once at a time, however
/// many wait, or come again after they gave up: a name server that does not answer gets no heap of work.
#[derive(Default)]
struct Asked {
    waiters: HashMap<String, Vec<Waiter>>,
    number: u64,
}

#[derive(Default)]
struct Names {
    asked: Mutex<Asked>,
    crew: Crew,
}

static NAMES: PerProcess<Names> = PerProcess::new();

impl Names {
    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn ask(&'static self, host: &str, mut waiter: Waiter, how: How) -> Result<u64> {
        let mut asked = self.asked();
        asked.number += 1;
        let number = asked.number;
        waiter.number = number;
        if let Some(others) = asked.waiters.get_mut(host) {
            others.push(waiter);
            return Ok(number);
        }
        let name = host.to_owned();
        let job = Box::new(move || self.answer(&name, how));
        self.crew
            .put(job, || os::spawn("zmq-rdma-names", how.work))?;
        asked.waiters.insert(host.to_owned(), vec![waiter]);
        Ok(number)
    }

    fn answer(&self, host: &str, how: How) {
        if !self.is_wanted(host) {
            return;
        }
        let found = (how.find)(host);
        let waiters = self.asked().waiters.remove(host);
        for waiter in waiters.unwrap_or_default() {
            let addr = choose(host, &found, waiter.port, waiter.ipv6);
            *waiter.answer.lock().unwrap_or_else(|e| e.into_inner()) = Some(addr);
        }
    }

    /// Whether anybody still waits for the answer; if not, the name is forgotten.
    fn is_wanted(&self, host: &str) -> bool {
        let mut asked = self.asked();
        let wanted = asked.waiters.get(host).is_some_and(|w| !w.is_empty());
        if !wanted {
            asked.waiters.remove(host);
        }
        wanted
    }

    /// Nobody waits for that answer any more.
    fn give_up(&self, host: &str, number: u64) {
        if let Some(waiters) = self.asked().waiters.get_mut(host) {
            waiters.retain(|waiter| waiter.number != number);
        }
    }
}

/// A name being resolved.
pub struct Lookup {
    host: String,
    number: u64,
    names: &'static Names,
    generation: u32,
    answer: Arc<Mutex<Option<Result<SocketAddr>>>>,
    announced: UnixStream,
}

impl Lookup {
    /// Start. `ipv6`: the answer is an IPv6 address, if need be a mapped IPv4 one.
    pub fn start(host: &str, port: u16, ipv6: bool) -> Result<Lookup> {
        Lookup::start_with(NAMES.get(), SYSTEM, host, port, ipv6)
    }

    fn start_with(
        names: &'static Names,
        how: How,
        host: &str,
        port: u16,
        ipv6: bool,
    ) -> Result<Lookup> {
        let (announced, announce) = UnixStream::pair().map_err(|e| os::failed("socketpair", &e))?;
        announced
            .set_nonblocking(true)
            .map_err(|e| os::failed("fcntl", &e))?;
        let answer = Arc::new(Mutex::new(None));
        let waiter = Waiter {
            number: 0,
            port,
            ipv6,
            answer: Arc::clone(&answer),
            _announce: announce,
        };
        Ok(Lookup {
            host: host.to_owned(),
            number: names.ask(host, waiter, how)?,
            names,
            generation: os::generation(),
            answer,
            announced,
        })
    }

    /// Readable once the answer is there.
    pub fn fd(&self) -> RawFd {
        self.announced.as_raw_fd()
    }

    /// The answer, or `Again`.
    pub fn poll(&mut self) -> Result<SocketAddr> {
        let cut_short = matches!(self.announced.read(&mut [0]), Ok(0));
        let answer = self.answer.lock().unwrap_or_else(|e| e.into_inner()).take();
        answer.unwrap_or_else(|| {
            Err(if cut_short {
                Error::Unreachable("name resolution was cut short".into())
            } else {
                Error::Again
            })
        })
    }
}

impl Drop for Lookup {
    fn drop(&mut self) {
        // In a forked child the lock may be held by nobody who is there.
        if self.generation == os::generation() {
            self.names.give_up(&self.host, self.number);
        }
    }
}

fn choose(
    host: &str,
    found: &io::Result<Vec<SocketAddr>>,
    port: u16,
    ipv6: bool,
) -> Result<SocketAddr> {
    let unknown = |why: &str| Error::Unreachable(format!("cannot resolve {host}: {why}"));
    let found = found.as_ref().map_err(|e| unknown(&e.to_string()))?;
    let at = |addr: &SocketAddr| {
        let mut addr = *addr;
        addr.set_port(port);
        addr
    };
    let v4 = found.iter().find(|a| a.is_ipv4()).map(at);
    if !ipv6 {
        return v4.ok_or_else(|| unknown("it has no IPv4 address, and ZMQ_IPV6 is not set"));
    }
    let v6 = found.iter().find(|a| a.is_ipv6()).map(at);
    v6.or_else(|| v4.as_ref().map(mapped))
        .ok_or_else(|| unknown("no address"))
}

fn mapped(addr: &SocketAddr) -> SocketAddr {
    let ip = match addr.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    SocketAddr::new(Ipv6Addr::into(ip), addr.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(lookup: &mut Lookup) -> Result<SocketAddr> {
        loop {
            match lookup.poll() {
                Err(Error::Again) => os::wait_readable(lookup.fd()),
                done => return done,
            }
        }
    }

    #[test]
    fn numeric_addresses_need_no_lookup() {
        let v4 = numeric("127.0.0.1", 5, false).unwrap();
        assert_eq!(v4.to_string(), "127.0.0.1:5");
        let both = numeric("127.0.0.1", 5, true).unwrap();
        assert_eq!(both.to_string(), "[::ffff:127.0.0.1]:5");
        assert_eq!(numeric("::1", 5, true).unwrap().to_string(), "[::1]:5");
        let SocketAddr::V6(zoned) = numeric("fe80::1%lo", 5, true).unwrap() else {
            panic!("not IPv6")
        };
        assert_ne!(zoned.scope_id(), 0);
        assert!(numeric("localhost", 5, false).is_none());
    }

    #[test]
    fn a_name_is_announced_on_the_descriptor() {
        let mut many: Vec<_> = (0..20)
            .map(|port| Lookup::start("localhost", port, false).unwrap())
            .collect();
        for (port, lookup) in many.iter_mut().enumerate() {
            let addr = wait(lookup).unwrap();
            assert!(addr.ip().is_loopback() && addr.is_ipv4());
            assert_eq!(usize::from(addr.port()), port);
        }
    }

    static SLOW: PerProcess<Names> = PerProcess::new();
    static ASKED: Mutex<usize> = Mutex::new(0);
    static SERVER: Mutex<()> = Mutex::new(());
    /// The server does not answer while the test holds the lock.
    const SLOWLY: How = How {
        find: |host| {
            if host == "dead" {
                *ASKED.lock().unwrap() += 1;
                drop(SERVER.lock());
            }
            Ok(vec![([127, 0, 0, 1], 0).into()])
        },
        work: || SLOW.get().crew.work(),
    };

    #[test]
    fn a_name_without_an_answer_holds_up_no_other_and_costs_one_lookup() {
        let start = |host, port| Lookup::start_with(SLOW.get(), SLOWLY, host, port, false).unwrap();
        let silence = SERVER.lock().unwrap();
        let mut first = start("dead", 1);
        for port in 0..100 {
            // Given up, as at a connect's deadline.
            drop(start("dead", port));
        }
        let mut last = start("dead", 2);
        assert_eq!(SLOW.get().asked().waiters["dead"].len(), 2);

        let mut other = start("other", 3);
        let soon = std::time::Duration::from_secs(10);
        assert!(os::wait_for(other.fd(), libc::POLLIN, soon));
        assert_eq!(other.poll().unwrap().port(), 3);

        assert!(matches!(first.poll(), Err(Error::Again)));
        drop(silence);
        assert_eq!(wait(&mut first).unwrap().port(), 1);
        assert_eq!(wait(&mut last).unwrap().port(), 2);
        assert_eq!(*ASKED.lock().unwrap(), 1);
        assert!(SLOW.get().asked().waiters.is_empty());
    }

    #[test]
    fn an_unknown_name_fails_with_the_name_in_words() {
        let mut lookup = Lookup::start("no-such-host.invalid", 1, false).unwrap();
        let error = wait(&mut lookup).unwrap_err();
        assert!(
            error.to_string().contains("no-such-host.invalid"),
            "{error}"
        );
    }
}
