// SPDX-License-Identifier: MPL-2.0
//! Slabs and slots, and where they refuse.

use super::*;

#[test]
fn row_29_a_slab_never_grows_past_its_cap() {
    let slab = Slab::new(100, 4, pages::size(), Box::new(Unregistered));
    let held: Vec<_> = (0..4).map(|_| slab.take().unwrap().unwrap()).collect();
    assert!(slab.take().unwrap().is_none());
    assert_eq!(slab.bytes(), pages::size());
    drop(held);
    assert!(slab.take().unwrap().is_some());
}

/// Registers pieces of so many bytes at most.
struct UpTo(usize);

impl Registrar for UpTo {
    fn register(&self, _: NonNull<u8>, len: usize) -> Result<(u32, Box<dyn Send + Sync>)> {
        match len <= self.0 {
            true => Ok((0, Box::new(()))),
            false => Err(Error::Limit("a test")),
        }
    }
}

#[test]
fn row_28_a_slab_grows_by_what_may_be_registered() {
    let slab = Slab::new(
        pages::size(),
        16,
        usize::MAX,
        Box::new(UpTo(3 * pages::size())),
    );
    let held: Vec<_> = (0..5).map(|_| slab.take().unwrap().unwrap()).collect();
    assert_eq!(
        (slab.bytes(), slab.spare()),
        (6 * pages::size(), pages::size())
    );
    drop(held);
    let slab = Slab::new(
        pages::size(),
        16,
        usize::MAX,
        Box::new(UpTo(pages::size() - 1)),
    );
    assert!(matches!(slab.take(), Err(Error::Limit(_))));
}

#[test]
fn a_slot_keeps_its_bytes_through_post_and_fill() {
    let slab = Slab::new(16, 1, pages::size(), Box::new(Unregistered));
    let mut free = slab.take().unwrap().unwrap();
    free.write(4, b"abcd");
    let filled = free.post().filled(8);
    assert_eq!(&filled.bytes()[4..], b"abcd");
}

#[test]
fn a_slot_is_enclosed_in_its_margins() {
    let margins = Margins {
        before: 4,
        after: 2,
    };
    let slab = Slab::with_margins(16, margins, 2, pages::size(), Box::new(Unregistered));
    let mut other = slab.take().unwrap().unwrap();
    let mut free = slab.take().unwrap().unwrap();
    free.write(0, &[7; 16]);
    other.write(0, &[9; 16]);
    let whole = free.fill(16).enclose(b"head", b"ta");
    assert_eq!(&whole.bytes()[..4], b"head");
    assert_eq!(&whole.bytes()[4..20], &[7; 16]);
    assert_eq!(&whole.bytes()[20..], b"ta");
    assert_eq!(other.fill(16).bytes(), &[9; 16]);
}

#[test]
#[should_panic(expected = "too narrow")]
fn a_margin_has_an_end() {
    let slab = Slab::new(16, 1, pages::size(), Box::new(Unregistered));
    let free = slab.take().unwrap().unwrap();
    free.fill(16).enclose(b"", b"t");
}

#[test]
#[should_panic(expected = "past the end")]
fn a_write_past_the_end_panics() {
    let slab = Slab::new(16, 1, pages::size(), Box::new(Unregistered));
    slab.take().unwrap().unwrap().write(13, b"abcd");
}

#[test]
fn a_block_has_its_pages_to_itself() {
    let slab = Slab::new(100, 4, usize::MAX, Box::new(Unregistered));
    let mut slab = Arc::into_inner(slab).unwrap();
    for page in [4096, 16 << 10, 64 << 10] {
        slab.page = page;
        assert_eq!(slab.block_bytes(4), page);
        let memory = Memory::new(slab.block_bytes(4), page);
        assert_eq!(memory.start.addr().get() % page, 0);
        assert!(memory.layout.size() >= memory.len + page);
    }
    assert_eq!(pages::size() % PAGE, 0);
}
