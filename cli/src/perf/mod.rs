// SPDX-License-Identifier: MPL-2.0
//! `zmq-rdma perf`: latency and throughput through libzmq, over rdma:// and
//! tcp://, side by side: on this machine, or to a peer that runs `zmq-rdma perf
//! --listen`. `server` answers, `client` measures, `plot` draws.

mod client;
mod plot;
mod server;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use crate::out::{self, bytes, Out};
use crate::zmq::Library;
use crate::Exit;

/// The first of the four ports, unless told otherwise.
const PORT: u16 = 5570;
/// The longest message.
const MOST: usize = 64 << 20;

/// `zmq-rdma perf`.
#[derive(clap::Args)]
pub struct Args {
    /// Where `zmq-rdma perf --listen` runs; without it, this machine talks to itself
    #[arg(value_name = "HOST[:PORT]", conflicts_with = "listen")]
    peer: Option<String>,
    /// Answer until interrupted: at this address (default: all), on PORT and the three ports after it
    #[arg(long, value_name = "ADDRESS[:PORT]", num_args = 0..=1, default_missing_value = "*")]
    listen: Option<String>,
    /// Message sizes in bytes
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,64,1024,8192,65536,1048576"
    )]
    sizes: Vec<usize>,
    /// About how many milliseconds one measurement takes
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(10..=60_000))]
    time: u32,
    /// rdma, tcp, or both
    #[arg(long, value_delimiter = ',', default_value = "rdma,tcp", value_parser = ["rdma", "tcp"])]
    schemes: Vec<String>,
    /// Draw the results into this SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// The libzmq.so to measure
    #[arg(long, value_name = "FILE")]
    libzmq: Option<PathBuf>,
}

/// What one scheme did at one size.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// `rdma` or `tcp`.
    pub scheme: String,
    /// Bytes of a message.
    pub size: usize,
    /// Half a round trip in microseconds: median, and the 99th percentile.
    pub latency_us: f64,
    /// See above.
    pub latency_p99_us: f64,
    /// Messages a second, one way.
    pub messages: f64,
    /// Bytes a second, one way.
    pub bytes: f64,
}

#[derive(Serialize)]
struct Report<'a> {
    library: &'a str,
    version: String,
    peer: &'a str,
    device: Option<&'a str>,
    figures: &'a [Figure],
}

/// Listen, or measure.
pub fn run(args: &Args, out: &mut Out) -> io::Result<Exit> {
    if let Some(size) = args.sizes.iter().find(|&&size| size == 0 || size > MOST) {
        out::complain(&format!(
            "a message of {size} bytes is not possible: 1 to {MOST} are"
        ));
        return Ok(Exit::Usage);
    }
    let library = Library::choose(args.libzmq.as_deref()).map_err(io::Error::other)?;
    let schemes: Vec<&str> = args.schemes.iter().map(String::as_str).collect();
    if schemes.contains(&"rdma") && !library.has_rdma() {
        return Err(io::Error::other(format!(
            "{} has no rdma://; name another with --libzmq FILE, or measure tcp alone with --schemes tcp",
            library.path()
        )));
    }
    if let Some(address) = &args.listen {
        return listen(address, &schemes, &library, out);
    }
    measure(args, &schemes, &library, out)
}

/// `HOST[:PORT]`, IPv6 addresses in brackets.
fn host_and_port(text: &str) -> io::Result<(String, u16)> {
    let outside = text.rfind(']').unwrap_or(0);
    match text[outside..].rsplit_once(':') {
        None => Ok((text.to_string(), PORT)),
        Some((_, port)) => {
            let host = &text[..text.len() - port.len() - 1];
            match port.parse() {
                Ok(port) if (1..=65_532).contains(&port) => Ok((host.to_string(), port)),
                _ => Err(io::Error::other(format!(
                    "{port} is not a port from 1 to 65532"
                ))),
            }
        }
    }
}

fn listen(
    address: &str,
    schemes: &[&str],
    library: &Arc<Library>,
    out: &mut Out,
) -> io::Result<Exit> {
    let (host, port) = host_and_port(address)?;
    let server = server::Server::bind(library, &host, Some(port), schemes)?;
    for endpoint in server.endpoints() {
        out.line(&format!("listening at {endpoint}"))?;
        out.value(&serde_json::json!({ "listening": endpoint }))?;
    }
    out.line("Anybody who can reach these may use them. On the other machine: zmq-rdma perf HOST")?;
    out.flush()?;
    server.serve(None)?;
    Ok(Exit::Well)
}

