// SPDX-License-Identifier: MPL-2.0
//! `zmq-rdma doctor rdma://HOST:PORT`: resolve, route, connect, negotiate,
//! exchange; where it stops, and why. It connects as a program would, says ZMTP's
//! greeting, reads the peer's, and closes in good order.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use serde::Serialize;
use zmq_rdma::abi::env;
use zmq_rdma::device::{self, Choice, Options, Ready};
use zmq_rdma::error::Error;
use zmq_rdma::os;
use zmq_rdma::stream::dial::Dial;
use zmq_rdma::stream::link::Link;
use zmq_rdma::stream::resolve::{numeric, Lookup};
use zmq_rdma::stream::sizes::Sizes;

use super::{Finding, Level};
use crate::out::Out;
use crate::Exit;

/// Bytes of ZMTP's greeting.
const GREETING: usize = 64;
/// Where its parts are.
const VERSION: usize = 10;
const MECHANISM: std::ops::Range<usize> = 12..32;

/// One step.
#[derive(Debug, Serialize)]
struct Step {
    #[serde(flatten)]
    finding: Finding,
    /// Milliseconds that it took.
    ms: f64,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    endpoint: &'a str,
    verdict: &'static str,
    /// Where it stopped.
    stopped_at: Option<&'static str>,
    device: Option<&'a str>,
    steps: &'a [Step],
}

/// The steps so far.
struct Trial {
    steps: Vec<Step>,
    since: Instant,
    limit: Duration,
}

/// It stopped, and the last step says why.
struct Stopped;

impl Trial {
    fn went(&mut self, finding: Finding) {
        let now = Instant::now();
        let ms = now.duration_since(self.since).as_secs_f64() * 1000.0;
        self.since = now;
        self.steps.push(Step {
            finding,
            ms: (ms * 1000.0).round() / 1000.0,
        });
    }

    fn well(&mut self, about: &'static str, says: String) {
        self.went(Finding::new(Level::Ok, about, says));
    }

    fn stop(&mut self, finding: Finding) -> Stopped {
        self.went(finding);
        Stopped
    }

    /// Until `ready`, or the time of this step is over.
    fn wait(&self, ready: Ready) -> bool {
        let mut events = libc::POLLIN;
        if ready.write {
            events |= libc::POLLOUT;
        }
        let left = self.limit.saturating_sub(self.since.elapsed());
        !left.is_zero() && os::wait_for(ready.fd, events, left.min(Duration::from_millis(250)))
            || self.since.elapsed() < self.limit
    }
}

/// Try `endpoint`; each step may take so many seconds.
pub fn run(endpoint: &str, seconds: u32, out: &mut Out) -> io::Result<Exit> {
    let mut trial = Trial {
        steps: Vec::new(),
        since: Instant::now(),
        limit: Duration::from_secs(seconds.into()),
    };
    let reached = try_all(endpoint, &mut trial);
    let device = reached.as_ref().ok().map(String::as_str);
    let last = trial.steps.last().map(|step| step.finding.about);
    let exit = match device {
        None => Exit::Fault,
        Some("soft") => Exit::SoftOnly,
        Some(_) => Exit::Well,
    };
    out.value(&Report {
        endpoint,
        verdict: match exit {
            Exit::Well => "rdma",
            Exit::SoftOnly => "soft",
            _ => "stopped",
        },
        stopped_at: last.filter(|_| device.is_none()),
        device,
        steps: &trial.steps,
    })?;
    for step in &trial.steps {
        print(step, out)?;
    }
    out.line("")?;
    out.wrapped("", "", &last_words(endpoint, device, last))?;
    Ok(exit)
}

fn print(step: &Step, out: &mut Out) -> io::Result<()> {
    let mut finding = step.finding.clone();
    finding.says = format!("{}: {} ({:.1} ms)", finding.about, finding.says, step.ms);
    finding.print(out)
}

