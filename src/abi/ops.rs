// SPDX-License-Identifier: MPL-2.0
//! The doors. Each checks, translates, calls `stream`, and translates back;
//! what they promise is in `types`. None is longer than its contract.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::ptr::null;
use std::time::Instant;

use super::body::{give_body, read_ahead, take_ahead, take_body};
use super::env;
use super::guard::door;
use super::handle::Handle;
use super::log::{self, Level};
use super::out::{put, put_text};
use super::report::{self, Live};
use super::stats::Messages;
use super::types::*;
use super::wish::{environment, text, told, wish};
use super::{addr, errno};
use crate::error::{Error, Result};
use crate::os;
use crate::stream;
use crate::stream::dial::{Dial as StreamDial, Stage};
use crate::stream::listen::Listener as StreamListener;

/// The transport's vtable; constant for the life of the process.
#[no_mangle]
pub extern "C" fn zmq_rdma_ops() -> *const Ops {
    os::watch_fork();
    report::watch_panics();
    &OPS
}

static OPS: Ops = Ops {
    abi: ZMQ_RDMA_ABI,
    size: size_of::<Ops>() as u32,
    options_init,
    listen,
    listener_ready,
    listener_addr,
    accept,
    unlisten,
    dial,
    dial_ready,
    dial_step,
    dial_close,
    link_ready,
    link_addr,
    link_device,
    crank,
    read,
    reserve,
    commit,
    lend,
    returned,
    flush,
    tick,
    shut,
    close,
    log: log_line,
    device_interface,
    read_into,
    deafen,
    lends_from,
    messages,
    take_body,
    give_body,
    look,
    read_environment,
    read_ahead,
    take_ahead,
};

/// What a door can say it has read.
const MOST_READ: usize = i32::MAX as usize;

fn code(result: Result<()>) -> i32 {
    result.map_or_else(|error| errno::of(&error), |()| 0)
}

fn address(from: *const Addr) -> std::result::Result<Option<std::net::SocketAddr>, i32> {
    // SAFETY: null, or valid as the header asks.
    match unsafe { from.as_ref() } {
        None => Ok(None),
        Some(from) => addr::from_c(from).map_err(|error| errno::of(&error)),
    }
}

/// Run the body of a door on what is behind a handle.
pub(super) fn on<T, H>(name: &str, handle: *const H, body: impl FnOnce(&mut T) -> i32) -> i32 {
    door(name, || {
        // SAFETY: handles of type H come from `Handle::<T>::give` below, and
        // the header asks for one thread at a time.
        let done = unsafe { Handle::<T>::with(handle.cast(), body) };
        done.unwrap_or_else(|code| code)
    })
}

/// Free what is behind a handle.
fn free<T, H>(name: &str, handle: *mut H) -> i32 {
    door(name, || {
        // SAFETY: as in `on`; the header says that the pointer is dead afterwards.
        let taken = unsafe { Handle::<T>::take(handle.cast()) };
        taken.map_or_else(|code| code, |_| 0)
    })
}

extern "C" fn options_init(options: *mut Options) -> i32 {
    door("options_init", || {
        let (device, busy_poll) = match (environment(), env::busy_poll()) {
            (Ok(device), Ok(busy_poll)) => (device, busy_poll),
            (Err(words), _) | (_, Err(words)) => return told(words),
        };
        put(
            options,
            Options {
                size: size_of::<Options>() as u32,
                device,
                sndbuf: -1,
                rcvbuf: -1,
                tos: 0,
                priority: 0,
                backlog: 100,
                ipv6: 0,
                interface_name: null(),
                dead_after: -1,
                busy_poll,
            },
        )
    })
}

extern "C" fn read_environment() -> i32 {
    door("read_environment", || {
        env::read();
        match env::busy_poll().and(environment()) {
            Ok(_) => 0,
            Err(words) => told(words),
        }
    })
}

extern "C" fn listen(
    options: *const Options,
    at: *const Addr,
    listener: *mut *mut Listener,
) -> i32 {
    door("listen", || {
        let (wish, at) = match (wish(options), address(at)) {
            (Ok(wish), Ok(Some(at))) => (wish, at),
            (Err(code), _) | (_, Err(code)) => return code,
            (_, Ok(None)) => return -libc::EINVAL,
        };
        if listener.is_null() {
            return -libc::EFAULT;
        }
        match StreamListener::open(wish.choice, at, wish.sizes) {
            Ok(open) => {
                report::listening(open.local_addr());
                put(listener, Handle::give(open).cast())
            }
            Err(error) => {
                report::listen_failed(at, &error);
                errno::of(&error)
            }
        }
    })
}

