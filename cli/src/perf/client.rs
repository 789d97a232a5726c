// SPDX-License-Identifier: MPL-2.0
//! Who measures. The schemes take turns at each size, so that what else the
//! machine does falls on both.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::server::{endpoints, Endpoints, COUNT, ECHO};
use super::Figure;
use crate::zmq::{Context, Library, Socket, PUSH, REQ};

/// Milliseconds for the peer to answer.
const PATIENCE: i32 = 20_000;
/// Messages in one count at most.
const MESSAGES: u64 = 5_000_000;

/// The sockets of one scheme.
struct Way {
    scheme: String,
    echo: Socket,
    count: Socket,
}

/// Connected to a server.
pub struct Client {
    ways: Vec<Way>,
}

/// The endpoints of a server at a host.
pub fn at(host: &str, port: u16, schemes: &[&str]) -> Vec<Endpoints> {
    endpoints(host, port, schemes)
}

impl Client {
    /// Connect by each scheme.
    pub fn connect(
        library: &Arc<Library>,
        to: &[Endpoints],
        schemes: &[&str],
    ) -> io::Result<Client> {
        let context = Arc::new(Context::new(library));
        let mut ways = Vec::new();
        for one in to
            .iter()
            .filter(|one| schemes.contains(&one.scheme.as_str()))
        {
            let echo = context.socket(REQ, PATIENCE)?;
            echo.connect(&one.echo)?;
            let count = context.socket(PUSH, PATIENCE)?;
            count.connect(&one.count)?;
            ways.push(Way {
                scheme: one.scheme.clone(),
                echo,
                count,
            });
        }
        Ok(Client { ways })
    }

    /// Name of the device that serves a scheme; `None` for tcp. Waits for the connection.
    pub fn device(&self, scheme: &str) -> io::Result<Option<String>> {
        let Some(way) = self.ways.iter().find(|way| way.scheme == scheme) else {
            return Ok(None);
        };
        way.echo.send(&[ECHO])?;
        way.echo
            .recv_property(c"Rdma-Device")
            .map_err(|error| unanswered(&way.scheme, &error))
    }

    /// All sizes by all schemes.
    pub fn measure(&self, sizes: &[usize], schemes: &[&str], ms: u32) -> io::Result<Vec<Figure>> {
        let time = Duration::from_millis(ms.into());
        let bar = progress(sizes.len() * schemes.len());
        let mut figures = Vec::new();
        for &size in sizes {
            for way in &self.ways {
                bar.set_message(format!("{}:// {size} B", way.scheme));
                let figure = way.figure(size, time);
                figures.push(figure.map_err(|error| unanswered(&way.scheme, &error))?);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(figures)
    }
}

/// On a terminal only, and on standard error.
fn progress(steps: usize) -> ProgressBar {
    let bar = ProgressBar::new(steps as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}");
    style.map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style))
}

fn unanswered(scheme: &str, error: &io::Error) -> io::Error {
    let words = match error.kind() {
        io::ErrorKind::TimedOut => format!(
            "{scheme}://: the peer does not answer. Is `zmq-rdma perf --listen` running there? \
             `zmq-rdma doctor rdma://HOST:PORT` tries the way"
        ),
        _ => format!("{scheme}://: {error}"),
    };
    io::Error::new(error.kind(), words)
}

impl Way {
    fn figure(&self, size: usize, time: Duration) -> io::Result<Figure> {
        let mut trips = self.trips(size, time)?;
        trips.sort_unstable();
        let at = |share: f64| {
            let place = ((trips.len() - 1) as f64 * share) as usize;
            trips[place].as_secs_f64() * 1e6 / 2.0
        };
        let messages = self.messages(size, time)?;
        Ok(Figure {
            scheme: self.scheme.clone(),
            size,
            latency_us: at(0.5),
            latency_p99_us: at(0.99),
            messages,
            bytes: messages * size as f64,
        })
    }

    /// Times of round trips; at least one, after one that nobody counts.
    fn trips(&self, size: usize, time: Duration) -> io::Result<Vec<Duration>> {
        let message = vec![ECHO; size];
        let mut back = vec![0; size];
        self.trip(&message, &mut back)?;
        let start = Instant::now();
        let mut trips = Vec::new();
        while trips.is_empty() || start.elapsed() < time {
            let began = Instant::now();
            self.trip(&message, &mut back)?;
            trips.push(began.elapsed());
        }
        Ok(trips)
    }

    fn trip(&self, message: &[u8], back: &mut [u8]) -> io::Result<()> {
        self.echo.send(message)?;
        let n = self.echo.recv(back)?;
        if n != message.len() || back != message {
            return Err(io::Error::other(
                "the echo is not the message that was sent",
            ));
        }
        Ok(())
    }

    /// Messages a second: a short count to learn how many make up the time, then these.
    fn messages(&self, size: usize, time: Duration) -> io::Result<f64> {
        let short = ((1 << 20) / size as u64).clamp(16, 2000);
        let rate = self.count(size, short)?;
        let full = (rate * time.as_secs_f64()) as u64;
        self.count(size, full.clamp(short, MESSAGES))
    }

    fn count(&self, size: usize, messages: u64) -> io::Result<f64> {
        let mut wish = vec![COUNT];
        wish.extend_from_slice(&messages.to_be_bytes());
        self.echo.send(&wish)?;
        let message = vec![0; size];
        for _ in 0..messages {
            self.count.send(&message)?;
        }
        let mut answer = [0; 8];
        self.echo.recv(&mut answer)?;
        match u64::from_be_bytes(answer) {
            0 => Err(io::Error::other(
                "the peer did not receive all messages in time",
            )),
            // From the first to the last there is one gap less.
            ns => Ok((messages - 1) as f64 / (ns as f64 / 1e9)),
        }
    }
}
