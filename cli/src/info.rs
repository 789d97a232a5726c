// SPDX-License-Identifier: MPL-2.0
//! `zmq-rdma info`: versions, devices, options; and which device would serve an
//! address.

use std::io;

use serde::Serialize;
use zmq_rdma::abi::env::{self, VARIABLES};
use zmq_rdma::device::{self, Choice};
use zmq_rdma::stream::resolve::numeric;

use crate::machine::{Device, Machine};
use crate::out::{self, Out};
use crate::zmq;
use crate::Exit;

/// `zmq-rdma info`.
#[derive(clap::Args)]
pub struct Args {
    /// Which device would serve a connection to this numeric address?
    #[arg(value_name = "ADDRESS")]
    address: Option<String>,
}

#[derive(Serialize)]
struct Report<'a> {
    version: &'static str,
    verbs_built_in: bool,
    library: Option<LibraryInfo>,
    devices: &'a [Device],
    options: Vec<OptionInfo>,
    serving: Option<&'a str>,
}

#[derive(Serialize)]
struct LibraryInfo {
    path: String,
    version: String,
    rdma: bool,
}

/// A variable of the environment, and what it is now.
#[derive(Serialize)]
struct OptionInfo {
    name: &'static str,
    about: &'static str,
    default: &'static str,
    choices: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    numbers: Option<(i32, i32)>,
    value: Option<String>,
    error: Option<String>,
    socket_option: Option<i32>,
}

/// Print all that.
pub fn run(args: &Args, out: &mut Out) -> io::Result<Exit> {
    let serving = match &args.address {
        None => None,
        Some(address) => match serving(address) {
            Ok(device) => Some(device),
            Err(words) => {
                out::complain(&words);
                return Ok(Exit::Fault);
            }
        },
    };
    let devices = Machine::here().devices();
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        verbs_built_in: cfg!(feature = "verbs"),
        library: zmq::Library::choose(None).ok().map(|library| LibraryInfo {
            path: library.path().to_string(),
            version: library.version(),
            rdma: library.has_rdma(),
        }),
        devices: &devices,
        options: VARIABLES.iter().map(option).collect(),
        serving: serving.as_deref(),
    };
    out.value(&report)?;
    print(&report, args.address.as_deref(), out)?;
    Ok(Exit::Well)
}

/// Name of the device that would serve a connection.
fn serving(address: &str) -> Result<String, String> {
    let address = address.strip_prefix("rdma://").unwrap_or(address);
    // With or without a port: it does not matter to the route.
    let host = match address.parse::<std::net::SocketAddr>() {
        Ok(whole) => whole.ip().to_string(),
        Err(_) => address.trim_matches(['[', ']']).to_string(),
    };
    let to = numeric(&host, 1, host.contains(':')).ok_or_else(|| {
        format!("{address} is no numeric address (getent hosts {host} tells one's name's)")
    })?;
    let choice = env::device().map(|device| env::choice(device).unwrap_or(Choice::Auto))?;
    device::serving(choice, to, None).map_err(|error| format!("{host}: {error}"))
}

fn option(variable: &env::Variable) -> OptionInfo {
    let value = variable.get();
    OptionInfo {
        name: variable.name,
        about: variable.about,
        default: variable.choices[0],
        choices: variable.choices,
        numbers: variable.numbers,
        value: value.as_ref().ok().map(ToString::to_string),
        error: value.err(),
        socket_option: variable.option.map(|option| option.number),
    }
}

fn print(report: &Report, address: Option<&str>, out: &mut Out) -> io::Result<()> {
    if let (Some(address), Some(device)) = (address, report.serving) {
        let what = if device == "soft" {
            "the built-in device soft (iWARP over TCP)"
        } else {
            device
        };
        return out.line(&format!("{address}: {what}"));
    }
    let built = if report.verbs_built_in {
        "soft, verbs (rdma-core)"
    } else {
        "soft"
    };
    out.line(&format!(
        "zmq-rdma {}; devices built in: {built}",
        report.version
    ))?;
    match &report.library {
        Some(library) => out.line(&format!(
            "libzmq {} at {}: rdma:// {}",
            library.version,
            library.path,
            if library.rdma { "yes" } else { "no" }
        ))?,
        None => out.line("no libzmq.so.5 was found")?,
    }
    out.line("")?;
    print_devices(report.devices, out)?;
    out.line("")?;
    out.line("Environment:")?;
    let rows = report.options.iter().map(|option| {
        let value = match (&option.value, &option.error) {
            (Some(value), _) => value.clone(),
            _ => "NOT UNDERSTOOD".to_string(),
        };
        let mut choices = option.choices.join(" ");
        if let Some((least, most)) = option.numbers {
            choices += &format!(" {least}..{most}");
        }
        vec![
            option.name.to_string(),
            value,
            choices,
            option.socket_option.map_or("-".into(), |n| n.to_string()),
            option.about.to_string(),
        ]
    });
    let rows: Vec<_> = rows.collect();
    let head = [
        "name",
        "now",
        "values (default first)",
        "socket option",
        "what it decides",
    ];
    for line in out::table(&head, &[0, 1, 2, 3, 4], &rows) {
        out.line(&format!("  {line}"))?;
    }
    for error in report
        .options
        .iter()
        .filter_map(|option| option.error.as_ref())
    {
        out.line(&format!("  {error}"))?;
    }
    Ok(())
}

fn print_devices(devices: &[Device], out: &mut Out) -> io::Result<()> {
    if devices.is_empty() {
        return out.line("No RDMA device; soft serves every address. (zmq-rdma doctor says more.)");
    }
    out.line("RDMA devices:")?;
    let mut rows = Vec::new();
    for device in devices {
        for port in &device.ports {
            let addresses: Vec<_> = port.addresses.iter().map(ToString::to_string).collect();
            rows.push(vec![
                format!("{}/{}", device.name, port.number),
                device.transport.name().to_string(),
                port.state.clone(),
                port.link.clone(),
                port.rate.clone(),
                port.interface.clone().unwrap_or_default(),
                addresses.join(" "),
            ]);
        }
    }
    let head = [
        "port",
        "kind",
        "state",
        "link",
        "rate",
        "interface",
        "addresses",
    ];
    for line in out::table(&head, &[0, 1, 2, 3, 4, 5, 6], &rows) {
        out.line(&format!("  {line}"))?;
    }
    out.line("soft serves all other addresses.")
}