fn last_words(endpoint: &str, device: Option<&str>, last: Option<&str>) -> String {
    match device {
        None => format!(
            "{endpoint} was not reached: it stopped at {}.",
            last.unwrap_or("?")
        ),
        Some("soft") => format!("{endpoint} is reached, by the device soft (iWARP over TCP)."),
        Some(device) => format!("{endpoint} is reached, by the RDMA device {device}."),
    }
}

/// All steps; the name of the device by which it was reached.
fn try_all(endpoint: &str, trial: &mut Trial) -> Result<String, Stopped> {
    let target = Target::parse(endpoint).map_err(|finding| trial.stop(finding))?;
    let choice = choice(trial)?;
    let to = resolve(&target, trial)?;
    let first = route(choice, to, target.source, trial)?;
    match connect(choice, &target, to, trial) {
        Ok(link) => exchange(link, trial),
        // As libzmq does: its next try is by soft.
        Err(Stopped) if choice == Choice::Auto && first != "soft" => {
            if let Some(step) = trial.steps.last_mut() {
                step.finding.level = Level::Warn;
            }
            trial.well("route", "by soft instead, as a program would go on".into());
            let link = connect(Choice::Soft, &target, to, trial)?;
            exchange(link, trial)
        }
        Err(stopped) => Err(stopped),
    }
}

fn choice(trial: &mut Trial) -> Result<Choice, Stopped> {
    let device = env::device().map_err(|words| {
        let finding = Finding::new(Level::Bad, "environment", words);
        trial.stop(finding.mend("unset ZMQ_RDMA_DEVICE"))
    })?;
    Ok(env::choice(device).unwrap_or(Choice::Auto))
}

/// What an endpoint names.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    host: String,
    port: u16,
    source: Option<SocketAddr>,
}

impl Target {
    fn parse(endpoint: &str) -> Result<Target, Finding> {
        let bad = |says: String| {
            let finding = Finding::new(Level::Bad, "address", says);
            finding.mend("zmq-rdma doctor rdma://HOST:PORT, as in zmq_connect")
        };
        let address = match endpoint.split_once("://") {
            None => endpoint,
            Some(("rdma", address)) => address,
            Some((other, _)) => {
                let says = format!("{other}:// is another transport; this tries rdma://");
                return Err(bad(says));
            }
        };
        let (source, address) = match address.rsplit_once(';') {
            None => (None, address),
            Some((source, address)) => {
                let says = format!("the source {source} is no numeric address and port");
                (Some(source.parse().map_err(|_| bad(says))?), address)
            }
        };
        let (host, port) = address
            .rsplit_once(':')
            .ok_or_else(|| bad(format!("{address} has no port")))?;
        let port = match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(bad(format!("{port} is no port to connect to"))),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host == "*" {
            return Err(bad("a peer's address is needed, not a wild-card".into()));
        }
        Ok(Target {
            host: host.to_string(),
            port,
            source,
        })
    }
}

fn resolve(target: &Target, trial: &mut Trial) -> Result<SocketAddr, Stopped> {
    if let Some(to) = numeric(&target.host, target.port, target.host.contains(':')) {
        trial.well("resolve", format!("{to} is a numeric address"));
        return Ok(to);
    }
    let host = &target.host;
    let v4 = look_up(target, false, trial);
    match v4.or_else(|_| look_up(target, true, trial)) {
        Ok(to) if to.is_ipv6() => {
            let says = format!("{host} is {to}; programs must set ZMQ_IPV6 to use it");
            trial.well("resolve", says);
            Ok(to)
        }
        Ok(to) => {
            trial.well("resolve", format!("{host} is {to}"));
            Ok(to)
        }
        Err(why) => {
            let says = why.map_or("the name server does not answer".to_string(), |e| {
                e.to_string()
            });
            let finding = Finding::new(Level::Bad, "resolve", says);
            Err(trial.stop(
                finding
                    .mend(format!(
                        "getent hosts {host}    # what this machine knows of the name"
                    ))
                    .mend("or use the numeric address"),
            ))
        }
    }
}

