// SPDX-License-Identifier: MPL-2.0

//! A Rust program with a static libzmq in it: two copies of Rust's standard
//! library that must not meet. It panics and unwinds, too.

use std::ffi::{c_char, c_int};

extern "C" {
    fn zmq_has(capability: *const c_char) -> c_int;
}

fn main() {
    // SAFETY: a NUL-terminated string, as zmq_has asks for.
    let has = unsafe { zmq_has(c"rdma".as_ptr()) };
    assert_eq!(has, 1);
    let caught = std::panic::catch_unwind(|| panic!("as meant"));
    assert!(caught.is_err());
    let thread = std::thread::spawn(|| "hello from Rust");
    println!("{}", thread.join().expect("it does not panic"));
}
