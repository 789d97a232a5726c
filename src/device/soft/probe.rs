// SPDX-License-Identifier: MPL-2.0
//! Whether a peer that owes an acknowledgement has been silent for too long.
//! (One that owes none is found by TCP's keep-alive.)

use std::time::{Duration, Instant};

use super::tcp::Acks;

/// What has been seen of a peer's silence.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// Since when window probes were seen unanswered.
    probing: Option<Instant>,
}

impl Silence {
    /// Whether the peer has acknowledged nothing for `limit` while it owed it.
    pub fn exceeds(&mut self, limit: Duration, acks: &Acks, now: Instant) -> bool {
        if acks.unacked > 0 {
            // After an idle time the last acknowledgement is old, but what it
            // owes is young; under way it is the other way round.
            return acks.last_ack.min(acks.oldest) >= limit;
        }
        // The window is shut: a probe that is out this moment proves nothing,
        // one that was out all the time does.
        if acks.probes == 0 {
            self.probing = None;
            return false;
        }
        let since = *self.probing.get_or_insert(now);
        now.duration_since(since) >= limit && acks.last_ack >= limit
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

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn an_idle_peer_owes_nothing() {
        assert!(!Silence::default().exceeds(LIMIT, &QUIET, Instant::now()));
    }

    #[test]
    fn what_was_sent_just_now_is_not_owed_for_long() {
        let acks = Acks {
            unacked: 1,
            oldest: secs(1),
            ..QUIET
        };
        assert!(!Silence::default().exceeds(LIMIT, &acks, Instant::now()));
        let acks = Acks {
            oldest: secs(10),
            ..acks
        };
        assert!(Silence::default().exceeds(LIMIT, &acks, Instant::now()));
    }

    #[test]
    fn a_peer_that_acknowledges_slowly_lives() {
        let acks = Acks {
            unacked: 9,
            last_ack: secs(2),
            oldest: secs(100),
            ..QUIET
        };
        assert!(!Silence::default().exceeds(LIMIT, &acks, Instant::now()));
    }

    #[test]
    fn window_probes_must_go_unanswered_all_the_time() {
        let mut silence = Silence::default();
        let start = Instant::now();
        let probing = Acks { probes: 1, ..QUIET };
        assert!(!silence.exceeds(LIMIT, &probing, start));
        assert!(!silence.exceeds(LIMIT, &probing, start + secs(5)));
        assert!(!silence.exceeds(LIMIT, &QUIET, start + secs(9)));
        assert!(!silence.exceeds(LIMIT, &probing, start + secs(10)));
        assert!(!silence.exceeds(LIMIT, &probing, start + secs(19)));
        assert!(silence.exceeds(LIMIT, &probing, start + secs(20)));
    }
}