fn look_up(target: &Target, ipv6: bool, trial: &Trial) -> Result<SocketAddr, Option<Error>> {
    let mut lookup = Lookup::start(&target.host, target.port, ipv6).map_err(Some)?;
    loop {
        match lookup.poll() {
            Err(Error::Again) => {
                let ready = Ready {
                    fd: lookup.fd(),
                    read: true,
                    write: false,
                };
                if !trial.wait(ready) {
                    return Err(None);
                }
            }
            done => return done.map_err(Some),
        }
    }
}

/// Which way it goes; the name of the device.
fn route(
    choice: Choice,
    to: SocketAddr,
    source: Option<SocketAddr>,
    trial: &mut Trial,
) -> Result<String, Stopped> {
    let from = local_towards(to, source).map_err(|error| {
        let finding = Finding::new(
            Level::Bad,
            "route",
            format!("no way to {}: {error}", to.ip()),
        );
        trial.stop(finding.mend(format!("ip route get {}", to.ip())))
    })?;
    let device = device::serving(choice, to, source).map_err(|error| {
        let finding = Finding::new(Level::Bad, "route", format!("from {from}: {error}"));
        trial.stop(
            finding
                .mend("zmq-rdma doctor    # what keeps the devices from use")
                .mend("or ZMQ_RDMA_DEVICE=auto, which falls back on soft"),
        )
    })?;
    let by = interface_of(from).map_or(String::new(), |name| format!(" ({name})"));
    let what = if device == "soft" {
        "by the device soft: no RDMA device serves that address"
    } else {
        "by the RDMA device"
    };
    let what = if choice == Choice::Soft {
        "as ZMQ_RDMA_DEVICE asks, by"
    } else {
        what
    };
    let says = if device == "soft" && choice != Choice::Soft {
        format!("from {from}{by}, {what}")
    } else {
        format!("from {from}{by}, {what} {device}")
    };
    trial.well("route", says);
    Ok(device)
}

/// The local address on the way. Sends nothing.
fn local_towards(to: SocketAddr, source: Option<SocketAddr>) -> io::Result<IpAddr> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    let from = source.map_or(any, |source| SocketAddr::new(source.ip(), 0));
    let socket = UdpSocket::bind(from)?;
    socket.connect(to)?;
    Ok(socket.local_addr()?.ip())
}

fn interface_of(ip: IpAddr) -> Option<String> {
    let all = os::addr::of_interfaces().into_iter();
    all.filter(|(_, other)| *other == Some(ip))
        .map(|(name, _)| name)
        .next()
}

/// Connect, and agree on the stream protocol.
fn connect(
    choice: Choice,
    target: &Target,
    to: SocketAddr,
    trial: &mut Trial,
) -> Result<Link, Stopped> {
    trial.since = Instant::now();
    let sizes = Sizes::new(choice, Options::default());
    let host = to.ip().to_string();
    let dial = Dial::start(choice, sizes, &host, to.port(), target.source, to.is_ipv6());
    let mut dial = match dial {
        Ok(dial) => dial,
        Err(error) => return Err(trial.stop(refused(&error, to, false))),
    };
    let mut spoken = false;
    loop {
        let error = match dial.step() {
            Ok(link) => {
                let says = format!(
                    "{} agrees to the stream protocol, over device {}",
                    link.peer_addr(),
                    link.device()
                );
                trial.well("connect", format!("from {}", link.local_addr()));
                trial.well("negotiate", says);
                return Ok(link);
            }
            Err(Error::Again) => match dial.ready() {
                Some(ready) if trial.wait(ready) => {
                    spoken |= tcp_stands(to);
                    continue;
                }
                _ => Error::TimedOut,
            },
            Err(error) => error,
        };
        return Err(trial.stop(refused(&error, to, spoken)));
    }
}

