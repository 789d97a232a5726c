// SPDX-License-Identifier: MPL-2.0
//! What stands in every door: no panic comes across.

use std::panic::{catch_unwind, AssertUnwindSafe};

use super::log::{line, Level};

/// Run the body of a door.
pub fn door(name: &str, body: impl FnOnce() -> i32) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(_) => {
            line(Level::Error, || {
                format!("defect in {name}; this one connection is dead, please report it")
            });
            -libc::ECONNABORTED
        }
    }
}
