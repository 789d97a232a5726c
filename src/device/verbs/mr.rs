// SPDX-License-Identifier: MPL-2.0
//! Registered memory: one `ibv_mr`, and the registrar behind the slabs.

use std::ptr::NonNull;
use std::sync::Arc;

use libc::c_int;
use rdma_sys as c;

use super::device::{Context, Transport};
use super::memlock::Lease;
use super::sys;
use crate::device::region::pool::{self, Chunk, Registration};
use crate::device::region::Registrar;
use crate::error::{Error, Result};

/// What a registration is for; decides the rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Use {
    /// Source of SENDs.
    Send,
    /// Receives.
    Recv,
    /// Memory the peer may READ.
    Source,
    /// Where a READ of ours puts its bytes.
    Sink,
}

impl Use {
    fn access(self, transport: Transport) -> c_int {
        let write = c::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
        let access = match self {
            Use::Send => 0,
            Use::Recv => write,
            Use::Source => c::ibv_access_flags::IBV_ACCESS_REMOTE_READ.0,
            // To iWARP the answer of a READ is a tagged write like any other.
            Use::Sink if transport == Transport::Iwarp => {
                write | c::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0
            }
            Use::Sink => write,
        };
        access as c_int
    }
}

/// A registration; the memory is the device's to use until it is dropped.
pub(super) struct Region {
    mr: NonNull<c::ibv_mr>,
    _lease: Lease,
    // The registration hangs on the context, which must outlive it.
    _context: Arc<Context>,
}

// SAFETY: an ibv_mr is bound to no thread, and libibverbs locks what it shares.
unsafe impl Send for Region {}
// SAFETY: a shared `Region` only reads its keys, which never change.
unsafe impl Sync for Region {}

impl Region {
    /// Register `len` bytes at `addr`.
    ///
    /// # Safety
    /// The memory stays mapped until the region is dropped; and as far as the
    /// use lets the device write it, nobody else touches it while a work
    /// request that names it is posted.
    pub(super) unsafe fn register(
        context: &Arc<Context>,
        addr: NonNull<u8>,
        len: usize,
        purpose: Use,
    ) -> Result<Region> {
        context.alive()?;
        let foreign = matches!(purpose, Use::Source | Use::Sink);
        let lease = match foreign {
            true => context.budget().lease_foreign(len),
            false => context.budget().lease(len),
        }?;
        let access = purpose.access(context.transport());
        // SAFETY: the PD lives as long as `context`; the memory is the caller's to vouch for.
        let mr = unsafe { c::ibv_reg_mr(context.pd(), addr.as_ptr().cast(), len, access) };
        let Some(mr) = NonNull::new(mr) else {
            if foreign {
                // Any of it may be of a kind that cannot be; it can be copied.
                return Err(Error::Limit("memory that the device can register"));
            }
            return Err(match sys::last("ibv_reg_mr") {
                Error::Device {
                    code: libc::ENOMEM | libc::EPERM,
                    ..
                } => context.budget().kernel_refused(lease),
                other => other,
            });
        };
        Ok(Region {
            mr,
            _lease: lease,
            _context: Arc::clone(context),
        })
    }

    /// For our own work requests.
    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: valid until drop.
        unsafe { self.mr.as_ref() }.lkey
    }

    /// For the peer's.
    pub(super) fn remote_key(&self) -> u32 {
        // SAFETY: valid until drop.
        unsafe { self.mr.as_ref() }.rkey
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: registered in `register`, deregistered only here, its context still alive.
        // A failure (the device is gone) leaves nothing to do.
        unsafe { c::ibv_dereg_mr(self.mr.as_ptr()) };
    }
}

/// Where a READ of ours puts its bytes: memory that is ours to have filled until this is dropped.
pub(super) enum Target {
    /// The caller's, registered for this READ.
    Own(Region),
    /// In a chunk of the pool, which stays registered. The chunk is of one message, so all
    /// READs into it are of one connection.
    Pooled(Arc<Registration>, Arc<Chunk>),
}

impl Target {
    /// Register `len` bytes at `addr`, if they are not.
    ///
    /// # Safety
    /// As for [`Region::register`].
    pub(super) unsafe fn new(
        context: &Arc<Context>,
        addr: NonNull<u8>,
        len: usize,
    ) -> Result<Target> {
        // To iWARP a sink is for the peer to write, and no such right may last.
        if context.transport() == Transport::Ib {
            if let Some(chunk) = pool::pool().find(addr.as_ptr(), len) {
                match Target::pooled(context, chunk) {
                    Err(Error::Limit(_)) => {}
                    other => return other,
                }
            }
        }
        // SAFETY: the caller's.
        let region = unsafe { Region::register(context, addr, len, Use::Sink) };
        Ok(Target::Own(region?))
    }

    fn pooled(context: &Arc<Context>, chunk: Arc<Chunk>) -> Result<Target> {
        let registrar = SlabRegistrar {
            context: Arc::clone(context),
            purpose: Use::Sink,
        };
        let device = context.id();
        let registered = match chunk.registered(device, &registrar) {
            // What was READ before may keep others' memory pinned for nothing.
            Err(Error::Limit(_)) if pool::pool().shed(chunk.capacity()) => {
                chunk.registered(device, &registrar)
            }
            other => other,
        };
        Ok(Target::Pooled(registered?, chunk))
    }

    /// For our own work requests.
    pub(super) fn local_key(&self) -> u32 {
        match self {
            Target::Own(region) => region.local_key(),
            Target::Pooled(registered, _) => registered.local_key(),
        }
    }

    /// Drop it in the middle of its READ: the registration ends with the last such READ, so that
    /// the device puts nothing there any more.
    pub(super) fn revoke(self, context: &Context) {
        if let Target::Pooled(_, chunk) = &self {
            chunk.forget(context.id());
        }
    }
}

/// Registers the blocks of a slab, and chunks of the pool.
pub(super) struct SlabRegistrar {
    pub(super) context: Arc<Context>,
    pub(super) purpose: Use,
}

impl Registrar for SlabRegistrar {
    fn register(&self, addr: NonNull<u8>, len: usize) -> Result<(u32, Box<dyn Send + Sync>)> {
        // SAFETY: the slab keeps the block mapped longer than this guard, and
        // lends its slots to one holder at a time; so does the pool with its chunks.
        let region = unsafe { Region::register(&self.context, addr, len, self.purpose) }?;
        Ok((region.local_key(), Box::new(region)))
    }
}
