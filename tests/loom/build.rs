// SPDX-License-Identifier: MPL-2.0
//! Tells the library's source that it is to be modelled.

fn main() {
    println!("cargo:rustc-cfg=loom");
    println!("cargo:rustc-check-cfg=cfg(loom)");
}
