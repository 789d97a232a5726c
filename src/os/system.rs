// SPDX-License-Identifier: MPL-2.0
//! What differs between the systems we know, one file each and the only place that asks which one
//! it is. Each file has the same: `open`, `accept`, `whole_record`, `bind_to_interface`,
//! `set_priority`, `KEEP_IDLE`, `acks`, `fill_random`, `Bell`, `shared_words`, `sockaddr_in`,
//! `sockaddr_in6`.

#[cfg(target_os = "macos")]
mod apple;
#[cfg(target_os = "freebsd")]
mod freebsd;
#[cfg(target_os = "linux")]
mod linux;

// Bells, shared memory and random bytes of Linux, which FreeBSD has taken over.
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
mod eventfd;
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
mod memfd;
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
mod random;
// What macOS and FreeBSD share.
#[cfg(any(target_os = "freebsd", target_os = "macos"))]
mod bsd;
// Sockets that are made non-blocking at once.
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
mod atomic_socket;

#[cfg(target_os = "macos")]
pub use apple::*;
#[cfg(target_os = "freebsd")]
pub use freebsd::*;
#[cfg(target_os = "linux")]
pub use linux::*;

#[cfg(not(any(target_os = "linux", target_os = "freebsd", target_os = "macos")))]
compile_error!(
    "src/os/system has files for Linux, FreeBSD and macOS; this system needs one of its own"
);

use std::time::Duration;

/// What the kernel knows of the acknowledgements of a TCP connection's peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acks {
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Zero-window probes sent and not answered.
    pub probes: u32,
    /// Since the last acknowledgement came in.
    pub last_ack: Duration,
    /// Least age of the oldest segment that is not acknowledged.
    pub oldest: Duration,
}
