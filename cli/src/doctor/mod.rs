// SPDX-License-Identifier: MPL-2.0
//! `zmq-rdma doctor`: what keeps rdma:// from working here, in plain words, and
//! the command that mends each. With an address: how far a connection comes.
//!
//! `devices` judges the RDMA devices and the way to them, `limits` what the
//! process may use, `software` what programs will load; `peer` tries a connection.

mod devices;
mod limits;
mod peer;
mod software;

use std::io;

use serde::Serialize;

use crate::machine::Machine;
use crate::out::Out;
use crate::Exit;

/// `zmq-rdma doctor`.
#[derive(clap::Args)]
pub struct Args {
    /// Try to connect to this endpoint, step by step
    #[arg(value_name = "rdma://HOST:PORT")]
    endpoint: Option<String>,
    /// Seconds that each step may take
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=600))]
    timeout: u32,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// It makes something slower, or keeps a device from being used.
    Warn,
    /// It keeps rdma:// from working.
    Bad,
}

impl Level {
    fn mark(self) -> &'static str {
        match self {
            Level::Ok => "  ok    ",
            Level::Note => "  note  ",
            Level::Warn => "  warn  ",
            Level::Bad => "  BAD   ",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub level: Level,
    /// What was looked at, in one word for machines.
    pub about: &'static str,
    /// What was found.
    pub says: String,
    /// What mends it, one command or deed each.
    pub mend: Vec<String>,
}

impl Finding {
    /// Without a remedy.
    pub fn new(level: Level, about: &'static str, says: impl Into<String>) -> Finding {
        Finding {
            level,
            about,
            says: says.into(),
            mend: Vec::new(),
        }
    }

    /// With one more remedy.
    pub fn mend(mut self, how: impl Into<String>) -> Finding {
        self.mend.push(how.into());
        self
    }

    /// For people.
    pub fn print(&self, out: &mut Out) -> io::Result<()> {
        out.wrapped(self.level.mark(), "        ", &self.says)?;
        for how in &self.mend {
            // Not wrapped: it is there to be copied.
            out.line(&format!("          -> {how}"))?;
        }
        Ok(())
    }
}

/// All that was found, and what follows.
#[derive(Debug, Serialize)]
struct Report {
    verdict: &'static str,
    devices: Vec<String>,
    findings: Vec<Finding>,
}

/// Look, or try.
pub fn run(args: &Args, out: &mut Out) -> io::Result<Exit> {
    match &args.endpoint {
        Some(endpoint) => peer::run(endpoint, args.timeout, out),
        None => look(&Machine::here(), out),
    }
}

fn look(machine: &Machine, out: &mut Out) -> io::Result<Exit> {
    let all = machine.devices();
    let (mut findings, usable) = devices::judge(machine, &all);
    findings.extend(limits::judge(machine, &all));
    findings.extend(software::judge());
    let exit = verdict(&findings, !usable.is_empty());
    let report = Report {
        verdict: match exit {
            Exit::Well => "rdma",
            Exit::SoftOnly => "soft",
            _ => "broken",
        },
        devices: usable,
        findings,
    };
    out.value(&report)?;
    for finding in &report.findings {
        finding.print(out)?;
    }
    out.line("")?;
    out.wrapped("", "", &last_words(&report, exit))?;
    Ok(exit)
}

fn verdict(findings: &[Finding], usable: bool) -> Exit {
    if findings.iter().any(|finding| finding.level == Level::Bad) {
        return Exit::Fault;
    }
    if usable {
        Exit::Well
    } else {
        Exit::SoftOnly
    }
}

fn last_words(report: &Report, exit: Exit) -> String {
    match exit {
        Exit::Well => format!(
            "rdma:// will use {}. To try a peer: zmq-rdma doctor rdma://HOST:PORT",
            report.devices.join(" and ")
        ),
        Exit::SoftOnly => {
            "rdma:// works on this machine, over its built-in device soft (iWARP over \
             TCP): every program runs, at about the speed of tcp://. The speed of RDMA takes a \
             device: see above."
                .into()
        }
        _ => "rdma:// does not work here yet: first fix what is marked BAD.".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::fake;

    #[test]
    fn what_is_bad_decides() {
        let of = |level| Finding::new(level, "x", "y");
        assert_eq!(verdict(&[of(Level::Warn)], true), Exit::Well);
        assert_eq!(verdict(&[of(Level::Warn)], false), Exit::SoftOnly);
        assert_eq!(verdict(&[of(Level::Bad), of(Level::Ok)], true), Exit::Fault);
    }

    #[test]
    fn a_machine_without_devices_is_told_what_to_do() {
        let (_dir, machine) = fake(&[("/proc/sys/kernel/osrelease", "6.1.0\n")]);
        let (findings, usable) = devices::judge(&machine, &machine.devices());
        assert!(usable.is_empty());
        let none = findings.iter().find(|f| f.about == "devices").unwrap();
        assert!(none.says.contains("no RDMA device"), "{}", none.says);
        assert!(!none.mend.is_empty());
        assert!(findings.iter().all(|f| f.level != Level::Bad));
    }
}
