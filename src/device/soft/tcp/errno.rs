// SPDX-License-Identifier: MPL-2.0
//! What errno means, by what was being done.

use std::io;

use crate::error::{AddressFault, Error};

fn code(e: &io::Error) -> i32 {
    e.raw_os_error().unwrap_or(libc::EIO)
}

/// Of a call that has no other name.
pub fn device_error(op: &'static str, e: &io::Error) -> Error {
    Error::Device { op, code: code(e) }
}

/// Of making a socket one's own address.
pub fn address_error(op: &'static str, e: &io::Error) -> Error {
    Error::Address(match code(e) {
        libc::EADDRINUSE => AddressFault::InUse,
        libc::EADDRNOTAVAIL => AddressFault::NotLocal,
        libc::ENODEV => AddressFault::NoDevice,
        libc::EACCES | libc::EPERM => AddressFault::Denied,
        code => return Error::Device { op, code },
    })
}

/// Of a connect that did not come about.
pub fn connect_error(e: &io::Error) -> Error {
    match code(e) {
        libc::ECONNREFUSED => Error::Refused("nobody listens there".into()),
        libc::ETIMEDOUT => Error::TimedOut,
        libc::ENETUNREACH | libc::EHOSTUNREACH => Error::Unreachable(e.to_string()),
        libc::EADDRNOTAVAIL => Error::Address(AddressFault::NotLocal),
        libc::EADDRINUSE => Error::Address(AddressFault::InUse),
        libc::ECONNRESET | libc::ECONNABORTED | libc::EPIPE => Error::Reset(e.to_string()),
        code => Error::Device {
            op: "connect",
            code,
        },
    }
}

/// Of an open connection.
pub fn stream_error(op: &'static str, e: &io::Error) -> Error {
    match code(e) {
        libc::EAGAIN => Error::Again,
        libc::ETIMEDOUT => Error::TimedOut,
        libc::ECONNRESET | libc::ECONNABORTED | libc::EPIPE => Error::Reset(e.to_string()),
        libc::ENETUNREACH | libc::EHOSTUNREACH => Error::Unreachable(e.to_string()),
        code => Error::Device { op, code },
    }
}
