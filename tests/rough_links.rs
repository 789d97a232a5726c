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
use zmq_rdma::stream::sizes::{Rendezvous, Sizes};

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
    /// Bodies are lent, and read straight into `got`.
    large: bool,
}

/// Bytes of a body, and of what goes before it.
const BODY: usize = 40_000;
const HEAD: usize = 16;

impl End {
    fn new(link: Link, out: Vec<u8>) -> End {
        End {
            link,
            out,
            at: 0,
            got: Vec::new(),
            large: false,
        }
    }

    fn new_large(link: Link, out: Vec<u8>) -> End {
        End {
            got: Vec::with_capacity(out.len()),
            large: true,
            ..End::new(link, out)
        }
    }

    /// As `step`, the way that libzmq's engine does with large messages.
    fn step_large(&mut self) {
        self.link.crank();
        loop {
            let room = self.got.spare_capacity_mut();
            let (to, size) = (room.as_mut_ptr().cast(), room.len());
            // SAFETY: the room stays until bytes come: nobody else touches it.
            let Ok(n) = (unsafe { self.link.read(to, size, true) }) else {
                break;
            };
            let len = self.got.len() + n;
            // SAFETY: so many bytes have been put there.
            unsafe { self.got.set_len(len) };
        }
        for first in [true, false] {
            let before = self.at;
            while self.at < self.out.len() && self.send_large() {}
            self.link.flush();
            if !(first || self.at > before) {
                break;
            }
        }
    }

    /// A head by copy, a body from where it is; whether any of it went.
    fn send_large(&mut self) -> bool {
        let within = self.at % (HEAD + BODY);
        if within >= HEAD {
            let n = (HEAD + BODY - within).min(self.out.len() - self.at);
            // SAFETY: `out` stays, unwritten, for longer than the link.
            let lent = unsafe { self.link.lend(self.out[self.at..].as_ptr(), n) };
            self.at += *lent.as_ref().unwrap_or(&0);
            return lent.is_ok();
        }
        let n = (HEAD - within).min(self.out.len() - self.at);
        let Ok((to, room)) = self.link.reserve() else {
            return false;
        };
        let n = n.min(room);
        // SAFETY: `reserve` gave a buffer of `room` bytes that is ours until `commit`.
        unsafe { std::ptr::copy_nonoverlapping(self.out[self.at..].as_ptr(), to, n) };
        self.at += n;
        self.link.commit(n).is_ok()
    }

    /// What an engine does when its descriptor is ready.
    fn step(&mut self) {
        if self.large {
            return self.step_large();
        }
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
        Scene::of(Sizes::new(Choice::Soft, Options::default()))
    }

    /// Large bodies are READ.
    fn large() -> Scene {
        let sizes = Sizes::new(Choice::Soft, Options::default());
        Scene::of(sizes.with_rendezvous(Rendezvous::From(BODY)))
    }

    fn of(sizes: Sizes) -> Scene {
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
        (dial, self.end(link, out))
    }

    fn end(&self, link: Link, out: Vec<u8>) -> End {
        match self.sizes.rendezvous {
            Rendezvous::Off => End::new(link, out),
            _ => End::new_large(link, out),
        }
    }

    /// Both ends, once the dial has become a link; or why it did not.
    fn connect(&mut self, plan: Plan, len: usize) -> Result<(End, End), Error> {
        let (mut dial, mut theirs) = self.meet(plan, bytes(plan.seed + 1, len));
        loop {
            match dial.step() {
                Ok(link) => return Ok((self.end(link, bytes(plan.seed, len)), theirs)),
                Err(Error::Again) => {}
                Err(why) => return Err(why),
            }
            let ready = [
                dial.ready().unwrap(),
                theirs.link.ready(),
                self.listener.ready(),
            ];
            assert!(wait(&ready, 10_000) > 0, "the handshake stalls");
            theirs.step();
            // A dial that was cut off without a word tries once more, in the older
            // revision of MPA.
            if theirs.dead() {
                drop(self.listener.accept());
            }
        }
    }
}

/// Both ways to the last byte, then a close in good order by each.
fn exchange_and_close(scene: &mut Scene, plan: Plan, len: usize) {
    let (mut ours, mut theirs) = scene.connect(plan, len).unwrap();
    let seed = plan.seed;
    while ours.got.len() < len || theirs.got.len() < len {
        turn(&mut ours, &mut theirs);
        assert!(
            !ours.dead() && !theirs.dead(),
            "seed {seed}: {:?} {:?}",
            ours.link.death(),
            theirs.link.death()
        );
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
        exchange_and_close(&mut scene, plan, LEN);
    }
}

