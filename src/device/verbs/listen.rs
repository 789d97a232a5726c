// SPDX-License-Identifier: MPL-2.0
//! The listener as the I/O thread sees it: a door where new connections wait.

use std::net::SocketAddr;
use std::sync::mpsc::sync_channel;
use std::sync::Arc;

use super::cm::Token;
use super::control::{self, Door, Job, Listen};
use crate::device::{self, Options, Ready};
use crate::error::{Error, Result};

/// A listening address.
pub(super) struct Listener {
    token: Token,
    door: Arc<Door>,
    local: SocketAddr,
}

impl Listener {
    /// Listen; waits for the control thread to have bound the address.
    pub(super) fn open(addr: SocketAddr, options: &Options) -> Result<Listener> {
        let door = Arc::new(Door::new()?);
        let token = control::new_token();
        let (reply, answer) = sync_channel(1);
        control::submit(Job::Listen(Listen {
            token,
            addr,
            options: options.clone(),
            door: Arc::clone(&door),
            reply,
        }));
        let local = answer
            .recv()
            .map_err(|_| Error::Misuse("the control thread dropped a listener"))??;
        Ok(Listener { token, door, local })
    }
}

impl device::Listener for Listener {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn ready(&self) -> Ready {
        Ready {
            fd: self.door.fd(),
            read: true,
            write: false,
        }
    }

    fn accept(&mut self) -> Result<Box<dyn device::Endpoint>> {
        Ok(self.door.admit()?)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        control::submit(Job::Unlisten(self.token));
    }
}
