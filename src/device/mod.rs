// SPDX-License-Identifier: MPL-2.0
//! The device contract: what `stream` may ask of RDMA hardware or of its
//! software stand-in. Only what rxe, siw and soft all offer is here; more is a
//! capability that an endpoint states in [`Caps`].
//!
//! Everything here is non-blocking. An object is `Send`, not `Sync`: one
//! thread at a time, no lock on the message path. After [`Endpoint::poll`]
//! returns, the readiness descriptor will report whatever happens next, so a
//! caller that handles all events of one `poll` may sleep on the descriptor.

pub mod armed;
#[cfg(feature = "verbs")]
mod auto;
pub mod fault;
pub mod region;
mod silence;
pub mod soft;
#[cfg(feature = "verbs")]
pub mod verbs;

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

#[cfg(not(feature = "verbs"))]
use crate::error::AddressFault;
use crate::error::{Error, Result};
use region::{Filled, Free};

/// Most bytes of private data in a connection request or reply, on every
/// device: what is left to the consumer of InfiniBand's RC REQ under the RDMA CM.
pub const PRIVATE_DATA_MAX: usize = 56;

/// Private data of a connection request, reply or reject. A device may append bytes: padding, or a
/// mark of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrivateData(pub Vec<u8>);

/// Which driver serves an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// rdma-core: InfiniBand, RoCE, iWARP.
    Verbs,
    /// The built-in iWARP over TCP.
    Soft,
}

/// What to wait for before the next `poll`, `step` or `accept`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// Owned by the object that returned it; valid until that object is
    /// dropped or says otherwise. Level-triggered.
    pub fd: RawFd,
    /// Wait until readable. An endpoint always wants this, also when dead
    /// (then the descriptor is and stays readable).
    pub read: bool,
    /// Wait until writable as well. Verbs never asks for it.
    pub write: bool,
}

/// What an endpoint can do, as data. Fixed once it is established. By default nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caps {
    /// Bytes of one receive or send slot, frame header included.
    pub slot_size: usize,
    /// Receives that may be posted at once.
    pub recv_depth: u16,
    /// Sends that may be posted and not yet reported [`Event::Sent`].
    pub send_depth: u16,
    /// The device notices by itself that the peer's machine is gone while the
    /// link is idle; if not, the flow sends PING.
    pub detects_idle_death: bool,
    /// Rendezvous (`expose`, `post_read`) works.
    pub reads: bool,
    /// Bytes from which a READ costs less than copies; `None`: it never does.
    pub reads_pay_from: Option<usize>,
    /// READs that are well under way at once; more may be posted. 0 counts as 1.
    pub reads_at_once: u16,
    /// Whether a READ may take a copy's place at all: not before it has been tried there.
    pub may_lend: bool,
    /// `post_gather` does not copy.
    pub gathers: bool,
}

/// How to open; plain data with defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a slot, frame header included.
    pub slot_size: usize,
    /// Receives posted at most.
    pub recv_depth: u16,
    /// Sends posted at most.
    pub send_depth: u16,
    /// Kernel send buffer in bytes (soft), `None` for the system's default.
    pub sndbuf: Option<usize>,
    /// Kernel receive buffer in bytes (soft), `None` for the system's default.
    pub rcvbuf: Option<usize>,
    /// IP type of service, 0 to 255.
    pub tos: u8,
    /// SO_PRIORITY (soft), `None` for the default.
    pub priority: Option<i32>,
    /// SO_BINDTODEVICE (soft) / device of the route (verbs).
    pub interface: Option<String>,
    /// Connections that may wait in the listener.
    pub backlog: u32,
    /// iWARP CRC32C: insist on it (soft). When false it is still used if the
    /// peer insists (RFC 5044 section 7.1).
    pub crc: bool,
    /// Whether an IPv6 wildcard listener also takes IPv4.
    pub dual_stack: bool,
    /// A peer not heard of for this long is dead.
    pub dead_after: Duration,
    /// A dial is given up when the peer has not answered for this long; `None`: the
    /// device's own time (verbs: some minutes).
    pub patience: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            slot_size: 8 * 1024 + 8,
            recv_depth: 32,
            send_depth: 36,
            sndbuf: None,
            rcvbuf: None,
            tos: 0,
            priority: None,
            interface: None,
            backlog: 100,
            crc: true,
            dual_stack: true,
            dead_after: Duration::from_secs(10),
            patience: None,
        }
    }
}

