// SPDX-License-Identifier: MPL-2.0
//! What completions tell, in every order.

use super::*;

const GENERATION: u32 = 3;

fn done(generation: u32, seq: u32, outcome: Outcome) -> Done {
    Done {
        wr_id: id(generation, seq),
        outcome,
    }
}

/// What is under way, and what was told of it.
struct Books {
    under_way: UnderWay<()>,
    told: Told,
}

impl Books {
    /// SENDs and READs by their sequence numbers.
    fn new(sends: &[u32], reads: &[u32]) -> Books {
        let mut under_way = UnderWay::default();
        under_way.sends.extend(sends.iter().map(|seq| (*seq, None)));
        for seq in reads {
            under_way.post_read(*seq, 100 + u64::from(*seq), ());
        }
        Books {
            under_way,
            told: Told::default(),
        }
    }

    fn settle(&mut self, done: &Done) -> bool {
        self.under_way.settle(GENERATION, done, &mut self.told)
    }

    fn well(&mut self, seq: u32) -> bool {
        self.settle(&done(GENERATION, seq, Outcome::Bytes(0)))
    }

    /// SENDs told of, SENDs left, READs told of, READs left.
    fn now(&self) -> (u16, usize, Vec<u64>, usize) {
        let (told, left) = (&self.told, &self.under_way);
        (told.sent, left.sends(), told.reads.clone(), left.reads())
    }
}

/// A completion that is of no request under way: of another connection, told
/// twice, or from the future.
#[test]
fn row_25_a_completion_of_nothing_under_way_finds_no_request() {
    let mut books = Books::new(&[7, 9], &[8]);
    for (generation, seq) in [(2, 8), (4, 8), (3, 6), (3, 10), (3, 0), (0, u32::MAX)] {
        assert!(!books.settle(&done(generation, seq, Outcome::Bytes(0))));
    }
    assert_eq!(books.now(), (0, 2, vec![], 1));
    assert!(books.well(7) && !books.well(7));
    assert!(books.well(8) && !books.well(8));
    assert_eq!(books.now(), (1, 1, vec![108], 0));
    assert!(!Books::new(&[], &[]).well(8));
}

#[test]
fn a_send_tells_of_the_sends_before_it_and_of_no_read() {
    // siw tells of SENDs that went out after a READ was asked for, before its bytes are there.
    let mut books = Books::new(&[1, 3, 4, 6], &[2, 5]);
    assert!(books.well(4));
    assert_eq!(books.now(), (3, 1, vec![], 2));
    assert!(books.well(6));
    assert_eq!(books.now(), (4, 0, vec![], 2));
    assert!(books.well(2) && books.well(5));
    assert_eq!(books.now(), (4, 0, vec![102, 105], 0));
}

#[test]
fn a_read_tells_of_the_sends_before_it() {
    let mut books = Books::new(&[u32::MAX, 1], &[0]);
    assert!(books.well(0));
    assert_eq!(books.now(), (1, 1, vec![100], 0));
}

#[test]
fn what_fails_is_not_told_as_done() {
    let failed = |seq| {
        let outcome = Outcome::Failed {
            status: 12,
            vendor: 0,
        };
        done(GENERATION, seq, outcome)
    };
    let mut books = Books::new(&[1, 2], &[3]);
    assert!(books.settle(&failed(2)));
    assert_eq!(books.now(), (1, 0, vec![], 1));
    assert!(books.settle(&failed(3)));
    assert_eq!(books.now(), (1, 0, vec![], 0));
    assert_eq!(books.told.failure, Some((12, 0)));
}
