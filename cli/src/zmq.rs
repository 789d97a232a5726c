// SPDX-License-Identifier: MPL-2.0
//! libzmq as a program has it: found and loaded as the programs of this machine
//! find it, so that what is told and measured is what they get.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Socket types and options of zmq.h.
pub const PULL: c_int = 7;
/// See zmq.h.
pub const PUSH: c_int = 8;
/// See zmq.h.
pub const REQ: c_int = 3;
/// See zmq.h.
pub const REP: c_int = 4;
const LAST_ENDPOINT: c_int = 32;
const LINGER: c_int = 17;
const RCVTIMEO: c_int = 27;
const SNDTIMEO: c_int = 28;
const MAXMSGSIZE: c_int = 22;

const NAME: &str = "libzmq.so.5";

/// A loaded libzmq. It stays loaded for good.
pub struct Library {
    path: String,
    calls: Calls,
}

macro_rules! calls {
    ($($name:ident: fn($($type:ty),*) -> $ret:ty;)*) => {
        struct Calls { $($name: unsafe extern "C" fn($($type),*) -> $ret,)* }

        impl Calls {
            fn of(handle: *mut c_void) -> Result<Calls, String> {
                Ok(Calls { $($name: {
                    let symbol = find(handle, concat!("zmq_", stringify!($name)))?;
                    // SAFETY: the function of this name in zmq.h has this signature.
                    unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> $ret>(symbol)
                    }
                },)* })
            }
        }
    };
}

calls! {
    ctx_new: fn() -> *mut c_void;
    ctx_term: fn(*mut c_void) -> c_int;
    socket: fn(*mut c_void, c_int) -> *mut c_void;
    close: fn(*mut c_void) -> c_int;
    bind: fn(*mut c_void, *const c_char) -> c_int;
    connect: fn(*mut c_void, *const c_char) -> c_int;
    setsockopt: fn(*mut c_void, c_int, *const c_void, usize) -> c_int;
    getsockopt: fn(*mut c_void, c_int, *mut c_void, *mut usize) -> c_int;
    send: fn(*mut c_void, *const c_void, usize, c_int) -> c_int;
    recv: fn(*mut c_void, *mut c_void, usize, c_int) -> c_int;
    errno: fn() -> c_int;
    strerror: fn(c_int) -> *const c_char;
    has: fn(*const c_char) -> c_int;
    version: fn(*mut c_int, *mut c_int, *mut c_int) -> ();
    msg_init: fn(*mut Message) -> c_int;
    msg_recv: fn(*mut Message, *mut c_void, c_int) -> c_int;
    msg_gets: fn(*const Message, *const c_char) -> *const c_char;
    msg_close: fn(*mut Message) -> c_int;
}

/// zmq_msg_t.
#[repr(C, align(8))]
struct Message([u8; 64]);

fn find(handle: *mut c_void, name: &str) -> Result<*mut c_void, String> {
    let symbol = CString::new(name).unwrap_or_default();
    // SAFETY: an open handle, and a NUL-terminated string.
    let found = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
    if found.is_null() {
        return Err(format!("it has no {name}"));
    }
    Ok(found)
}

fn last_dl_error() -> String {
    // SAFETY: no arguments.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".into();
    }
    // SAFETY: not null: a NUL-terminated string, valid until the next such call of this thread.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

