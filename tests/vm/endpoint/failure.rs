// SPDX-License-Identifier: MPL-2.0
//! What a connection does when something breaks: each ends it with a word, in
//! bounded time, and the descriptor tells.

use std::net::SocketAddr;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use zmq_rdma::device::{Event, Listener};
use zmq_rdma::error::Error;

use crate::pair::{accept, pattern, readable, wait, wait_for, Lab, Side};

/// A peer in a process of its own: connects, then answers each message with it.
pub fn peer(lab: &Lab, args: &[String]) {
    let at: SocketAddr = args[0].parse().unwrap();
    let mut client = lab.dial(at, b"hello");
    assert!(matches!(client.next(), Event::Established(_)));
    client.send(b"first");
    loop {
        let Ok(Event::Received(filled)) = client.try_next() else {
            return;
        };
        let bytes = filled.bytes().to_vec();
        drop(filled);
        client.endpoint.post_recvs(1).unwrap();
        client.send(&bytes);
    }
}

fn spawn_peer(listener: &dyn Listener) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["peer", &listener.local_addr().to_string()])
        .spawn()
        .unwrap()
}

fn with_peer(lab: &Lab) -> (Side, Child) {
    let mut listener = lab.listen();
    let child = spawn_peer(&*listener);
    let mut server = accept(&mut *listener, None);
    assert!(matches!(server.next(), Event::Request(_)));
    assert_eq!(server.endpoint.post_recvs(4), Ok(4));
    server.endpoint.accept(b"welcome").unwrap();
    assert!(matches!(server.next(), Event::Established(_)));
    assert_eq!(server.receive().bytes(), b"first");
    server.endpoint.post_recvs(1).unwrap();
    (server, child)
}

fn echo(server: &mut Side, n: u64) {
    for i in 0..n {
        server.send(&pattern(i, 700));
        assert!(server.receive().bytes() == pattern(i, 700));
        server.endpoint.post_recvs(1).unwrap();
    }
}

/// kill -9 of the peer, idle and under load: told within seconds.
pub fn killed(lab: &Lab) {
    for busy in [false, true] {
        let (mut server, mut child) = with_peer(lab);
        echo(&mut server, 20);
        if busy {
            server.send(&pattern(1, 4000.min(lab.options.slot_size)));
        }
        child.kill().unwrap();
        let since = Instant::now();
        child.wait().unwrap();
        let why = server.death();
        println!("lab: busy {busy}: {why} after {:?}", since.elapsed());
        assert!(matches!(why, Error::Closed | Error::Reset(_)), "{why:?}");
        assert!(readable(server.endpoint.ready().fd));
    }
}

/// A peer that is stopped for a while goes on afterwards, with nothing lost.
pub fn stopped(lab: &Lab) {
    let (mut server, mut child) = with_peer(lab);
    echo(&mut server, 5);
    let pid = child.id() as libc::pid_t;
    // SAFETY: our own child.
    unsafe { libc::kill(pid, libc::SIGSTOP) };
    // Within the four receives that it has posted.
    (0..3).for_each(|i| server.send(&pattern(i, 700)));
    // The time itself is the test: nothing may be told during it.
    let quiet = Instant::now() + Duration::from_secs(30);
    while let Some(left) = quiet.checked_duration_since(Instant::now()) {
        server.turn().unwrap();
        assert!(server.events.is_empty());
        wait_for(&[server.endpoint.ready()], left);
    }
    server.endpoint.probe(Instant::now()).unwrap();
    // SAFETY: our own child.
    unsafe { libc::kill(pid, libc::SIGCONT) };
    for i in 0..3 {
        assert!(server.receive().bytes() == pattern(i, 700));
        server.endpoint.post_recvs(1).unwrap();
    }
    echo(&mut server, 5);
    drop(server);
    child.wait().unwrap();
}

/// Keep messages going until one side is told the end; both then are.
fn until_death(server: &mut Side, client: &mut Side) -> (Error, Error) {
    let mut i = 0;
    let why = loop {
        i += 1;
        if let Err(why) = client.try_send(&pattern(i, 700)) {
            break why;
        }
        match server.turn() {
            Ok(()) => {}
            Err(why) => break why,
        }
        let got = server.events.drain(..).count() as u16;
        if got > 0 && server.endpoint.post_recvs(got) != Ok(got) {
            break Error::Closed;
        }
        if let Err(why) = client.turn() {
            break why;
        }
        if !client.events.is_empty() {
            break Error::Closed;
        }
        // One at a time: the next when this one has arrived.
        if got == 0 {
            wait(&[server.endpoint.ready(), client.endpoint.ready()]);
        }
    };
    println!("lab: first told: {why}");
    // On RoCE nobody is told who does not speak.
    for side in [&mut *client, &mut *server] {
        let _ = side.try_send(b"are you there");
    }
    (client.death(), server.death())
}

