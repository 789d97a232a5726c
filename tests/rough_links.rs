// SPDX-License-Identifier: MPL-2.0
//! Links over a device that misbehaves. What a healthy device may do costs no
//! byte and no stall; what a sick one does ends links, and nothing else.
#![allow(unsafe_code)]

use std::net::SocketAddr;

use zmq_rdma::device::fault::{Death, FaultyEndpoint, PerMille, Plan, Private};
use zmq_rdma::device::{self, Choice, Listener, Options, Ready};
use zmq_rdma::error::Error;
use zmq_rdma::stream::dial::Dial;
use zmq_rdma::stream::link::Link;
use zmq_rdma::stream::sizes::Sizes;

/// Wait up to `patience` milliseconds for one of `ready`.
fn wait(ready: &[Ready], patience: i32) -> usize {
    let mut fds: Vec<libc::pollfd> = ready
        .iter()
        .map(|r| libc::pollfd {
            fd: r.fd,
            events: libc::POLLIN | if r.write { libc::POLLOUT } else { 0 },
            revents: 0,
        })
        .collect();
    // SAFETY: `fds` is an array of that many pollfds.
    let n = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as _, patience) };
    usize::try_from(n).unwrap()
}

/// One end: what it has to send, what it has got.
struct End {
    link: Link,
    out: Vec<u8>,
    at: usize,
    got: Vec<u8>,
}

impl End {
    fn new(link: Link, out: Vec<u8>) -> End {
        End {
            link,
            out,
            at: 0,
            got: Vec::new(),
        }
    }

    /// What an engine does when its descriptor is ready.
    fn step(&mut self) {
        self.link.crank();
        while let Ok(chunk) = self.link.chunk() {
            let n = chunk.len();
            self.got.extend_from_slice(chunk);
            self.link.consume(n);
        }
        self.link.replenish();
        while self.at < self.out.len() && self.link.state().writable {
            let Ok((to, room)) = self.link.reserve() else {
                break;
            };
            let piece = &self.out[self.at..];
            let n = room.min(piece.len());
            // SAFETY: `reserve` gave a buffer of `room` bytes that is ours until `commit`.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), to, n) };
            if self.link.commit(n).is_err() {
                break;
            }
            self.at += n;
            self.link.flush();
        }
    }

    fn dead(&self) -> bool {
        self.link.state().dead
    }
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        out.extend_from_slice(&x.to_le_bytes());
    }
    out.truncate(len);
    out
}

struct Scene {
    listener: Box<dyn Listener>,
    sizes: Sizes,
}

impl Scene {
    fn new() -> Scene {
        let sizes = Sizes::new(Choice::Soft, Options::default());
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listener = device::listen(Choice::Soft, any, &sizes.device).unwrap();
        Scene { listener, sizes }
    }

    /// A dial from outside, met by a link on a device that follows `plan`.
    fn meet(&mut self, plan: Plan, out: Vec<u8>) -> (Dial, End) {
        let to = self.listener.local_addr();
        let sizes = self.sizes.clone();
        let host = to.ip().to_string();
        let dial = Dial::start(Choice::Soft, sizes, &host, to.port(), None, false).unwrap();
        wait(&[self.listener.ready()], 10_000);
        let endpoint = FaultyEndpoint::new(self.listener.accept().unwrap(), plan);
        let link = Link::acceptor(Box::new(endpoint), self.sizes.clone());
        (dial, End::new(link, out))
    }

    /// Both ends, once the dial has become a link; or why it did not.
    fn connect(&mut self, plan: Plan, len: usize) -> Result<(End, End), Error> {
        let (mut dial, mut theirs) = self.meet(plan, bytes(plan.seed + 1, len));
        loop {
            match dial.step() {
                Ok(link) => return Ok((End::new(link, bytes(plan.seed, len)), theirs)),
                Err(Error::Again) => {}
                Err(why) => return Err(why),
            }
            let n = wait(&[dial.ready().unwrap(), theirs.link.ready()], 10_000);
            assert!(n > 0, "the handshake stalls");
            theirs.step();
            // A dial that is not answered tries once more, in the older way.
            if theirs.dead() && self.listener.accept().is_ok() {
                return Err(Error::Closed);
            }
        }
    }
}

