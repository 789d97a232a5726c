// SPDX-License-Identifier: MPL-2.0

//! The committed C header is what cbindgen makes of `src/abi` today.

#[test]
fn committed_header_is_fresh() {
    let generated = include_str!(concat!(env!("OUT_DIR"), "/zmq_rdma.h"));
    let committed = include_str!("../include/zmq_rdma.h");
    let line = generated
        .lines()
        .zip(committed.lines())
        .position(|(g, c)| g != c);
    assert!(
        generated == committed,
        "include/zmq_rdma.h is stale (first difference at line {:?}): run scripts/header",
        line.map(|n| n + 1)
    );
}
