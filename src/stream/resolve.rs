// SPDX-License-Identifier: MPL-2.0
//! Names to addresses without blocking the caller: a few threads of ours do
//! the waiting, and go away when there is nothing to do.
//!
//! The answer is announced on a pipe end, so that a lookup has a readiness
//! descriptor like everything else.

mod crew;

use std::io::Read;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

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

static NAMES: PerProcess<Crew> = PerProcess::new();

/// A name being resolved.
pub struct Lookup {
    answer: Arc<Mutex<Option<Result<SocketAddr>>>>,
    announced: UnixStream,
}

impl Lookup {
    /// Start. `ipv6`: the answer is an IPv6 address, if need be a mapped IPv4 one.
    pub fn start(host: &str, port: u16, ipv6: bool) -> Result<Lookup> {
        let (announced, announce) = UnixStream::pair().map_err(|e| os::failed("socketpair", &e))?;
        announced
            .set_nonblocking(true)
            .map_err(|e| os::failed("fcntl", &e))?;
        let answer = Arc::new(Mutex::new(None));
        let (host, found) = (host.to_owned(), Arc::clone(&answer));
        let job = Box::new(move || {
            let addr = resolve(&host, port, ipv6);
            *found.lock().unwrap_or_else(|e| e.into_inner()) = Some(addr);
            // The other end turns readable.
            drop(announce);
        });
        let start = || os::spawn("zmq-rdma-names", || NAMES.get().work());
        NAMES.get().put(job, start)?;
        Ok(Lookup { answer, announced })
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

fn resolve(host: &str, port: u16, ipv6: bool) -> Result<SocketAddr> {
    let unknown = |why: String| Error::Unreachable(format!("cannot resolve {host}: {why}"));
    let found: Vec<SocketAddr> = (host, port)
        .to_socket_addrs()
        .map_err(|e| unknown(e.to_string()))?
        .collect();
    let v4 = found.iter().find(|a| a.is_ipv4());
    if !ipv6 {
        return v4
            .copied()
            .ok_or_else(|| unknown("it has no IPv4 address, and ZMQ_IPV6 is not set".into()));
    }
    let v6 = found.iter().find(|a| a.is_ipv6()).copied();
    v6.or_else(|| v4.map(mapped))
        .ok_or_else(|| unknown("no address".into()))
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