/// Why a connection was not had, and what to do. `spoken`: TCP stood already.
fn refused(error: &Error, to: SocketAddr, spoken: bool) -> Finding {
    let (ip, port) = (to.ip(), to.port());
    let at = |about, says: String| Finding::new(Level::Bad, about, says);
    match error {
        Error::Refused(_) => at("connect", error.to_string())
            .mend(format!(
                "start the program that binds rdma://{to}, or mend the port number"
            ))
            .mend(format!(
                "on {ip}: ss -ltn | grep :{port}    # soft and iWARP listeners"
            ))
            .mend("on that machine: rdma resource show cm_id    # listeners of RDMA devices"),
        Error::Unreachable(_) => at("connect", error.to_string())
            .mend(format!("ip route get {ip}"))
            .mend(format!("ping {ip}")),
        Error::TimedOut if spoken => at(
            "negotiate",
            format!("{to} took the TCP connection, and then said nothing"),
        )
        .mend("is it an rdma:// endpoint? Something else may listen at that port")
        .mend("is its program stopped (a debugger, SIGSTOP)?"),
        Error::TimedOut => at("connect", format!("{to} did not answer in time"))
            .mend(format!("ping {ip}"))
            .mend(format!(
                "does a firewall drop TCP port {port} (soft, iWARP) or UDP port 4791 (RoCE)?"
            )),
        Error::Malformed(_) => at(
            "negotiate",
            format!("{to} answers, but not as an rdma:// endpoint: {error}"),
        )
        .mend("both sides must say rdma://; a tcp:// endpoint does not talk to it"),
        Error::Incompatible(_) => at("negotiate", error.to_string())
            .mend("run the same release of zmq-rdma on both sides"),
        Error::Reset(_) | Error::Closed => at("negotiate", format!("{to}: {error}"))
            .mend("is it an rdma:// endpoint? A tcp:// one closes at our first words")
            .mend("the log of its program says why: ZMQ_RDMA_LOG=debug"),
        Error::Limit(_) => at("connect", error.to_string()).mend("ulimit -l unlimited"),
        other => at("connect", other.to_string()).mend("zmq-rdma doctor"),
    }
}

/// A TCP connection of this machine to `to` stands, as the kernel's table has it.
fn tcp_stands(to: SocketAddr) -> bool {
    let table = match to {
        SocketAddr::V4(_) => "/proc/self/net/tcp",
        SocketAddr::V6(_) => "/proc/self/net/tcp6",
    };
    let wanted = match to {
        SocketAddr::V4(v4) => {
            let ip = u32::from_ne_bytes(v4.ip().octets());
            format!("{ip:08X}:{:04X}", v4.port())
        }
        SocketAddr::V6(v6) => {
            let words = v6.ip().octets();
            let words = words
                .chunks_exact(4)
                .map(|w| format!("{:08X}", u32::from_ne_bytes([w[0], w[1], w[2], w[3]])));
            format!("{}:{:04X}", words.collect::<String>(), v6.port())
        }
    };
    let text = fs::read_to_string(table).unwrap_or_default();
    text.lines().any(|line| {
        let mut words = line.split_whitespace().skip(2);
        words.next() == Some(wanted.as_str()) && words.next() == Some("01")
    })
}

/// ZMTP's greeting there and back, and a close in good order.
fn exchange(mut link: Link, trial: &mut Trial) -> Result<String, Stopped> {
    let theirs = match greet(&mut link, trial) {
        Ok(theirs) => theirs,
        Err(error) => {
            let says = format!("{}: {error}", link.peer_addr());
            let finding = Finding::new(Level::Bad, "exchange", says);
            return Err(trial.stop(finding.mend(
                "the connection stands, but bytes do not come through: check the MTU on the way \
                 (ping -M do -s 8000), and loss",
            )));
        }
    };
    match greeting(&theirs) {
        Some(says) => trial.well("exchange", says),
        None => {
            let says = "bytes come through, but they are not ZMTP's: a raw socket (ZMQ_STREAM)?";
            trial.went(Finding::new(Level::Note, "exchange", says));
        }
    }
    let device = link.device().trim_start_matches("verbs:").to_string();
    part(link, trial);
    Ok(device)
}