#[test]
fn large_bodies_over_a_rough_device_cost_no_byte_and_no_stall() {
    let mut scene = Scene::large();
    for seed in 0..30 {
        let plan = Plan {
            stint: PerMille(0),
            late_sent: PerMille([0, 500][seed as usize % 2]),
            not_ready: PerMille([0, 0, 200][seed as usize % 3]),
            // Once is for good.
            unregistrable: PerMille([0, 0, 100][seed as usize / 10]),
            ..Plan::rough(seed)
        };
        exchange_and_close(&mut scene, plan, 800_000);
    }
}

/// The side whose device dies is in the middle of READs, of being READ, and of all between.
#[test]
fn death_at_any_call_with_large_bodies_under_way() {
    let mut scene = Scene::large();
    die_everywhere(&mut scene, 300);
}

#[test]
fn row_27_death_at_any_call_ends_both_links_and_nothing_else() {
    let mut scene = Scene::new();
    die_everywhere(&mut scene, 160);
}

fn die_everywhere(scene: &mut Scene, calls: u32) {
    for after in 0..calls {
        let death = [
            Death::Reset,
            Death::DeviceLoss,
            Death::TimedOut,
            Death::NotReady,
        ][after as usize % 4];
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
fn row_38_private_data_may_be_padded_and_must_be_ours() {
    let mut scene = Scene::new();
    let with = |private| Plan {
        private,
        ..Plan::default()
    };
    assert!(scene.connect(with(Private::Padded(196)), 10).is_ok());
    assert!(scene.connect(with(Private::Short(7)), 10).is_err());
    assert!(scene.connect(with(Private::Short(0)), 10).is_err());
    assert!(scene.connect(with(Private::Whole), 10).is_ok());
    for len in 0..20 {
        assert!(scene.connect(with(Private::Short(len)), 10).is_err());
    }
    let mut refused = 0;
    for seed in 0..100 {
        let plan = Plan {
            seed,
            ..with(Private::Garbled)
        };
        // A flipped bit in a size or a credit may still be a good hello.
        match scene.connect(plan, 10) {
            Ok((mut ours, mut theirs)) => {
                ours.step();
                theirs.step();
            }
            Err(why) => {
                refused += 1;
                assert!(!why.to_string().is_empty());
            }
        }
    }
    assert!(refused > 30, "{refused} of 100");
    assert!(scene.connect(with(Private::Whole), 10).is_ok());
}

/// Completions of our own SENDs come long after the credits that those earned.
#[test]
fn row_16_a_grant_that_overtakes_our_completions_overflows_nothing() {
    let mut scene = Scene::new();
    for seed in 0..20 {
        let plan = Plan {
            seed,
            late_sent: PerMille(950),
            split: PerMille(300),
            ..Plan::default()
        };
        exchange_and_close(&mut scene, plan, 2 << 20);
    }
}

/// Hardly ever a slot to send from: receives go on, and credits with them.
#[test]
fn row_17_without_send_slots_receives_and_credits_flow() {
    let mut scene = Scene::new();
    for seed in 0..20 {
        let plan = Plan {
            seed,
            starve: PerMille(900),
            ..Plan::default()
        };
        exchange_and_close(&mut scene, plan, 200_000);
    }
}

/// The peer was not ready, as an RDMA device may say: the SENDs go later, in order.
#[test]
fn row_24_not_ready_costs_no_byte() {
    let mut scene = Scene::new();
    for seed in 0..20 {
        let plan = Plan {
            seed,
            not_ready: PerMille(300),
            late_sent: PerMille(300),
            ..Plan::default()
        };
        exchange_and_close(&mut scene, plan, 400_000);
    }
}

/// Everything is lost, and no event says so: two ticks find it.
#[test]
fn row_26_silence_is_found_by_the_tick() {
    let mut scene = Scene::new();
    for after in (40..400).step_by(40) {
        let plan = Plan {
            silence: Some(after),
            ..Plan::default()
        };
        let (mut ours, mut theirs) = scene.connect(plan, 8 << 20).unwrap();
        for _ in 0..2000 {
            ours.step();
            theirs.step();
        }
        assert!(!theirs.dead() && ours.got.len() < 8 << 20);
        theirs.link.tick(std::time::Instant::now());
        assert!(!theirs.dead());
        theirs.link.tick(std::time::Instant::now());
        assert_eq!(theirs.link.death(), Some(&Error::TimedOut));
        assert!(theirs.link.reserve().is_err());
    }
}
