// SPDX-License-Identifier: MPL-2.0
//! `zmq-rdma top`: the live connections of a process. The process must have been
//! started with ZMQ_RDMA_STATS=on; then its counters lie in memory that is found among its
//! descriptors. Nothing in it is asked or stopped; it is only read.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use zmq_rdma::stream::tally::{self, Link, Phase, Process, Role, Snapshot};

use crate::out::{self, bytes, Out};
use crate::Exit;

/// `zmq-rdma top`.
#[derive(clap::Args)]
pub struct Args {
    /// Process to watch; without it, all that can be read
    #[arg(value_name = "PID")]
    pid: Option<u32>,
    /// Print once and exit
    #[arg(long)]
    once: bool,
    /// Seconds between two looks
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=3600))]
    interval: u32,
}

/// A process that shares its counters.
struct Watched {
    pid: u32,
    name: String,
    table: File,
    before: Option<(Instant, Snapshot)>,
}

/// Watch.
pub fn run(args: &Args, out: &mut Out) -> io::Result<Exit> {
    let mut watched = match args.pid {
        Some(pid) => match open(pid) {
            Ok(one) => vec![one],
            Err(words) => {
                out::complain(&words);
                return Ok(Exit::Fault);
            }
        },
        None => all(),
    };
    if watched.is_empty() {
        out::complain(
            "no process that this user may read shares its counters; start one with \
             ZMQ_RDMA_STATS=on in its environment",
        );
        return Ok(Exit::Fault);
    }
    loop {
        let now = Instant::now();
        let mut looks = Vec::new();
        watched.retain_mut(|one| match look(one, now) {
            Ok(look) => {
                looks.push(look);
                true
            }
            Err(error) => {
                out::complain(&format!("process {}: {error}", one.pid));
                false
            }
        });
        if looks.is_empty() {
            return Ok(Exit::Well);
        }
        print(&looks, args.once, out)?;
        out.flush()?;
        if args.once {
            return Ok(Exit::Well);
        }
        std::thread::sleep(Duration::from_secs(args.interval.into()));
        watched.retain(|one| fs::metadata(format!("/proc/{}", one.pid)).is_ok());
    }
}

/// All processes that share, and that this user may read.
fn all() -> Vec<Watched> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let pids = names.filter_map(|name| name.to_string_lossy().parse().ok());
    let mut all: Vec<Watched> = pids.filter_map(|pid| open(pid).ok()).collect();
    all.sort_by_key(|one| one.pid);
    all
}

/// The table of a process; `Err` holds words for the user.
fn open(pid: u32) -> Result<Watched, String> {
    let at = format!("/proc/{pid}");
    if fs::metadata(&at).is_err() {
        return Err(format!("there is no process {pid}"));
    }
    let fds = fs::read_dir(format!("{at}/fd")).map_err(|error| {
        format!("process {pid} cannot be read ({error}): it belongs to another user, or is protected; try as root")
    })?;
    let wanted = format!("memfd:{}", tally::SHARED_NAME.to_string_lossy());
    let is_table = |path: &PathBuf| {
        fs::read_link(path).is_ok_and(|to| {
            to.to_string_lossy()
                .trim_start_matches('/')
                .starts_with(&wanted)
        })
    };
    let own = own_pid(&at).unwrap_or(pid);
    for path in fds.flatten().map(|fd| fd.path()).filter(is_table) {
        let table = open_table(&path).map_err(|error| format!("process {pid}: {error}"))?;
        match tally::read(&table) {
            // A parent's, that was there at the fork.
            Ok(snapshot) if snapshot.process.pid != own => {}
            Ok(_) => {
                let name = fs::read_to_string(format!("{at}/comm")).unwrap_or_default();
                return Ok(Watched {
                    pid,
                    name: name.trim().to_string(),
                    table,
                    before: None,
                });
            }
            Err(error) => {
                return Err(format!(
                    "process {pid}: {error}; run the zmq-rdma that its libzmq was installed with"
                ))
            }
        }
    }
    Err(format!(
        "process {pid} does not share its counters: start it with ZMQ_RDMA_STATS=on in its \
         environment (it is read at the first rdma:// bind or connect)"
    ))
}

