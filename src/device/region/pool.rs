// SPDX-License-Identifier: MPL-2.0
//! Memory of large messages: chunks that stay mapped, touched and registered from one
//! message to the next, so that neither page faults nor registrations recur.
//!
//! A chunk holds one message. Any thread takes one, any thread gives it back. The pool owns its
//! mappings, so what a device has registered is never unmapped behind its back, as it could be
//! with a cache of the caller's addresses.
//!
//! A registration that lasts is for our own READs to fill, and lets no peer in: one that a peer may
//! READ ends with its message (`Endpoint::hide`), lest the peer READ what lies there next.
//!
//! Each process has a pool of its own. A forked child may read and free what it has inherited;
//! the chunk then is unmapped in the child, and nothing of the parent's is touched.

mod taken;

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::Registrar;
use crate::error::Result;
use crate::os::pages::Pages;
use crate::os::{self, PerProcess};
pub use taken::Taken;

/// The least and the largest message that is pooled, in bytes.
pub const LEAST: usize = 64 << 10;
/// See [`LEAST`].
pub const MOST: usize = 64 << 20;
/// A chunk that nobody has used for so long is given back to the system.
pub const IDLE: Duration = Duration::from_secs(5);
/// Bytes of all chunks at most, unless the user says otherwise.
pub const CAP: usize = 256 << 20;

/// One device's registration of a chunk.
pub struct Registration {
    key: u32,
    // Deregisters.
    _guard: Box<dyn Send + Sync>,
}

impl Registration {
    /// For our own work requests.
    pub fn local_key(&self) -> u32 {
        self.key
    }
}

/// Room for one message.
pub struct Chunk {
    // Field order is drop order: deregister, then unmap.
    registrations: Mutex<Vec<(usize, Arc<Registration>)>>,
    pages: Pages,
    /// The process that it is of.
    generation: u32,
}

impl Chunk {
    fn map(len: usize) -> Result<Chunk> {
        Ok(Chunk {
            registrations: Mutex::default(),
            pages: Pages::map(len)?,
            generation: os::generation(),
        })
    }

    /// Where it begins.
    pub fn start(&self) -> NonNull<u8> {
        self.pages.start()
    }

    /// Bytes of it, registered as one.
    pub fn capacity(&self) -> usize {
        self.pages.len()
    }

    fn registrations(&self) -> MutexGuard<'_, Vec<(usize, Arc<Registration>)>> {
        self.registrations.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Its registration with a device, made at first use; `device` is a number that no
    /// other device has as long as this one's registrations exist.
    pub fn registered(
        self: &Arc<Self>,
        device: usize,
        registrar: &dyn Registrar,
    ) -> Result<Arc<Registration>> {
        let mut known = self.registrations();
        if let Some((_, found)) = known.iter().find(|(of, _)| *of == device) {
            return Ok(Arc::clone(found));
        }
        let (key, guard) = registrar.register(self.start(), self.capacity())?;
        let made = Arc::new(Registration { key, _guard: guard });
        known.push((device, Arc::clone(&made)));
        Ok(made)
    }

    /// End its registration with a device: at once, or with the last holder.
    pub fn forget(&self, device: usize) {
        let gone: Vec<_> = {
            let mut known = self.registrations();
            let (gone, kept) = known.drain(..).partition(|(of, _)| *of == device);
            *known = kept;
            gone
        };
        drop(gone);
    }

    /// Take away those registrations that no READ uses; they end when dropped.
    fn unused(&self) -> Vec<Arc<Registration>> {
        let mut known = self.registrations();
        let (used, unused): (Vec<_>, Vec<_>) = known
            .drain(..)
            .partition(|(_, held)| Arc::strong_count(held) > 1);
        *known = used;
        unused.into_iter().map(|(_, held)| held).collect()
    }
}

/// What the pool holds and has done; since the process began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Books {
    /// Bytes of all chunks now.
    pub bytes: usize,
    /// Of that, chunks that hold a message.
    pub lent: usize,
    /// Messages that found a chunk ready.
    pub hits: u64,
    /// Messages that a chunk was mapped for.
    pub misses: u64,
    /// Messages that were left to malloc, for the cap or for want of memory.
    pub refused: u64,
}

struct Idle {
    since: Instant,
    chunk: Arc<Chunk>,
}

