// SPDX-License-Identifier: MPL-2.0
//! What the log says of links: who, what, why, and what to do.

use std::net::SocketAddr;
use std::sync::Once;
use std::time::Duration;

use super::log::{line, line_of, Level};
use super::types::*;
use crate::error::{AddressFault, Error};
use crate::stream::dial::Times;
use crate::stream::link::Link as StreamLink;
use crate::stream::tally;

/// A link, and what the log has said of it.
pub struct Live {
    /// The link.
    pub link: StreamLink,
    /// The address that users know: of the listener, or the one connected to.
    service: SocketAddr,
    told_open: bool,
    told_death: bool,
}

impl Live {
    /// One that a listener got, of which nothing has been said.
    pub fn accepted(link: StreamLink) -> Live {
        let service = link.local_addr();
        Live::new(link, service)
    }

    /// One that was asked for, of which nothing has been said.
    pub fn dialed(link: StreamLink) -> Live {
        let service = link.peer_addr();
        Live::new(link, service)
    }

    fn new(link: StreamLink, service: SocketAddr) -> Live {
        Live {
            link,
            service,
            told_open: false,
            told_death: false,
        }
    }

    /// The state bits for C; what is new is logged.
    pub fn state(&mut self) -> i32 {
        let state = self.link.state();
        if !self.told_open && self.link.is_open() {
            self.told_open = true;
            line(Level::Info, || {
                format!("{} is up, over device {}", self.ends(), self.link.device())
            });
        }
        if state.dead && !self.told_death {
            self.told_death = true;
            if let Some(why) = self.link.death() {
                // The other port is another one each time.
                let kind = || format!("{} {} {why}", self.service, self.link.peer_addr().ip());
                let text = || format!("{}: {}", self.ends(), advice(why));
                line_of(weight(why), kind, text);
            }
        }
        [
            (state.readable, ZMQ_RDMA_READABLE),
            (state.writable, ZMQ_RDMA_WRITABLE),
            (state.want_out, ZMQ_RDMA_WANT_OUT),
            (state.finished, ZMQ_RDMA_FINISHED),
            (state.dead, ZMQ_RDMA_DEAD),
            (state.peer_shut, ZMQ_RDMA_PEER_SHUT),
        ]
        .into_iter()
        .fold(0, |bits, (set, bit)| if set { bits | bit } else { bits })
    }

    /// What it did, when it goes.
    fn tell_counts(&self) {
        line(Level::Debug, || {
            let c = self.link.counts();
            format!(
                "{} is gone: sent {} messages ({} bytes in {} frames), received {} ({} in {}); waited \
                 {} times for credit and {} times for the device",
                self.ends(),
                c.messages_sent,
                c.bytes_sent,
                c.data_sent,
                c.messages_received,
                c.bytes_received,
                c.data_received,
                c.credit_stalls,
                c.queue_stalls
            )
        });
    }

    fn ends(&self) -> String {
        let (local, peer) = (self.link.local_addr(), self.link.peer_addr());
        format!("link {local} to {peer}")
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.tell_counts();
    }
}

/// A listening address was had.
pub fn listening(at: SocketAddr) {
    line(Level::Info, || format!("listening at rdma://{at}"));
}

/// A connection is asked for.
pub fn dialing(to: &str) {
    line(Level::Debug, || format!("connecting to rdma://{to}"));
}

/// A listening address could not be had.
pub fn listen_failed(at: SocketAddr, error: &Error) {
    let level = match error {
        Error::Address(AddressFault::InUse | AddressFault::NotLocal) => Level::Warn,
        _ => Level::Error,
    };
    line(level, || {
        format!("cannot listen at rdma://{at}: {}", advice(error))
    });
}

/// A connection could not be accepted.
pub fn accept_failed(at: SocketAddr, error: &Error) {
    if *error != Error::Again {
        line(Level::Error, || {
            format!("cannot accept at rdma://{at}: {}", advice(error))
        });
    }
}

/// A connection was made, and how long its parts took.
pub fn dialed(to: &str, times: Times) {
    line(Level::Debug, || {
        let ms = |part: Duration| part.as_secs_f64() * 1000.0;
        let (name, peer) = (ms(times.resolving), ms(times.connecting));
        format!("connected to rdma://{to}: {name:.1} ms for the name, {peer:.1} ms for the peer")
    });
}