/// A descriptor of another process, which may be anything under that name.
fn open_table(path: &Path) -> io::Result<File> {
    let mut how = File::options();
    how.read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let table = how.open(path)?;
    if !table.metadata()?.is_file() {
        return Err(io::Error::other("its table is no file"));
    }
    Ok(table)
}

/// Its number as it knows it itself: in a container that is another one.
fn own_pid(at: &str) -> Option<u32> {
    let status = fs::read_to_string(format!("{at}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}

/// A process at one moment; rates since the look before.
#[derive(Serialize)]
struct Look {
    pid: u32,
    name: String,
    links: u64,
    accepted: u64,
    connected: u64,
    failed_accepts: u64,
    failed_connects: u64,
    rejects_sent: u64,
    rejects_received: u64,
    closed: u64,
    died: u64,
    messages_sent: u64,
    messages_received: u64,
    bytes_sent: u64,
    bytes_received: u64,
    pings: u64,
    rescues: u64,
    pinned: u64,
    unpinned: u64,
    connections: Vec<Connection>,
}

#[derive(Serialize)]
struct Connection {
    id: u64,
    state: &'static str,
    role: &'static str,
    device: String,
    local: String,
    peer: String,
    age_seconds: u64,
    messages_sent: u64,
    messages_received: u64,
    bytes_sent: u64,
    bytes_received: u64,
    data_sent: u64,
    data_received: u64,
    control_sent: u64,
    control_received: u64,
    credits: u16,
    sends: u16,
    receives: u16,
    unread: u16,
    credit_stalls: u64,
    queue_stalls: u64,
    pings: u64,
    rescues: u64,
    pinned: u64,
    /// Bytes a second since the look before.
    send_rate: Option<f64>,
    receive_rate: Option<f64>,
    /// Frames with messages a second, both ways.
    frame_rate: Option<f64>,
    /// Messages a second, both ways.
    message_rate: Option<f64>,
}

fn look(one: &mut Watched, now: Instant) -> io::Result<Look> {
    let snapshot = tally::read(&one.table)?;
    let before = one.before.as_ref();
    let connections = snapshot
        .links
        .iter()
        .map(|link| connection(link, before, now))
        .collect();
    let look = of_process(one, &snapshot.process, connections);
    one.before = Some((now, snapshot));
    Ok(look)
}

fn of_process(one: &Watched, process: &Process, connections: Vec<Connection>) -> Look {
    let happened = process.happened;
    Look {
        pid: one.pid,
        name: one.name.clone(),
        links: process.links,
        accepted: happened.accepted,
        connected: happened.connected,
        failed_accepts: happened.failed_accepts,
        failed_connects: happened.failed_connects,
        rejects_sent: happened.rejects_sent,
        rejects_received: happened.rejects_received,
        closed: happened.closed,
        died: happened.died,
        messages_sent: process.counts.messages_sent,
        messages_received: process.counts.messages_received,
        bytes_sent: process.counts.bytes_sent,
        bytes_received: process.counts.bytes_received,
        pings: process.counts.pings,
        rescues: process.counts.rescues,
        pinned: process.pinned,
        unpinned: process.unpinned,
        connections,
    }
}

fn connection(link: &Link, before: Option<&(Instant, Snapshot)>, now: Instant) -> Connection {
    let counts = link.counts;
    let earlier = before.and_then(|(at, snapshot)| {
        let old = snapshot.links.iter().find(|old| old.id == link.id)?;
        Some((now.duration_since(*at).as_secs_f64(), old.counts))
    });
    let rate = |of: fn(&tally::Counts) -> u64| {
        earlier
            .as_ref()
            .map(|(seconds, old)| of(&counts).saturating_sub(of(old)) as f64 / seconds)
    };
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let clock = clock.map_or(0, |since| since.as_secs());
    Connection {
        id: link.id,
        state: match link.phase {
            Phase::Opening => "opening",
            Phase::Open => "open",
            Phase::Closing => "closing",
            Phase::Dead => "dead",
        },
        role: match link.role {
            Role::Connected => "connected",
            Role::Accepted => "accepted",
        },
        device: link.device.clone(),
        local: link.local.clone(),
        peer: link.peer.clone(),
        age_seconds: clock.saturating_sub(link.since),
        messages_sent: counts.messages_sent,
        messages_received: counts.messages_received,
        bytes_sent: counts.bytes_sent,
        bytes_received: counts.bytes_received,
        data_sent: counts.data_sent,
        data_received: counts.data_received,
        control_sent: counts.control_sent,
        control_received: counts.control_received,
        credits: link.gauges.credits,
        sends: link.gauges.sends,
        receives: link.gauges.receives,
        unread: link.gauges.unread,
        credit_stalls: counts.credit_stalls,
        queue_stalls: counts.queue_stalls,
        pings: counts.pings,
        rescues: counts.rescues,
        pinned: link.pinned(),
        send_rate: rate(|c| c.bytes_sent),
        receive_rate: rate(|c| c.bytes_received),
        frame_rate: rate(|c| c.data_sent + c.data_received),
        message_rate: rate(|c| c.messages_sent + c.messages_received),
    }
}

fn print(looks: &[Look], once: bool, out: &mut Out) -> io::Result<()> {
    if out.is_json() {
        for look in looks {
            out.value(look)?;
        }
        return Ok(());
    }
    if !once {
        out.clear()?;
    }
    for look in looks {
        out.line(&format!(
            "{} ({}): {} links; accepted {}, connected {}, failed {} + {}, rejected {} + {}, closed {}, died {}",
            look.pid,
            look.name,
            look.links,
            look.accepted,
            look.connected,
            look.failed_accepts,
            look.failed_connects,
            look.rejects_sent,
            look.rejects_received,
            look.closed,
            look.died,
        ))?;
        out.line(&format!(
            "  sent {} in {} messages, received {} in {}; pinned {}, other memory {}; PINGs {}, rescues {}",
            bytes(look.bytes_sent),
            look.messages_sent,
            bytes(look.bytes_received),
            look.messages_received,
            bytes(look.pinned),
            bytes(look.unpinned),
            look.pings,
            look.rescues,
        ))?;
        let rows: Vec<_> = look.connections.iter().map(row).collect();
        let head = [
            "peer", "", "device", "state", "msgs out", "msgs in", "sent", "received", "out/s",
            "in/s", "msgs/s", "credits", "unread", "stalls", "pings", "pinned",
        ];
        for line in out::table(&head, &[0, 1, 2, 3], &rows) {
            out.line(&format!("  {line}"))?;
        }
    }
    Ok(())
}

fn row(c: &Connection) -> Vec<String> {
    let rate = |rate: Option<f64>| rate.map_or("-".to_string(), |rate| bytes(rate as u64));
    // Whose address tells more: a server's own is the same for all.
    let arrow = if c.role == "accepted" { "<-" } else { "->" };
    vec![
        c.peer.clone(),
        arrow.to_string(),
        c.device.clone(),
        c.state.to_string(),
        c.messages_sent.to_string(),
        c.messages_received.to_string(),
        bytes(c.bytes_sent),
        bytes(c.bytes_received),
        rate(c.send_rate),
        rate(c.receive_rate),
        c.message_rate
            .map_or("-".to_string(), |rate| format!("{rate:.0}")),
        c.credits.to_string(),
        c.unread.to_string(),
        format!("{}+{}", c.credit_stalls, c.queue_stalls),
        c.pings.to_string(),
        bytes(c.pinned),
    ]
}
