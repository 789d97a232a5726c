// SPDX-License-Identifier: MPL-2.0
//! The connection, and the words of both sides below ZMTP.

use std::fs;
use std::net::SocketAddr;
use std::time::Instant;

use zmq_rdma::device::{Choice, Options};
use zmq_rdma::error::Error;
use zmq_rdma::stream::dial::Dial;
use zmq_rdma::stream::link::Link;
use zmq_rdma::stream::sizes::Sizes;

use super::target::Target;
use super::{Stopped, Trial};
use crate::doctor::{Finding, Level};

/// Connect, and agree on the stream protocol.
pub(super) fn connect(
    choice: Choice,
    target: &Target,
    to: SocketAddr,
    trial: &mut Trial,
) -> Result<Link, Stopped> {
    trial.since = Instant::now();
    let sizes = Sizes::new(choice, Options::default());
    let host = host(to);
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

/// The numeric address, a link-local one with its interface.
fn host(to: SocketAddr) -> String {
    match to {
        SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
        other => other.ip().to_string(),
    }
}

/// Why a connection was not had, and what to do. `spoken`: TCP stood already.
fn refused(error: &Error, to: SocketAddr, spoken: bool) -> Finding {
    let (ip, port) = (to.ip(), to.port());
    let at = |about, says: String| Finding::new(Level::Bad, about, says);
    match error {
        Error::Refused(_) => at("connect", error.to_string())
            .mend(format!(
                "start the program that binds rdma://{to}, or correct the port number"
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
            format!("{to} accepted the TCP connection, and then said nothing"),
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
            .mend("is it an rdma:// endpoint? A tcp:// one hangs up at our first words")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_local_address_keeps_its_interface() {
        use zmq_rdma::stream::resolve::numeric;
        for text in ["fe80::1%7", "fd00::1", "10.0.0.9"] {
            let to = numeric(text, 5, text.contains(':')).unwrap();
            assert_eq!(numeric(&host(to), 5, to.is_ipv6()), Some(to));
        }
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