impl Library {
    /// At a path, or by a name that the loader looks for.
    pub fn open(name: &str) -> Result<Library, String> {
        let text = CString::new(name).map_err(|_| "a NUL in its path".to_string())?;
        // SAFETY: a NUL-terminated string; libzmq runs nothing harmful when it is loaded.
        let handle = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(last_dl_error());
        }
        let calls = Calls::of(handle)?;
        let path = path_of(calls.ctx_new as *const c_void).unwrap_or_else(|| name.to_string());
        Ok(Library { path, calls })
    }

    /// As programs find it.
    pub fn by_name() -> Result<Library, String> {
        Library::open(NAME)
    }

    /// The one that was installed with this command, if it has rdma://.
    pub fn beside() -> Option<Library> {
        let program = std::env::current_exe().ok()?;
        let prefix = program.parent()?.parent()?;
        let mut places: Vec<PathBuf> = ["lib", "lib64"].map(|d| prefix.join(d)).into();
        if let Ok(inner) = std::fs::read_dir(prefix.join("lib")) {
            let inner = inner.flatten().map(|entry| entry.path());
            places.extend(inner.filter(|path| path.to_string_lossy().contains("-linux-")));
        }
        let files = places.into_iter().map(|place| place.join(NAME));
        let mut there = files.filter(|file| file.exists());
        there.find_map(|file| {
            Library::open(&file.to_string_lossy())
                .ok()
                .filter(Library::has_rdma)
        })
    }

    /// The one to work with: that which is named, else that beside the command, else
    /// that which programs find.
    pub fn choose(named: Option<&Path>) -> Result<Arc<Library>, String> {
        let library = match named {
            Some(path) => Library::open(&path.to_string_lossy())
                .map_err(|why| format!("cannot load {}: {why}", path.display()))?,
            None => match Library::beside() {
                Some(library) => library,
                None => Library::by_name().map_err(|why| {
                    format!("cannot load libzmq: {why}; --libzmq FILE tells where it is")
                })?,
            },
        };
        Ok(Arc::new(library))
    }

    /// Its file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// `4.3.5`.
    pub fn version(&self) -> String {
        let mut n = [0; 3];
        let [major, minor, patch] = &mut n;
        // SAFETY: three valid pointers.
        unsafe { (self.calls.version)(major, minor, patch) };
        format!("{}.{}.{}", n[0], n[1], n[2])
    }

    /// It knows rdma://.
    pub fn has_rdma(&self) -> bool {
        // SAFETY: a NUL-terminated string.
        unsafe { (self.calls.has)(c"rdma".as_ptr()) == 1 }
    }

    fn error(&self, what: &str) -> io::Error {
        // SAFETY: no arguments.
        let code = unsafe { (self.calls.errno)() };
        // SAFETY: any number has a static string.
        let text = unsafe { (self.calls.strerror)(code) };
        // SAFETY: NUL-terminated and static.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
        let kind = match code {
            libc::EAGAIN => io::ErrorKind::TimedOut,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, format!("{what}: {text}"))
    }

    fn done(&self, code: c_int, what: &str) -> io::Result<usize> {
        usize::try_from(code).map_err(|_| self.error(what))
    }
}

