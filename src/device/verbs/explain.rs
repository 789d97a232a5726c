// SPDX-License-Identifier: MPL-2.0
//! What a failure means, in words that say what to check.

use std::ffi::CStr;
use std::fmt::Write;
use std::net::{Ipv6Addr, SocketAddr};

use rdma_sys::{ibv_wc_status as wc, ibv_wc_status_str, rdma_cm_event_type as cm};

use crate::error::{AddressFault, Error};

/// InfiniBand's reject reasons that are told apart.
const REJECT_NO_LISTENER: i32 = 8;
const REJECT_STALE: i32 = 10;
const REJECT_BY_CONSUMER: i32 = 28;

/// Between whom, and by what.
#[derive(Debug, Clone)]
pub(super) struct Between {
    pub(super) device: String,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    pub(super) gid: [u8; 16],
    /// Port of our device.
    pub(super) port: u8,
}

/// A work request failed for good; on a port that is down, or not.
pub(super) fn completion(
    (status, vendor): (u32, u32),
    between: &Between,
    mtu: u32,
    port_is_down: bool,
) -> Error {
    // SAFETY: libibverbs answers any number with a static string.
    let name = unsafe { ibv_wc_status_str(status) };
    // SAFETY: NUL-terminated and static.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let mut text = format!(
        "{name} (status {status}, vendor {vendor:#x}) towards {} from {} on {}",
        between.peer, between.local, between.device
    );
    if between.gid != [0; 16] {
        let _ = write!(text, ", GID {}", Ipv6Addr::from(between.gid));
    }
    if mtu != 0 {
        let _ = write!(text, ", MTU {mtu}");
    }
    if port_is_down {
        let _ = write!(text, "; {}", down(between));
    } else {
        let _ = write!(text, "; {}", advice(status));
    }
    Error::Reset(text)
}

/// Nothing was acknowledged for too long; on a port that is down, or not.
pub(super) fn silence(between: &Between, port_is_down: bool) -> Error {
    if port_is_down {
        let peer = between.peer;
        return Error::Reset(format!("no acknowledgement from {peer}; {}", down(between)));
    }
    Error::TimedOut
}

fn down(between: &Between) -> String {
    let (port, device) = (between.port, &between.device);
    format!("port {port} of {device} is down: check its cable and switch, and `ip link`")
}

fn advice(status: u32) -> &'static str {
    match status {
        wc::IBV_WC_RETRY_EXC_ERR | wc::IBV_WC_RESP_TIMEOUT_ERR => {
            "the peer did not acknowledge in time: check that it is up, that nothing filters \
             UDP port 4791 (RoCE), that the path carries this MTU, and that loss is rare"
        }
        wc::IBV_WC_RNR_RETRY_EXC_ERR => "the peer had no receive posted: it breaks the protocol",
        wc::IBV_WC_REM_ACCESS_ERR | wc::IBV_WC_REM_INV_REQ_ERR | wc::IBV_WC_REM_OP_ERR => {
            "the peer refused the request: its memory was gone, or the message was too long"
        }
        wc::IBV_WC_LOC_LEN_ERR => "a message was longer than the slot it came into",
        wc::IBV_WC_LOC_QP_OP_ERR => "the local device failed: check its link and its address",
        wc::IBV_WC_FATAL_ERR | wc::IBV_WC_GENERAL_ERR => "the device failed: see the kernel's log",
        _ => "check the link, and the kernel's log of both machines",
    }
}

/// A connection could not be made.
pub(super) fn unconnected(kind: cm::Type, status: i32, peer: SocketAddr) -> Error {
    if kind == cm::RDMA_CM_EVENT_REJECTED {
        return rejected(status, peer);
    }
    let stage = match kind {
        cm::RDMA_CM_EVENT_ADDR_ERROR => "resolving the address",
        cm::RDMA_CM_EVENT_ROUTE_ERROR => "resolving the route",
        cm::RDMA_CM_EVENT_UNREACHABLE => "waiting for an answer (is an RDMA listener there?)",
        _ => "connecting",
    };
    match -status {
        libc::ETIMEDOUT if kind != cm::RDMA_CM_EVENT_ADDR_ERROR => Error::TimedOut,
        libc::ECONNREFUSED => rejected(status, peer),
        libc::ECONNRESET => Error::Reset(format!("{peer} closed the connection while {stage}")),
        code => Error::Unreachable(format!("{peer}: {stage}: {}", words(code))),
    }
}

fn rejected(status: i32, peer: SocketAddr) -> Error {
    Error::Refused(match status {
        REJECT_NO_LISTENER => format!("nobody listens at {peer}"),
        REJECT_STALE => format!("{peer} remembers an earlier connection; try again"),
        REJECT_BY_CONSUMER => format!("{peer} has no room for another connection"),
        negative if negative < 0 => format!("{peer}: {}", words(-negative)),
        reason => format!("{peer} rejects the connection (reason {reason})"),
    })
}

