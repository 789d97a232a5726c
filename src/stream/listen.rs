// SPDX-License-Identifier: MPL-2.0
//! A listening address: the device's listener, and how its links are sized.

use std::net::SocketAddr;

use super::link::Link;
use super::sizes::Sizes;
use crate::device::{self, Choice, Ready};
use crate::error::Result;

/// A listening address.
pub struct Listener {
    device: Box<dyn device::Listener>,
    sizes: Sizes,
}

impl Listener {
    /// Listen at `addr`; port 0 chooses one.
    pub fn open(choice: Choice, addr: SocketAddr, sizes: Sizes) -> Result<Listener> {
        let device = device::listen(choice, addr, &sizes.device)?;
        Ok(Listener { device, sizes })
    }

    /// The bound address.
    pub fn local_addr(&self) -> SocketAddr {
        self.device.local_addr()
    }

    /// What to watch.
    pub fn ready(&self) -> Ready {
        self.device.ready()
    }

    /// The next connection, its handshake still to come; `Again`: none now.
    pub fn accept(&mut self) -> Result<Link> {
        let endpoint = self.device.accept()?;
        Ok(Link::acceptor(endpoint, self.sizes.clone()))
    }
}
