// SPDX-License-Identifier: MPL-2.0
//! Slabs and chunks: whatever the order of taking, filling, lending and
//! letting go, nobody's bytes are another's, and no cap is passed.

use std::sync::OnceLock;

use zmq_rdma::device::region::{
    ChunkPool, Filled, Free, Margins, Posted, Slab, Unregistered, Writer,
};

use crate::input::{pattern_byte, Input};

/// What is held, and the seed of the bytes in it.
enum Held {
    Free(Free, u64),
    Posted(Posted, u64),
    /// With the offset of its bytes in their pattern.
    Filled(Filled, u64, u64),
}

impl Held {
    fn check(&self) {
        if let Held::Filled(filled, seed, from) = self {
            for (at, byte) in filled.bytes().iter().enumerate() {
                assert_eq!(*byte, pattern_byte(*seed, from + at as u64), "byte {at}");
            }
        }
    }
}

/// A list of calls on a slab, then one on a pool of chunks.
pub fn region(data: &[u8]) {
    let mut input = Input::new(data);
    if input.bool() {
        slab(&mut input);
    } else {
        chunks(&mut input);
    }
}

fn slab(input: &mut Input<'_>) {
    let margins = Margins {
        before: input.within(0, 40),
        after: input.within(0, 12),
    };
    let (size, block) = (1 + input.within(0, 500), 1 + input.within(0, 12));
    let cap = input.within(0, 8) * 4096;
    let slab = Slab::with_margins(size, margins, block, cap, Box::new(Unregistered));
    let (mut held, mut seed, mut blocks) = (Vec::new(), 0, 0);
    for _ in 0..300 {
        if input.ended() {
            break;
        }
        let at = input.within(0, held.len().max(1) - 1);
        match input.u8() % 8 {
            0..=2 => {
                seed += 1;
                held.extend(take(&slab, seed));
            }
            3 | 4 if !held.is_empty() => {
                let one = held.swap_remove(at);
                one.check();
                held.push(step(one, margins, input));
            }
            5 if !held.is_empty() => {
                let one: Held = held.swap_remove(at);
                one.check();
            }
            _ => held.iter().for_each(Held::check),
        }
        assert!(slab.bytes() <= cap, "past its cap");
        assert!(slab.bytes() >= blocks, "memory was given back");
        blocks = slab.bytes();
    }
    held.iter().for_each(Held::check);
    drop(held);
    // All came back: as many as fit can be taken, and no more memory is needed.
    if blocks > 0 {
        let again = slab.take().expect("no registration").expect("a free slot");
        assert_eq!(slab.bytes(), blocks);
        drop(again);
    }
}

fn take(slab: &std::sync::Arc<Slab>, seed: u64) -> Option<Held> {
    let mut free = slab.take().expect("no registration")?;
    assert_eq!(free.capacity(), slab.slot_size());
    let bytes: Vec<u8> = (0..free.capacity() as u64)
        .map(|at| pattern_byte(seed, MARGIN + at))
        .collect();
    free.write(0, &bytes);
    Some(Held::Free(free, seed))
}

/// Patterns begin so far before the slot, so that a margin can go on with them.
const MARGIN: u64 = 64;

/// From one of its states to the next.
fn step(one: Held, margins: Margins, input: &mut Input<'_>) -> Held {
    match one {
        Held::Free(free, seed) => Held::Posted(free.post(), seed),
        Held::Posted(posted, seed) if input.one_in(3) => Held::Free(posted.free(), seed),
        Held::Posted(posted, seed) => {
            let len = input.within(0, posted.capacity());
            let filled = posted.filled(len);
            let (before, after) = (
                input.within(0, margins.before) as u64,
                input.within(0, margins.after) as u64,
            );
            let part = |from: u64, len: u64| -> Vec<u8> {
                (from..from + len)
                    .map(|at| pattern_byte(seed, at))
                    .collect()
            };
            let (head, tail) = (
                part(MARGIN - before, before),
                part(MARGIN + len as u64, after),
            );
            Held::Filled(filled.enclose(&head, &tail), seed, MARGIN - before)
        }
        filled => filled,
    }
}

const CHUNK: usize = 512;
const KEEP: usize = 3;

fn pool() -> &'static ChunkPool {
    static POOL: OnceLock<&ChunkPool> = OnceLock::new();
    POOL.get_or_init(|| ChunkPool::new(CHUNK, KEEP))
}

/// A writer, the seed of its bytes, and where in their pattern its first byte is.
struct Appending {
    writer: Writer,
    seed: u64,
    from: u64,
}

impl Appending {
    fn check(&self) {
        for (at, byte) in self.writer.bytes().iter().enumerate() {
            assert_eq!(*byte, pattern_byte(self.seed, self.from + at as u64));
        }
        assert_eq!(self.writer.bytes().len() + self.writer.left(), CHUNK);
    }

    fn append(&mut self, n: usize, by_room: bool) {
        let n = n.min(self.writer.left());
        let end = self.from + self.writer.bytes().len() as u64;
        let bytes: Vec<u8> = (end..end + n as u64)
            .map(|at| pattern_byte(self.seed, at))
            .collect();
        if by_room {
            for (room, byte) in self.writer.room().iter_mut().zip(&bytes) {
                room.write(*byte);
            }
            self.writer.advance(n);
        } else {
            self.writer.append(&bytes);
        }
    }
}

fn chunks(input: &mut Input<'_>) {
    let (mut writers, mut lent, mut seed) =
        (Vec::<Appending>::new(), Vec::<(Held, usize)>::new(), 0);
    for _ in 0..300 {
        if input.ended() {
            break;
        }
        let at = input.within(0, writers.len().max(1) - 1);
        let what = input.u8() % 8;
        if what == 0 || writers.is_empty() {
            seed += 1;
            let writer = pool().take();
            assert!(writer.bytes().is_empty() && writer.alone());
            writers.push(Appending {
                writer,
                seed,
                from: 0,
            });
            continue;
        }
        let one = &mut writers[at];
        match what {
            1 | 2 => one.append(input.within(0, CHUNK), what == 1),
            3 | 4 => {
                let end = input.within(0, one.writer.bytes().len());
                let start = input.within(0, end);
                let filled = one.writer.lend(start..end);
                let held = Held::Filled(filled, one.seed, one.from + start as u64);
                lent.push((held, one.seed as usize));
            }
            5 => restart(one, &lent, input),
            6 if !lent.is_empty() => {
                let (gone, _) = lent.swap_remove(input.within(0, lent.len() - 1));
                gone.check();
            }
            7 => writers.swap_remove(at).check(),
            _ => {}
        }
        lent.iter().for_each(|(held, _)| held.check());
    }
    writers.iter().for_each(Appending::check);
    drop(writers);
    lent.iter().for_each(|(held, _)| held.check());
    drop(lent);
    assert!(pool().spare() <= KEEP);
}

/// It begins again exactly when nothing of it is lent.
fn restart(one: &mut Appending, lent: &[(Held, usize)], input: &mut Input<'_>) {
    let here = one.writer.bytes().len();
    let keep = input.within(0, here);
    let free = lent.iter().all(|(_, seed)| *seed != one.seed as usize);
    assert_eq!(one.writer.alone(), free);
    assert_eq!(one.writer.restart(keep), free);
    if free {
        one.from += (here - keep) as u64;
        assert_eq!(one.writer.bytes().len(), keep);
    }
    one.check();
}