/// Whether a reject is the peer program's own word, with private data. InfiniBand pads it with
/// zeros, so there what has none (a full listener's) is all zeros.
pub(super) fn is_peers_word(status: i32, private: &[u8]) -> bool {
    private.iter().any(|byte| *byte != 0) && (status == REJECT_BY_CONSUMER || status < 0)
}

/// A local address could not be bound, or a call about it failed.
pub(super) fn address(error: Error) -> Error {
    let Error::Device { code, .. } = error else {
        return error;
    };
    match code {
        libc::EADDRINUSE => Error::Address(AddressFault::InUse),
        libc::EADDRNOTAVAIL => Error::Address(AddressFault::NotLocal),
        libc::ENODEV => Error::Address(AddressFault::NoDevice),
        libc::EACCES | libc::EPERM => Error::Address(AddressFault::Denied),
        _ => error,
    }
}

fn words(code: i32) -> String {
    match code {
        0 => "no reason given".into(),
        libc::ENODEV => "no RDMA device on the way".into(),
        code => std::io::Error::from_raw_os_error(code).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> SocketAddr {
        "10.77.0.2:5555".parse().unwrap()
    }

    #[test]
    fn an_exhausted_retry_names_all_there_is_to_check() {
        let between = Between {
            device: "rxe0".into(),
            local: "10.77.0.1:40000".parse().unwrap(),
            peer: peer(),
            gid: Ipv6Addr::LOCALHOST.octets(),
            port: 2,
        };
        let error = completion((wc::IBV_WC_RETRY_EXC_ERR, 0x81), &between, 1024, false);
        let Error::Reset(text) = error else {
            panic!("{error:?}")
        };
        for part in [
            "10.77.0.2:5555",
            "rxe0",
            "GID ::1",
            "MTU 1024",
            "4791",
            "0x81",
            "status 12",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let down = completion((wc::IBV_WC_RETRY_EXC_ERR, 0x81), &between, 1024, true);
        let down = down.to_string();
        assert!(down.contains("port 2 of rxe0 is down"), "{down}");
        assert!(!down.contains("4791"), "{down}");
        let silent = silence(&between, true).to_string();
        assert!(silent.contains("port 2 of rxe0 is down"), "{silent}");
        assert_eq!(silence(&between, false), Error::TimedOut);
        let bare = Between {
            gid: [0; 16],
            ..between
        };
        let text = completion((4711, 0), &bare, 0, false).to_string();
        assert!(
            text.contains("status 4711") && !text.contains("GID"),
            "{text}"
        );
    }

    #[test]
    fn each_way_not_to_connect_has_its_error() {
        let of = |kind, status| unconnected(kind, status, peer());
        assert!(
            matches!(of(cm::RDMA_CM_EVENT_REJECTED, 8), Error::Refused(t) if t.contains("nobody"))
        );
        assert!(
            matches!(of(cm::RDMA_CM_EVENT_REJECTED, 28), Error::Refused(t) if t.contains("room"))
        );
        assert!(matches!(
            of(cm::RDMA_CM_EVENT_REJECTED, -libc::ECONNREFUSED),
            Error::Refused(_)
        ));
        assert!(matches!(
            of(cm::RDMA_CM_EVENT_CONNECT_ERROR, -libc::ECONNREFUSED),
            Error::Refused(_)
        ));
        assert!(matches!(
            of(cm::RDMA_CM_EVENT_CONNECT_ERROR, -libc::ECONNRESET),
            Error::Reset(_)
        ));
        assert_eq!(
            of(cm::RDMA_CM_EVENT_UNREACHABLE, -libc::ETIMEDOUT),
            Error::TimedOut
        );
        assert!(matches!(
            of(cm::RDMA_CM_EVENT_ADDR_ERROR, -libc::ETIMEDOUT),
            Error::Unreachable(_)
        ));
        assert!(
            matches!(of(cm::RDMA_CM_EVENT_ROUTE_ERROR, -libc::ENODEV), Error::Unreachable(t) if t.contains("no RDMA device"))
        );
    }

    #[test]
    fn only_a_program_s_own_reject_carries_its_word() {
        assert!(is_peers_word(28, b"x"));
        assert!(is_peers_word(-libc::ECONNREFUSED, b"x"));
        assert!(!is_peers_word(8, b"x"));
        assert!(!is_peers_word(28, &[0; 148]), "padding alone");
        assert!(!is_peers_word(-libc::ECONNREFUSED, b""));
    }

    #[test]
    fn bind_errors_become_address_faults() {
        let code = |code| Error::Device {
            op: "rdma_bind_addr",
            code,
        };
        assert_eq!(
            address(code(libc::EADDRINUSE)),
            Error::Address(AddressFault::InUse)
        );
        assert_eq!(
            address(code(libc::ENODEV)),
            Error::Address(AddressFault::NoDevice)
        );
        assert_eq!(address(code(libc::EIO)), code(libc::EIO));
        assert_eq!(address(Error::Again), Error::Again);
    }
}
