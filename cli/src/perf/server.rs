// SPDX-License-Identifier: MPL-2.0
//! Who answers. Two sockets, each bound by both schemes: REP sends back what it
//! gets, PULL counts. What REP gets begins with a byte that says what is wanted.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use super::MOST;
use crate::zmq::{Context, Library, Socket, PULL, REP};

/// Send it back.
pub const ECHO: u8 = b'e';
/// Count so many messages (8 bytes, big-endian) on PULL, and say how many nanoseconds
/// passed from the first to the last (8 bytes).
pub const COUNT: u8 = b'c';

/// Milliseconds that one who measures may be silent while he is counted.
const PATIENCE: i32 = 10_000;
/// Milliseconds from one look at whether to stop to the next.
const LOOK: i32 = 200;

/// An endpoint of a scheme: where to send for an echo, and where to be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    pub scheme: String,
    pub echo: String,
    pub count: String,
}

/// Bound sockets.
pub struct Server {
    echo: Socket,
    count: Socket,
    endpoints: Vec<Endpoints>,
}

impl std::fmt::Display for Endpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} and {}", self.echo, self.count)
    }
}

impl serde::Serialize for Endpoints {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq([&self.echo, &self.count])
    }
}

/// The endpoints of a server that begins at `port`.
pub fn endpoints(host: &str, port: u16, schemes: &[&str]) -> Vec<Endpoints> {
    let all = [("rdma", 0), ("tcp", 2)].into_iter();
    let wanted = all.filter(|(scheme, _)| schemes.contains(scheme));
    wanted
        .map(|(scheme, more)| Endpoints {
            scheme: scheme.to_string(),
            echo: format!("{scheme}://{host}:{}", port + more),
            count: format!("{scheme}://{host}:{}", port + more + 1),
        })
        .collect()
}

impl Server {
    /// Bind; without a port, to any.
    pub fn bind(
        library: &Arc<Library>,
        host: &str,
        port: Option<u16>,
        schemes: &[&str],
    ) -> io::Result<Server> {
        let context = Arc::new(Context::new(library));
        let echo = context.socket(REP, LOOK)?;
        let count = context.socket(PULL, PATIENCE)?;
        for socket in [&echo, &count] {
            socket.set_most(MOST as i64 + 16)?;
        }
        let wanted = match port {
            Some(port) => endpoints(host, port, schemes),
            None => schemes
                .iter()
                .map(|scheme| Endpoints {
                    scheme: (*scheme).to_string(),
                    echo: format!("{scheme}://{host}:*"),
                    count: format!("{scheme}://{host}:*"),
                })
                .collect(),
        };
        let mut bound = Vec::new();
        for one in wanted {
            bound.push(Endpoints {
                echo: echo.bind(&one.echo)?,
                count: count.bind(&one.count)?,
                scheme: one.scheme,
            });
        }
        Ok(Server {
            echo,
            count,
            endpoints: bound,
        })
    }

    /// Where it listens.
    pub fn endpoints(&self) -> &[Endpoints] {
        &self.endpoints
    }

    /// Answer until told to stop, or for good.
    pub fn serve(&self, stop: Option<&AtomicBool>) -> io::Result<()> {
        let mut buffer = vec![0; MOST + 16];
        while !stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            let n = match self.echo.recv(&mut buffer) {
                Ok(n) => n.min(buffer.len()),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => continue,
                Err(error) => return Err(error),
            };
            let answered = match buffer[..n].split_first() {
                Some((&COUNT, rest)) => {
                    let ns = self.counted(rest, stop).to_be_bytes();
                    self.echo.send(&ns)
                }
                _ => self.echo.send(&buffer[..n]),
            };
            // He who asked may be gone.
            match answered {
                Err(error) if error.kind() != io::ErrorKind::TimedOut => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Nanoseconds from the first to the last message; 0: they did not all come.
    fn counted(&self, wanted: &[u8], stop: Option<&AtomicBool>) -> u64 {
        let wanted = wanted.try_into().map_or(0, u64::from_be_bytes);
        let mut first = None;
        for _ in 0..wanted {
            // What does not fit here is dropped by libzmq.
            if self.count.recv(&mut []).is_err() || stop.is_some_and(|s| s.load(Ordering::Relaxed))
            {
                return 0;
            }
            first.get_or_insert_with(Instant::now);
        }
        first.map_or(0, |first| first.elapsed().as_nanos() as u64)
    }

    /// Answer on a thread of its own.
    pub fn spawn(self) -> io::Result<Serving> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new().spawn(move || self.serve(Some(&told)))?;
        Ok(Serving { stop, thread })
    }
}

/// A server on a thread of its own.
pub struct Serving {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<()>>,
}

impl Serving {
    /// End it.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        // What it says no longer matters.
        let _ = self.thread.join();
    }
}