/// A connection could not be made; libzmq will try again.
pub fn dial_failed(to: &str, error: &Error) {
    line(weight(error), || {
        format!("cannot connect to rdma://{to}: {}", advice(error))
    });
}

/// Let other processes of the user read the counters.
pub fn share_counters() {
    if let Err(error) = tally::share() {
        line(Level::Error, || {
            format!("zmq-rdma top will not see this process: {}", advice(&error))
        });
    }
}

/// A panic becomes one line of our log.
pub fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let at = panic.location().map(ToString::to_string);
            let what = panic
                .payload()
                .downcast_ref::<&str>()
                .map(ToString::to_string)
                .or_else(|| panic.payload().downcast_ref::<String>().cloned());
            line(Level::Error, || {
                format!(
                    "defect at {}: {}",
                    at.unwrap_or_default(),
                    what.unwrap_or_default()
                )
            });
        }));
    });
}

/// Errors that only the user can mend are errors; the rest happens on networks.
fn weight(why: &Error) -> Level {
    match why {
        Error::Again | Error::Closed => Level::Debug,
        Error::Refused(_) | Error::Reset(_) | Error::Unreachable(_) => Level::Warn,
        Error::TimedOut | Error::Device { .. } => Level::Warn,
        Error::Address(_) | Error::Incompatible(_) | Error::Malformed(_) => Level::Error,
        Error::Limit(_) | Error::Misuse(_) => Level::Error,
    }
}

/// The error, and what to do about it, unless its own words say so.
fn advice(why: &Error) -> String {
    let hint = match why {
        Error::Again | Error::Closed => "",
        Error::Reset(text) if text.contains("; ") => "",
        Error::Reset(_) => {
            "; the peer's program ended or was killed, or the network broke the connection"
        }
        Error::Refused(_) => "; is the program that binds it running, and is the port right?",
        // They say what is wrong with which side.
        Error::Incompatible(text) if text.contains("; ") => "",
        Error::Incompatible(_) => "; is the other side an rdma:// endpoint of zmq-rdma?",
        Error::Unreachable(text) if text.contains("see ") => "",
        Error::Unreachable(_) => "; check the address and the route to it (zmq-rdma doctor)",
        Error::Malformed(_) => {
            "; is the other side an rdma:// endpoint of zmq-rdma? (tcp:// and rdma:// do not mix)"
        }
        Error::TimedOut => "; check the network and the peer's machine",
        Error::Device { code, .. } if *code == libc::EMFILE || *code == libc::ENFILE => {
            "; raise the limit of open files (ulimit -n)"
        }
        Error::Device { .. } => "; zmq-rdma doctor may find the cause",
        Error::Address(AddressFault::InUse) => "; another socket listens there (ss -ltnp)",
        Error::Address(AddressFault::NotLocal) => "; ip addr lists those that do",
        Error::Address(AddressFault::NoDevice) => "; ip link and rdma link list those that exist",
        Error::Address(AddressFault::Denied) => {
            "; a port below 1024 needs root or CAP_NET_BIND_SERVICE"
        }
        Error::Limit(text) if text.contains("ulimit") => "",
        Error::Limit(_) => "; zmq-rdma doctor shows the limits of this machine",
        Error::Misuse(_) => "; this is a defect in zmq-rdma, please report it",
    };
    format!("{why}{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_fails_says_what_to_do() {
        let device = |code| Error::Device { op: "socket", code };
        let address = [
            AddressFault::InUse,
            AddressFault::NotLocal,
            AddressFault::NoDevice,
            AddressFault::Denied,
        ];
        let all = [
            Error::Reset("x".into()),
            Error::Refused("x".into()),
            Error::Incompatible("x".into()),
            Error::Unreachable("x".into()),
            Error::Malformed("x"),
            Error::TimedOut,
            device(libc::EMFILE),
            device(libc::EIO),
            Error::Limit("x"),
            Error::Misuse("x"),
        ];
        for error in all.into_iter().chain(address.map(Error::Address)) {
            let text = advice(&error);
            assert!(text.contains("; "), "{text}");
        }
    }

    #[test]
    fn words_that_say_it_already_are_left_alone() {
        for error in [
            Error::Reset("x; check the cable".into()),
            Error::Limit("x (raise it with ulimit -l)"),
            Error::Unreachable("x (see rdma link)".into()),
        ] {
            assert_eq!(advice(&error), error.to_string());
        }
    }
}