/// A stretch of the peer's memory, as the peer named it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Steering tag or rkey.
    pub key: u32,
    /// Address or tagged offset.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
}

/// What an endpoint tells.
#[derive(Debug)]
pub enum Event {
    /// Acceptor only, first event: the peer asks, with this private data.
    /// Answer with `accept` or `reject`.
    Request(PrivateData),
    /// The connection stands. Initiator: the peer's reply data. Acceptor: empty.
    Established(PrivateData),
    /// Initiator only: the peer said no, with this private data. The endpoint is dead.
    Rejected(PrivateData),
    /// One SEND of the peer arrived whole, and used up one posted receive.
    Received(Filled),
    /// This many of the oldest posted sends are complete; their slots are free again.
    /// The descriptor tells of it only while half of `send_depth` or more is in use, or
    /// `reserve` had nothing to give: before that, nobody waits for it.
    Sent(u16),
    /// The READ posted with this token is complete; its bytes are in place.
    ReadDone(u64),
    /// The peer disconnected in good order. All `Received` came before this.
    /// Nothing further will come.
    Disconnected,
}

/// Which driver may serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Verbs where the route has an RDMA device, else soft. A listener serves both.
    Auto,
    /// Verbs or nothing.
    Verbs,
    /// Soft or nothing.
    Soft,
}

/// Listen at `addr`. May make a few system calls; does not wait for anybody.
pub fn listen(choice: Choice, addr: SocketAddr, options: &Options) -> Result<Box<dyn Listener>> {
    match choice {
        Choice::Soft => soft::listen(addr, options),
        #[cfg(feature = "verbs")]
        Choice::Auto => auto::listen(addr, options),
        #[cfg(not(feature = "verbs"))]
        Choice::Auto => soft::listen(addr, options),
        #[cfg(feature = "verbs")]
        Choice::Verbs => verbs::listen(addr, options),
        #[cfg(not(feature = "verbs"))]
        Choice::Verbs => Err(Error::Address(AddressFault::NoDevice)),
    }
}

/// Start to connect to `to`, from `source` if given, with `private` data in the request.
pub fn dial(
    choice: Choice,
    to: SocketAddr,
    source: Option<SocketAddr>,
    private: &[u8],
    options: &Options,
) -> Result<Box<dyn Endpoint>> {
    match choice {
        Choice::Soft => soft::dial(to, source, private, options),
        #[cfg(feature = "verbs")]
        Choice::Auto => auto::dial(to, source, private, options),
        #[cfg(not(feature = "verbs"))]
        Choice::Auto => soft::dial(to, source, private, options),
        #[cfg(feature = "verbs")]
        Choice::Verbs => verbs::dial(to, source, private, options),
        #[cfg(not(feature = "verbs"))]
        Choice::Verbs => Err(no_verbs()),
    }
}

/// Name of the device that would serve a dial to `to` now: of an RDMA device, or `soft`.
/// Looks up routes and addresses; asks nobody else.
pub fn serving(choice: Choice, to: SocketAddr, source: Option<SocketAddr>) -> Result<String> {
    #[cfg(feature = "verbs")]
    if choice != Choice::Soft {
        if let Some(name) = verbs::available(to, source) {
            return Ok(name);
        }
    }
    let _ = (to, source);
    match choice {
        #[cfg(feature = "verbs")]
        Choice::Verbs => Err(Error::Unreachable("no RDMA device is on the way".into())),
        #[cfg(not(feature = "verbs"))]
        Choice::Verbs => Err(no_verbs()),
        Choice::Auto | Choice::Soft => Ok("soft".into()),
    }
}

