// SPDX-License-Identifier: MPL-2.0
//! The books of a connection's queues.

use super::*;

/// A completion that is of no request under way: of another connection, told
/// twice, or from the future.
#[test]
fn row_25_a_completion_of_nothing_under_way_finds_no_request() {
    let sends: VecDeque<_> = (7..10).map(|seq| (seq, Entry::Send(None))).collect();
    let done = |generation, seq| Done {
        wr_id: id(generation, seq),
        outcome: Outcome::Bytes(0),
    };
    assert_eq!(position(&sends, 3, &done(3, 8)), Some(1));
    for (generation, seq) in [(2, 8), (4, 8), (3, 6), (3, 10), (3, 0), (0, u32::MAX)] {
        assert_eq!(position(&sends, 3, &done(generation, seq)), None);
    }
    assert_eq!(position(&VecDeque::new(), 3, &done(3, 8)), None);
}
