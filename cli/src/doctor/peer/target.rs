// SPDX-License-Identifier: MPL-2.0
//! What an endpoint names, and the address behind the name.

use std::net::SocketAddr;

use zmq_rdma::device::Ready;
use zmq_rdma::error::Error;
use zmq_rdma::stream::resolve::{numeric, Lookup};

use super::{Stopped, Trial};
use crate::doctor::{Finding, Level};

/// What an endpoint names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub host: String,
    pub port: u16,
    pub source: Option<SocketAddr>,
}

impl Target {
    pub fn parse(endpoint: &str) -> Result<Target, Finding> {
        let bad = |says: String| {
            let finding = Finding::new(Level::Bad, "address", says);
            finding.mend("zmq-rdma doctor rdma://HOST:PORT, as in zmq_connect")
        };
        let address = match endpoint.split_once("://") {
            None => endpoint,
            Some(("rdma", address)) => address,
            Some((other, _)) => {
                let says = format!("{other}:// is another transport; this tries rdma://");
                return Err(bad(says));
            }
        };
        let (source, address) = match address.rsplit_once(';') {
            None => (None, address),
            Some((source, address)) => {
                let says = format!("the source {source} is no numeric address and port");
                (Some(source.parse().map_err(|_| bad(says))?), address)
            }
        };
        let (host, port) = address
            .rsplit_once(':')
            .ok_or_else(|| bad(format!("{address} has no port")))?;
        let port = match port.parse() {
            Ok(port) if port > 0 => port,
            _ => return Err(bad(format!("{port} is no port to connect to"))),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host == "*" {
            return Err(bad("a peer's address is needed, not a wild-card".into()));
        }
        Ok(Target {
            host: host.to_string(),
            port,
            source,
        })
    }
}

/// The address, by the name service if need be.
pub(super) fn resolve(target: &Target, trial: &mut Trial) -> Result<SocketAddr, Stopped> {
    if let Some(to) = numeric(&target.host, target.port, target.host.contains(':')) {
        trial.well("resolve", format!("{to} is a numeric address"));
        return Ok(to);
    }
    let host = &target.host;
    let v4 = look_up(target, false, trial);
    match v4.or_else(|_| look_up(target, true, trial)) {
        Ok(to) if to.is_ipv6() => {
            let says = format!("{host} is {to}; programs must set ZMQ_IPV6 to use it");
            trial.well("resolve", says);
            Ok(to)
        }
        Ok(to) => {
            trial.well("resolve", format!("{host} is {to}"));
            Ok(to)
        }
        Err(why) => {
            let says = why.map_or("the name server does not answer".to_string(), |e| {
                e.to_string()
            });
            let finding = Finding::new(Level::Bad, "resolve", says);
            Err(trial.stop(
                finding
                    .mend(format!(
                        "getent hosts {host}    # what this machine knows of the name"
                    ))
                    .mend("or use the numeric address"),
            ))
        }
    }
}

fn look_up(target: &Target, ipv6: bool, trial: &Trial) -> Result<SocketAddr, Option<Error>> {
    let mut lookup = Lookup::start(&target.host, target.port, ipv6).map_err(Some)?;
    loop {
        match lookup.poll() {
            Err(Error::Again) => {
                let ready = Ready {
                    fd: lookup.fd(),
                    read: true,
                    write: false,
                };
                if !trial.wait(ready) {
                    return Err(None);
                }
            }
            done => return done.map_err(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_as_zmq_connect_reads_them() {
        let of = |text| Target::parse(text).unwrap();
        assert_eq!((of("rdma://a:1").host.as_str(), of("b:2").port), ("a", 2));
        assert_eq!(of("rdma://[::1]:5").host, "::1");
        let with = of("rdma://10.0.0.1:0;peer:9");
        assert_eq!(with.source, "10.0.0.1:0".parse().ok());
        for bad in [
            "tcp://a:1",
            "rdma://a",
            "rdma://a:0",
            "rdma://*:1",
            "x;a:1",
            "a:99999",
        ] {
            let finding = Target::parse(bad).unwrap_err();
            assert!(!finding.mend.is_empty(), "{bad}");
        }
    }
}
