// SPDX-License-Identifier: MPL-2.0
//! CRC32C: the examples of RFC 3720 appendix B.4, and agreement with the
//! polynomial at every length and cut.

use proptest::prelude::*;
use zmq_rdma::wire::crc32c::{append, crc32c, gather};

#[test]
fn the_examples_of_rfc_3720() {
    let up: Vec<u8> = (0..32).collect();
    let down: Vec<u8> = (0..32).rev().collect();
    let mut read10 = [0; 48];
    for (at, byte) in [
        (0, 0x01),
        (1, 0xc0),
        (16, 0x14),
        (22, 0x04),
        (27, 0x14),
        (31, 0x18),
        (32, 0x28),
        (40, 0x02),
    ] {
        read10[at] = byte;
    }
    let examples: [(&[u8], [u8; 4]); 5] = [
        (&[0; 32], [0xaa, 0x36, 0x91, 0x8a]),
        (&[0xff; 32], [0x43, 0xab, 0xa8, 0x62]),
        (&up, [0x4e, 0x79, 0xdd, 0x46]),
        (&down, [0x5c, 0xdb, 0x3f, 0x11]),
        (&read10, [0x56, 0x3a, 0x96, 0xd9]),
    ];
    for (bytes, crc) in examples {
        assert_eq!(crc32c(bytes).to_le_bytes(), crc);
    }
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}

/// Bit by bit.
fn slow(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}

#[test]
fn every_short_length_agrees_with_the_polynomial() {
    let bytes: Vec<u8> = (0..1200u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for len in 0..bytes.len() {
        assert_eq!(crc32c(&bytes[..len]), slow(&bytes[..len]), "{len} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cuts_do_not_matter(bytes in prop::collection::vec(any::<u8>(), 0..20_000), cut in any::<prop::sample::Index>()) {
        let (a, b) = bytes.split_at(cut.index(bytes.len() + 1));
        prop_assert_eq!(append(crc32c(a), b), slow(&bytes));
        prop_assert_eq!(gather(&[a, b, &[]]), slow(&bytes));
    }
}
