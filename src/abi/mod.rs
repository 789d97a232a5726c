//! The C doors. `types` is what crosses them, `ops` the vtable, `guard` the
//! null, panic, poison and fork checks, `errno` the translation of errors,
//! `log` the log line.

pub mod types;
pub mod handle; 

/// The vtable.
#[allow(unsafe_code)]
#[no_mangle]
pub extern "C" fn zmq_rdma_ops() -> *const types::Ops { std::ptr::null() }
