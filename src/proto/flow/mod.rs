// SPDX-License-Identifier: MPL-2.0
//! The stream protocol above any device: credits, hello, half-close.

pub mod credit;
pub mod link;
pub mod negotiate;
pub mod rendezvous;
