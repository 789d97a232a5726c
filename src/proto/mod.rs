// SPDX-License-Identifier: MPL-2.0
//! Machines without I/O: told by `on_x`, asked by `poll_x`. Siblings never meet.

pub mod ddp;
pub mod flow;
pub mod mpa;
pub mod rdmap;
