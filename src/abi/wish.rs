// SPDX-License-Identifier: MPL-2.0
//! What a caller asks for: options and strings of C's, checked and copied.
#![allow(unsafe_code)]

use std::ffi::{c_char, CStr};
use std::mem::size_of;
use std::time::Duration;

use super::env;
use super::log::{line, Level};
use super::report;
use super::types::Options;
use crate::stream;
use crate::stream::sizes::Sizes;

/// Milliseconds of silence for which a peer is spared at least: less would be taken
/// from a retransmission or two.
const DEAD_AFTER_LEAST: u64 = 2000;

/// A C string of the caller's, copied.
pub fn text(from: *const c_char) -> std::result::Result<Option<String>, i32> {
    if from.is_null() {
        return Ok(None);
    }
    // SAFETY: not null; the header asks for a NUL-terminated string.
    let text = unsafe { CStr::from_ptr(from) };
    match text.to_str() {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => Err(-libc::EINVAL),
    }
}

/// The caller's options, checked.
pub struct Wish {
    /// Which device.
    pub choice: stream::Choice,
    /// Sizes, and what the device is told.
    pub sizes: Sizes,
    /// Names may resolve to IPv6 addresses.
    pub ipv6: bool,
}

/// Check them; an error is a door's value.
pub fn wish(options: *const Options) -> std::result::Result<Wish, i32> {
    // SAFETY: null, or valid as the header asks.
    let Some(options) = (unsafe { options.as_ref() }) else {
        return Err(-libc::EFAULT);
    };
    if (options.size as usize) < size_of::<Options>() {
        return Err(-libc::EINVAL);
    }
    let Some(choice) = env::choice(options.device) else {
        return Err(-libc::EINVAL);
    };
    let bytes = |value: i32| usize::try_from(value).ok().filter(|&bytes| bytes > 0);
    let device = stream::Options {
        sndbuf: bytes(options.sndbuf),
        rcvbuf: bytes(options.rcvbuf),
        tos: u8::try_from(options.tos).map_err(|_| -libc::EINVAL)?,
        priority: Some(options.priority).filter(|&priority| priority != 0),
        interface: text(options.interface_name)?.filter(|name| !name.is_empty()),
        // As listen(2) has it: below 0 is as many as the system allows.
        backlog: u32::try_from(options.backlog).unwrap_or(u32::MAX),
        crc: env::crc().map_err(told)?,
        dead_after: patience(options.dead_after),
        ..stream::Options::default()
    };
    Ok(Wish {
        choice,
        sizes: Sizes::new(choice, device)
            .with_rendezvous(env::rendezvous().map_err(told)?.over(choice))
            .with_pool(choice, env::pool().map_err(told)?),
        ipv6: options.ipv6 != 0,
    })
}

fn patience(milliseconds: i32) -> Duration {
    match u64::try_from(milliseconds) {
        Ok(given) if given > 0 => Duration::from_millis(given.max(DEAD_AFTER_LEAST)),
        _ => stream::Options::default().dead_after,
    }
}

/// The device that the environment asks for. What else it asks for is done, or refused in words.
pub fn environment() -> std::result::Result<i32, String> {
    env::log()?;
    env::crc()?;
    env::rendezvous()?;
    env::pool()?;
    if env::stats()? {
        report::share_counters();
    }
    env::device()
}

/// Log what is wrong with the environment; the door's value for it.
pub fn told(words: String) -> i32 {
    line(Level::Error, || words);
    -libc::EINVAL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::types::ZMQ_RDMA_DEVICE_SOFT;

    #[test]
    fn a_backlog_is_what_it_is_to_listen() {
        for (asked, given) in [(7, 7), (0, 0), (-1, u32::MAX)] {
            let options = Options {
                size: size_of::<Options>() as u32,
                device: ZMQ_RDMA_DEVICE_SOFT,
                sndbuf: -1,
                rcvbuf: -1,
                tos: 0,
                priority: 0,
                backlog: asked,
                ipv6: 0,
                interface_name: std::ptr::null(),
                dead_after: -1,
                busy_poll: 0,
            };
            let wish = wish(&options).map_err(|code| code.to_string());
            assert_eq!(wish.map(|w| w.sizes.device.backlog), Ok(given));
        }
    }
}