/// Bytes of a slot that suit the devices that may serve; `usual` where nothing speaks for others.
pub fn slot_size(choice: Choice, usual: usize) -> usize {
    #[cfg(feature = "verbs")]
    if choice != Choice::Soft && verbs::any_device() {
        return verbs::SLOT;
    }
    let _ = choice;
    usual
}

/// Bytes from which a READ pays on some device that may serve, as far as can be told before
/// one does; `None`: on none.
pub fn reads_pay_from(choice: Choice) -> Option<usize> {
    #[cfg(feature = "verbs")]
    if choice != Choice::Soft && verbs::any_device() {
        return Some(verbs::READS_PAY_FROM);
    }
    let _ = choice;
    None
}

/// Shrink slot size and depths to what this process may pin, where that matters. To be
/// asked before they are told to a peer.
pub fn fit(choice: Choice, options: &mut Options) {
    #[cfg(feature = "verbs")]
    if choice != Choice::Soft && verbs::any_device() {
        verbs::fit(options);
    }
    #[cfg(not(feature = "verbs"))]
    let _ = (choice, options);
}

/// The network interface of the RDMA device of this name, if there is one.
pub fn interface_of(device: &str) -> Option<String> {
    #[cfg(feature = "verbs")]
    return verbs::interface_of(device);
    #[cfg(not(feature = "verbs"))]
    {
        let _ = device;
        None
    }
}

/// Memory that the devices of this process hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// Bytes pinned for RDMA devices.
    pub pinned: usize,
    /// Bytes of slots of the soft device, and of the chunks that it keeps for later.
    pub unpinned: usize,
}

/// What the devices of this process hold now. Opens none.
pub fn held() -> Held {
    Held {
        #[cfg(feature = "verbs")]
        pinned: verbs::books::pinned(),
        #[cfg(not(feature = "verbs"))]
        pinned: 0,
        unpinned: soft::held(),
    }
}

#[cfg(not(feature = "verbs"))]
fn no_verbs() -> Error {
    Error::Unreachable("this build has no verbs device; choose auto or soft".into())
}

/// A listening address.
pub trait Listener: Send {
    /// The bound address, with the port that was chosen.
    fn local_addr(&self) -> SocketAddr;
    /// Where to wait for connections.
    fn ready(&self) -> Ready;
    /// The next connection, or `Error::Again`. Other errors concern one
    /// connection (or a limit such as descriptors): the listener lives on.
    fn accept(&mut self) -> Result<Box<dyn Endpoint>>;
}

/// One reliable connection: a queue pair with its completion queue.
/// Any `Err` other than `Again` from any method means that it is dead; its
/// descriptor then stays readable, and every later call returns an error.
/// Dropping it destroys it at once (undelivered sends may be lost).
pub trait Endpoint: Send {
    /// Which driver.
    fn kind(&self) -> Kind;
    /// Device name for people (`soft`, `rxe0`, `mlx5_0`).
    fn device_name(&self) -> &str;
    /// Capabilities; depths are meaningful from the start.
    fn caps(&self) -> Caps;
    /// Where to wait. The descriptor never changes once a request has come or the
    /// connection stands; before, each `poll` may change it (the old one is closed).
    /// `write` may change with each call.
    fn ready(&self) -> Ready;
    /// This side's address.
    fn local_addr(&self) -> SocketAddr;
    /// The peer's address.
    fn peer_addr(&self) -> SocketAddr;

    /// Answer a `Request`. At most [`PRIVATE_DATA_MAX`] bytes. Post receives first.
    fn accept(&mut self, private: &[u8]) -> Result<()>;
    /// Refuse a `Request`, with the reason in the private data; the endpoint
    /// sends it and is then only good for dropping after `poll` has said
    /// `Disconnected` or an error.
    fn reject(&mut self, private: &[u8]) -> Result<()>;

