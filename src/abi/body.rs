// SPDX-License-Identifier: MPL-2.0
//! The doors to the pool: memory of large messages, for whoever makes and frees them.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::NonNull;

use super::guard::door;
use super::ops::on;
use super::out::put;
use super::report::Live;
use super::types::{Body, Link};
use crate::stream::pool;

pub(super) extern "C" fn take_body(
    size: usize,
    data: *mut *mut c_void,
    body: *mut *mut Body,
) -> i32 {
    door("take_body", || {
        if data.is_null() || body.is_null() {
            return -libc::EFAULT;
        }
        let Some((chunk, start)) = pool::pool().take(size) else {
            return 0;
        };
        put(data, start.as_ptr().cast());
        put(body, chunk.as_ptr().cast());
        1
    })
}

pub(super) extern "C" fn read_ahead(link: *mut Link, most: usize) -> i32 {
    on("read_ahead", link, |live: &mut Live| {
        live.link.read_ahead(most);
        0
    })
}

pub(super) extern "C" fn take_ahead(
    link: *mut Link,
    size: usize,
    data: *mut *mut c_void,
    body: *mut *mut Body,
) -> i32 {
    on("take_ahead", link, |live: &mut Live| {
        if data.is_null() || body.is_null() {
            return -libc::EFAULT;
        }
        let Some(taken) = live.link.adopt(size) else {
            return 0;
        };
        let (chunk, start) = taken.into_message();
        put(data, start.as_ptr().cast());
        put(body, chunk.as_ptr().cast());
        1
    })
}

pub(super) extern "C" fn give_body(body: *mut Body) -> i32 {
    door("give_body", || match NonNull::new(body.cast()) {
        None => -libc::EFAULT,
        Some(chunk) => {
            // SAFETY: of `take_body`, and not used after this, as the header asks.
            unsafe { pool::give_back(chunk) };
            0
        }
    })
}
