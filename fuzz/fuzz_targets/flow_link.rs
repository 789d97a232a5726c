// SPDX-License-Identifier: MPL-2.0
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| zmq_rdma_fuzz::flow_link::link(data));
