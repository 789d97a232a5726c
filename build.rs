// SPDX-License-Identifier: MPL-2.0

//! Generates the C header into `OUT_DIR`. The committed copy in `include/` is
//! what the C++ side compiles against; `tests/header.rs` fails when it differs,
//! `scripts/header` renews it.

fn main() {
    for input in ["src/abi", "cbindgen.toml", "build.rs"] {
        println!("cargo:rerun-if-changed={input}");
    }
    #[cfg(feature = "header")]
    header();
}

#[cfg(feature = "header")]
fn header() {
    use std::path::PathBuf;

    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    // From `abi` alone: public constants elsewhere in the crate are not C's.
    let header = cbindgen::Builder::new()
        .with_config(cbindgen::Config::from_root_or_default(&root))
        .with_src(root.join("src/abi/mod.rs"))
        .generate();
    match header {
        Ok(header) => header.write_to_file(out.join("zmq_rdma.h")),
        Err(e) => panic!("include/zmq_rdma.h cannot be generated: {e}"),
    };
}
