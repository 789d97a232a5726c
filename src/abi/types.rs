// SPDX-License-Identifier: MPL-2.0
//! What crosses the C boundary: plain data, opaque handles, the vtable's shape.
//! cbindgen turns this file into `include/zmq_rdma.h`; its comments are the
//! C documentation.

use std::ffi::{c_char, c_void};

use super::stats::Messages;

/// Version of the vtable; a caller refuses a table of another version.
pub const ZMQ_RDMA_ABI: u32 = 10;

/// Option of `zmq_setsockopt` and `zmq_getsockopt` (int): which device serves the endpoints that the
/// socket binds and connects from then on. Far from libzmq's own numbers.
pub const ZMQ_RDMA_DEVICE: i32 = 21060;
/// Choice of device, the default of the option: as ZMQ_RDMA_DEVICE in the environment says.
pub const ZMQ_RDMA_DEVICE_ENVIRONMENT: i32 = -1;

/// Choice of device: verbs where the route has an RDMA device, else soft; a listener serves both.
pub const ZMQ_RDMA_DEVICE_AUTO: i32 = 0;
/// Choice of device: rdma-core only.
pub const ZMQ_RDMA_DEVICE_VERBS: i32 = 1;
/// Choice of device: the built-in iWARP over TCP only.
pub const ZMQ_RDMA_DEVICE_SOFT: i32 = 2;

/// `busy_poll`: while messages keep coming sooner than a thread would wake.
pub const ZMQ_RDMA_BUSY_POLL_ADAPTIVE: i32 = -2;
/// `busy_poll`: always.
pub const ZMQ_RDMA_BUSY_POLL_ALWAYS: i32 = -1;

/// Bit of a link's state: `read` has bytes, or an end or error to report.
pub const ZMQ_RDMA_READABLE: i32 = 1;
/// Bit of a link's state: `reserve` has a buffer to give.
pub const ZMQ_RDMA_WRITABLE: i32 = 2;
/// Bit of a link's state: wait until the descriptor is writable as well.
pub const ZMQ_RDMA_WANT_OUT: i32 = 4;
/// Bit of a link's state: the close begun by `shut` is complete: the peer has
/// acknowledged every byte. Or there was nothing to wait for.
pub const ZMQ_RDMA_FINISHED: i32 = 8;
/// Bit of a link's state: the link is dead; `read` says why. Its descriptor stays readable.
pub const ZMQ_RDMA_DEAD: i32 = 16;
/// Bit of a link's state: the peer has begun its close; all its bytes are here
/// or have been read. `shut` and some patience complete the close in good order.
pub const ZMQ_RDMA_PEER_SHUT: i32 = 32;

/// Stage of a dial: the name is being looked up; the peer has not been spoken to.
pub const ZMQ_RDMA_DIAL_RESOLVING: i32 = 0;
/// Stage of a dial: the device is at it.
pub const ZMQ_RDMA_DIAL_CONNECTING: i32 = 1;
/// Stage of a dial: nothing to wait for, `dial_step` says why it failed.
pub const ZMQ_RDMA_DIAL_OVER: i32 = 2;

/// `addr`: this side.
pub const ZMQ_RDMA_LOCAL: i32 = 0;
/// `addr`: the other side.
pub const ZMQ_RDMA_PEER: i32 = 1;

/// A listening address. Owned by the caller of `listen` until `unlisten`.
pub struct Listener(());
/// A connection being made. Owned by the caller of `dial` until `dial_close`.
pub struct Dial(());
/// A connection. Owned by who got it from `accept` or `dial_step` until `close`.
pub struct Link(());

/// Memory of a message. Owned by the caller of `take_body` until `give_body`.
pub struct Body(());

/// A socket address: `len` bytes of a `struct sockaddr` (IPv4 or IPv6).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Addr {
    /// The `struct sockaddr_in` or `sockaddr_in6`, in native layout.
    pub bytes: [u8; 128],
    /// Bytes used; 0 means no address.
    pub len: u32,
}

/// What to wait for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ReadyFd {
    /// Descriptor, owned by the library: watch it, never close it. -1: none.
    pub fd: i32,
    /// Nonzero: until readable. Level-triggered.
    pub want_in: i32,
    /// Nonzero: until writable.
    pub want_out: i32,
}

