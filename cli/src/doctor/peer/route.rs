// SPDX-License-Identifier: MPL-2.0
//! Which way it goes from here.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use zmq_rdma::device::{self, Choice};
use zmq_rdma::os;

use super::{Stopped, Trial};
use crate::doctor::{Finding, Level};

/// Which way it goes; the name of the device.
pub(super) fn route(
    choice: Choice,
    to: SocketAddr,
    source: Option<SocketAddr>,
    trial: &mut Trial,
) -> Result<String, Stopped> {
    let from = local_towards(to, source).map_err(|error| {
        let finding = Finding::new(
            Level::Bad,
            "route",
            format!("no way to {}: {error}", to.ip()),
        );
        trial.stop(finding.mend(format!("ip route get {}", to.ip())))
    })?;
    let device = device::serving(choice, to, source).map_err(|error| {
        let finding = Finding::new(Level::Bad, "route", format!("from {from}: {error}"));
        trial.stop(
            finding
                .mend("zmq-rdma doctor    # what keeps the devices from use")
                .mend("or ZMQ_RDMA_DEVICE=auto, which falls back on soft"),
        )
    })?;
    let by = interface_of(from).map_or(String::new(), |name| format!(" ({name})"));
    let what = if device == "soft" {
        "by the device soft: no RDMA device serves that address"
    } else {
        "by the RDMA device"
    };
    let what = if choice == Choice::Soft {
        "as ZMQ_RDMA_DEVICE asks, by"
    } else {
        what
    };
    let says = if device == "soft" && choice != Choice::Soft {
        format!("from {from}{by}, {what}")
    } else {
        format!("from {from}{by}, {what} {device}")
    };
    trial.well("route", says);
    Ok(device)
}

/// The local address on the way. Sends nothing.
fn local_towards(to: SocketAddr, source: Option<SocketAddr>) -> io::Result<IpAddr> {
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    let from = source.map_or(any, |source| SocketAddr::new(source.ip(), 0));
    let socket = UdpSocket::bind(from)?;
    socket.connect(to)?;
    Ok(socket.local_addr()?.ip())
}

fn interface_of(ip: IpAddr) -> Option<String> {
    let all = os::addr::of_interfaces().into_iter();
    all.filter(|(_, other)| *other == Some(ip))
        .map(|(name, _)| name)
        .next()
}