fn turn(ours: &mut End, theirs: &mut End) {
    let n = wait(&[ours.link.ready(), theirs.link.ready()], 10_000);
    assert!(n > 0, "both wait, and neither descriptor speaks");
    ours.step();
    theirs.step();
}

#[test]
fn a_rough_device_costs_no_byte_and_no_stall() {
    const LEN: usize = 400_000;
    let mut scene = Scene::new();
    for seed in 0..30 {
        // A link needs its first receives; fewer of them is a refusal.
        let plan = Plan {
            stint: PerMille(0),
            ..Plan::rough(seed)
        };
        let (mut ours, mut theirs) = scene.connect(plan, LEN).unwrap();
        while ours.got.len() < LEN || theirs.got.len() < LEN {
            turn(&mut ours, &mut theirs);
            assert!(!ours.dead() && !theirs.dead(), "seed {seed}");
        }
        assert!(ours.got == theirs.out && theirs.got == ours.out);
        ours.link.shut();
        while !theirs.link.state().peer_shut {
            turn(&mut ours, &mut theirs);
        }
        theirs.link.shut();
        while !ours.link.state().finished || !theirs.link.state().finished {
            turn(&mut ours, &mut theirs);
        }
    }
}

#[test]
fn death_at_any_call_ends_both_links_and_nothing_else() {
    let mut scene = Scene::new();
    for after in 0..120 {
        let death = [Death::Reset, Death::DeviceLoss, Death::TimedOut][after as usize % 3];
        let plan = Plan {
            death: Some((death, after)),
            ..Plan::default()
        };
        let Ok((mut ours, mut theirs)) = scene.connect(plan, 1 << 20) else {
            continue;
        };
        while !theirs.dead() {
            turn(&mut ours, &mut theirs);
        }
        drop(theirs);
        while !ours.dead() {
            assert!(wait(&[ours.link.ready()], 10_000) > 0);
            ours.step();
        }
        assert!(ours.link.reserve().is_err());
    }
}

#[test]
fn spoilt_messages_end_at_most_their_own_link() {
    let mut scene = Scene::new();
    for seed in 0..60 {
        let some = PerMille(200);
        let none = PerMille(0);
        let plan = Plan {
            seed,
            garble: if seed % 3 == 0 { some } else { none },
            truncate: if seed % 3 == 1 { some } else { none },
            duplicate: if seed % 3 == 2 { some } else { none },
            ..Plan::default()
        };
        let Ok((mut ours, mut theirs)) = scene.connect(plan, 200_000) else {
            continue;
        };
        // A spoilt grant may stop it for good, and then there is nothing to
        // wait for; spoilt data is for the layers above to notice.
        for _ in 0..500 {
            ours.step();
            theirs.step();
            if theirs.dead() {
                break;
            }
        }
        if seed % 3 == 1 {
            // A frame says how long it is.
            assert!(theirs.dead(), "seed {seed}");
        }
    }
    let (mut ours, mut theirs) = scene.connect(Plan::default(), 1000).unwrap();
    while theirs.got.len() < 1000 {
        turn(&mut ours, &mut theirs);
    }
}

#[test]
fn private_data_may_be_padded_and_must_be_ours() {
    let mut scene = Scene::new();
    let with = |private| Plan {
        private,
        ..Plan::default()
    };
    assert!(scene.connect(with(Private::Padded(196)), 10).is_ok());
    assert!(scene.connect(with(Private::Short(7)), 10).is_err());
    assert!(scene.connect(with(Private::Short(0)), 10).is_err());
    assert!(scene.connect(with(Private::Whole), 10).is_ok());
}
