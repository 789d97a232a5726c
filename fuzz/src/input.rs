// SPDX-License-Identifier: MPL-2.0
//! An input read as choices. When it ends, all choices are zero.

use arbitrary::Unstructured;

/// The rest of an input.
pub struct Input<'a>(Unstructured<'a>);

impl<'a> Input<'a> {
    /// All of it.
    pub fn new(data: &'a [u8]) -> Input<'a> {
        Input(Unstructured::new(data))
    }

    /// Whether there is nothing left.
    pub fn ended(&self) -> bool {
        self.0.is_empty()
    }

    pub fn bool(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    pub fn u8(&mut self) -> u8 {
        self.0.arbitrary().unwrap_or(0)
    }

    pub fn u16(&mut self) -> u16 {
        self.0.arbitrary().unwrap_or(0)
    }

    pub fn u32(&mut self) -> u32 {
        self.0.arbitrary().unwrap_or(0)
    }

    pub fn u64(&mut self) -> u64 {
        self.0.arbitrary().unwrap_or(0)
    }

    /// `least` to `most`.
    pub fn within(&mut self, least: usize, most: usize) -> usize {
        self.0.int_in_range(least..=most).unwrap_or(least)
    }

    /// One in `n`, and never when the input has ended.
    pub fn one_in(&mut self, n: u8) -> bool {
        !self.ended() && self.u8() % n == 0
    }

    /// The next `most` bytes at most.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let n = most.min(self.0.len());
        self.0.bytes(n).unwrap_or(&[])
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        self.bytes(usize::MAX)
    }
}

/// Bytes of which no two stretches near each other are the same.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| pattern_byte(seed, at)).collect()
}

/// The byte at `at` of the pattern of `seed`.
pub fn pattern_byte(seed: u64, at: u64) -> u8 {
    let x = (seed ^ at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (x >> 56) as u8
}
