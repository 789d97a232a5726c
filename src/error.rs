// SPDX-License-Identifier: MPL-2.0
//! The one error of the library. It knows neither errno nor C: `abi::errno`
//! alone translates. Variants are sorted by who must act.

use std::fmt;

/// What went wrong, sorted by who must act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// Nothing to do now; the readiness fd tells when to try again.
    Again,
    /// The peer closed in good order; every byte it sent has been delivered.
    Closed,
    /// The peer, or something between, cut the connection.
    Reset(String),
    /// The peer answered and said no (nobody listens, or a reject with a reason).
    Refused(String),
    /// The peer speaks our protocol, but no version or size in common: the user must act.
    Incompatible(String),
    /// No route, no address, no such device or interface.
    Unreachable(String),
    /// The local address cannot be bound: in use, not local, no such interface.
    Address(AddressFault),
    /// The peer's bytes break the protocol; the link ends.
    Malformed(&'static str),
    /// Nothing was heard of the peer within the time allowed.
    TimedOut,
    /// A call into the operating system or the device failed.
    Device {
        /// What was being done.
        op: &'static str,
        /// The code from below, kept as it came.
        code: i32,
    },
    /// A limit of the process or the device was met (memory, descriptors).
    Limit(&'static str),
    /// The caller broke the contract; the call had no effect.
    Misuse(&'static str),
}

/// Why a local address cannot serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressFault {
    /// Another socket has it.
    InUse,
    /// It is not an address of this machine.
    NotLocal,
    /// No such interface or device.
    NoDevice,
    /// The process may not bind it (a port below 1024, say).
    Denied,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Again => write!(f, "not ready yet"),
            Error::Closed => write!(f, "closed by the peer"),
            Error::Reset(why) => write!(f, "connection lost: {why}"),
            Error::Refused(why) => write!(f, "refused by the peer: {why}"),
            Error::Incompatible(why) => write!(f, "incompatible peer: {why}"),
            Error::Unreachable(why) => write!(f, "unreachable: {why}"),
            Error::Address(AddressFault::InUse) => write!(f, "address already in use"),
            Error::Address(AddressFault::NotLocal) => {
                write!(f, "address does not belong to this machine")
            }
            Error::Address(AddressFault::NoDevice) => write!(f, "no such interface or device"),
            Error::Address(AddressFault::Denied) => {
                write!(f, "permission to bind the address denied")
            }
            Error::Malformed(what) => write!(f, "the peer broke the protocol: {what}"),
            Error::TimedOut => write!(f, "the peer did not answer in time"),
            Error::Device { op, code } => {
                write!(f, "{op}: {}", std::io::Error::from_raw_os_error(*code))
            }
            Error::Limit(what) => write!(f, "limit reached: {what}"),
            Error::Misuse(what) => write!(f, "misuse: {what}"),
        }
    }
}

impl std::error::Error for Error {}

/// Result with the library's error.
pub type Result<T> = std::result::Result<T, Error>;