/// How to listen or dial. Fill with `options_init`, then change what differs.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Options {
    /// `sizeof` of this structure as the caller knows it.
    pub size: u32,
    /// A `ZMQ_RDMA_DEVICE_` value.
    pub device: i32,
    /// Bytes in flight towards the peer at most; -1: default. Also SO_SNDBUF (soft).
    pub sndbuf: i32,
    /// Bytes the peer may have in flight towards us at most; -1: default. Also SO_RCVBUF (soft).
    pub rcvbuf: i32,
    /// IP type of service, 0 to 255.
    pub tos: i32,
    /// SO_PRIORITY; 0: default.
    pub priority: i32,
    /// Connections that may wait to be accepted, as for `listen` of the system; below 0: as many as it allows.
    pub backlog: i32,
    /// Nonzero: IPv6 addresses (and IPv4 through them), as ZMQ_IPV6.
    pub ipv6: i32,
    /// Interface to bind to (ZMQ_BINDTODEVICE), or NULL. Copied.
    pub interface_name: *const c_char,
    /// A peer not heard of for so many milliseconds is dead (ZMQ_TCP_MAXRT; at least
    /// two seconds); -1: default.
    pub dead_after: i32,
    /// For how many microseconds a thread that waits for messages looks for them before it
    /// sleeps; 0: not at all; or a `ZMQ_RDMA_BUSY_POLL_` value. The waiting is the caller's.
    pub busy_poll: i32,
}

/// The transport. `abi` and `size` come first and never move; later versions
/// of the table only append.
///
/// Every function returns 0 or more, or a negative errno value. None blocks
/// but `listen` (a few system calls). None calls back. A handle may be used by
/// one thread at a time, not necessarily always the same. After fork, every
/// function of a handle made before it returns -ECANCELED in the child.
/// A null handle or pointer gives -EFAULT. If a defect in the library makes a
/// function fail midway, that handle alone is dead from then on, with one line in the log.
#[repr(C)]
pub struct Ops {
    /// `ZMQ_RDMA_ABI`.
    pub abi: u32,
    /// `sizeof` of this structure as the library knows it.
    pub size: u32,

    /// Fill with defaults and with what the environment said when it was read last: ZMQ_RDMA_DEVICE, ZMQ_RDMA_LOG,
    /// ZMQ_RDMA_CRC, ZMQ_RDMA_STATS, ZMQ_RDMA_BUSY_POLL, ZMQ_RDMA_RENDEZVOUS, ZMQ_RDMA_POOL; see zmq_rdma(7).
    /// -EINVAL: one of them is none of what it may be; the log says which.
    pub options_init: extern "C" fn(options: *mut Options) -> i32,

    /// Listen at `addr` (port 0: any). On 0, `*listener` is the caller's.
    /// -EADDRINUSE, -EADDRNOTAVAIL, -EAFNOSUPPORT, -ENODEV, -EACCES, -EINVAL, -EMFILE, -ENFILE, -ENOMEM.
    pub listen: extern "C" fn(
        options: *const Options,
        addr: *const Addr,
        listener: *mut *mut Listener,
    ) -> i32,
    /// What to watch; constant for the listener's life.
    pub listener_ready: extern "C" fn(listener: *const Listener, ready: *mut ReadyFd) -> i32,
    /// The bound address, with the port chosen.
    pub listener_addr: extern "C" fn(listener: *const Listener, addr: *mut Addr) -> i32,
    /// The next connection; on 0, `*link` is the caller's. Its handshake may
    /// still be under way: `read` and `reserve` say -EAGAIN until it is done.
    /// -EAGAIN: none now. -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM, -ECONNABORTED: one connection
    /// was lost, go on.
    pub accept: extern "C" fn(listener: *mut Listener, link: *mut *mut Link) -> i32,
    /// Stop listening and free the handle, in any state.
    pub unlisten: extern "C" fn(listener: *mut Listener) -> i32,