fn ready_fd(ready: stream::Ready) -> ReadyFd {
    ReadyFd {
        fd: ready.fd,
        want_in: ready.read.into(),
        want_out: ready.write.into(),
    }
}

extern "C" fn listener_ready(listener: *const Listener, ready: *mut ReadyFd) -> i32 {
    on(
        "listener_ready",
        listener,
        |listener: &mut StreamListener| put(ready, ready_fd(listener.ready())),
    )
}

extern "C" fn listener_addr(listener: *const Listener, out: *mut Addr) -> i32 {
    on(
        "listener_addr",
        listener,
        |listener: &mut StreamListener| put(out, addr::to_c(listener.local_addr())),
    )
}

extern "C" fn accept(listener: *mut Listener, link: *mut *mut Link) -> i32 {
    on("accept", listener, |listener: &mut StreamListener| {
        if link.is_null() {
            return -libc::EFAULT;
        }
        match listener.accept() {
            Ok(accepted) => put(link, Handle::give(Live::accepted(accepted)).cast()),
            Err(error) => {
                report::accept_failed(listener.local_addr(), &error);
                errno::of(&error)
            }
        }
    })
}

extern "C" fn unlisten(listener: *mut Listener) -> i32 {
    free::<StreamListener, _>("unlisten", listener)
}

/// A dial and where it goes, for the log.
struct Dialing {
    dial: StreamDial,
    to: String,
}

extern "C" fn dial(
    options: *const Options,
    host: *const c_char,
    port: u16,
    source: *const Addr,
    dial: *mut *mut Dial,
) -> i32 {
    door("dial", || {
        let (wish, host, source) = match (wish(options), text(host), address(source)) {
            (Ok(wish), Ok(Some(host)), Ok(source)) => (wish, host, source),
            (Err(code), ..) | (_, Err(code), _) | (.., Err(code)) => return code,
            (_, Ok(None), _) => return -libc::EFAULT,
        };
        if dial.is_null() {
            return -libc::EFAULT;
        }
        let to = format!("{host}:{port}");
        report::dialing(&to);
        match StreamDial::start(wish.choice, wish.sizes, &host, port, source, wish.ipv6) {
            Ok(started) => put(dial, Handle::give(Dialing { dial: started, to }).cast()),
            Err(error) => {
                report::dial_failed(&to, &error);
                errno::of(&error)
            }
        }
    })
}

extern "C" fn dial_ready(dial: *const Dial, ready: *mut ReadyFd) -> i32 {
    on("dial_ready", dial, |dialing: &mut Dialing| {
        let none = ReadyFd {
            fd: -1,
            want_in: 0,
            want_out: 0,
        };
        match put(ready, dialing.dial.ready().map_or(none, ready_fd)) {
            0 => match dialing.dial.stage() {
                Stage::Resolving => ZMQ_RDMA_DIAL_RESOLVING,
                Stage::Connecting => ZMQ_RDMA_DIAL_CONNECTING,
                Stage::Over => ZMQ_RDMA_DIAL_OVER,
            },
            fault => fault,
        }
    })
}

extern "C" fn dial_step(dial: *mut Dial, link: *mut *mut Link) -> i32 {
    on("dial_step", dial, |dialing: &mut Dialing| {
        if link.is_null() {
            return -libc::EFAULT;
        }
        match dialing.dial.step() {
            Ok(made) => {
                report::dialed(&dialing.to, dialing.dial.times());
                put(link, Handle::give(Live::dialed(made)).cast())
            }
            Err(Error::Again) => -libc::EINPROGRESS,
            Err(error) => {
                report::dial_failed(&dialing.to, &error);
                errno::of(&error)
            }
        }
    })
}

extern "C" fn dial_close(dial: *mut Dial) -> i32 {
    free::<Dialing, _>("dial_close", dial)
}

extern "C" fn link_ready(link: *const Link, ready: *mut ReadyFd) -> i32 {
    on("link_ready", link, |live: &mut Live| {
        put(ready, ready_fd(live.link.ready()))
    })
}

extern "C" fn link_addr(link: *const Link, which: i32, out: *mut Addr) -> i32 {
    on("link_addr", link, |live: &mut Live| match which {
        ZMQ_RDMA_LOCAL => put(out, addr::to_c(live.link.local_addr())),
        ZMQ_RDMA_PEER => put(out, addr::to_c(live.link.peer_addr())),
        _ => -libc::EINVAL,
    })
}

extern "C" fn link_device(link: *const Link, name: *mut c_char, size: usize) -> i32 {
    on("link_device", link, |live: &mut Live| {
        put_text(name, size, &live.link.device())
    })
}

