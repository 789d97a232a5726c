// SPDX-License-Identifier: MPL-2.0
//! MPA (RFC 5044, RFC 6581): iWARP's framing over TCP.

pub mod framing;
pub mod negotiate;
