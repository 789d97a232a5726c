// SPDX-License-Identifier: MPL-2.0
//! How to fall asleep on a device that tells of a completion only once it was
//! asked to, and only of one that comes after the asking.

/// Take in what there is and ask to be told of more, until asking was not
/// needed. When this returns, whatever was not taken in makes an event.
///
/// `arm` says whether it had to ask: what completed before that makes no event,
/// so it is looked for once more.
pub fn until_armed<D, E>(
    device: &mut D,
    mut take: impl FnMut(&mut D) -> Result<(), E>,
    mut arm: impl FnMut(&mut D) -> Result<bool, E>,
) -> Result<(), E> {
    loop {
        take(device)?;
        if !arm(device)? {
            return Ok(());
        }
    }
}

/// Insurance against a device that completes work and does not tell: what a slow
/// sweep finds on an armed queue must have made an event by the next sweep.
#[derive(Debug, Default)]
pub struct Insurance {
    /// Events of the queue when the last sweep found something.
    found_at: Option<u64>,
}

impl Insurance {
    /// A sweep took in `found` completions; `armed`: the device owed an event for
    /// them; `events`: how many came since the start. Returns whether what the last
    /// sweep found would have lain there without it.
    pub fn on_sweep(&mut self, armed: bool, found: usize, events: u64) -> bool {
        let rescued = self.found_at == Some(events);
        self.found_at = (armed && found > 0).then_some(events);
        rescued
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A completion queue, and where the next completion falls.
    #[derive(Default)]
    struct Queue {
        waiting: u32,
        taken: u32,
        armed: bool,
        event: bool,
        /// Steps until a completion arrives.
        fuse: Option<u32>,
        /// Completions that came after a look and before the arming.
        between: u32,
    }

    impl Queue {
        /// One step passes: a completion may arrive in it.
        fn step(&mut self) -> bool {
            let now = self.fuse == Some(0);
            self.fuse = self.fuse.and_then(|left| left.checked_sub(1));
            if now {
                self.waiting += 1;
                self.event |= std::mem::take(&mut self.armed);
            }
            now
        }

        fn take(&mut self) -> Result<(), ()> {
            self.step();
            self.taken += std::mem::take(&mut self.waiting);
            self.between += u32::from(self.step());
            Ok(())
        }

        fn arm(&mut self) -> Result<bool, ()> {
            if self.armed {
                return Ok(false);
            }
            self.step();
            self.armed = true;
            self.step();
            Ok(true)
        }
    }

    #[test]
    fn row_15_a_completion_between_the_last_look_and_the_arming_is_seen() {
        const ROUNDS: u32 = 1_000_000;
        let mut queue = Queue::default();
        let mut slept = 0;
        for round in 0..ROUNDS {
            queue.fuse = Some(round % 7);
            // Woken: the event is taken off first.
            if std::mem::take(&mut queue.event) {
                queue.armed = false;
            }
            until_armed(&mut queue, Queue::take, Queue::arm).unwrap();
            assert!(queue.armed || queue.event, "asleep, and not armed");
            assert!(queue.waiting == 0 || queue.event, "round {round}: stranded");
            slept += u32::from(queue.waiting == 0);
            while queue.fuse.is_some() {
                queue.step();
            }
            assert!(queue.waiting == 0 || queue.event, "round {round}: no event");
        }
        assert!(queue.between > ROUNDS / 10 && slept > ROUNDS / 10);
        assert!(queue.taken > ROUNDS - 10);
    }

    #[test]
    fn row_43_what_only_the_sweep_found_is_counted() {
        let mut insurance = Insurance::default();
        assert!(!insurance.on_sweep(true, 0, 5), "nothing was there");
        assert!(
            !insurance.on_sweep(true, 2, 5),
            "its event may be on its way"
        );
        assert!(!insurance.on_sweep(true, 1, 6), "and it was");
        assert!(!insurance.on_sweep(false, 9, 7), "and the next one too");
        assert!(!insurance.on_sweep(true, 1, 7), "not armed: none was owed");
        assert!(insurance.on_sweep(true, 0, 7), "a notification was lost");
        assert!(!insurance.on_sweep(true, 0, 7), "and is counted once");
    }
}
