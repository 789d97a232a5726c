// SPDX-License-Identifier: MPL-2.0
//! RDMAP (RFC 5040): SEND, WRITE, READ, TERMINATE.

pub mod request;
pub mod respond;
pub mod terminate;
