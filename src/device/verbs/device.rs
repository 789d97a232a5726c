// SPDX-License-Identifier: MPL-2.0
//! One RDMA device as this process uses it: the context and protection domain
//! that librdmacm opened, and the slabs registered there.
//!
//! librdmacm closes the context of a removed device when the last id bound to
//! it is destroyed. So a [`Context`] keeps an id of its own until everything
//! that hangs on the context is gone. And close it must: until every process
//! has, `rdma link delete` waits (neither rxe nor siw can take a device away
//! from its users).

use std::collections::HashMap;
use std::ffi::CStr;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use libc::c_int;
use rdma_sys as c;

use super::cm::{self, Id};
use super::control;
use super::cq::Cq;
use super::memlock::{self, Bound, Budget};
use super::mr::{SlabRegistrar, Use};
use super::{names, quirk, sys};
use crate::device::region::{pool, Slab};
use crate::device::Options;
use crate::error::{Error, Result};

/// What lies beneath the verbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    /// InfiniBand or RoCE.
    Ib,
    /// iWARP.
    Iwarp,
}

/// What the device allows, as it says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Work requests of a queue.
    pub(super) queue: u32,
    /// Entries of a completion queue.
    pub(super) completions: u32,
    /// READs under way, as responder and as initiator.
    pub(super) reads_in: u8,
    pub(super) reads_out: u8,
}

impl Limits {
    /// Places of the receive and of the send queue, and of the completion queue of each:
    /// enough for all that may be posted, or no connection.
    pub(super) fn places(&self, options: &Options, reads: u32) -> Result<(u32, u32)> {
        let recvs = u32::from(options.recv_depth);
        let sends = u32::from(options.send_depth) + reads;
        if recvs.max(sends) > self.queue {
            return Err(Error::Limit("work requests of a queue of the RDMA device"));
        }
        if recvs.max(sends) > self.completions {
            return Err(Error::Limit(
                "entries of a completion queue of the RDMA device",
            ));
        }
        Ok((recvs, sends))
    }
}

/// An open device.
pub(super) struct Context {
    verbs: NonNull<c::ibv_context>,
    pd: NonNull<c::ibv_pd>,
    name: String,
    transport: Transport,
    limits: Limits,
    /// Whom it holds to the limit of locked memory.
    bound: Bound,
    fork_safe_pages: bool,
    gone: AtomicBool,
    /// A bit a port (of the first 64) that the device has told to be down.
    down: AtomicU64,
    /// siw: index of the network interface that it is on.
    siw_interface: Option<u32>,
    /// READs of a connection that are well under way at once.
    reads_at_once: u16,
    placeholder: Option<Cq>,
    keeper: Option<Id>,
}

