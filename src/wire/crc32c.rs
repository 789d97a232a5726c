// SPDX-License-Identifier: MPL-2.0
//! CRC32C (Castagnoli), as iSCSI and MPA use it (RFC 3720 section 12.1,
//! RFC 5044 section 4.4).

/// The CRC of `bytes`.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    ::crc32c::crc32c(bytes)
}

/// The CRC of what gave `crc`, followed by `bytes`.
#[inline]
pub fn append(crc: u32, bytes: &[u8]) -> u32 {
    ::crc32c::crc32c_append(crc, bytes)
}
