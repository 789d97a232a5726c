// SPDX-License-Identifier: MPL-2.0
//! A listening address of the soft device: a TCP listener whose connections
//! have yet to say the MPA request.

use std::net::SocketAddr;

use super::endpoint::Endpoint;
use super::tcp::Tcp;
use crate::device::{self, Options, Ready};
use crate::error::Result;

/// A listening TCP socket.
pub struct Listener {
    tcp: Tcp,
    local: SocketAddr,
    options: Options,
}

impl Listener {
    /// Listen at `addr` (port 0: any).
    pub fn new(addr: SocketAddr, options: &Options) -> Result<Listener> {
        let tcp = Tcp::listening(addr, options)?;
        let local = tcp.local_addr()?;
        Ok(Listener {
            tcp,
            local,
            options: options.clone(),
        })
    }

    /// The next connection, not boxed.
    pub fn accept_endpoint(&mut self) -> Result<Endpoint> {
        let (tcp, peer) = self.tcp.accept(&self.options)?;
        Endpoint::accepted(tcp, peer, &self.options)
    }
}

impl device::Listener for Listener {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn ready(&self) -> Ready {
        Ready {
            fd: self.tcp.fd(),
            read: true,
            write: false,
        }
    }

    fn accept(&mut self) -> Result<Box<dyn device::Endpoint>> {
        Ok(Box::new(self.accept_endpoint()?))
    }
}
