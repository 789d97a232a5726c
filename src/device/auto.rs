// SPDX-License-Identifier: MPL-2.0
//! The choice `auto`: verbs where the route has an RDMA device, else soft; and
//! a listener on both, so that either kind of peer is served.
//!
//! RoCE and InfiniBand have ports of their own. iWARP has TCP's: where a
//! device of it listens, soft cannot, and need not, for the wire is the same.
//! So on a wildcard address soft then listens on the other interfaces, one by one, and on
//! those that come later when the kernel tells of them.

use std::net::SocketAddr;
use std::time::Duration;

use super::{soft, verbs, Endpoint, Listener, Options, Ready};
use crate::error::{AddressFault, Error, Result};
use verbs::{News, Watch};

/// A peer that does not answer over RDMA for so long is asked over TCP next.
const PATIENCE: Duration = Duration::from_secs(3);
/// Ports tried at most, where one may be chosen.
const PORTS: usize = 16;

/// Start to connect.
pub(super) fn dial(
    to: SocketAddr,
    source: Option<SocketAddr>,
    private: &[u8],
    options: &Options,
) -> Result<Box<dyn Endpoint>> {
    if verbs::available(to, source).is_none() {
        return soft::dial(to, source, private, options);
    }
    let options = Options {
        patience: Some(PATIENCE),
        ..options.clone()
    };
    verbs::dial(to, source, private, &options)
}

/// Listen on whatever can serve `addr`.
pub(super) fn listen(addr: SocketAddr, options: &Options) -> Result<Box<dyn Listener>> {
    if !verbs::serves(addr.ip()) {
        return soft::listen(addr, options);
    }
    let mut listened = listen_once(addr, options);
    for _ in 0..PORTS {
        let taken = matches!(listened, Err(Error::Address(AddressFault::InUse)));
        if !taken || addr.port() != 0 {
            break;
        }
        listened = listen_once(addr, options);
    }
    listened
}

fn listen_once(addr: SocketAddr, options: &Options) -> Result<Box<dyn Listener>> {
    // Verbs first: an iWARP device must have the port, soft need not.
    let first = match verbs::listen(addr, options) {
        Err(Error::Address(AddressFault::InUse)) => {
            return Err(Error::Address(AddressFault::InUse))
        }
        // Its RDMA devices cannot serve this address after all.
        Err(_) => return soft::listen(addr, options),
        Ok(first) => first,
    };
    let addr = SocketAddr::new(addr.ip(), first.local_addr().port());
    let mut both = Both::new(addr)?;
    both.add(String::new(), first)?;
    let iwarp = verbs::iwarp_interfaces();
    if iwarp.is_empty() || options.interface.is_some() {
        let on_iwarp = options
            .interface
            .as_ref()
            .is_some_and(|i| iwarp.contains(i));
        if !on_iwarp {
            both.add(String::new(), soft::listen(addr, options)?)?;
        }
    } else if addr.ip().is_unspecified() {
        both.listen_on_the_others(options)?;
    } else if !iwarp.iter().any(|name| verbs::has_address(name, addr.ip())) {
        both.add(String::new(), soft::listen(addr, options)?)?;
    }
    Ok(Box::new(both))
}

/// Listeners of one port as one.
struct Both {
    local: SocketAddr,
    watch: Watch,
    /// With the interface that each is for; none: as many as its address.
    all: Vec<(String, Box<dyn Listener>)>,
    /// Who is asked first: they take turns.
    next: usize,
    /// Where soft listens on each interface by itself.
    others: Option<(News, Options)>,
}

impl Both {
    fn new(local: SocketAddr) -> Result<Both> {
        Ok(Both {
            local,
            watch: Watch::new()?,
            all: Vec::new(),
            next: 0,
            others: None,
        })
    }

    fn add(&mut self, interface: String, listener: Box<dyn Listener>) -> Result<()> {
        self.watch.add(listener.ready().fd, 0)?;
        self.all.push((interface, listener));
        Ok(())
    }

    /// Soft on each interface that is not iWARP's, now and later.
    fn listen_on_the_others(&mut self, options: &Options) -> Result<()> {
        let news = News::new()?;
        self.watch.add(news.fd(), 0)?;
        self.others = Some((news, options.clone()));
        self.renew(options)
    }

    /// Listen where there is an interface and no listener, and nowhere else.
    fn renew(&mut self, options: &Options) -> Result<()> {
        let there = verbs::interfaces();
        self.all
            .retain(|(name, _)| name.is_empty() || there.contains(name));
        let iwarp = verbs::iwarp_interfaces();
        for name in there {
            if iwarp.contains(&name) || self.all.iter().any(|(other, _)| *other == name) {
                continue;
            }
            let options = Options {
                interface: Some(name.clone()),
                ..options.clone()
            };
            let listener = soft::listen(self.local, &options)?;
            self.add(name, listener)?;
        }
        Ok(())
    }
}

impl Listener for Both {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn ready(&self) -> Ready {
        Ready {
            fd: self.watch.fd(),
            read: true,
            write: false,
        }
    }

    fn accept(&mut self) -> Result<Box<dyn Endpoint>> {
        if let Some((news, options)) = &self.others {
            if news.take() {
                let options = options.clone();
                // What fails (an interface that is gone again) is tried at the next news.
                let _ = self.renew(&options);
            }
        }
        for _ in 0..self.all.len() {
            self.next = (self.next + 1) % self.all.len();
            match self.all[self.next].1.accept() {
                Err(Error::Again) => {}
                other => return other,
            }
        }
        Err(Error::Again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_listeners_are_one() {
        let options = Options::default();
        let any = "127.0.0.1:0".parse().unwrap();
        let all: Vec<_> = (0..2)
            .map(|_| soft::listen(any, &options).unwrap())
            .collect();
        let at: Vec<_> = all.iter().map(|one| one.local_addr()).collect();
        let mut both = Both::new(at[0]).unwrap();
        for one in all {
            both.add(String::new(), one).unwrap();
        }
        assert!(matches!(both.accept(), Err(Error::Again)));
        for to in at {
            let client = soft::dial(to, None, b"", &options).unwrap();
            crate::os::wait_readable(both.ready().fd);
            let server = both.accept().unwrap();
            assert_eq!(server.peer_addr(), client.local_addr());
            assert!(matches!(both.accept(), Err(Error::Again)));
        }
    }
}
