// SPDX-License-Identifier: MPL-2.0
//! SENDs of the soft device through loopback, beside plain TCP in the same run.
//!
//! `cargo run --release --example soft_bench [rounds [flow|trips|reads]]`: for each size, rounds of
//! both in turn; medians are printed. Two threads, one at each end. CPU is
//! that of both, user and system.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::RawFd;
use std::thread;
use std::time::{Duration, Instant};

use zmq_rdma::device::soft::{Endpoint, Listener};
use zmq_rdma::device::{Endpoint as _, Event, Listener as _, Options, Ready};
use zmq_rdma::os;

/// Bytes sent in one round, and SENDs at most.
const BYTES: usize = 1 << 30;
const SENDS: usize = 400_000;
/// Round trips in one round.
const TRIPS: usize = 20_000;

fn main() {
    let rounds = std::env::args().nth(1);
    let rounds: usize = rounds.map_or(5, |n| n.parse().expect("rounds"));
    let only = std::env::args().nth(2);
    let wanted = |part: &str| only.as_deref().is_none_or(|only| only == part);
    if wanted("flow") {
        println!("one way, one sender; tcp writes and reads pieces of the same size");
        table(rounds, &[64, 1024, 4096, 8192], tcp_flow, soft_flow);
    }
    if wanted("trips") {
        println!("half a round trip, poll(2) before each read");
        table(rounds, &[1, 64, 1024, 8192], tcp_trips, soft_trips);
    }
    if wanted("reads") {
        println!("READs of 1 MiB, 16 at a time; tcp writes and reads pieces of 64 KiB");
        table(
            rounds,
            &[1 << 20],
            |size| tcp_flow(1 << 16).times(size >> 16),
            soft_reads,
        );
    }
}

/// Rounds of both in turn, their medians side by side.
fn table(rounds: usize, sizes: &[usize], tcp: fn(usize) -> Cost, soft: fn(usize) -> Cost) {
    println!("| bytes | tcp GB/s | soft GB/s | ratio | tcp ns | soft ns | tcp cpu ns | soft cpu ns | cpu ratio |");
    println!("|------:|---------:|----------:|------:|-------:|--------:|-----------:|------------:|----------:|");
    for &size in sizes {
        let runs: Vec<(Cost, Cost)> = (0..rounds).map(|_| (tcp(size), soft(size))).collect();
        let (tcp, soft) = (median(&runs, |r| r.0), median(&runs, |r| r.1));
        println!(
            "| {size} | {:.2} | {:.2} | {:.2} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} |",
            size as f64 / tcp.wall,
            size as f64 / soft.wall,
            tcp.wall / soft.wall,
            tcp.wall,
            soft.wall,
            tcp.cpu,
            soft.cpu,
            tcp.cpu / soft.cpu
        );
    }
    println!();
}

/// Nanoseconds a SEND.
#[derive(Clone, Copy)]
struct Cost {
    wall: f64,
    cpu: f64,
}

impl Cost {
    fn times(self, n: usize) -> Cost {
        Cost {
            wall: self.wall * n as f64,
            cpu: self.cpu * n as f64,
        }
    }
}

