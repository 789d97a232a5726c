// SPDX-License-Identifier: MPL-2.0
//! What the control thread tells an endpoint, and the endpoint's readiness
//! descriptor: an epoll over a bell (news, or death) and, once there is one,
//! the completion channel.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::RawFd;

use super::explain::Between;
use super::queues::Queues;
use super::sys::Watch;
use crate::device::PrivateData;
use crate::error::{Error, Result};
use crate::os::bell::Handover;

/// A piece of news.
pub(super) enum News {
    /// The way to the peer is found; receives may be posted, then `Connect`.
    Ready(Box<Queues>, Between),
    /// The peer asks to connect.
    Request(PrivateData),
    /// The connection stands; this side's address.
    Established(PrivateData, Option<SocketAddr>),
    /// The peer's program said no.
    Rejected(PrivateData),
    /// The peer has gone in good order, or at least its kernel has.
    Disconnected,
    /// It is over.
    Failed(Error),
}

/// Shared by an endpoint and the control thread.
pub(super) struct Mailbox {
    watch: Watch,
    news: Handover<News>,
}

impl Mailbox {
    pub(super) fn new() -> Result<Mailbox> {
        let (watch, news) = (Watch::new()?, Handover::new()?);
        watch.add(news.bell().fd(), 0)?;
        Ok(Mailbox { watch, news })
    }

    /// The readiness descriptor.
    pub(super) fn fd(&self) -> RawFd {
        self.watch.fd()
    }

    /// Wake the endpoint for its completions too.
    pub(super) fn watch(&self, completions: RawFd) -> Result<()> {
        self.watch.add(completions, 1)
    }

    pub(super) fn post(&self, news: News) {
        self.news.put(news);
    }

    /// Wake the endpoint, without news.
    pub(super) fn poke(&self) {
        self.news.poke();
    }

    /// What came since the last time. Costs one load when nothing did.
    pub(super) fn take(&self) -> VecDeque<News> {
        self.news.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::bell::Bell;

    #[test]
    fn news_keeps_the_descriptor_readable_until_taken() {
        let (mailbox, outer) = (Mailbox::new().unwrap(), Watch::new().unwrap());
        outer.add(mailbox.fd(), 9).unwrap();
        assert!(mailbox.take().is_empty());
        mailbox.post(News::Disconnected);
        mailbox.post(News::Failed(Error::Closed));
        assert_eq!(outer.wait(0), [9]);
        let news = mailbox.take();
        assert!(matches!(news[0], News::Disconnected) && news.len() == 2);
        assert!(outer.wait(0).is_empty());
        mailbox.poke();
        assert_eq!(outer.wait(0), [9]);
        assert!(mailbox.take().is_empty());
        assert!(outer.wait(0).is_empty());
    }

    #[test]
    fn completions_wake_too() {
        let (mailbox, outer) = (Mailbox::new().unwrap(), Watch::new().unwrap());
        outer.add(mailbox.fd(), 9).unwrap();
        let channel = Bell::new().unwrap();
        mailbox.watch(channel.fd()).unwrap();
        channel.ring();
        assert_eq!(outer.wait(0), [9]);
    }
}
