// SPDX-License-Identifier: MPL-2.0
//! Lifetime of handles: made by one door, borrowed by others, freed by one. A
//! handle is used by one thread at a time, so it needs no lock. A panic while
//! it was borrowed leaves it poisoned: every later door but the freeing one
//! finds it dead. In a forked child every door finds the parent's handles
//! shut: what they name (descriptors, queue pairs) is the parent's.
#![allow(unsafe_code)]

use std::cell::{Cell, UnsafeCell};

use crate::os;

/// A value behind a C pointer.
pub struct Handle<T> {
    generation: u32,
    poisoned: Cell<bool>,
    value: UnsafeCell<T>,
}

impl<T> Handle<T> {
    /// Move `value` to the heap and give C its address.
    pub fn give(value: T) -> *mut Handle<T> {
        Box::into_raw(Box::new(Handle {
            generation: os::generation(),
            poisoned: Cell::new(false),
            value: UnsafeCell::new(value),
        }))
    }

    /// Borrow what is behind the pointer for the time of `body`. `Err` is
    /// -EFAULT for null, -ECANCELED for one made before a fork, and
    /// -ECONNABORTED for a poisoned one.
    ///
    /// # Safety
    /// `handle` is null, or came from [`Handle::give`], was not taken back, and
    /// no other thread is inside a door with it.
    pub unsafe fn with<R>(
        handle: *const Handle<T>,
        body: impl FnOnce(&mut T) -> R,
    ) -> Result<R, i32> {
        // SAFETY: null, or valid by the caller's promise.
        let Some(handle) = (unsafe { handle.as_ref() }) else {
            return Err(-libc::EFAULT);
        };
        if handle.generation != os::generation() {
            return Err(-libc::ECANCELED);
        }
        // Set before and cleared after: stays set when `body` panics.
        if handle.poisoned.replace(true) {
            return Err(-libc::ECONNABORTED);
        }
        // SAFETY: one thread at a time by the caller's promise, and the flag
        // keeps this thread from a second borrow.
        let result = body(unsafe { &mut *handle.value.get() });
        handle.poisoned.set(false);
        Ok(result)
    }

    /// Take back what was given. Errors as [`Handle::with`], but a poisoned one
    /// is taken; what a fork left behind is left alone.
    ///
    /// # Safety
    /// As [`Handle::with`]; the pointer is dead afterwards.
    pub unsafe fn take(handle: *mut Handle<T>) -> Result<T, i32> {
        // SAFETY: null, or valid by the caller's promise.
        match unsafe { handle.as_ref() } {
            None => return Err(-libc::EFAULT),
            Some(handle) if handle.generation != os::generation() => return Err(-libc::ECANCELED),
            Some(_) => {}
        }
        // SAFETY: came from `give` by the caller's promise, and is freed once.
        let owned = unsafe { Box::from_raw(handle) };
        Ok(owned.value.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{catch_unwind, AssertUnwindSafe};

    #[test]
    fn null_is_a_fault_and_a_panic_poisons() {
        // SAFETY: null is allowed.
        let null = unsafe { Handle::<u8>::with(std::ptr::null(), |_| ()) };
        assert_eq!(null, Err(-libc::EFAULT));
        let handle = Handle::give(1u8);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: given above, one thread.
            unsafe { Handle::with(handle, |_| panic!("a defect")) }
        }));
        assert!(panicked.is_err());
        // SAFETY: given above, one thread.
        let after = unsafe { Handle::with(handle, |v| *v) };
        assert_eq!(after, Err(-libc::ECONNABORTED));
        // SAFETY: given above, taken once.
        assert_eq!(unsafe { Handle::take(handle) }, Ok(1));
    }
}
