// SPDX-License-Identifier: MPL-2.0
//! The C doors. `types` is what crosses them, `ops` the vtable and its doors,
//! `handle` the lifetime of handles with the null, poison and fork checks, `guard`
//! the panic check, `stats` the counters, `errno` the translation of errors, `addr` socket addresses, `body` the pool of large messages, `env`
//! the environment, `out` what is written for the caller, `wish` what a caller asks for, `log` the log line.

mod addr;
mod body;
pub mod env;
mod errno;
pub mod guard;
pub mod handle;
pub mod log;
pub mod ops;
mod out;
mod report;
pub mod stats;
pub mod types;
mod wish;