    /// Post up to `n` more receives; returns how many were. Fewer at the depth, or when
    /// memory is capped: then the endpoint turns ready again for another try.
    /// Allowed before the connection stands; then it takes effect before the peer can send.
    fn post_recvs(&mut self, n: u16) -> Result<u16>;
    /// A free send slot, or `None` when the device has none to give now
    /// (`ready` will fire when that changes, or an `Event::Sent` will tell).
    fn reserve(&mut self) -> Result<Option<Free>>;
    /// Post `slot[..len]` as one SEND. May be held until `flush`.
    fn post_send(&mut self, slot: Free, len: usize) -> Result<()>;
    /// Post `slot[..len]` and the `body` behind it as one SEND, together at most a
    /// slot's bytes. A device that cannot gather copies.
    ///
    /// # Safety
    /// `body` is readable for `body_len` bytes, and nobody writes them, until this send is
    /// reported complete or the endpoint is dropped. An endpoint that has returned an
    /// error other than `Again` or `Misuse` no longer reads it.
    #[allow(unsafe_code)]
    unsafe fn post_gather(
        &mut self,
        mut slot: Free,
        len: usize,
        body: *const u8,
        body_len: usize,
    ) -> Result<()> {
        if body_len > slot.capacity() - len.min(slot.capacity()) {
            return Err(Error::Misuse("SEND longer than its slot"));
        }
        // SAFETY: as demanded above.
        let bytes = unsafe { std::slice::from_raw_parts(body, body_len) };
        slot.write(len, bytes);
        self.post_send(slot, len + body_len)
    }

    /// Hand what was posted to the device. Returns how many of the oldest posted
    /// sends are complete by that already (soft, when the kernel took them);
    /// those are not reported by an [`Event::Sent`] as well.
    fn flush(&mut self) -> Result<u16>;

    /// Let the peer READ `len` bytes at `addr` until `hide`. `Limit`: this memory cannot
    /// be registered, or not now; the endpoint lives on.
    ///
    /// # Safety
    /// The memory stays valid and unwritten until `hide` returns or the endpoint is dropped.
    #[allow(unsafe_code)]
    unsafe fn expose(&mut self, addr: *const u8, len: usize) -> Result<Remote>;
    /// Take back what `expose` gave. `Again`: a READ of it is being answered; no new one begins.
    fn hide(&mut self, key: u32) -> Result<()>;
    /// READ `from` into `to`; `ReadDone(token)` tells the end, in the order of the READs. May be held
    /// until `flush`. `Limit`: this memory cannot be registered, or not now; the endpoint lives on.
    ///
    /// # Safety
    /// `to` is valid for writes of `from.len` bytes, and nobody else touches
    /// it, until `ReadDone(token)` or until the endpoint is dropped.
    #[allow(unsafe_code)]
    unsafe fn post_read(&mut self, to: *mut u8, from: Remote, token: u64) -> Result<()>;

    /// Turn the crank: take in what the device has, write what it can, and
    /// append what happened to `events`. Bounded work; see the module's words
    /// on the readiness descriptor.
    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()>;
    /// As `poll`, for a caller that looks again and again before it sleeps: takes in what the device
    /// has by itself, without a call into the kernel, and does not ask it to tell of more. From
    /// then on the descriptor tells of news alone (a death, a disconnect); `poll` once more before
    /// sleeping on it. `told`: the descriptor was readable. `Misuse`: this device
    /// is not looked at in that way, and nothing was done.
    fn look(&mut self, told: bool, events: &mut Vec<Event>) -> Result<()> {
        let _ = (told, events);
        Err(Error::Misuse("this device is not looked at"))
    }
    /// Called about every five seconds, and sooner when the last call asked for it:
    /// `Err(TimedOut)` when the device knows that the peer has been silent for
    /// `dead_after` while it owed an acknowledgement. Returns how long from `now` that
    /// cannot be so.
    fn probe(&mut self, now: Instant) -> Result<Duration>;
    /// End it at once: no memory of the caller is read or written any more, and the
    /// descriptor is readable for good. Not an error on a dead endpoint.
    fn abort(&mut self);
    /// Disconnect in good order once everything posted has been sent; `poll`
    /// says `Disconnected` when the peer has done so too.
    fn disconnect(&mut self) -> Result<()>;
}
