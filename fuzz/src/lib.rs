// SPDX-License-Identifier: MPL-2.0
//! The bodies of the fuzz targets. libFuzzer drives them through
//! `fuzz_targets/`; `tests/replay.rs` drives the same ones where it is not at hand.
//!
//! A body panics when a property does not hold. What it takes from its input
//! never depends on a clock or on chance, so an input that fails fails again.

pub mod ddp;
pub mod decoders;
pub mod fake;
pub mod flow;
pub mod flow_link;
pub mod hostile;
pub mod input;
pub mod meter;
pub mod mpa;
pub mod rdmap;
pub mod region;
pub mod soft;
pub mod stream;

/// What a target runs on one input.
pub type Body = fn(&[u8]);

/// Every target, by its name.
pub const TARGETS: &[(&str, Body)] = &[
    ("mpa", decoders::mpa),
    ("ddp", decoders::ddp),
    ("rdmap", decoders::rdmap),
    ("frame", decoders::frame),
    ("hello", decoders::hello),
    ("private_data", decoders::private_data),
    ("mpa_framing", mpa::framing),
    ("mpa_negotiate", mpa::negotiate),
    ("ddp_machine", ddp::machine),
    ("rdmap_machine", rdmap::machine),
    ("flow_credit", flow::credit),
    ("flow_negotiate", flow::negotiate),
    ("flow_link", flow_link::link),
    ("region", region::region),
    ("stream_link", stream::link),
    ("stream_hostile", hostile::link),
    ("soft_peer", soft::peer),
];
