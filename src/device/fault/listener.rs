// SPDX-License-Identifier: MPL-2.0
//! A listener that misbehaves, and whose connections do.

use std::net::SocketAddr;

use super::plan::{Chance, Plan};
use super::FaultyEndpoint;
use crate::device::{Endpoint, Listener, Ready};
use crate::error::{Error, Result};

/// A listener whose endpoints misbehave, each by a seed of its own.
pub struct FaultyListener {
    inner: Box<dyn Listener>,
    plan: Plan,
    chance: Chance,
}

impl FaultyListener {
    /// Wrap `inner`.
    pub fn new(inner: Box<dyn Listener>, plan: Plan) -> FaultyListener {
        FaultyListener {
            inner,
            plan,
            chance: Chance(plan.seed),
        }
    }
}

impl Listener for FaultyListener {
    fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    fn ready(&self) -> Ready {
        self.inner.ready()
    }

    fn accept(&mut self) -> Result<Box<dyn Endpoint>> {
        if let Some((often, code)) = self.plan.accept_fails {
            if self.chance.hits(often) {
                return Err(Error::Device { op: "accept", code });
            }
        }
        let inner = self.inner.accept()?;
        let plan = Plan {
            seed: self.chance.next(),
            ..self.plan
        };
        Ok(Box::new(FaultyEndpoint::new(inner, plan)))
    }
}