    /// Start to connect to `host` (numeric address or name, without brackets;
    /// copied) and `port`; `source` is the local address to use, or NULL. A name is resolved
    /// off this thread. On 0, `*dial` is the caller's. -EINVAL, -EMFILE, -ENFILE, -ENOMEM,
    /// -EADDRNOTAVAIL, -EADDRINUSE, -ENODEV.
    pub dial: extern "C" fn(
        options: *const Options,
        host: *const c_char,
        port: u16,
        source: *const Addr,
        dial: *mut *mut Dial,
    ) -> i32,
    /// What to watch now; returns the ZMQ_RDMA_DIAL_ stage. Ask again after every
    /// `dial_step`: both may change.
    pub dial_ready: extern "C" fn(dial: *const Dial, ready: *mut ReadyFd) -> i32,
    /// Go on. 0: connected, and `*link` is the caller's (the dial is spent: `dial_close` it).
    /// -EINPROGRESS: wait. -ECONNREFUSED (nobody listens, or the peer rejects), -ECONNRESET,
    /// -ETIMEDOUT, -EHOSTUNREACH, -ENETUNREACH, -EADDRNOTAVAIL, -ENODEV, -EPROTO (the peer does not speak
    /// this protocol), -ENOMEM and the like: failed.
    pub dial_step: extern "C" fn(dial: *mut Dial, link: *mut *mut Link) -> i32,
    /// Give up, and free the handle, in any state.
    pub dial_close: extern "C" fn(dial: *mut Dial) -> i32,

    /// What to watch; the descriptor is constant for the link's life, `want_out` is not
    /// (the state bit ZMQ_RDMA_WANT_OUT tells the same).
    pub link_ready: extern "C" fn(link: *const Link, ready: *mut ReadyFd) -> i32,
    /// ZMQ_RDMA_LOCAL or ZMQ_RDMA_PEER address.
    pub link_addr: extern "C" fn(link: *const Link, which: i32, addr: *mut Addr) -> i32,
    /// The device that serves it, `soft` or `verbs:` and its name, NUL-terminated, cut to `size` bytes.
    pub link_device: extern "C" fn(link: *const Link, name: *mut c_char, size: usize) -> i32,

    /// Take in what the device has, send what may be sent; returns the link's state bits, or
    /// -ECONNABORTED when a defect ended it (treat as DEAD).
    /// Call it when the descriptor is ready. Bounded work: what is left keeps the
    /// descriptor readable, or READABLE is set.
    pub crank: extern "C" fn(link: *mut Link) -> i32,
    /// Copy out up to `size` received bytes; returns how many. -EAGAIN: none now. -EPIPE: the peer
    /// closed and all its bytes have been read. -ECONNRESET, -ETIMEDOUT, -EPROTO, -ENETDOWN: dead.
    pub read: extern "C" fn(link: *mut Link, data: *mut c_void, size: usize) -> i32,
    /// A buffer of `*size` bytes to encode into, valid until `commit`. The same one is given again
    /// until it is committed. -EAGAIN: no credit or no slot now (the state bit WRITABLE will
    /// tell). -EPIPE: dead or shut.
    pub reserve: extern "C" fn(link: *mut Link, data: *mut *mut c_void, size: *mut usize) -> i32,
    /// Send the first `size` bytes of the reserved buffer (0: give it back unused). What is
    /// committed is the library's to deliver. -EINVAL if more than was reserved.
    pub commit: extern "C" fn(link: *mut Link, size: usize) -> i32,
    /// Send what credit allows of `size` bytes at `data` without copying them, where the
    /// device can; returns how many bytes were taken (at most 2^30). They stay the caller's to keep unwritten
    /// until `returned` has counted them, or until `close`. -EAGAIN: no credit or slot now,
    /// as `reserve`. -EPIPE: dead or shut. A buffer reserved and not committed is given back.
    pub lend: extern "C" fn(link: *mut Link, data: *const c_void, size: usize) -> i32,
    /// Bytes lent since the start that are the caller's again; they come back in the order
    /// in which they were lent. On a dead link, all.
    pub returned: extern "C" fn(link: *const Link, bytes: *mut u64) -> i32,
    /// Push what was committed or lent to the device; returns the state bits. With more to send and
    /// WRITABLE set, reserve again at once: no event will tell.
    pub flush: extern "C" fn(link: *mut Link) -> i32,
    /// Let time pass (probes, shrinking windows); returns milliseconds until the next call is due.
    pub tick: extern "C" fn(link: *mut Link) -> i32,