fn median(runs: &[(Cost, Cost)], of: impl Fn(&(Cost, Cost)) -> Cost) -> Cost {
    let pick = |part: fn(&Cost) -> f64| {
        let mut all: Vec<f64> = runs.iter().map(|run| part(&of(run))).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    Cost {
        wall: pick(|c| c.wall),
        cpu: pick(|c| c.cpu),
    }
}

fn cpu_now() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    #[allow(unsafe_code)]
    // SAFETY: `time` is writable.
    unsafe {
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time)
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn measured(n: usize, run: impl FnOnce()) -> Cost {
    let (start, cpu) = (Instant::now(), cpu_now());
    run();
    Cost {
        wall: start.elapsed().as_nanos() as f64 / n as f64,
        cpu: (cpu_now() - cpu).as_nanos() as f64 / n as f64,
    }
}

fn sends(size: usize) -> usize {
    (BYTES / size).min(SENDS)
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let out = TcpStream::connect(listener.local_addr().expect("addr")).expect("connect");
    let (inn, _) = listener.accept().expect("accept");
    out.set_nodelay(true).expect("nodelay");
    inn.set_nodelay(true).expect("nodelay");
    (out, inn)
}

fn tcp_flow(size: usize) -> Cost {
    let n = sends(size);
    let (mut out, mut inn) = tcp_pair();
    measured(n, || {
        let reader = thread::spawn(move || {
            let mut buffer = vec![0; size];
            let mut left = n * size;
            while left > 0 {
                left -= inn.read(&mut buffer).expect("read");
            }
        });
        let buffer = vec![1; size];
        for _ in 0..n {
            out.write_all(&buffer).expect("write");
        }
        reader.join().expect("reader");
    })
}

fn tcp_trips(size: usize) -> Cost {
    let (mut out, mut inn) = tcp_pair();
    let trip = move |stream: &mut TcpStream, buffer: &mut [u8]| {
        use std::os::fd::AsRawFd;
        os::wait_readable(stream.as_raw_fd());
        stream.read_exact(buffer).expect("read");
    };
    measured(2 * TRIPS, || {
        let echo = thread::spawn(move || {
            let mut buffer = vec![0; size];
            for _ in 0..TRIPS {
                trip(&mut inn, &mut buffer);
                inn.write_all(&buffer).expect("write");
            }
        });
        let mut buffer = vec![0; size];
        for _ in 0..TRIPS {
            out.write_all(&buffer).expect("write");
            trip(&mut out, &mut buffer);
        }
        echo.join().expect("echo");
    })
}

fn wait(ready: Ready) {
    let events = if ready.write {
        libc::POLLIN | libc::POLLOUT
    } else {
        libc::POLLIN
    };
    os::wait(ready.fd, events);
}

fn soft_pair(o: &Options) -> (Endpoint, Endpoint) {
    let any: SocketAddr = "127.0.0.1:0".parse().expect("address");
    let mut listener = Listener::new(any, o).expect("listen");
    let mut out = Endpoint::dial(listener.local_addr(), None, b"", o).expect("dial");
    out.post_recvs(o.recv_depth).expect("post");
    let mut events = Vec::new();
    while out.ready().write {
        wait(out.ready());
        out.poll(&mut events).expect("poll");
    }
    os::wait_readable(listener.ready().fd as RawFd);
    let mut inn = listener.accept_endpoint().expect("accept");
    inn.post_recvs(o.recv_depth).expect("post");
    while events.is_empty() {
        wait(inn.ready());
        inn.poll(&mut events).expect("poll");
    }
    inn.accept(b"").expect("accept");
    inn.poll(&mut events).expect("poll");
    events.clear();
    while events.is_empty() {
        wait(out.ready());
        out.poll(&mut events).expect("poll");
    }
    (out, inn)
}

/// Send `n` times `size` bytes against credits that come back as small SENDs, as the stream layer does.
fn soft_flow(size: usize) -> Cost {
    let o = Options::default();
    let n = sends(size);
    let (mut out, mut inn) = soft_pair(&o);
    measured(n, || {
        let receiver = thread::spawn(move || {
            receive(&mut inn, n);
            // Stay until the sender has gone.
            let mut events = Vec::new();
            while inn.poll(&mut events).is_ok() {
                wait(inn.ready());
            }
        });
        let mut events = Vec::new();
        let mut credit = usize::from(o.recv_depth);
        let mut left = n;
        while left > 0 {
            while credit > 0 && left > 0 {
                let Some(slot) = out.reserve().expect("reserve") else {
                    break;
                };
                out.post_send(slot, size).expect("post");
                credit -= 1;
                left -= 1;
            }
            out.flush().expect("flush");
            wait(out.ready());
            out.poll(&mut events).expect("poll");
            let mut posted = 0;
            for event in events.drain(..) {
                if let Event::Received(grant) = event {
                    credit += usize::from(grant.bytes()[0]);
                    posted += 1;
                }
            }
            out.post_recvs(posted).expect("post");
        }
        out.disconnect().expect("disconnect");
        while out.poll(&mut events).is_ok() {
            wait(out.ready());
        }
        drop(out);
        receiver.join().expect("receiver");
    })
}

fn receive(inn: &mut Endpoint, n: usize) {
    let mut events = Vec::new();
    let mut got = 0;
    let mut owed = 0u16;
    while got < n {
        wait(inn.ready());
        inn.poll(&mut events).expect("poll");
        for event in events.drain(..) {
            if let Event::Received(filled) = event {
                got += 1;
                owed += 1;
                std::hint::black_box(filled.bytes());
            }
        }
        if owed >= 8 {
            inn.post_recvs(owed).expect("post");
            if let Some(mut slot) = inn.reserve().expect("reserve") {
                slot.write(0, &[owed as u8]);
                inn.post_send(slot, 1).expect("post");
                owed = 0;
            }
            inn.flush().expect("flush");
        }
    }
}

fn soft_trips(size: usize) -> Cost {
    let o = Options::default();
    let (mut out, mut inn) = soft_pair(&o);
    let trip = move |endpoint: &mut Endpoint, events: &mut Vec<Event>| loop {
        wait(endpoint.ready());
        endpoint.poll(events).expect("poll");
        let got = events.iter().any(|e| matches!(e, Event::Received(_)));
        events.clear();
        if got {
            endpoint.post_recvs(1).expect("post");
            return;
        }
    };
    let send = move |endpoint: &mut Endpoint| {
        let slot = endpoint.reserve().expect("reserve").expect("slot");
        endpoint.post_send(slot, size).expect("post");
        endpoint.flush().expect("flush");
    };
    measured(2 * TRIPS, || {
        let echo = thread::spawn(move || {
            let mut events = Vec::new();
            for _ in 0..TRIPS {
                trip(&mut inn, &mut events);
                send(&mut inn);
            }
        });
        let mut events = Vec::new();
        for _ in 0..TRIPS {
            send(&mut out);
            trip(&mut out, &mut events);
        }
        echo.join().expect("echo");
    })
}

fn soft_reads(len: usize) -> Cost {
    const N: usize = 1024;
    let o = Options::default();
    let (mut out, mut inn) = soft_pair(&o);
    let source = vec![1u8; len];
    #[allow(unsafe_code)]
    // SAFETY: `source` outlives `inn`, and is not written.
    let remote = unsafe { inn.expose(source.as_ptr(), len) }.expect("expose");
    let mut sinks = vec![vec![0u8; len]; 16];
    measured(N, || {
        let responder = thread::spawn(move || {
            let mut events = Vec::new();
            while inn.poll(&mut events).is_ok() {
                wait(inn.ready());
            }
        });
        let mut events = Vec::new();
        let mut asked = 0;
        let mut done = 0;
        for (token, sink) in sinks.iter_mut().enumerate() {
            asked += 1;
            #[allow(unsafe_code)]
            // SAFETY: each sink has one READ at a time, and outlives `out`.
            unsafe { out.post_read(sink.as_mut_ptr(), remote, token as u64) }.expect("read");
        }
        out.flush().expect("flush");
        while done < N {
            wait(out.ready());
            out.poll(&mut events).expect("poll");
            for event in events.drain(..) {
                let Event::ReadDone(token) = event else {
                    continue;
                };
                done += 1;
                if asked < N {
                    asked += 1;
                    let sink = sinks[token as usize].as_mut_ptr();
                    #[allow(unsafe_code)]
                    // SAFETY: as above.
                    unsafe { out.post_read(sink, remote, token) }.expect("read");
                }
            }
            out.flush().expect("flush");
        }
        out.disconnect().expect("disconnect");
        while out.poll(&mut events).is_ok() {
            wait(out.ready());
        }
        drop(out);
        responder.join().expect("responder");
    })
}
