// SPDX-License-Identifier: MPL-2.0
//! Machines without I/O: `on_x` is told something, `poll_x` yields output.

pub mod ddp;
pub mod mpa;
pub mod rdmap;