extern "C" fn crank(link: *mut Link) -> i32 {
    on("crank", link, |live: &mut Live| {
        live.link.crank();
        live.state()
    })
}

extern "C" fn look(link: *mut Link, told: i32) -> i32 {
    on("look", link, |live: &mut Live| {
        match live.link.look(told != 0) {
            Ok(true) => live.state(),
            Ok(false) => -libc::EAGAIN,
            Err(_) => -libc::EOPNOTSUPP,
        }
    })
}

extern "C" fn read(link: *mut Link, data: *mut c_void, size: usize) -> i32 {
    on("read", link, |live: &mut Live| {
        received(live, data, size, false)
    })
}

extern "C" fn read_into(link: *mut Link, data: *mut c_void, size: usize) -> i32 {
    on("read_into", link, |live: &mut Live| {
        received(live, data, size, true)
    })
}

/// Both ways of reading; `steady`: the buffer stays.
fn received(live: &mut Live, data: *mut c_void, size: usize, steady: bool) -> i32 {
    if data.is_null() {
        return -libc::EFAULT;
    }
    // SAFETY: `data` has `size` bytes, and stays if steady, as the header asks.
    let done = unsafe { live.link.read(data.cast(), size.min(MOST_READ), steady) };
    done.map_or_else(|error| errno::of(&error), |done| done as i32)
}

extern "C" fn deafen(link: *mut Link) -> i32 {
    on("deafen", link, |live: &mut Live| {
        live.link.deafen();
        0
    })
}

extern "C" fn lends_from(link: *const Link, bytes: *mut usize) -> i32 {
    on("lends_from", link, |live: &mut Live| {
        put(bytes, live.link.lends_from().unwrap_or(0))
    })
}

extern "C" fn messages(link: *const Link, counts: *mut *mut Messages) -> i32 {
    on("messages", link, |live: &mut Live| {
        // Two words, one behind the other.
        put(counts, live.link.messages().cast())
    })
}

extern "C" fn reserve(link: *mut Link, data: *mut *mut c_void, size: *mut usize) -> i32 {
    on("reserve", link, |live: &mut Live| {
        match live.link.reserve() {
            Ok((start, room)) => match put(data, start.cast()) {
                0 => put(size, room),
                fault => fault,
            },
            Err(error) => errno::of(&error),
        }
    })
}

extern "C" fn commit(link: *mut Link, size: usize) -> i32 {
    on("commit", link, |live: &mut Live| {
        code(live.link.commit(size))
    })
}

extern "C" fn lend(link: *mut Link, data: *const c_void, size: usize) -> i32 {
    on("lend", link, |live: &mut Live| {
        if data.is_null() {
            return -libc::EFAULT;
        }
        // SAFETY: the header asks for memory that stays readable and unwritten so long.
        let taken = unsafe { live.link.lend(data.cast(), size.min(1 << 30)) };
        taken.map_or_else(|error| errno::of(&error), |taken| taken as i32)
    })
}

extern "C" fn returned(link: *const Link, bytes: *mut u64) -> i32 {
    on("returned", link, |live: &mut Live| {
        put(bytes, live.link.returned())
    })
}

extern "C" fn flush(link: *mut Link) -> i32 {
    on("flush", link, |live: &mut Live| {
        live.link.flush();
        live.state()
    })
}

extern "C" fn tick(link: *mut Link) -> i32 {
    on("tick", link, |live: &mut Live| {
        let next = live.link.tick(Instant::now());
        live.state();
        next as i32
    })
}

extern "C" fn shut(link: *mut Link) -> i32 {
    on("shut", link, |live: &mut Live| {
        live.link.shut();
        live.state()
    })
}

extern "C" fn close(link: *mut Link) -> i32 {
    free::<Live, _>("close", link)
}

extern "C" fn device_interface(device: *const c_char, name: *mut c_char, size: usize) -> i32 {
    door("device_interface", || match text(device) {
        Ok(Some(device)) => match stream::interface_of(&device) {
            Some(interface) => put_text(name, size, &interface),
            None => -libc::ENODEV,
        },
        Ok(None) => -libc::EFAULT,
        Err(code) => code,
    })
}

extern "C" fn log_line(level: i32, words: *const c_char) -> i32 {
    door("log", || match (Level::from_code(level), text(words)) {
        (Some(level), Ok(Some(words))) => {
            log::line(level, || words);
            0
        }
        (_, Ok(None)) => -libc::EFAULT,
        _ => -libc::EINVAL,
    })
}
