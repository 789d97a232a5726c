// SPDX-License-Identifier: MPL-2.0
//! How much memory may be pinned: a budget of the process, read off
//! RLIMIT_MEMLOCK at first use, so that an unprivileged user with the usual
//! limit of 8 MiB gets smaller slots rather than ENOMEM. The kernel lets bearers of
//! CAP_IPC_LOCK (root) pin more; but siw, which counts by itself, holds them to the limit too.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;

use super::names;
use crate::device::Options;
use crate::error::{Error, Result};

const MIB: usize = 1 << 20;
/// What is pinned at most where the limit does not bind.
const MOST: usize = 256 * MIB;
/// Receives, and sends, of a connection at most: their slots are pinned.
const RECVS: u16 = 64;
const SENDS: u16 = 68;
/// The same where half of the budget is in use, so that a few busy connections do not
/// take what others need.
pub(super) const LEAN_RECVS: u16 = 16;
pub(super) const LEAN_SENDS: u16 = 20;
/// Bytes of a slot. Each SEND costs a header, a work request and an acknowledgement.
pub const SLOT: usize = 4 * PACKET;
/// The largest packet of RoCE and InfiniBand. A longer slot is a whole number of them: what
/// is over would cost a packet of its own.
const PACKET: usize = 4096;
/// At or below this limit, slots and windows shrink.
const SMALL_LIMIT: usize = 8 * MIB;
/// Whole pages, so that the little there is goes all to slots.
const SMALL_SLOT: usize = 4096;
const SMALL_RECVS: u16 = 8;
const SMALL_SENDS: u16 = 16;
/// CAP_IPC_LOCK: the kernel does not hold its bearer to the limit.
const CAP_IPC_LOCK: u32 = 14;

/// Bytes that may be pinned, and are.
pub(super) struct Budget {
    limit: Option<usize>,
    cap: AtomicUsize,
    pinned: AtomicUsize,
    /// Of that, the caller's memory.
    foreign: AtomicUsize,
    complaint: OnceLock<String>,
}

/// A share of the budget, given back on drop.
pub(super) struct Lease {
    budget: &'static Budget,
    bytes: usize,
    foreign: bool,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.pinned.fetch_sub(self.bytes, Ordering::Relaxed);
        if self.foreign {
            self.budget.foreign.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

/// Whom the kernel part of a device holds to RLIMIT_MEMLOCK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// Those without CAP_IPC_LOCK, as `ib_umem_get` does.
    Unprivileged,
    /// Everybody (siw).
    All,
}

struct Budgets {
    usual: Budget,
    /// Of devices that hold all to the limit, where that is another one.
    strict: Option<Budget>,
}

fn budgets() -> &'static Budgets {
    static BUDGETS: OnceLock<Budgets> = OnceLock::new();
    BUDGETS.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Budgets::new(soft_limit(), is_exempt(&status), pinned_of(&status))
    })
}

/// The budget of this process for such devices.
pub(super) fn budget(bound: Bound) -> &'static Budget {
    budgets().of(bound)
}

/// Bytes pinned by this process.
pub(super) fn pinned() -> usize {
    let all = budgets();
    all.usual.pinned() + all.strict.as_ref().map_or(0, Budget::pinned)
}

impl Budgets {
    fn new(limit: Option<usize>, exempt: bool, already: usize) -> Budgets {
        let strict = limit.filter(|_| exempt);
        Budgets {
            usual: Budget::new(limit.filter(|_| !exempt), already),
            strict: strict.map(|limit| Budget::new(Some(limit), already)),
        }
    }

    fn of(&self, bound: Bound) -> &Budget {
        match (&self.strict, bound) {
            (Some(strict), Bound::All) => strict,
            _ => &self.usual,
        }
    }
}

impl Budget {
    fn new(limit: Option<usize>, already: usize) -> Budget {
        let cap = match limit {
            Some(limit) => (limit.saturating_sub(already) / 4 * 3).min(MOST),
            None => MOST,
        };
        Budget {
            limit,
            cap: AtomicUsize::new(cap),
            pinned: AtomicUsize::new(0),
            foreign: AtomicUsize::new(0),
            complaint: OnceLock::new(),
        }
    }

