// SPDX-License-Identifier: MPL-2.0
//! Whether the peer of a TCP connection that owes an acknowledgement has been silent
//! for too long, by what the kernel tells of it.

use std::time::{Duration, Instant};

use crate::os::system::Acks;

/// What has been seen of a peer's silence.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Since when window probes were seen unanswered.
    probing: Option<Instant>,
}

impl Silence {
    /// How long from `now` it cannot be that the peer has acknowledged nothing for
    /// `limit` while it owed it; `None`: it is so.
    pub fn left(&mut self, limit: Duration, acks: &Acks, now: Instant) -> Option<Duration> {
        let silent = if acks.unacked > 0 {
            // After an idle time the last acknowledgement is old, but what it
            // owes is young; under way it is the other way round.
            acks.last_ack.min(acks.oldest)
        } else if acks.probes > 0 {
            // The window is shut: a probe that is out this moment proves nothing,
            // one that was out all the time does.
            let since = *self.probing.get_or_insert(now);
            now.duration_since(since).min(acks.last_ack)
        } else {
            self.probing = None;
            Duration::ZERO
        };
        limit.checked_sub(silent).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);
    const QUIET: Acks = Acks {
        unacked: 0,
        probes: 0,
        last_ack: Duration::from_secs(60),
        oldest: Duration::ZERO,
    };

    fn left(acks: &Acks) -> Option<Duration> {
        Silence::default().left(LIMIT, acks, Instant::now())
    }

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn an_idle_peer_owes_nothing() {
        assert_eq!(left(&QUIET), Some(LIMIT));
    }

    #[test]
    fn what_was_sent_just_now_is_not_owed_for_long() {
        let acks = Acks {
            unacked: 1,
            oldest: secs(1),
            ..QUIET
        };
        assert_eq!(left(&acks), Some(secs(9)));
        let acks = Acks {
            oldest: secs(10),
            ..acks
        };
        assert_eq!(left(&acks), None);
    }

    #[test]
    fn a_peer_that_acknowledges_slowly_lives() {
        let acks = Acks {
            unacked: 9,
            last_ack: secs(2),
            oldest: secs(100),
            ..QUIET
        };
        assert_eq!(left(&acks), Some(secs(8)));
    }

    #[test]
    fn window_probes_must_go_unanswered_all_the_time() {
        let mut silence = Silence::default();
        let start = Instant::now();
        let probing = Acks { probes: 1, ..QUIET };
        let mut left = |acks, at| silence.left(LIMIT, acks, start + secs(at));
        assert_eq!(left(&probing, 0), Some(secs(10)));
        assert_eq!(left(&probing, 5), Some(secs(5)));
        assert_eq!(left(&QUIET, 9), Some(secs(10)));
        assert_eq!(left(&probing, 10), Some(secs(10)));
        assert_eq!(left(&probing, 19), Some(secs(1)));
        assert_eq!(left(&probing, 20), None);
    }
}