#[derive(Default)]
struct State {
    users: usize,
    cap: usize,
    /// By address: those that hold a message, and those that are idle.
    chunks: BTreeMap<usize, Arc<Chunk>>,
    /// By capacity; what was used last comes last.
    idle: BTreeMap<usize, Vec<Idle>>,
    books: Books,
}

/// The pool of a process.
#[derive(Default)]
pub struct Pool {
    /// Messages from so many bytes on; 0: none, nobody has use for it.
    from: AtomicUsize,
    state: Mutex<State>,
}

static POOL: PerProcess<Pool> = PerProcess::new();

/// This process's.
pub fn pool() -> &'static Pool {
    POOL.get()
}

/// While one exists, large messages come from the pool. The last one's end gives back all that is idle,
/// and ends all registrations.
pub struct User {
    pool: &'static Pool,
    generation: u32,
}

impl User {
    /// Have messages of `from` bytes or more come from the pool, and let it take up to `cap` bytes. With several
    /// users the least `from` counts, and the last `cap`.
    pub fn new(from: usize, cap: usize) -> User {
        let pool = pool();
        let mut state = pool.state();
        state.users += 1;
        state.cap = cap;
        let from = from.max(LEAST);
        let before = pool.from.load(Ordering::Relaxed);
        if before == 0 || from < before {
            pool.from.store(from, Ordering::Relaxed);
        }
        let generation = os::generation();
        User { pool, generation }
    }

    /// Give back what has been idle for [`IDLE`]. To be called every few seconds.
    pub fn trim(&self, now: Instant) {
        self.pool.trim(now);
    }
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "User of {:?}", self.pool.books())
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // In a forked child its lock may be held by nobody who is there.
        if self.generation == os::generation() {
            self.pool.leave();
        }
    }
}

/// Bytes of the chunk for a message: at most a quarter more.
fn capacity(size: usize) -> usize {
    let step = (1usize << size.ilog2()) / 4;
    size.next_multiple_of(step)
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Room for `size` bytes, and where it begins, with what was there before in it; `None`: malloc
    /// shall do. To be given back by [`give_back`].
    pub fn take(&self, size: usize) -> Option<(NonNull<Chunk>, NonNull<u8>)> {
        self.take_if(size, |_, _| true)
    }

    /// The same, if the state lets a chunk of that capacity go.
    fn take_if(
        &self,
        size: usize,
        may: impl FnOnce(&State, usize) -> bool,
    ) -> Option<(NonNull<Chunk>, NonNull<u8>)> {
        let from = self.from.load(Ordering::Relaxed);
        if from == 0 || size < from || size > MOST {
            return None;
        }
        let capacity = capacity(size);
        let (taken, dropped) = {
            let mut state = self.state();
            match may(&state, capacity) {
                true => state.take(capacity),
                false => return None,
            }
        };
        drop(dropped);
        // Kept alive by the table until it is given back.
        taken.map(|chunk| (NonNull::from(&*chunk), chunk.start()))
    }

    /// The chunk that these bytes lie in.
    pub fn find(&self, addr: *const u8, len: usize) -> Option<Arc<Chunk>> {
        let at = addr as usize;
        let state = self.state();
        let (start, chunk) = state.chunks.range(..=at).next_back()?;
        let end = start + chunk.capacity();
        (len <= end.saturating_sub(at)).then(|| Arc::clone(chunk))
    }

    fn put(&self, start: NonNull<u8>) {
        let dropped = self.state().put(start, Instant::now());
        drop(dropped);
    }

    fn trim(&self, now: Instant) {
        let dropped = self
            .state()
            .release(|idle| now.saturating_duration_since(idle.since) >= IDLE);
        drop(dropped);
    }

    fn leave(&self) {
        let mut state = self.state();
        state.users -= 1;
        if state.users > 0 {
            return;
        }
        self.from.store(0, Ordering::Relaxed);
        let dropped = state.release(|_| true);
        let kept: Vec<_> = state.chunks.values().cloned().collect();
        drop(state);
        drop(dropped);
        // Messages that the program has kept.
        kept.iter().for_each(|chunk| drop(chunk.unused()));
    }

    /// End registrations of `bytes` or more that no READ uses, if there are so many: others need what
    /// may be pinned. Whether any was ended.
    pub fn shed(&self, bytes: usize) -> bool {
        let all: Vec<_> = self.state().chunks.values().cloned().collect();
        let mut ended = 0;
        for chunk in all {
            ended += chunk.unused().len() * chunk.capacity();
            if ended >= bytes {
                break;
            }
        }
        ended > 0
    }

    /// A device is gone: end all registrations with it.
    pub fn forget(&self, device: usize) {
        let all: Vec<_> = self.state().chunks.values().cloned().collect();
        all.iter().for_each(|chunk| chunk.forget(device));
    }

    /// What it holds and has done.
    pub fn books(&self) -> Books {
        self.state().books
    }
}

