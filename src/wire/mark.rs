// SPDX-License-Identifier: MPL-2.0
//! The mark of SoftRDMA at the end of MPA's private data: by it two of us know
//! each other before the first FPDU, and need not pack FPDUs as other iWARP
//! devices want them. Others see a few bytes more than their consumer looks at.

const MARK: [u8; 8] = *b"SoftRDMA";

/// A consumer's private data, marked.
pub fn put(private: &[u8]) -> Vec<u8> {
    [private, &MARK].concat()
}

/// A peer's private data without the mark, and whether it was there.
pub fn strip(private: &[u8]) -> (&[u8], bool) {
    match private.strip_suffix(&MARK) {
        Some(rest) => (rest, true),
        None => (private, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_found_and_gone() {
        for private in [&b""[..], b"x", b"SoftRDMA", &[7; 56]] {
            let marked = put(private);
            assert!(marked.ends_with(b"SoftRDMA"));
            assert_eq!(strip(&marked), (private, true));
        }
    }

    #[test]
    fn only_the_end_counts() {
        for private in [&b""[..], b"oftRDMA", b"SoftRDMA ", b"softrdma"] {
            assert_eq!(strip(private), (private, false));
        }
    }
}