    /// Take `bytes`; `Limit` when they are not to be had.
    pub(super) fn lease(&'static self, bytes: usize) -> Result<Lease> {
        let cap = self.cap.load(Ordering::Relaxed);
        self.pinned
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pinned| {
                pinned.checked_add(bytes).filter(|&sum| sum <= cap)
            })
            .map_err(|_| self.complain())?;
        Ok(Lease {
            budget: self,
            bytes,
            foreign: false,
        })
    }

    /// Take `bytes` for memory of the caller's, which may be a quarter of the budget, so that
    /// large messages leave the slots theirs. It can be copied instead.
    pub(super) fn lease_foreign(&'static self, bytes: usize) -> Result<Lease> {
        let full = Error::Limit("memory of large messages that may be pinned");
        let most = self.cap.load(Ordering::Relaxed) / 4;
        self.foreign
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |foreign| {
                foreign.checked_add(bytes).filter(|&sum| sum <= most)
            })
            .map_err(|_| full)?;
        let leased = self.lease(bytes).map(|mut lease| {
            lease.foreign = true;
            lease
        });
        leased.inspect_err(|_| {
            self.foreign.fetch_sub(bytes, Ordering::Relaxed);
        })
    }

    /// The kernel refused to pin what `lease` stands for although the budget allowed it: from now
    /// on that is too much, and less may not be.
    pub(super) fn kernel_refused(&'static self, lease: Lease) -> Error {
        let bytes = lease.bytes;
        drop(lease);
        let most = (self.pinned() + bytes).saturating_sub(1);
        self.cap.fetch_min(most, Ordering::Relaxed);
        self.complain()
    }

    /// The error of one who cannot do with less.
    pub(super) fn exhausted(&'static self) -> Error {
        self.complain()
    }

    /// Pinned by us now.
    pub(super) fn pinned(&self) -> usize {
        self.pinned.load(Ordering::Relaxed)
    }

    /// Whether windows may be wide: at least half is to be had, with the `spare` bytes
    /// that are pinned and free.
    pub(super) fn is_ample(&self, spare: usize) -> bool {
        let cap = self.cap.load(Ordering::Relaxed);
        cap.saturating_sub(self.pinned()) + spare >= cap / 2
    }

    /// Bytes of one registration: small under a small budget.
    pub(super) fn block_bytes(&self) -> usize {
        (self.cap.load(Ordering::Relaxed) / 32).min(256 * 1024)
    }

    fn complain(&'static self) -> Error {
        Error::Limit(self.complaint.get_or_init(|| {
            let limit = match self.limit {
                Some(limit) => format!("RLIMIT_MEMLOCK is {} KiB", limit / 1024),
                None => "RLIMIT_MEMLOCK does not bind".into(),
            };
            format!(
                "memory that may be pinned for RDMA: {} KiB of {} KiB in use ({limit}; raise it \
                 with ulimit -l or LimitMEMLOCK=, or use fewer connections)",
                self.pinned() / 1024,
                self.cap.load(Ordering::Relaxed) / 1024,
            )
        }))
    }

    fn fit(&self, options: &mut Options) {
        options.recv_depth = options.recv_depth.min(RECVS);
        options.send_depth = options.send_depth.min(SENDS);
        if options.slot_size > PACKET {
            options.slot_size -= options.slot_size % PACKET;
        }
        if self.limit.is_some_and(|limit| limit <= SMALL_LIMIT) {
            options.slot_size = options.slot_size.min(SMALL_SLOT);
            options.recv_depth = options.recv_depth.min(SMALL_RECVS);
            options.send_depth = options.send_depth.min(SMALL_SENDS);
        }
    }
}

/// Shrink slots and windows to what this process may pin. To be asked before
/// slot size and depths are told to a peer.
pub fn fit(options: &mut Options) {
    let all = budgets();
    all.usual.fit(options);
    // Which device it will be is not known yet.
    if let Some(strict) = all.strict.as_ref().filter(|_| names::any_siw()) {
        strict.fit(options);
    }
}

/// The kernel does not hold this process to the limit, siw apart.
fn is_exempt(status: &str) -> bool {
    field(status, "CapEff:")
        .and_then(|hex| u64::from_str_radix(hex, 16).ok())
        .is_some_and(|caps| caps >> CAP_IPC_LOCK & 1 == 1)
}

/// RLIMIT_MEMLOCK in bytes; `None` where there is none.
fn soft_limit() -> Option<usize> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writes.
    let ret = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    if ret != 0 || limit.rlim_cur == libc::RLIM_INFINITY {
        return None;
    }
    usize::try_from(limit.rlim_cur).ok()
}

