// SPDX-License-Identifier: MPL-2.0
//! `zmq-rdma doctor rdma://HOST:PORT`: resolve, route, connect, negotiate,
//! exchange; where it stops, and why. It connects as a program would, says ZMTP's
//! greeting, reads the peer's, and closes in good order.

mod connect;
mod exchange;
mod route;
mod target;

use std::io;
use std::time::{Duration, Instant};

use serde::Serialize;
use zmq_rdma::abi::env;
use zmq_rdma::device::{Choice, Ready};
use zmq_rdma::os;

use self::connect::connect;
use self::exchange::exchange;
use self::route::route;
use self::target::{resolve, Target};
use super::{Finding, Level};
use crate::out::Out;
use crate::Exit;

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
