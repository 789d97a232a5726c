// SPDX-License-Identifier: MPL-2.0
//! The devices at their own door, over the kernel's RDMA drivers in the lab's
//! VM: verbs against verbs, and verbs against soft. One test a call:
//!
//!     EP_ADDR=10.77.0.2 EP_SOURCE=10.77.0.1 vm_endpoint TEST
//!
//! EP_SERVER and EP_CLIENT choose the device (`verbs`, the default, or `soft`).
//! Both ends are in this process, so that one log tells of both; tests that
//! kill a peer start it as a process of its own.

#![allow(unsafe_code)]

mod auto;
mod basic;
mod failure;
mod looks;
mod pair;
mod reads;
mod resources;
mod rping;

use pair::Lab;

type Test = fn(&Lab);

const TESTS: &[(&str, Test)] = &[
    ("handshake", basic::handshake),
    ("reject", basic::reject),
    ("refused", basic::refused),
    ("in_use", basic::in_use),
    ("sizes", basic::sizes),
    ("stream", basic::stream),
    ("window", basic::window),
    ("looked_at", looks::looked_at),
    ("read", basic::read),
    ("read_among_sends", reads::read_among_sends),
    ("hidden", basic::hidden),
    ("part", basic::part),
    ("dropped", basic::dropped),
    ("attributes", basic::attributes),
    ("wildcard", basic::wildcard),
    ("auto_wildcard", auto::wildcard),
    ("auto_one_address", auto::one_address),
    ("auto_fallback", auto::fallback),
    ("auto_silent", auto::silent),
    ("cycles", resources::cycles),
    ("crowd", resources::crowd),
    ("memlock", resources::memlock),
    ("memlock_lowered", resources::memlock_lowered),
    ("lean", resources::lean),
    ("fork", resources::fork),
    ("killed", failure::killed),
    ("stopped", failure::stopped),
    ("removed", failure::removed),
    ("cut", failure::cut),
    ("blip", failure::blip),
    ("gone_unseen", failure::gone_unseen),
];

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap_or_default();
    if std::env::var_os("LAB_RESULTS").is_none() {
        println!("skipped: to be run in the lab, by tests/vm/run");
        return;
    }
    let lab = Lab::of_environment();
    let args = args.collect::<Vec<_>>();
    match name.as_str() {
        "peer" => return failure::peer(&lab, &args),
        "rping_client" => return rping::client(&lab, &args),
        "rping_server" => return rping::server(&lab, &args),
        _ => {}
    }
    let Some((_, test)) = TESTS.iter().find(|(known, _)| *known == name) else {
        eprintln!("no test {name:?}");
        std::process::exit(2);
    };
    test(&lab);
    pair::audit();
    println!("ok {name}");
}