/// Bytes that others in this process have locked or pinned already.
fn pinned_of(status: &str) -> usize {
    let kib = |name| {
        field(status, name)
            .and_then(|number| number.parse::<usize>().ok())
            .unwrap_or(0)
    };
    (kib("VmLck:") + kib("VmPin:")) * 1024
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaked(limit: Option<usize>, already: usize) -> &'static Budget {
        Box::leak(Box::new(Budget::new(limit, already)))
    }

    #[test]
    fn row_29_three_quarters_of_the_limit_are_ours() {
        let budget = leaked(Some(8 * MIB), 0);
        let all = budget.lease(6 * MIB).unwrap();
        let Err(Error::Limit(text)) = budget.lease(1) else {
            panic!("more than the cap");
        };
        assert!(
            text.contains("6144 KiB of 6144") && text.contains("is 8192 KiB"),
            "{text}"
        );
        drop(all);
        assert!(budget.lease(6 * MIB).is_ok());
    }

    #[test]
    fn large_messages_leave_most_of_the_budget_to_slots() {
        let budget = leaked(Some(64 * MIB), 0);
        let quarter = budget.lease_foreign(12 * MIB).unwrap();
        assert!(budget.lease_foreign(1).is_err());
        let rest = budget.lease(36 * MIB).unwrap();
        drop(quarter);
        assert_eq!(budget.pinned(), 36 * MIB);
        let more = budget.lease(MIB).unwrap();
        assert!(budget.lease_foreign(12 * MIB).is_err(), "all is in use");
        drop((rest, more));
        assert!(budget.lease_foreign(12 * MIB).is_ok());
        assert_eq!(budget.pinned(), 0);
    }

    #[test]
    fn what_others_pinned_is_not_ours() {
        assert!(leaked(Some(8 * MIB), 4 * MIB).lease(4 * MIB).is_err());
        assert!(leaked(Some(8 * MIB), 9 * MIB).lease(1).is_err());
    }

    #[test]
    fn without_a_limit_there_still_is_a_cap() {
        let budget = leaked(None, 0);
        assert!(budget.lease(MOST + 1).is_err());
        assert!(budget.lease(usize::MAX).is_err());
        let mut options = Options {
            recv_depth: 1000,
            send_depth: 1000,
            ..Options::default()
        };
        budget.fit(&mut options);
        assert_eq!((options.recv_depth, options.send_depth), (RECVS, SENDS));
    }

    #[test]
    fn a_slot_is_whole_packets() {
        for (asked, slot) in [
            (8200, 8192),
            (8192, 8192),
            (4104, 4096),
            (4096, 4096),
            (72, 72),
        ] {
            let mut options = Options {
                slot_size: asked,
                ..Options::default()
            };
            leaked(None, 0).fit(&mut options);
            assert_eq!(options.slot_size, slot);
        }
    }

    #[test]
    fn windows_are_wide_until_half_of_the_budget_is_in_use() {
        let budget = leaked(Some(64 * MIB), 0);
        assert!(budget.is_ample(0));
        let half = budget.lease(24 * MIB).unwrap();
        assert!(budget.is_ample(0));
        let more = budget.lease(MIB).unwrap();
        assert!(!budget.is_ample(0) && budget.is_ample(MIB));
        drop((half, more));
        assert!(budget.is_ample(0));
    }

    #[test]
    fn row_28_a_small_limit_shrinks_slots_and_windows() {
        let mut options = Options::default();
        leaked(Some(8 * MIB), 0).fit(&mut options);
        assert_eq!(
            (options.slot_size, options.recv_depth, options.send_depth),
            (4096, 8, 16)
        );
    }

    #[test]
    fn row_28_a_kernel_that_refuses_sets_the_cap() {
        let budget = leaked(None, 0);
        let held = budget.lease(MIB).unwrap();
        let more = budget.lease(MIB).unwrap();
        assert!(matches!(budget.kernel_refused(more), Error::Limit(_)));
        assert_eq!(budget.pinned(), MIB);
        assert!(
            budget.lease(MIB).is_err(),
            "what was refused is not asked for again"
        );
        let half = budget.lease(MIB / 2).unwrap();
        drop((held, half));
        assert!(budget.lease(MIB).is_ok());
    }

    #[test]
    fn who_is_exempt_is_held_to_the_limit_where_all_are() {
        let all: &'static Budgets = Box::leak(Box::new(Budgets::new(Some(8 * MIB), true, 0)));
        let usual = all.of(Bound::Unprivileged);
        let many = usual.lease(16 * MIB).unwrap();
        let strict = all.of(Bound::All);
        assert!(strict.lease(8 * MIB).is_err());
        assert!(matches!(
            strict.kernel_refused(strict.lease(MIB).unwrap()),
            Error::Limit(_)
        ));
        assert!(strict.lease(MIB).is_err());
        drop((many, usual.lease(MOST).err()));
        assert!(usual.lease(MOST).is_ok(), "a refusal there is none here");
        for (limit, exempt) in [(None, true), (Some(8 * MIB), false)] {
            let one = Budgets::new(limit, exempt, 0);
            assert!(std::ptr::eq(
                one.of(Bound::All),
                one.of(Bound::Unprivileged)
            ));
        }
    }

    #[test]
    fn the_status_file_is_read() {
        let status = "Name:\tx\nVmLck:\t      12 kB\nVmPin:\t 4 kB\nCapEff:\t0000000000004000\n";
        assert_eq!(pinned_of(status), 16 * 1024);
        assert!(is_exempt(status) && !is_exempt("CapEff:\t0000000000000000\n"));
        assert_eq!(pinned_of(""), 0);
    }
}
