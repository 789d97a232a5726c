// SPDX-License-Identifier: MPL-2.0
//! Which RDMA device, if any, serves a way: what `auto` asks before it chooses.
//!
//! rdma-core complains on standard error where there is no RDMA at all, so the
//! kernel's own lists are looked at first.

use std::ffi::CStr;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rdma_sys as c;

use super::addr;
use super::cm::Id;
use super::control::{self, Job};
use super::names::{self, interface_of};
use crate::os::addr::of_interfaces;

/// Whether the machine has an RDMA device that this process may use.
pub fn any_device() -> bool {
    names::any_listed() && Path::new("/dev/infiniband/rdma_cm").exists() && control::usable()
}

/// Peers that did not take an RDMA connection lately, and when.
static AVERSE: Mutex<Vec<(SocketAddr, Instant)>> = Mutex::new(Vec::new());
/// So long they are left alone.
const LATELY: Duration = Duration::from_secs(10);
const REMEMBERED: usize = 256;

/// A peer that the RDMA CM reaches listens elsewhere, or not at all.
pub(super) fn note_averse(peer: SocketAddr, now: Instant) {
    let mut averse = AVERSE.lock().unwrap_or_else(|e| e.into_inner());
    averse.retain(|(other, since)| *other != peer && now.duration_since(*since) < LATELY);
    if averse.len() >= REMEMBERED {
        // The oldest.
        averse.remove(0);
    }
    averse.push((peer, now));
}

fn is_averse(peer: SocketAddr, now: Instant) -> bool {
    let averse = AVERSE.lock().unwrap_or_else(|e| e.into_inner());
    averse
        .iter()
        .any(|(other, since)| *other == peer && now.duration_since(*since) < LATELY)
}

/// Name of the RDMA device on the way to `to` (from `source`, if given), unless the
/// peer did not take an RDMA connection in the last ten seconds.
/// Looks up routes and addresses; asks nobody else.
pub fn available(to: SocketAddr, source: Option<SocketAddr>) -> Option<String> {
    if !any_device() || is_averse(to, Instant::now()) || control::start().is_err() {
        return None;
    }
    let given = source
        .map(|source| source.ip())
        .filter(|ip| !ip.is_unspecified());
    device_at(match given {
        Some(ip) => ip,
        None => local_towards(to)?,
    })
}

/// Whether an RDMA device could listen at this address.
pub(in crate::device) fn serves(local: IpAddr) -> bool {
    if !any_device() || control::start().is_err() {
        return false;
    }
    local.is_unspecified() || device_at(local).is_some()
}

/// Name of the RDMA device that has this local address. A link-local one means nothing without
/// its interface, so the CM finds none for it.
fn device_at(local: IpAddr) -> Option<String> {
    let id = Id::without_events().ok()?;
    id.bind(SocketAddr::new(local, 0)).ok()?;
    let verbs = id.verbs()?;
    // SAFETY: the context is open as long as the id is bound to it.
    let device = unsafe { (*verbs.as_ptr()).device };
    // SAFETY: libibverbs owns the device while a context is open.
    let name = unsafe { c::ibv_get_device_name(device) };
    // SAFETY: a NUL-terminated string inside the device.
    let name = unsafe { CStr::from_ptr(name) };
    let name = name.to_string_lossy().into_owned();
    // The look opened the device: from now on somebody must watch over it.
    control::submit(Job::Seen(id));
    Some(name)
}

/// The local address that the route to `to` starts from. Sends nothing.
fn local_towards(to: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind(addr::unspecified(to)).ok()?;
    socket.connect(to).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// An address of a network interface, or of an RDMA device's, of the family of `like`.
pub fn address_of(interface: &str, like: SocketAddr) -> Option<IpAddr> {
    let interface = interface_of(interface).unwrap_or_else(|| interface.to_string());
    of_interfaces()
        .into_iter()
        .filter_map(|(name, ip)| Some(ip?).filter(|_| name == interface))
        .find(|ip| ip.is_ipv4() == like.ip().to_canonical().is_ipv4())
}

/// Whether an interface has this address.
pub(in crate::device) fn has_address(interface: &str, ip: IpAddr) -> bool {
    of_interfaces()
        .into_iter()
        .any(|(name, other)| name == interface && other == Some(ip.to_canonical()))
}

/// Whether this machine has the address; a wildcard stands for those that it has.
pub(super) fn is_ours(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_unspecified()
        || of_interfaces()
            .into_iter()
            .any(|(_, other)| other == Some(ip))
}

/// All network interfaces.
pub(in crate::device) fn interfaces() -> Vec<String> {
    let mut names: Vec<_> = of_interfaces().into_iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_its_address() {
        let like: SocketAddr = "1.2.3.4:5".parse().unwrap();
        assert_eq!(address_of("lo", like), Some("127.0.0.1".parse().unwrap()));
        assert_eq!(address_of("no-such-interface", like), None);
    }

    #[test]
    fn who_does_not_take_rdma_is_left_alone_for_a_while() {
        let (peer, other) = ("10.1.1.1:1".parse().unwrap(), "10.1.1.1:2".parse().unwrap());
        let start = Instant::now();
        note_averse(peer, start);
        assert!(is_averse(peer, start + LATELY / 2));
        assert!(!is_averse(other, start));
        assert!(!is_averse(peer, start + LATELY));
        let many = (0..=REMEMBERED as u16).map(|port| SocketAddr::new([10, 2, 2, 2].into(), port));
        many.clone().for_each(|peer| note_averse(peer, start));
        let known = many.map(|peer| is_averse(peer, start));
        let known: Vec<_> = known.collect();
        assert!(!known[0] && known[1..].iter().all(|known| *known));
    }

    #[test]
    fn interfaces_have_of_interfaces() {
        assert!(interfaces().contains(&"lo".to_string()));
        assert!(has_address("lo", "127.0.0.1".parse().unwrap()));
        assert!(has_address("lo", "::ffff:127.0.0.1".parse().unwrap()));
        assert!(
            is_ours("0.0.0.0".parse().unwrap()) && is_ours("::ffff:127.0.0.1".parse().unwrap())
        );
        assert!(!is_ours("198.51.100.7".parse().unwrap()));
        assert!(!has_address("lo", "127.0.0.2".parse().unwrap()));
    }

    #[test]
    fn no_rdma_device_serves_the_loopback() {
        assert_eq!(available("127.0.0.1:9".parse().unwrap(), None), None);
    }
}
