// SPDX-License-Identifier: MPL-2.0
//! What a door writes where its caller pointed.
#![allow(unsafe_code)]

use std::ffi::c_char;

/// Write a value through a pointer of C's.
pub(super) fn put<T>(to: *mut T, value: T) -> i32 {
    if to.is_null() {
        return -libc::EFAULT;
    }
    // SAFETY: not null; the header asks for a valid pointer of this type.
    unsafe { to.write(value) };
    0
}

/// Write a text to the `size` bytes at `to`, cut if need be, with its NUL.
pub(super) fn put_text(to: *mut c_char, size: usize, text: &str) -> i32 {
    if to.is_null() || size == 0 {
        return -libc::EFAULT;
    }
    let len = text.len().min(size - 1);
    // SAFETY: `to` has `size` bytes as the header asks, and len < size.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, len) };
    put(to.wrapping_add(len), 0)
}