fn measure(
    args: &Args,
    schemes: &[&str],
    library: &Arc<Library>,
    out: &mut Out,
) -> io::Result<Exit> {
    let (server, client, peer);
    match &args.peer {
        Some(text) => {
            let (host, port) = host_and_port(text)?;
            client = client::Client::connect(library, &client::at(&host, port, schemes), schemes)?;
            server = None;
            peer = text.clone();
        }
        None => {
            let local = server::Server::bind(library, "127.0.0.1", None, schemes)?;
            client = client::Client::connect(library, local.endpoints(), schemes)?;
            server = Some(local.spawn()?);
            peer = "this machine".to_string();
        }
    }
    let device = client.device("rdma")?;
    let measured = client.measure(&args.sizes, schemes, args.time);
    drop(client);
    if let Some(server) = server {
        server.stop();
    }
    let figures = measured?;
    if let Some(path) = &args.plot {
        plot::draw(path, &figures, &peer)
            .map_err(|why| io::Error::other(format!("cannot draw {}: {why}", path.display())))?;
    }
    out.value(&Report {
        library: library.path(),
        version: library.version(),
        peer: &peer,
        device: device.as_deref(),
        figures: &figures,
    })?;
    print(
        library,
        &peer,
        device.as_deref(),
        &figures,
        args.plot.as_deref(),
        out,
    )?;
    Ok(Exit::Well)
}

fn print(
    library: &Library,
    peer: &str,
    device: Option<&str>,
    figures: &[Figure],
    plot: Option<&std::path::Path>,
    out: &mut Out,
) -> io::Result<()> {
    let by = device.map_or(String::new(), |device| {
        format!(", rdma:// over device {device}")
    });
    out.line(&format!("libzmq {} with {peer}{by}", library.version()))?;
    let mut sizes: Vec<usize> = figures.iter().map(|figure| figure.size).collect();
    sizes.dedup();
    sizes.sort_unstable();
    sizes.dedup();
    let of = |size, scheme: &str| {
        figures
            .iter()
            .find(|figure| figure.size == size && figure.scheme == scheme)
    };
    let rows: Vec<_> = sizes
        .iter()
        .map(|&size| row(size, of(size, "rdma"), of(size, "tcp")))
        .collect();
    let head = [
        "message",
        "latency rdma",
        "tcp",
        "tcp/rdma",
        "messages/s rdma",
        "tcp",
        "rdma/tcp",
        "bytes/s rdma",
        "tcp",
    ];
    for line in out::table(&head, &[], &rows) {
        out.line(&line)?;
    }
    out.line("Latency: median of half a round trip. A ratio above 1 means that rdma is better.")?;
    if let Some(path) = plot {
        out.line(&format!("drawn into {}", path.display()))?;
    }
    Ok(())
}

fn row(size: usize, rdma: Option<&Figure>, tcp: Option<&Figure>) -> Vec<String> {
    let text = |figure: Option<&Figure>, of: fn(&Figure) -> String| figure.map_or("-".into(), of);
    let ratio = |of: fn(&Figure, &Figure) -> f64| match (rdma, tcp) {
        (Some(rdma), Some(tcp)) => format!("{:.2}", of(rdma, tcp)),
        _ => "-".into(),
    };
    let latency: fn(&Figure) -> String = |f| format!("{:.1} us", f.latency_us);
    let messages: fn(&Figure) -> String = |f| format!("{:.0}", f.messages);
    let rate: fn(&Figure) -> String = |f| bytes(f.bytes as u64);
    vec![
        bytes(size as u64),
        text(rdma, latency),
        text(tcp, latency),
        ratio(|rdma, tcp| tcp.latency_us / rdma.latency_us),
        text(rdma, messages),
        text(tcp, messages),
        ratio(|rdma, tcp| rdma.messages / tcp.messages),
        text(rdma, rate),
        text(tcp, rate),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_host_with_or_without_a_port() {
        let of = |text| host_and_port(text).unwrap();
        assert_eq!(of("a"), ("a".into(), PORT));
        assert_eq!(of("10.0.0.1:7"), ("10.0.0.1".into(), 7));
        assert_eq!(of("[fe80::1%2]:7"), ("[fe80::1%2]".into(), 7));
        assert_eq!(of("[fe80::1]"), ("[fe80::1]".into(), PORT));
        assert!(host_and_port("a:0").is_err() && host_and_port("a:65533").is_err());
    }
}