/// The file that a function comes from.
fn path_of(function: *const c_void) -> Option<String> {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: any address may be asked for; room for the answer.
    if unsafe { libc::dladdr(function, found.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: written by the call above.
    let found = unsafe { found.assume_init() };
    if found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: NUL-terminated, and there as long as the library is.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    let path = std::fs::canonicalize(&*name.to_string_lossy()).ok()?;
    Some(path.to_string_lossy().into_owned())
}

/// A context; its end waits for what is still to be sent.
pub struct Context {
    library: Arc<Library>,
    raw: *mut c_void,
}

// SAFETY: a libzmq context may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// A new one.
    pub fn new(library: &Arc<Library>) -> Context {
        // SAFETY: no arguments.
        let raw = unsafe { (library.calls.ctx_new)() };
        Context {
            library: Arc::clone(library),
            raw,
        }
    }

    /// A socket whose sends and receives take `wait` milliseconds at most.
    pub fn socket(self: &Arc<Context>, kind: c_int, wait: c_int) -> io::Result<Socket> {
        // SAFETY: a context that lives at least as long as the socket.
        let raw = unsafe { (self.library.calls.socket)(self.raw, kind) };
        if raw.is_null() {
            return Err(self.library.error("zmq_socket"));
        }
        let socket = Socket {
            context: Arc::clone(self),
            raw,
        };
        for (option, value) in [(RCVTIMEO, wait), (SNDTIMEO, wait), (LINGER, 1000)] {
            socket.set(option, &value.to_ne_bytes())?;
        }
        Ok(socket)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: made by ctx_new; every socket holds the context, so all are closed.
        unsafe { (self.library.calls.ctx_term)(self.raw) };
    }
}

/// A socket, for one thread.
pub struct Socket {
    context: Arc<Context>,
    raw: *mut c_void,
}

// SAFETY: a libzmq socket may go to another thread with a full fence between, which moving it there is.
unsafe impl Send for Socket {}

impl Socket {
    fn calls(&self) -> &Calls {
        &self.context.library.calls
    }

    fn done(&self, code: c_int, what: &str) -> io::Result<usize> {
        self.context.library.done(code, what)
    }

    fn set(&self, option: c_int, value: &[u8]) -> io::Result<()> {
        let (at, len) = (value.as_ptr().cast(), value.len());
        // SAFETY: an open socket, and `len` bytes at `at`.
        let code = unsafe { (self.calls().setsockopt)(self.raw, option, at, len) };
        self.done(code, "zmq_setsockopt").map(drop)
    }

    /// Refuse messages of more bytes.
    pub fn set_most(&self, bytes: i64) -> io::Result<()> {
        self.set(MAXMSGSIZE, &bytes.to_ne_bytes())
    }

    /// Bind; the endpoint that it got.
    pub fn bind(&self, endpoint: &str) -> io::Result<String> {
        let text = CString::new(endpoint)?;
        // SAFETY: an open socket and a NUL-terminated string.
        let code = unsafe { (self.calls().bind)(self.raw, text.as_ptr()) };
        self.done(code, &format!("cannot bind to {endpoint}"))?;
        let mut buffer = [0u8; 256];
        let mut len = buffer.len();
        let at = buffer.as_mut_ptr().cast();
        // SAFETY: an open socket, and room of `len` bytes.
        let code = unsafe { (self.calls().getsockopt)(self.raw, LAST_ENDPOINT, at, &mut len) };
        self.done(code, "ZMQ_LAST_ENDPOINT")?;
        let end = buffer.iter().position(|&b| b == 0).unwrap_or(buffer.len());
        Ok(String::from_utf8_lossy(&buffer[..end]).into_owned())
    }

    /// Connect.
    pub fn connect(&self, endpoint: &str) -> io::Result<()> {
        let text = CString::new(endpoint)?;
        // SAFETY: an open socket and a NUL-terminated string.
        let code = unsafe { (self.calls().connect)(self.raw, text.as_ptr()) };
        self.done(code, &format!("cannot connect to {endpoint}"))
            .map(drop)
    }

    /// Send one message.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let (at, len) = (bytes.as_ptr().cast(), bytes.len());
        loop {
            // SAFETY: an open socket, and `len` bytes at `at`.
            let code = unsafe { (self.calls().send)(self.raw, at, len, 0) };
            match self.done(code, "zmq_send") {
                Err(_) if self.interrupted(code) => {}
                done => return done.map(drop),
            }
        }
    }

    /// Receive one message; how long it is, which may be more than `to` has room for.
    pub fn recv(&self, to: &mut [u8]) -> io::Result<usize> {
        let (at, len) = (to.as_mut_ptr().cast(), to.len());
        loop {
            // SAFETY: an open socket, and room of `len` bytes at `at`.
            let code = unsafe { (self.calls().recv)(self.raw, at, len, 0) };
            match self.done(code, "zmq_recv") {
                Err(_) if self.interrupted(code) => {}
                done => return done,
            }
        }
    }

    fn interrupted(&self, code: c_int) -> bool {
        // SAFETY: no arguments.
        code < 0 && unsafe { (self.calls().errno)() } == libc::EINTR
    }

    /// Receive and drop one message; what it says of its connection under a name.
    pub fn recv_property(&self, name: &CStr) -> io::Result<Option<String>> {
        let mut message = Message([0; 64]);
        // SAFETY: room for a zmq_msg_t.
        unsafe { (self.calls().msg_init)(&mut message) };
        // SAFETY: an initialised message and an open socket.
        let code = unsafe { (self.calls().msg_recv)(&mut message, self.raw, 0) };
        let received = self.done(code, "zmq_msg_recv");
        // SAFETY: an initialised message and a NUL-terminated string.
        let found = unsafe { (self.calls().msg_gets)(&message, name.as_ptr()) };
        let text = if found.is_null() {
            None
        } else {
            // SAFETY: NUL-terminated, and there until the message is closed.
            let text = unsafe { CStr::from_ptr(found) };
            Some(text.to_string_lossy().into_owned())
        };
        // SAFETY: initialised above, closed once.
        unsafe { (self.calls().msg_close)(&mut message) };
        received.map(|_| text)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: opened by zmq_socket, closed once.
        unsafe { (self.calls().close)(self.raw) };
    }
}
