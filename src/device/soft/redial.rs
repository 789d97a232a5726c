// SPDX-License-Identifier: MPL-2.0
//! A second try: a responder that knows the first revision of MPA alone does not
//! take RFC 6581's request, and is asked again in RFC 5044's.

use std::net::SocketAddr;

use super::setup::Setup;
use super::tcp::Tcp;
use crate::device::Options;
use crate::error::Result;
use crate::proto::mpa::negotiate::Wishes;
use crate::wire::mpa::Revision;

/// How to connect once more.
pub(super) struct Redial {
    source: Option<SocketAddr>,
    private: Vec<u8>,
    options: Options,
    wishes: Wishes,
}

impl Redial {
    /// As the first time.
    pub fn new(source: Option<SocketAddr>, private: &[u8], o: &Options, wishes: Wishes) -> Redial {
        Redial {
            source,
            private: private.to_vec(),
            options: o.clone(),
            wishes,
        }
    }

    /// A new connection, on its way.
    pub fn in_revision_one(self, to: &SocketAddr) -> Result<(Tcp, Setup)> {
        let wishes = Wishes {
            revision: Revision::One,
            ..self.wishes
        };
        let setup = Setup::initiator(*to, wishes, &self.private)?;
        let tcp = Tcp::dialing(to, self.source.as_ref(), &self.options)?;
        tcp.connect(to)?;
        Ok((tcp, setup))
    }
}