// SAFETY: libibverbs contexts and PDs may be used from any thread at once; the
// keeper is touched by `drop` alone.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// The device that `keeper` is bound to.
    pub(super) fn open(keeper: Id) -> Result<Context> {
        let verbs = keeper
            .verbs()
            .ok_or(Error::Misuse("an id without a device"))?;
        let pd = keeper.pd().ok_or(Error::Misuse("an id without a device"))?;
        // SAFETY: the keeper keeps the context open; `device` is valid as long.
        let device = unsafe { (*verbs.as_ptr()).device };
        // SAFETY: libibverbs owns the device while a context is open.
        let transport = match unsafe { (*device).transport_type } {
            c::ibv_transport_type::IBV_TRANSPORT_IWARP => Transport::Iwarp,
            _ => Transport::Ib,
        };
        // SAFETY: as above.
        let name = unsafe { c::ibv_get_device_name(device) };
        // SAFETY: a NUL-terminated string inside the device.
        let name = unsafe { CStr::from_ptr(name) };
        let (limits, vendor) = query(verbs)?;
        let mut context = Context {
            verbs,
            pd,
            name: name.to_string_lossy().into_owned(),
            transport,
            limits,
            bound: quirk::holds_to_the_limit(vendor),
            fork_safe_pages: forks_copy_pinned_pages(),
            gone: AtomicBool::new(false),
            down: AtomicU64::new(0),
            siw_interface: None,
            reads_at_once: match vendor {
                quirk::RXE_VENDOR => 1,
                _ => limits.reads_out.into(),
            },
            placeholder: None,
            keeper: Some(keeper),
        };
        if vendor == quirk::SIW_VENDOR {
            context.placeholder = quirk::occupy_forbidden_key(&context);
            let interface = names::interface_of(context.name());
            context.siw_interface = interface.and_then(|name| crate::os::interface_index(&name));
        }
        Ok(context)
    }

    pub(super) fn verbs(&self) -> NonNull<c::ibv_context> {
        self.verbs
    }

    pub(super) fn pd(&self) -> *mut c::ibv_pd {
        self.pd.as_ptr()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn transport(&self) -> Transport {
        self.transport
    }

    /// No other open device has it.
    pub(super) fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// What may be pinned for it, and for others of its kind.
    pub(super) fn budget(&self) -> &'static Budget {
        memlock::budget(self.bound)
    }

    /// Memory that shares pages with the rest of the program may be
    /// registered: a fork copies pinned pages (Linux 5.12). Before that a
    /// child would miss those pages.
    pub(super) fn may_pin_foreign_pages(&self) -> bool {
        self.fork_safe_pages
    }

    /// Of siw, the index of the network interface that it is on.
    pub(super) fn siw_interface(&self) -> Option<u32> {
        self.siw_interface
    }

    /// Bytes from which on a SEND must be signaled, or its memory is not free when it is complete.
    pub(super) fn signaled_from(&self) -> usize {
        match self.siw_interface {
            Some(_) => quirk::UNCOPIED_FROM,
            None => usize::MAX,
        }
    }

    /// Completion vectors of the device.
    pub(super) fn vectors(&self) -> c_int {
        // SAFETY: the keeper keeps the context open.
        unsafe { (*self.verbs.as_ptr()).num_comp_vectors }
    }

    /// READs of a connection that are well under way at once.
    pub(super) fn reads_at_once(&self) -> u16 {
        self.reads_at_once
    }

    /// Where the device tells of itself.
    pub(super) fn async_fd(&self) -> RawFd {
        // SAFETY: the keeper keeps the context open.
        unsafe { (*self.verbs.as_ptr()).async_fd }
    }

    /// Nothing new is begun on a device that is gone.
    pub(super) fn alive(&self) -> Result<()> {
        if self.gone.load(Ordering::Relaxed) {
            return Err(self.removed());
        }
        Ok(())
    }

    /// What the device tells of a port. A port that goes may come back before a retry gives up,
    /// so no connection ends by it; but one that ends meanwhile can say why.
    pub(super) fn note_port(&self, port: u8, is_down: bool) {
        let Some(bit) = 1u64.checked_shl(u32::from(port)) else {
            return;
        };
        if is_down {
            self.down.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.down.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    pub(super) fn port_is_down(&self, port: u8) -> bool {
        let bit = 1u64.checked_shl(u32::from(port)).unwrap_or(0);
        self.down.load(Ordering::Relaxed) & bit != 0
    }

    pub(super) fn set_gone(&self) {
        self.gone.store(true, Ordering::Relaxed);
        pool::pool().forget(self.id());
        cm::forget_removed_devices();
    }

    pub(super) fn removed(&self) -> Error {
        Error::Reset(format!("the RDMA device {} is gone", self.name))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Before the context may close.
        self.placeholder = None;
        // Destroying an id may wait: on the control thread, not here.
        if let Some(keeper) = self.keeper.take() {
            control::retire(Keeper {
                id: keeper,
                gone: self.gone.load(Ordering::Relaxed),
            });
        }
    }
}

/// The last id of a device, to be destroyed.
pub(super) struct Keeper {
    id: Id,
    gone: bool,
}

impl Keeper {
    /// Destroy it; the context of a device that is gone closes by that.
    pub(super) fn dismiss(self) {
        if !self.gone || cm::forget_removed_devices() {
            return;
        }
        // librdmacm notices a removed device only while there is another one.
        // So the context stays open; at least its file must not.
        let Some(file) = self.id.verbs().and_then(DeviceFile::of) else {
            return;
        };
        drop(self.id);
        file.close_if_open();
    }
}

/// The file of a context, by descriptor.
struct DeviceFile {
    commands: RawFd,
    events: RawFd,
    identity: (u64, u64),
}

impl DeviceFile {
    fn of(verbs: NonNull<c::ibv_context>) -> Option<DeviceFile> {
        // SAFETY: the id that gave it keeps the context open.
        let commands = unsafe { (*verbs.as_ptr()).cmd_fd };
        // SAFETY: as above.
        let events = unsafe { (*verbs.as_ptr()).async_fd };
        Some(DeviceFile {
            commands,
            events,
            identity: sys::identity(commands)?,
        })
    }

    /// Close it, but keep the descriptors taken: librdmacm will close them too.
    fn close_if_open(self) {
        if sys::identity(self.commands) == Some(self.identity) {
            sys::replace_by_null(self.events);
            sys::replace_by_null(self.commands);
        }
    }
}

/// Whether a child of a fork gets copies of pinned pages (Linux 5.12).
fn forks_copy_pinned_pages() -> bool {
    // SAFETY: no arguments; it reads a setting of the library.
    unsafe { c::ibv_is_fork_initialized() == c::IBV_FORK_UNNEEDED }
}

/// Have forks leave registered memory to this process, where they must be told. Not where they
/// need not be: rdma-core then takes the pages from the child, and with them what of the program's
/// own lies there, messages above all.
pub(super) fn prepare_for_forks() {
    if !forks_copy_pinned_pages() {
        // It fails if the program registered memory itself before; then forking is its own affair.
        // SAFETY: no arguments.
        unsafe { c::ibv_fork_init() };
    }
}

/// What the device allows, and whose it is.
fn query(verbs: NonNull<c::ibv_context>) -> Result<(Limits, u32)> {
    // SAFETY: all zeroes is a valid ibv_device_attr.
    let mut attr: c::ibv_device_attr = unsafe { std::mem::zeroed() };
    // SAFETY: an open context, and room for the answer.
    let ret = unsafe { c::ibv_query_device(verbs.as_ptr(), &mut attr) };
    sys::number("ibv_query_device", ret)?;
    let reads = |device: i32| device.clamp(1, MOST_READS) as u8;
    let limits = Limits {
        queue: u32::try_from(attr.max_qp_wr).unwrap_or(0),
        completions: u32::try_from(attr.max_cqe).unwrap_or(0),
        reads_in: reads(attr.max_qp_rd_atom),
        reads_out: reads(attr.max_qp_init_rd_atom),
    };
    Ok((limits, attr.vendor_id))
}

/// READs under way on a connection at most, each way.
const MOST_READS: i32 = 16;

/// A device and what is registered there.
pub(super) struct Device {
    context: Arc<Context>,
    slabs: Mutex<HashMap<(Use, usize), Arc<Slab>>>,
}

impl Device {
    pub(super) fn new(context: Context) -> Arc<Device> {
        Arc::new(Device {
            context: Arc::new(context),
            slabs: Mutex::new(HashMap::new()),
        })
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The slab of such slots: one a device, use and size.
    pub(super) fn slab(&self, purpose: Use, slot_size: usize) -> Arc<Slab> {
        let mut slabs = self.slabs.lock().unwrap_or_else(|e| e.into_inner());
        let slab = slabs.entry((purpose, slot_size)).or_insert_with(|| {
            let registrar = SlabRegistrar {
                context: Arc::clone(&self.context),
                purpose,
            };
            let slots = (self.context.budget().block_bytes() / slot_size.max(1)).max(1);
            // The process's budget is the cap: the registrar draws on it.
            Slab::new(slot_size, slots, usize::MAX, Box::new(registrar))
        });
        Arc::clone(slab)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_32_a_queue_too_small_for_all_that_may_be_posted_is_refused() {
        let options = Options {
            recv_depth: 32,
            send_depth: 36,
            ..Options::default()
        };
        let all = u32::from(options.send_depth) + 16;
        let limits = |queue, completions| Limits {
            queue,
            completions,
            reads_in: 1,
            reads_out: 1,
        };
        assert_eq!(limits(all, all).places(&options, 16), Ok((32, all)));
        for (queue, completions, word) in [(all - 1, all, "work"), (all, all - 1, "completion")] {
            match limits(queue, completions).places(&options, 16) {
                Err(Error::Limit(what)) => assert!(what.contains(word), "{what}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