fn greet(link: &mut Link, trial: &Trial) -> Result<Vec<u8>, Error> {
    let mut ours = [0u8; GREETING];
    (ours[0], ours[8], ours[9], ours[VERSION], ours[VERSION + 1]) = (0xff, 1, 0x7f, 3, 1);
    ours[MECHANISM.start..MECHANISM.start + 4].copy_from_slice(b"NULL");
    let mut sent = 0;
    let mut theirs = Vec::new();
    loop {
        link.crank();
        while sent < ours.len() {
            match link.write(&ours[sent..]) {
                Ok(n) => sent += n,
                Err(Error::Again) => break,
                Err(why) => return Err(link.death().cloned().unwrap_or(why)),
            }
        }
        loop {
            match link.chunk() {
                Ok(chunk) => {
                    let n = chunk.len();
                    theirs.extend_from_slice(chunk);
                    link.consume(n);
                }
                Err(Error::Again) => break,
                Err(_) if theirs.len() >= GREETING => break,
                Err(why) => return Err(why),
            }
        }
        link.replenish();
        if theirs.len() >= GREETING {
            return Ok(theirs);
        }
        if !trial.wait(link.ready()) {
            // A raw socket says nothing by itself.
            return if sent == ours.len() && link.is_open() {
                Ok(theirs)
            } else {
                Err(Error::TimedOut)
            };
        }
    }
}

/// What the peer's greeting says; `None`: it is none.
fn greeting(theirs: &[u8]) -> Option<String> {
    let theirs = theirs.get(..GREETING)?;
    if theirs[0] != 0xff || theirs[9] & 1 != 1 {
        return None;
    }
    let name = theirs[MECHANISM].split(|&b| b == 0).next().unwrap_or(&[]);
    Some(format!(
        "it speaks ZMTP {}.{}, security {}",
        theirs[VERSION],
        theirs[VERSION + 1],
        String::from_utf8_lossy(name)
    ))
}

/// Close in good order, with some patience.
fn part(mut link: Link, trial: &mut Trial) {
    link.shut();
    trial.since = Instant::now();
    trial.limit = trial.limit.min(Duration::from_secs(2));
    loop {
        let state = link.state();
        if state.finished || state.dead || !trial.wait(link.ready()) {
            return;
        }
        link.crank();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_as_zmq_connect_reads_them() {
        let of = |text| Target::parse(text).unwrap();
        assert_eq!((of("rdma://a:1").host.as_str(), of("b:2").port), ("a", 2));
        assert_eq!(of("rdma://[::1]:5").host, "::1");
        let with = of("rdma://10.0.0.1:0;peer:9");
        assert_eq!(with.source, "10.0.0.1:0".parse().ok());
        for bad in [
            "tcp://a:1",
            "rdma://a",
            "rdma://a:0",
            "rdma://*:1",
            "x;a:1",
            "a:99999",
        ] {
            let finding = Target::parse(bad).unwrap_err();
            assert!(!finding.mend.is_empty(), "{bad}");
        }
    }

    #[test]
    fn a_greeting_is_told_in_words() {
        let mut bytes = [0u8; 64];
        (bytes[0], bytes[9], bytes[10], bytes[11]) = (0xff, 0x7f, 3, 1);
        bytes[12..17].copy_from_slice(b"CURVE");
        assert_eq!(
            greeting(&bytes).unwrap(),
            "it speaks ZMTP 3.1, security CURVE"
        );
        assert_eq!(greeting(&bytes[..63]), None);
        assert_eq!(greeting(&[0; 64]), None);
    }

    #[test]
    fn each_way_to_be_refused_says_what_to_do() {
        let to = "10.0.0.9:5".parse().unwrap();
        let of = |error: &Error, spoken| refused(error, to, spoken);
        assert_eq!(of(&Error::TimedOut, true).about, "negotiate");
        assert_eq!(of(&Error::TimedOut, false).about, "connect");
        assert_eq!(of(&Error::Malformed("x"), true).about, "negotiate");
        assert_eq!(of(&Error::Refused("x".into()), false).about, "connect");
        for error in [Error::Limit("x"), Error::Misuse("y"), Error::Closed] {
            assert!(!of(&error, false).mend.is_empty());
        }
    }
}