    /// Begin a lossless close: once all that was committed is sent, tell the peer, and wait for its
    /// acknowledgement. Go on with `crank` until FINISHED or DEAD. Received bytes are
    /// discarded from now on. Returns the state bits.
    pub shut: extern "C" fn(link: *mut Link) -> i32,
    /// Cut at once, and free the handle, in any state. What is already with the device may
    /// still arrive.
    pub close: extern "C" fn(link: *mut Link) -> i32,

    /// Write a line to the log at a level (0 error, 1 warning, 2 info, 3 debug, 4 trace): for the
    /// glue's own words. `text` is NUL-terminated UTF-8.
    pub log: extern "C" fn(level: i32, text: *const c_char) -> i32,

    /// Name of the network interface of the RDMA device that is called `device`, NUL-terminated, cut to
    /// `size` bytes. -ENODEV: there is none of that name.
    pub device_interface:
        extern "C" fn(device: *const c_char, name: *mut c_char, size: usize) -> i32,

    /// As `read`, into a buffer that stays: it is the library's, and is what the next calls of
    /// `read_into` are given, until one of them returns something else than -EAGAIN, or until `close`. So the
    /// device can put bytes there by itself, which `read` must have copied.
    pub read_into: extern "C" fn(link: *mut Link, data: *mut c_void, size: usize) -> i32,
    /// Drop what has been received, and what is received from now on; `read` finds nothing any more. A
    /// buffer that `read_into` holds is held until `close`.
    pub deafen: extern "C" fn(link: *mut Link) -> i32,
    /// From what size on a body should be lent whole: the receiver may READ it from where it is. 0: never.
    pub lends_from: extern "C" fn(link: *const Link, bytes: *mut usize) -> i32,
    /// Where the caller counts the link's messages, for `zmq_rdma_links` and `zmq_rdma_stats`: it raises the numbers
    /// there, each by a store of the whole word, since other threads read them. Its until `close`.
    pub messages: extern "C" fn(link: *const Link, counts: *mut *mut Messages) -> i32,

    /// Memory for a message of `size` bytes, from the pool of those that devices READ and fill: where it
    /// is, and a handle. 1: there it is, aligned to a page, with bytes of an earlier message in it. 0: not from
    /// the pool; nothing is written. Any thread.
    pub take_body: extern "C" fn(size: usize, data: *mut *mut c_void, body: *mut *mut Body) -> i32,
    /// Give it back: by any thread, at any time, also after every link and listener is gone, and in a
    /// forked child its copy. Nobody uses the memory or the handle after that.
    pub give_body: extern "C" fn(body: *mut Body) -> i32,

    /// As `crank`, for a thread that looks again and again before it sleeps: without a call into the kernel.
    /// `told`: not 0 if the descriptor was readable. Once it has been called, `crank` the link before
    /// sleeping on the descriptor, or it may not tell. -EAGAIN: nothing has happened. -EOPNOTSUPP: this device
    /// is not looked at in this way, and nothing was done.
    pub look: extern "C" fn(link: *mut Link, told: i32) -> i32,

    /// Read the environment as it is now; it counts until this is called again. To be called in the user's thread,
    /// before `listen` and `dial`: no other function reads it, but the first to need it if this was never called.
    /// -EINVAL: a variable is none of what it may be; the log says which.
    pub read_environment: extern "C" fn() -> i32,

    /// From now on READ bodies of up to `most` bytes before they are asked for, as far as there is memory for
    /// them; 0: none. To be asked for with `take_ahead`, or else they are copied.
    pub read_ahead: extern "C" fn(link: *mut Link, most: usize) -> i32,
    /// For who has read a header, and wants the next `size` bytes of the stream as a message's: the memory where they are
    /// already, or are on their way to, as from `take_body`. 1: there it is; until the next `read_into`, which
    /// is to be given it, it is held as that one's. 0: none; nothing is written.
    pub take_ahead: extern "C" fn(
        link: *mut Link,
        size: usize,
        data: *mut *mut c_void,
        body: *mut *mut Body,
    ) -> i32,
}
