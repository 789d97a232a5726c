// SPDX-License-Identifier: MPL-2.0
//! DDP (RFC 5041): messages cut into segments, segments put in their place.

pub mod place;
pub mod segment;
