// SPDX-License-Identifier: MPL-2.0
//! Slab and chunks under loom: in every order of their steps no two threads
//! have the same memory, and who has it sees all that was done with it before.

use std::collections::HashMap;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::*;

/// Stands for memory: loom sees who touches it, and whether it may.
struct Ground {
    cells: Vec<UnsafeCell<u8>>,
    /// Which cell stands for which address. A mutex that loom does not see orders nothing.
    known: std::sync::Mutex<HashMap<usize, usize>>,
}

// SAFETY: what touches a cell without right is what loom is to find.
unsafe impl Sync for Ground {}
// SAFETY: as above.
unsafe impl Send for Ground {}

impl Ground {
    fn new() -> Arc<Ground> {
        Arc::new(Ground {
            cells: (0..6).map(|_| UnsafeCell::new(0)).collect(),
            known: std::sync::Mutex::default(),
        })
    }

    fn cell(&self, at: *const u8) -> &UnsafeCell<u8> {
        let mut known = self.known.lock().unwrap();
        let next = known.len();
        &self.cells[*known.entry(at as usize).or_insert(next)]
    }

    fn write(&self, at: *const u8) {
        self.cell(at).with_mut(|_| ());
    }

    fn read(&self, at: *const u8) {
        self.cell(at).with(|_| ());
    }
}

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(body);
}

/// Two threads take and let go, as often as they like.
fn slab_of(slots: usize, cap: usize, takes: usize) {
    model(move || {
        let slab = Slab::new(64, slots, cap, Box::new(Unregistered));
        let ground = Ground::new();
        let use_it = move |slab: &std::sync::Arc<Slab>, ground: &Ground| {
            for _ in 0..takes {
                if let Some(mut free) = slab.take().unwrap() {
                    ground.write(free.as_mut_ptr());
                    let filled = free.fill(1);
                    ground.write(filled.bytes().as_ptr());
                }
            }
        };
        let other = {
            let (slab, ground) = (std::sync::Arc::clone(&slab), Arc::clone(&ground));
            thread::spawn(move || use_it(&slab, &ground))
        };
        use_it(&slab, &ground);
        other.join().unwrap();
        assert!(slab.bytes() <= cap);
        // Everything came back.
        let all: Vec<_> = std::iter::from_fn(|| slab.take().unwrap()).collect();
        assert_eq!(all.len(), slots * (cap / pages::size()));
    });
}

#[test]
fn one_slot_goes_to_one_thread_at_a_time() {
    slab_of(1, pages::size(), 2);
}

#[test]
fn two_that_grow_at_once_stay_below_the_cap() {
    slab_of(1, 2 * pages::size(), 1);
}

#[test]
fn slots_of_a_block_are_given_once() {
    slab_of(2, pages::size(), 1);
}

/// A writer that has lent to `readers` threads, and what it does next.
fn lending(
    readers: usize,
    then: impl Fn(Writer, &'static ChunkPool, &Ground) + Copy + Sync + Send + 'static,
) {
    model(move || {
        let pool = ChunkPool::new(64, 2);
        let ground = Ground::new();
        let mut writer = pool.take();
        writer.append(b"abc");
        ground.write(writer.bytes().as_ptr());
        let threads: Vec<_> = (0..readers)
            .map(|_| {
                let (lent, ground) = (writer.lend(0..3), Arc::clone(&ground));
                thread::spawn(move || {
                    ground.read(lent.bytes().as_ptr());
                    drop(lent);
                })
            })
            .collect();
        then(writer, pool, &ground);
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        pool.drain();
    });
}

#[test]
fn a_chunk_that_came_back_has_no_reader() {
    lending(2, |writer, pool, ground| {
        drop(writer);
        for _ in 0..2 {
            let mut next = pool.take();
            next.append(b"new");
            ground.write(next.bytes().as_ptr());
        }
    });
}

#[test]
fn a_chunk_that_begins_again_has_no_reader() {
    lending(2, |mut writer, _, ground| {
        for _ in 0..2 {
            if writer.restart(0) {
                writer.append(b"new");
                ground.write(writer.bytes().as_ptr());
            }
        }
    });
}

#[test]
fn a_chunk_is_taken_by_one() {
    model(|| {
        let pool = ChunkPool::new(64, 2);
        let ground = Ground::new();
        drop(pool.take());
        let take = move |ground: &Ground| {
            let mut writer = pool.take();
            writer.append(b"new");
            ground.write(writer.bytes().as_ptr());
        };
        let other = {
            let ground = Arc::clone(&ground);
            thread::spawn(move || take(&ground))
        };
        take(&ground);
        other.join().unwrap();
        pool.drain();
    });
}
