// SPDX-License-Identifier: MPL-2.0
//! What the fault device does to a scripted device, and to a real one.

use std::os::fd::RawFd;

use super::*;
use crate::device::{soft, Listener, Options};
use crate::os;

/// A device that tells what it was told to tell.
#[derive(Default)]
struct Script {
    polls: VecDeque<(Vec<Event>, Result<()>)>,
    flushes: VecDeque<u16>,
    /// Calls fail once all has been told.
    ends: bool,
}

impl Endpoint for Script {
    fn kind(&self) -> Kind {
        Kind::Soft
    }
    fn device_name(&self) -> &str {
        "script"
    }
    fn caps(&self) -> Caps {
        Caps {
            slot_size: 100,
            recv_depth: 9,
            send_depth: 9,
            detects_idle_death: true,
            ..Caps::default()
        }
    }
    fn ready(&self) -> Ready {
        Ready {
            fd: -1,
            read: true,
            write: false,
        }
    }
    fn local_addr(&self) -> SocketAddr {
        "127.0.0.1:1".parse().unwrap()
    }
    fn peer_addr(&self) -> SocketAddr {
        self.local_addr()
    }
    fn accept(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn reject(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn post_recvs(&mut self, n: u16) -> Result<u16> {
        // As a real one: its end is told by every call.
        if self.ends && self.polls.is_empty() {
            return Err(Error::Closed);
        }
        Ok(n)
    }
    fn reserve(&mut self) -> Result<Option<Free>> {
        Slab::new(100, 1, usize::MAX, Box::new(Unregistered)).take()
    }
    fn post_send(&mut self, _: Free, _: usize) -> Result<()> {
        Ok(())
    }
    fn flush(&mut self) -> Result<u16> {
        Ok(self.flushes.pop_front().unwrap_or(0))
    }
    #[allow(unsafe_code)]
    unsafe fn expose(&mut self, _: *const u8, _: usize) -> Result<Remote> {
        Err(Error::Misuse("not in the script"))
    }
    fn hide(&mut self, _: u32) -> Result<()> {
        Ok(())
    }
    #[allow(unsafe_code)]
    unsafe fn post_read(&mut self, _: *mut u8, _: Remote, _: u64) -> Result<()> {
        Err(Error::Misuse("not in the script"))
    }
    fn poll(&mut self, events: &mut Vec<Event>) -> Result<()> {
        let (told, result) = self.polls.pop_front().unwrap_or((Vec::new(), Ok(())));
        events.extend(told);
        result
    }
    fn probe(&mut self, _: Instant) -> Result<Duration> {
        Ok(Duration::MAX)
    }
    fn abort(&mut self) {}
    fn disconnect(&mut self) -> Result<()> {
        Ok(())
    }
}

fn received(n: u8) -> Event {
    Event::Received(copy(&[n; 10]).unwrap())
}

/// 20 polls, each with a completion and a message, then an end.
fn script() -> Script {
    let turn = |n| (vec![Event::Sent(3), received(n)], Ok(()));
    let mut polls: VecDeque<_> = (0..20).map(turn).collect();
    polls.push_back((vec![Event::Disconnected], Ok(())));
    polls.push_back((Vec::new(), Err(Error::Closed)));
    Script {
        polls,
        flushes: VecDeque::from(vec![2; 20]),
        ends: false,
    }
}

/// One line a poll: what it told.
fn play(plan: Plan) -> Vec<String> {
    let mut endpoint = FaultyEndpoint::new(Box::new(script()), plan);
    let mut lines = Vec::new();
    loop {
        let mut events = Vec::new();
        let flushed = endpoint.flush();
        let end = endpoint.poll(&mut events);
        let mut line = format!("{flushed:?}");
        for event in &events {
            match event {
                Event::Received(filled) => line += &format!(" R{:?}", filled.bytes()),
                Event::Sent(n) => line += &format!(" S{n}"),
                other => line += &format!(" {other:?}"),
            }
        }
        lines.push(line);
        if let Err(why) = end {
            lines.push(why.to_string());
            return lines;
        }
        assert!(lines.len() < 1000, "it never ends");
    }
}

/// The numbers of messages, in order, and the sum of completions.
fn told(lines: &[String]) -> (Vec<String>, u32) {
    let words = || lines.iter().flat_map(|line| line.split(' '));
    let messages = words().filter(|w| w.starts_with("R[")).map(String::from);
    let events: u32 = words()
        .filter_map(|w| w.strip_prefix('S')?.parse::<u32>().ok())
        .sum();
    let flushes: u32 = words()
        .filter_map(|w| {
            w.strip_prefix("Ok(")?
                .strip_suffix(')')?
                .parse::<u32>()
                .ok()
        })
        .sum();
    (messages.collect(), events + flushes)
}

#[test]
fn the_default_plan_changes_nothing() {
    let lines = play(Plan::default());
    assert_eq!(lines.len(), 23);
    assert_eq!(lines[0], "Ok(2) S3 R[0, 0, 0, 0, 0, 0, 0, 0, 0, 0]");
    assert_eq!(lines[20], "Ok(0) Disconnected");
    assert_eq!(lines[22], Error::Closed.to_string());
}

#[test]
fn a_rough_device_loses_nothing_and_keeps_the_order_of_each_kind() {
    let plain = told(&play(Plan::default()));
    assert_eq!(plain.1, 100);
    let mut differ = 0;
    for seed in 0..100 {
        let lines = play(Plan::rough(seed));
        assert_eq!(told(&lines), plain);
        let last = &lines[lines.len() - 2..];
        assert!(lines.iter().any(|line| line.ends_with("Disconnected")));
        assert!(!last[0].contains(" R") && !last[0].contains(" S"));
        differ += usize::from(lines != play(Plan::default()));
    }
    assert!(differ > 90);
}

#[test]
fn what_is_held_back_comes_before_the_end_whatever_is_called() {
    for seed in 0..100 {
        let inner = Script {
            ends: true,
            ..script()
        };
        let plan = Plan {
            delay: PerMille(900),
            ..Plan::rough(seed)
        };
        let mut endpoint = FaultyEndpoint::new(Box::new(inner), plan);
        let (mut received, mut ended) = (0, false);
        loop {
            let mut events = Vec::new();
            if endpoint.poll(&mut events).is_err() {
                break;
            }
            for event in events {
                received += usize::from(matches!(event, Event::Received(_)));
                ended |= matches!(event, Event::Disconnected);
            }
            if endpoint.post_recvs(1).is_err() {
                break;
            }
        }
        assert_eq!((received, ended), (20, true), "seed {seed}");
    }
}

#[test]
fn the_same_seed_does_the_same() {
    for seed in 0..10 {
        assert_eq!(play(Plan::rough(seed)), play(Plan::rough(seed)));
    }
    assert_ne!(play(Plan::rough(1)), play(Plan::rough(2)));
}

#[test]
fn while_it_owes_something_it_waits_to_be_writable() {
    let plan = Plan {
        delay: PerMille(900),
        ..Plan::rough(3)
    };
    let mut endpoint = FaultyEndpoint::new(Box::new(script()), plan);
    let mut held = 0;
    for _ in 0..200 {
        let mut events = Vec::new();
        if endpoint.poll(&mut events).is_err() {
            break;
        }
        let owes = !endpoint.sent.is_empty() || !endpoint.came.is_empty();
        assert!(!owes || endpoint.ready().write);
        held += usize::from(owes);
    }
    assert!(held > 20);
}

#[test]
fn whoever_got_less_than_asked_for_is_told_to_ask_again() {
    let plan = Plan {
        stint: PerMille(500),
        ..Plan::default()
    };
    let mut endpoint = FaultyEndpoint::new(Box::new(script()), plan);
    let mut stinted = 0;
    for _ in 0..50 {
        let less = endpoint.post_recvs(8).unwrap() < 8;
        assert_eq!(endpoint.ready().write, less);
        stinted += usize::from(less);
        endpoint.starved = false;
    }
    assert!((10..40).contains(&stinted), "{stinted}");
}

#[test]
fn spoilt_messages_are_spoilt_as_planned() {
    let always = PerMille(1000);
    let plain = told(&play(Plan::default())).0;
    let doubled = told(&play(Plan {
        duplicate: always,
        ..Plan::default()
    }));
    assert_eq!(doubled.0.len(), 2 * plain.len());
    let garbled = play(Plan {
        garble: always,
        ..Plan::default()
    });
    assert!(garbled[0].len() > 20 && !garbled[0].ends_with(" R[0, 0, 0, 0, 0, 0, 0, 0, 0, 0]"));
    let short = play(Plan {
        truncate: always,
        ..Plan::default()
    });
    assert!(short
        .iter()
        .all(|line| !line.ends_with("R[0, 0, 0, 0, 0, 0, 0, 0, 0, 0]")));
}

#[test]
fn death_comes_at_its_call_and_stays() {
    for (death, error) in [
        (Death::Reset, Death::Reset.error()),
        (Death::DeviceLoss, Death::DeviceLoss.error()),
        (Death::TimedOut, Error::TimedOut),
    ] {
        let plan = Plan {
            death: Some((death, 3)),
            ..Plan::default()
        };
        let mut endpoint = FaultyEndpoint::new(Box::new(script()), plan);
        assert_eq!(endpoint.post_recvs(1), Ok(1));
        assert_eq!(endpoint.flush(), Ok(2));
        assert!(endpoint.reserve().unwrap().is_some());
        assert_eq!(endpoint.flush(), Err(error.clone()));
        assert_eq!(endpoint.poll(&mut Vec::new()), Err(error.clone()));
        assert_eq!(endpoint.probe(Instant::now()), Err(error));
        assert!(endpoint.ready().write);
    }
}

#[test]
fn private_data_is_changed_as_planned() {
    let heard = |private| {
        let mut inner = Script::default();
        let data = PrivateData(vec![1, 2, 3]);
        inner.polls.push_back((vec![Event::Request(data)], Ok(())));
        let plan = Plan {
            private,
            ..Plan::default()
        };
        let mut events = Vec::new();
        let mut endpoint = FaultyEndpoint::new(Box::new(inner), plan);
        endpoint.poll(&mut events).unwrap();
        match events.pop() {
            Some(Event::Request(data)) => data.0,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(heard(Private::Whole), [1, 2, 3]);
    assert_eq!(heard(Private::Short(1)), [1]);
    assert_eq!(heard(Private::Padded(5)), [1, 2, 3, 0, 0]);
    let garbled = heard(Private::Garbled);
    assert!(garbled.len() == 3 && garbled != [1, 2, 3]);
}

fn wait(ready: Ready) {
    let out = if ready.write { libc::POLLOUT } else { 0 };
    os::wait(ready.fd as RawFd, libc::POLLIN | out);
}

fn next(endpoint: &mut dyn Endpoint, events: &mut VecDeque<Event>) -> Event {
    loop {
        if let Some(event) = events.pop_front() {
            if !matches!(event, Event::Sent(_)) {
                return event;
            }
            continue;
        }
        wait(endpoint.ready());
        let mut fresh = Vec::new();
        endpoint.poll(&mut fresh).unwrap();
        events.extend(fresh);
    }
}

/// A rough device on both sides of a real connection, driven by readiness alone.
#[test]
fn a_rough_soft_device_still_delivers() {
    for seed in 0..20 {
        let o = Options::default();
        let plan = Plan::rough(seed);
        let any = "127.0.0.1:0".parse().unwrap();
        let inner = soft::listen(any, &o).unwrap();
        let mut listener = FaultyListener::new(inner, plan);
        let dialed = soft::dial(listener.local_addr(), None, b"", &o).unwrap();
        let mut ours = FaultyEndpoint::new(dialed, plan);
        let mut said = VecDeque::new();
        while ours.ready().write {
            wait(ours.ready());
            let mut fresh = Vec::new();
            ours.poll(&mut fresh).unwrap();
            said.extend(fresh);
        }
        wait(listener.ready());
        let mut theirs = listener.accept().unwrap();
        let mut heard = VecDeque::new();
        assert!(matches!(next(&mut *theirs, &mut heard), Event::Request(_)));
        let mut posted = 0;
        while posted < 20 {
            posted += theirs.post_recvs(20 - posted).unwrap();
        }
        theirs.accept(b"").unwrap();
        assert!(matches!(
            next(&mut *theirs, &mut heard),
            Event::Established(_)
        ));
        assert!(matches!(next(&mut ours, &mut said), Event::Established(_)));
        for n in 0..20u8 {
            let mut slot = loop {
                match ours.reserve().unwrap() {
                    Some(slot) => break slot,
                    None => assert!(ours.ready().write),
                }
            };
            slot.write(0, &[n; 3000]);
            ours.post_send(slot, 3000).unwrap();
        }
        ours.flush().unwrap();
        for n in 0..20u8 {
            match next(&mut *theirs, &mut heard) {
                Event::Received(filled) => assert_eq!(filled.bytes(), [n; 3000]),
                other => panic!("{other:?}"),
            }
        }
        ours.disconnect().unwrap();
        assert!(matches!(
            next(&mut *theirs, &mut heard),
            Event::Disconnected
        ));
    }
}

#[test]
fn a_listener_that_fails_lives_on() {
    let inner = soft::listen("127.0.0.1:0".parse().unwrap(), &Options::default()).unwrap();
    let plan = Plan {
        accept_fails: Some((PerMille(500), libc::EMFILE)),
        ..Plan::default()
    };
    let mut listener = FaultyListener::new(inner, plan);
    let mut failed = 0;
    for _ in 0..20 {
        let visitor = std::net::TcpStream::connect(listener.local_addr()).unwrap();
        wait(listener.ready());
        while let Err(why) = listener.accept() {
            failed += 1;
            let code = libc::EMFILE;
            assert_eq!(why, Error::Device { op: "accept", code });
        }
        drop(visitor);
    }
    assert!(failed > 3);
}
