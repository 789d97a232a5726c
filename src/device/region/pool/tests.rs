// SPDX-License-Identifier: MPL-2.0
//! The pool of large messages: one for the process, so these tests take turns.

use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, MutexGuard};

use super::*;
use crate::device::region::PAGE;

const MIB: usize = 1 << 20;

fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(|e| e.into_inner())
}

fn take(size: usize) -> Option<NonNull<Chunk>> {
    pool().take(size).map(|(chunk, _)| chunk)
}

fn give(chunk: NonNull<Chunk>) {
    // SAFETY: of `take`, given back once.
    unsafe { give_back(chunk) };
}

fn start(chunk: NonNull<Chunk>) -> NonNull<u8> {
    // SAFETY: not given back yet.
    unsafe { chunk.as_ref() }.start()
}

fn room(chunk: NonNull<Chunk>) -> usize {
    // SAFETY: not given back yet.
    unsafe { chunk.as_ref() }.capacity()
}

#[test]
fn a_chunk_is_at_most_a_quarter_more_than_its_message() {
    for size in [
        LEAST,
        LEAST + 1,
        100_000,
        MIB,
        MIB + 1,
        5 * MIB / 4,
        MOST - 1,
        MOST,
    ] {
        let taken = capacity(size);
        assert!(
            taken >= size && taken <= size + size / 4 && taken % PAGE == 0,
            "{size} {taken}"
        );
    }
    assert_eq!(capacity(MIB), MIB);
    assert_eq!(capacity(MIB + 1), MIB + MIB / 4);
}

#[test]
fn it_serves_while_somebody_has_use_for_it() {
    let _turn = alone();
    assert!(take(MIB).is_none());
    let user = User::new(MIB, CAP);
    assert!(take(MIB - 1).is_none() && take(MOST + 1).is_none());
    let other = User::new(LEAST / 2, CAP);
    assert!(take(LEAST - 1).is_none());
    let kept = take(LEAST).unwrap();
    drop(other);
    drop(user);
    assert!(take(MIB).is_none());
    assert_eq!(
        pool().books().bytes,
        room(kept),
        "what the program keeps stays"
    );
    // SAFETY: a chunk that is taken is writable for its size.
    unsafe { start(kept).as_ptr().write_bytes(7, LEAST) };
    give(kept);
    assert_eq!((pool().books().bytes, pool().books().lent), (0, 0));
}

#[test]
fn what_was_given_back_is_taken_again() {
    let _turn = alone();
    let _user = User::new(LEAST, CAP);
    let before = pool().books();
    let one = take(MIB).unwrap();
    let at = start(one);
    std::thread::scope(|scope| {
        let one = SendPtr(one);
        scope.spawn(move || give({ one }.0));
    });
    let again = take(MIB - 1000).unwrap();
    assert_eq!(start(again), at);
    let other = take(2 * MIB).unwrap();
    assert_ne!(start(other), at);
    give(again);
    give(other);
    let after = pool().books();
    assert_eq!(
        (after.hits - before.hits, after.misses - before.misses),
        (1, 2)
    );
    assert_eq!((after.bytes, after.lent), (3 * MIB, 0));
}

struct SendPtr(NonNull<Chunk>);

// SAFETY: a chunk may be given back by any thread.
unsafe impl Send for SendPtr {}

#[test]
fn the_cap_holds_and_what_is_idle_makes_room() {
    let _turn = alone();
    let _user = User::new(LEAST, 4 * MIB);
    let refused = pool().books().refused;
    let chunks: Vec<_> = (0..4).map(|_| take(MIB).unwrap()).collect();
    assert!(take(LEAST).is_none());
    assert_eq!(pool().books().refused, refused + 1);
    chunks.into_iter().for_each(give);
    assert_eq!(pool().books().bytes, 4 * MIB);
    let large = take(2 * MIB).unwrap();
    assert_eq!(pool().books().bytes, 4 * MIB, "two small ones went");
    assert!(take(4 * MIB).is_none());
    give(large);
}

#[test]
fn what_is_idle_goes_after_a_while() {
    let _turn = alone();
    let user = User::new(LEAST, CAP);
    let (kept, idle) = (take(MIB).unwrap(), take(MIB).unwrap());
    give(idle);
    let now = Instant::now();
    user.trim(now);
    assert_eq!(pool().books().bytes, 2 * MIB);
    user.trim(now + IDLE);
    assert_eq!(pool().books().bytes, MIB);
    user.trim(now + 10 * IDLE);
    assert_eq!(pool().books().bytes, MIB, "lent");
    give(kept);
}

/// Counts what is registered.
#[derive(Default)]
struct Register(Arc<AtomicUsize>);

struct Entry(Arc<AtomicUsize>);

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Registrar for Register {
    fn register(&self, _: NonNull<u8>, _: usize) -> Result<(u32, Box<dyn Send + Sync>)> {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        Ok((before as u32, Box::new(Entry(Arc::clone(&self.0)))))
    }
}

impl Register {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn a_chunk_is_registered_once_a_device_and_found_by_address() {
    let _turn = alone();
    let user = User::new(LEAST, CAP);
    let taken = take(MIB).unwrap();
    let at = start(taken).as_ptr().cast_const();
    assert!(pool().find(at, MIB + 1).is_none());
    assert!(pool().find(at.wrapping_sub(1), 1).is_none());
    assert!(pool().find(at.wrapping_add(MIB), 1).is_none());
    let found = pool().find(at.wrapping_add(MIB - 10), 10).unwrap();
    let (one, two) = (Register::default(), Register::default());
    let first = found.registered(1, &one).unwrap();
    let second = found.registered(1, &one).unwrap();
    assert_eq!(first.local_key(), second.local_key());
    let other = found.registered(2, &two).unwrap();
    assert_eq!((one.count(), two.count()), (1, 1));

    // A device that goes takes its registrations along, those in use as their READs end.
    pool().forget(1);
    assert_eq!(one.count(), 1);
    drop((first, second));
    assert_eq!(one.count(), 0);

    // Who needs pinned memory gets what no READ uses.
    assert!(!pool().shed(1) && two.count() == 1, "in use");
    drop(other);
    assert!(pool().shed(1) && two.count() == 0);

    // Kept from one message to the next; the end of the last user ends it.
    drop(found.registered(2, &two).unwrap());
    drop(found);
    give(taken);
    let again = take(MIB).unwrap();
    assert_eq!((start(again).as_ptr().cast_const(), two.count()), (at, 1));
    drop(user);
    assert_eq!(two.count(), 0, "though the message is kept");
    give(again);
}

#[test]
fn an_idle_chunk_ends_its_registration_before_it_is_unmapped() {
    let _turn = alone();
    let user = User::new(LEAST, CAP);
    let taken = take(MIB).unwrap();
    let register = Register::default();
    let found = pool().find(start(taken).as_ptr(), 1).unwrap();
    let held = found.registered(1, &register).unwrap();
    give(taken);
    user.trim(Instant::now() + IDLE);
    assert_eq!((pool().books().bytes, register.count()), (0, 1));
    drop(held);
    // The READ that still knows the chunk keeps both.
    assert_eq!(register.count(), 1);
    drop(found);
    assert_eq!(register.count(), 0);
}
