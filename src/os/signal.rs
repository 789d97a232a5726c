// SPDX-License-Identifier: MPL-2.0
//! System calls that raise a signal where they fail, in a process that knows nothing of them.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr::null_mut;

use libc::{c_int, sigset_t};

/// Run `call`, in which this thread may get `signal`, so that there the error is all that it is.
pub fn without<T>(signal: c_int, call: impl FnOnce() -> T) -> T {
    let mut set = MaybeUninit::<sigset_t>::uninit();
    let mut before = MaybeUninit::<sigset_t>::uninit();
    // SAFETY: valid for writes.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: initialised by sigemptyset.
    unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    // One that was pending before is the program's.
    let theirs = is_pending(signal);
    // SAFETY: the one was initialised above, the other is valid for writes.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr()) };
    let done = call();
    if !theirs && is_pending(signal) {
        let mut taken: c_int = 0;
        // SAFETY: the set was initialised above; the signal is pending, so this does not wait.
        unsafe { libc::sigwait(set.as_ptr(), &mut taken) };
    }
    // SAFETY: `before` was initialised by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut()) };
    done
}

/// Whether the signal waits, blocked, for this thread or for the process.
fn is_pending(signal: c_int) -> bool {
    let mut pending = MaybeUninit::<sigset_t>::zeroed();
    // SAFETY: valid for writes.
    unsafe { libc::sigpending(pending.as_mut_ptr()) };
    // SAFETY: initialised by sigpending, or all zeros, which is an empty set.
    unsafe { libc::sigismember(pending.as_ptr(), signal) == 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_of_the_call_is_taken_and_the_mask_is_as_before() {
        let raised = without(libc::SIGXFSZ, || {
            // SAFETY: to this thread, where it is blocked; its default would end the process.
            unsafe { libc::raise(libc::SIGXFSZ) };
            is_pending(libc::SIGXFSZ)
        });
        assert!(raised && !is_pending(libc::SIGXFSZ));
        let mut now = MaybeUninit::<sigset_t>::uninit();
        // SAFETY: valid for writes; no new mask.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), now.as_mut_ptr()) };
        // SAFETY: initialised by the call above.
        assert_eq!(unsafe { libc::sigismember(now.as_ptr(), libc::SIGXFSZ) }, 0);
    }
}