/// `rdma link delete` under load: both ends are told, and what is listening
/// comes back with the device.
pub fn removed(lab: &Lab) {
    lab.verbs_only();
    let mut listener = lab.listen();
    let mut client = lab.dial(listener.local_addr(), b"hello");
    let mut server = lab.welcome(&mut *listener, &mut client, 8);
    (0..20).for_each(|i| {
        client.send(&pattern(i, 700));
        drop(server.receive());
        server.endpoint.post_recvs(1).unwrap();
    });
    let name = client.endpoint.device_name().to_string();
    let server_name = server.endpoint.device_name().to_string();
    println!("client on {name}, server on {server_name}");
    let netdev = netdev_of(&server_name);
    // It waits until every user has closed the device.
    let mut delete = Command::new("rdma")
        .args(["link", "delete", &server_name])
        .spawn()
        .unwrap();
    let since = Instant::now();
    let why = server.death();
    println!("lab: {why} after {:?}", since.elapsed());
    assert!(
        matches!(&why, Error::Reset(text) if text.contains("gone")),
        "{why:?}"
    );
    drop(server);
    drop(client);
    assert!(delete.wait().unwrap().success());
    println!("lab: deleted after {:?}", since.elapsed());
    let kind = server_name.trim_end_matches(char::is_numeric);
    run(&[
        "rdma",
        "link",
        "add",
        &server_name,
        "type",
        kind,
        "netdev",
        &netdev,
    ]);
    // The listener finds its device again: until then nobody answers.
    let end = Instant::now() + Duration::from_secs(60);
    let (mut client, mut server) = loop {
        assert!(Instant::now() < end, "the listener did not come back");
        let mut client = lab.dial(listener.local_addr(), b"hello");
        if let Some(server) = dialed(&mut *listener, &mut client) {
            break (client, server);
        }
    };
    client.send(b"again");
    assert!(matches!(server.next(), Event::Established(_)));
    assert_eq!(server.receive().bytes(), b"again");
}

/// Connect, or see it fail.
fn dialed(listener: &mut dyn Listener, client: &mut Side) -> Option<Side> {
    let mut server: Option<Side> = None;
    loop {
        if client.turn().is_err() {
            return None;
        }
        match client.events.pop_front() {
            Some(Event::Established(_)) => return server,
            Some(_) => return None,
            None => {}
        }
        if server.is_none() {
            if let Ok(endpoint) = listener.accept() {
                let mut side = Side::new(endpoint);
                assert!(matches!(side.next(), Event::Request(_)));
                side.endpoint.post_recvs(4).unwrap();
                side.endpoint.accept(b"welcome").unwrap();
                server = Some(side);
            }
        }
        wait(&[client.endpoint.ready(), listener.ready()]);
    }
}

fn netdev_of(device: &str) -> String {
    zmq_rdma::device::verbs::interface_of(device).expect("a device has a netdev")
}

fn run(words: &[&str]) {
    let status = Command::new(words[0]).args(&words[1..]).status().unwrap();
    assert!(status.success(), "{words:?}");
}

/// The link goes down under load: told within ten seconds.
pub fn cut(lab: &Lab) {
    let (mut server, mut client) = lab.pair(8);
    let netdev = netdev_of(client.endpoint.device_name());
    (0..5).for_each(|i| {
        client.send(&pattern(i, 700));
        drop(server.receive());
        server.endpoint.post_recvs(1).unwrap();
    });
    run(&["ip", "link", "set", &netdev, "down"]);
    let since = Instant::now();
    let (client_why, server_why) = until_death(&mut server, &mut client);
    println!("lab: client: {client_why}");
    println!("lab: server: {server_why}");
    println!("lab: after {:?}", since.elapsed());
    run(&["ip", "link", "set", &netdev, "up"]);
}

/// 0.3 s without the link's traffic: nothing is lost.
pub fn blip(lab: &Lab) {
    let (mut server, mut client) = lab.pair(8);
    let netdev = netdev_of(client.endpoint.device_name());
    run(&[
        "tc", "qdisc", "add", "dev", &netdev, "root", "netem", "loss", "100%",
    ]);
    client.send(&pattern(1, 700));
    let heal = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        run(&["tc", "qdisc", "del", "dev", &netdev, "root"]);
    });
    assert!(server.receive().bytes() == pattern(1, 700));
    heal.join().unwrap();
}

/// All packets vanish under a send: the retries end, with words that help.
pub fn gone_unseen(lab: &Lab) {
    let (mut server, mut client) = lab.pair(8);
    let netdev = netdev_of(client.endpoint.device_name());
    run(&[
        "tc", "qdisc", "add", "dev", &netdev, "root", "netem", "loss", "100%",
    ]);
    client.send(&pattern(1, 700));
    let since = Instant::now();
    let why = client.death();
    println!("lab: {why} after {:?}", since.elapsed());
    assert!(since.elapsed() < Duration::from_secs(10));
    let Error::Reset(text) = why else {
        panic!("{why:?}")
    };
    for part in ["GID", "MTU 4096", "4791", "10.77.0.2", "rxe0"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    server.turn().unwrap();
    run(&["tc", "qdisc", "del", "dev", &netdev, "root"]);
}
