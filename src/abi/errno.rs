// SPDX-License-Identifier: MPL-2.0
//! Errors as negative errno values. Nothing else in the library knows errno's
//! meaning to the caller. Matches have no wildcard: a new error needs a decision here.

use crate::error::{AddressFault, Error};

/// The value a door returns for an error.
pub fn of(error: &Error) -> i32 {
    -match error {
        Error::Again => libc::EAGAIN,
        Error::Closed => libc::EPIPE,
        Error::Reset(_) => libc::ECONNRESET,
        Error::Refused(_) => libc::ECONNREFUSED,
        Error::Incompatible(_) => libc::EPROTO,
        Error::Unreachable(_) => libc::EHOSTUNREACH,
        Error::Address(AddressFault::InUse) => libc::EADDRINUSE,
        Error::Address(AddressFault::NotLocal) => libc::EADDRNOTAVAIL,
        Error::Address(AddressFault::NoDevice) => libc::ENODEV,
        Error::Address(AddressFault::Denied) => libc::EACCES,
        Error::Malformed(_) => libc::EPROTO,
        Error::TimedOut => libc::ETIMEDOUT,
        Error::Device { code, .. } if *code > 0 => *code,
        Error::Device { .. } => libc::EIO,
        Error::Limit(_) => libc::ENOMEM,
        Error::Misuse(_) => libc::EINVAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_code_from_below_is_kept_and_never_zero() {
        let device = |code| of(&Error::Device { op: "x", code });
        assert_eq!(device(libc::EMFILE), -libc::EMFILE);
        assert_eq!(device(0), -libc::EIO);
        assert_eq!(device(-7), -libc::EIO);
    }
}