impl State {
    fn take(&mut self, capacity: usize) -> (Option<Arc<Chunk>>, Vec<Arc<Chunk>>) {
        if let Some(ready) = self.idle.get_mut(&capacity).and_then(Vec::pop) {
            self.books.hits += 1;
            self.books.lent += capacity;
            return (Some(ready.chunk), Vec::new());
        }
        let dropped = self.make_room(capacity);
        let mapped = match self.books.bytes + capacity <= self.cap {
            true => Chunk::map(capacity).ok().map(Arc::new),
            false => None,
        };
        match &mapped {
            Some(chunk) => {
                let at = chunk.start().addr().get();
                self.chunks.insert(at, Arc::clone(chunk));
                self.books.bytes += capacity;
                self.books.lent += capacity;
                self.books.misses += 1;
            }
            None => self.books.refused += 1,
        }
        (mapped, dropped)
    }

    fn put(&mut self, start: NonNull<u8>, now: Instant) -> Option<Arc<Chunk>> {
        let at = start.addr().get();
        let chunk = Arc::clone(self.chunks.get(&at)?);
        let capacity = chunk.capacity();
        self.books.lent -= capacity;
        if self.users > 0 && self.books.bytes <= self.cap {
            let idle = Idle { since: now, chunk };
            self.idle.entry(capacity).or_default().push(idle);
            return None;
        }
        self.strike(&chunk);
        Some(chunk)
    }

    /// Take out idle chunks of other sizes, oldest first, as far as this many bytes want room.
    fn make_room(&mut self, wanted: usize) -> Vec<Arc<Chunk>> {
        let mut dropped = Vec::new();
        while self.books.bytes + wanted > self.cap {
            let oldest = |chunks: &Vec<Idle>| chunks.first().map(|idle| idle.since);
            let Some(chunks) = self
                .idle
                .values_mut()
                .filter(|c| !c.is_empty())
                .min_by_key(|c| oldest(c))
            else {
                break;
            };
            let chunk = chunks.remove(0).chunk;
            self.strike(&chunk);
            dropped.push(chunk);
        }
        dropped
    }

    /// It leaves the table.
    fn strike(&mut self, chunk: &Chunk) {
        self.books.bytes -= chunk.capacity();
        self.chunks.remove(&chunk.start().addr().get());
    }

    /// Take out the idle chunks that are to go; they go when dropped, without the lock.
    fn release(&mut self, goes: impl Fn(&Idle) -> bool) -> Vec<Arc<Chunk>> {
        let mut dropped = Vec::new();
        self.idle.retain(|_, chunks| {
            let (gone, kept): (Vec<_>, Vec<_>) = chunks.drain(..).partition(&goes);
            *chunks = kept;
            dropped.extend(gone.into_iter().map(|idle| idle.chunk));
            !chunks.is_empty()
        });
        dropped.iter().for_each(|chunk| self.strike(chunk));
        dropped
    }
}

/// Take a message's chunk back, in any thread.
///
/// # Safety
/// `chunk` is of [`Pool::take`], in this process or in one that it was forked from, and is not
/// used after this.
pub unsafe fn give_back(chunk: NonNull<Chunk>) {
    // SAFETY: the table of the pool that it is of keeps it alive until now.
    let lent = unsafe { chunk.as_ref() };
    let (start, generation) = (lent.start(), lent.generation);
    if generation == os::generation() {
        pool().put(start);
        return;
    }
    // A forked child's copy. Its table is the parent's, its registrations name things of
    // the parent's: only the pages are the child's to give up.
    let pages: *const Pages = &lent.pages;
    // SAFETY: valid as above; nobody uses it after this, and what it holds besides is leaked.
    drop(unsafe { pages.read() });
}

#[cfg(test)]
mod tests;
