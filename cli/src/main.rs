// SPDX-License-Identifier: MPL-2.0
//! The command `zmq-rdma`: `doctor` looks at what a machine can do, and tries a
//! connection step by step; `info` names devices and options; `perf` measures;
//! `top` watches. docs/zmq-rdma.adoc is its manual.
//!
//! What is about RDMA is the library's; here is what is for people.

mod doctor;
mod info;
mod machine;
mod out;
mod perf;
mod top;
mod zmq;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use out::Out;

/// How a command ends. The manual has the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Well = 0,
    /// What was asked for does not work, or was not to be had.
    Fault = 1,
    /// The command was not understood (clap's own number).
    Usage = 2,
    /// It works, but by SoftRDMA: there is no RDMA device to use.
    SoftOnly = 3,
}

/// RDMA as a transport of ZeroMQ: what this machine can do, and how well.
#[derive(Parser)]
#[command(name = "zmq-rdma", version, arg_required_else_help = true)]
struct Args {
    /// Print JSON instead of text
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Look for what keeps rdma:// from working here, or to a peer
    Doctor(doctor::Args),
    /// Name the devices, the options, and which device would serve an address
    Info(info::Args),
    /// Measure latency and throughput over rdma:// and tcp://
    Perf(perf::Args),
    /// Watch the live connections of a process
    Top(top::Args),
}

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return refused(&error),
    };
    let mut out = Out::new(args.json);
    let done = match args.command {
        Command::Doctor(args) => doctor::run(&args, &mut out),
        Command::Info(args) => info::run(&args, &mut out),
        Command::Perf(args) => perf::run(&args, &mut out),
        Command::Top(args) => top::run(&args, &mut out),
    };
    match done {
        Ok(exit) => ExitCode::from(exit as u8),
        // Whoever read us has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            ExitCode::from(Exit::Well as u8)
        }
        Err(error) => {
            out::complain(&error.to_string());
            ExitCode::from(Exit::Fault as u8)
        }
    }
}

/// Help and version go to standard output, and are no fault.
fn refused(error: &clap::Error) -> ExitCode {
    use std::io::Write;
    let text = error.render().to_string();
    let written = if error.use_stderr() {
        std::io::stderr().write_all(text.as_bytes())
    } else {
        std::io::stdout().write_all(text.as_bytes())
    };
    let _ = written;
    ExitCode::from(if error.use_stderr() {
        Exit::Usage as u8
    } else {
        Exit::Well as u8
    })
}
