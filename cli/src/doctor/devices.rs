// SPDX-License-Identifier: MPL-2.0
//! The RDMA devices of a machine, and what stands between them and a program.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

use super::{Finding, Level};
use crate::machine::{provider, Device, Machine, Port, Transport};

/// What was found, and the names of the devices that rdma:// will use.
pub fn judge(machine: &Machine, devices: &[Device]) -> (Vec<Finding>, Vec<String>) {
    let mut findings = Vec::new();
    if devices.is_empty() {
        findings.push(none(machine));
        return (findings, Vec::new());
    }
    let manager = connection_manager(machine);
    let library = library_is_built_in();
    let common = [manager, library].into_iter().flatten().collect::<Vec<_>>();
    let mut usable = Vec::new();
    for device in devices {
        let of_device = judge_device(machine, device);
        // A note, such as a small MTU, makes a device slow, not useless.
        let serves = of_device
            .iter()
            .chain(&common)
            .all(|f| f.level < Level::Warn);
        if serves {
            usable.push(device.name.clone());
        }
        findings.push(summary(device, serves));
        findings.extend(of_device);
    }
    findings.extend(common);
    findings.extend(missing_modules(machine));
    (findings, usable)
}

fn none(machine: &Machine) -> Finding {
    let lacking = machine.without_rdma_module();
    let says = "The kernel knows of no RDMA device on this machine. rdma:// uses its built-in \
                device soft instead.";
    let mut finding = Finding::new(Level::Note, "devices", says);
    for (interface, driver, module) in lacking {
        finding = finding.mend(format!(
            "modprobe {module}    # the RDMA driver of {interface} ({driver})"
        ));
    }
    if !finding.mend.is_empty() {
        return finding;
    }
    let container = super::limits::container(machine).is_some();
    if container {
        finding = finding
            .mend("if the host has one: docker run --device=/dev/infiniband --network=host ...");
    }
    finding
        .mend("hardware: an InfiniBand, RoCE or iWARP adapter, and its driver (lspci shows adapters)")
        .mend("to try RDMA on any Ethernet: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0")
}

/// A line for a device.
fn summary(device: &Device, serves: bool) -> Finding {
    let port = device.ports.first();
    let state = port.map_or("no port".to_string(), |p| {
        let mut text = format!("port {} {}, link {}", p.number, p.state, p.link);
        if !p.rate.is_empty() {
            text += &format!(", {}", p.rate);
        }
        if let Some(interface) = &p.interface {
            text += &format!(", on {interface}");
        }
        if !p.addresses.is_empty() {
            let addresses: Vec<_> = p.addresses.iter().map(ToString::to_string).collect();
            text += &format!(" ({})", addresses.join(", "));
        }
        if let Some(mtu) = p.roce_mtu {
            text += &format!(", packets of {mtu} bytes");
        }
        text
    });
    let level = if serves { Level::Ok } else { Level::Warn };
    let says = format!("{} ({}): {state}", device.name, device.transport.name());
    Finding::new(level, "device", says)
}

fn judge_device(machine: &Machine, device: &Device) -> Vec<Finding> {
    let mut findings = Vec::new();
    if provider(device) == Some("efa") {
        let says = format!(
            "{} has no reliable connections, which rdma:// needs; it uses soft instead.",
            device.name
        );
        return vec![Finding::new(Level::Warn, "kind", says)];
    }
    findings.extend(node(machine, device));
    findings.extend(provider_library(machine, device));
    let states: Vec<_> = device.ports.iter().map(|p| port(device, p)).collect();
    // One good port is enough.
    if states
        .iter()
        .all(|found| found.iter().any(|f| f.about != "mtu"))
        || states.len() == 1
    {
        findings.extend(states.into_iter().flatten());
    }
    findings
}

fn port(device: &Device, port: &Port) -> Vec<Finding> {
    let name = format!("{} port {}", device.name, port.number);
    let interface = port.interface.as_deref().unwrap_or("the interface");
    let mut findings = Vec::new();
    if port.state != "ACTIVE" {
        let says = format!("{name} is {} (link: {}).", port.state, port.link);
        let finding = Finding::new(Level::Warn, "port", says);
        findings.push(if device.transport == Transport::InfiniBand {
            finding
                .mend("check the cable and the switch (ibstat, iblinkinfo)")
                .mend(
                    "if it stays in INIT: no subnet manager is running (opensm, or the switch's own)",
                )
        } else {
            finding
                .mend(format!("ip link set {interface} up"))
                .mend(format!(
                    "check the cable: ethtool {interface} should say \"Link detected\""
                ))
        });
    }
    if port.state == "ACTIVE" {
        findings.extend(address(device, port, &name));
    }
    if let (Some(roce), Some(mtu)) = (port.roce_mtu, port.interface_mtu) {
        if roce < 4096 {
            let says = format!(
                "{name}: the MTU of {interface} is {mtu}, so RoCE packets carry {roce} bytes; \
                 with 4200 or more they carry 4096."
            );
            let finding = Finding::new(Level::Note, "mtu", says);
            findings.push(finding.mend(format!(
                "ip link set {interface} mtu 9000    # on both sides, and the switch must carry it"
            )));
        }
    }
    findings
}

/// A device is found by the IP addresses of its interface, on InfiniBand too.
fn address(device: &Device, port: &Port, name: &str) -> Option<Finding> {
    let by_gid = port.gids.iter().filter_map(|gid| gid.ipv4).count();
    let global = |ip: &&std::net::IpAddr| match ip {
        std::net::IpAddr::V4(_) => true,
        std::net::IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 != 0xfe80,
    };
    if by_gid > 0 || port.addresses.iter().filter(global).count() > 0 {
        return None;
    }
    let Some(interface) = &port.interface else {
        let says = format!(
            "{name} has no network interface here; it may be in another network namespace."
        );
        let mut finding = Finding::new(Level::Warn, "interface", says);
        if device.transport == Transport::InfiniBand {
            finding = finding.mend("modprobe ib_ipoib    # gives InfiniBand ports an interface");
        }
        return Some(finding.mend(format!("rdma link show {}/{}", device.name, port.number)));
    };
    let says = format!(
        "{interface}, the interface of {}, has no IP address; RDMA connections are made by IP \
         address.",
        device.name
    );
    let finding = Finding::new(Level::Warn, "address", says);
    Some(finding.mend(format!("ip addr add ADDRESS/PREFIX dev {interface}")))
}

/// The device's own node, and whether this user may open it.
fn node(machine: &Machine, device: &Device) -> Option<Finding> {
    let Some(node) = &device.node else {
        let says = format!(
            "{} has no file in /dev/infiniband: the kernel module ib_uverbs is not loaded.",
            device.name
        );
        return Some(Finding::new(Level::Warn, "rights", says).mend("modprobe ib_uverbs"));
    };
    may_open(machine, &format!("/dev/infiniband/{node}"), &device.name)
}

/// The connection manager's node.
fn connection_manager(machine: &Machine) -> Option<Finding> {
    let path = "/dev/infiniband/rdma_cm";
    if !machine.has(path) && !machine.has("/sys/module/rdma_ucm") {
        let says = "Programs cannot reach the RDMA connection manager: the kernel module rdma_ucm \
                    is not loaded.";
        return Some(Finding::new(Level::Warn, "rdma_cm", says).mend("modprobe rdma_ucm"));
    }
    may_open(machine, path, "the RDMA connection manager")
}

fn may_open(machine: &Machine, path: &str, whose: &str) -> Option<Finding> {
    let mut how = OpenOptions::new();
    how.read(true).write(true).custom_flags(libc::O_CLOEXEC);
    let error = how.open(machine.path(path)).err()?;
    let says = format!(
        "This process may not use {whose}: {path}: {}.",
        said(&error)
    );
    let finding = Finding::new(Level::Warn, "rights", says);
    Some(match error.kind() {
        std::io::ErrorKind::NotFound => finding
            .mend("in a container: docker run --device=/dev/infiniband ...")
            .mend("otherwise: udevadm trigger (udev makes the file)"),
        std::io::ErrorKind::PermissionDenied => finding
            .mend(format!("ls -l {path}    # who owns it"))
            .mend(format!("chmod 666 {path}    # until the next boot"))
            .mend(
                "for good: a udev rule, KERNEL==\"uverbs*|rdma_cm\", MODE=\"0666\", as rdma-core \
                 installs it",
            ),
        _ => finding,
    })
}

/// An error without "(os error 2)".
fn said(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or("").to_lowercase()
}

fn provider_library(machine: &Machine, device: &Device) -> Option<Finding> {
    let name = provider(device)?;
    let start = format!("lib{name}-rdmav");
    let places = [
        "/usr/lib",
        "/usr/lib64",
        "/usr/local/lib",
        "/usr/local/lib64",
        "/lib",
    ];
    let below = |place: &&str| {
        let list = machine.list(place).into_iter();
        let inner = list.filter(|entry| entry.contains("-linux-gnu") || entry == "libibverbs");
        let dirs = inner.flat_map(|entry| {
            [
                format!("{place}/{entry}"),
                format!("{place}/{entry}/libibverbs"),
            ]
        });
        dirs.chain([place.to_string()]).collect::<Vec<_>>()
    };
    let all = places.iter().flat_map(below);
    let found = all
        .flat_map(|dir| machine.list(&dir))
        .any(|file| file.starts_with(&start));
    if found {
        return None;
    }
    let says = format!(
        "{} needs the user-space driver {start}*.so, which is not installed.",
        device.name
    );
    let finding = Finding::new(Level::Warn, "provider", says);
    Some(finding.mend("apt-get install ibverbs-providers    # elsewhere: rdma-core, libibverbs"))
}

fn library_is_built_in() -> Option<Finding> {
    if cfg!(feature = "verbs") {
        return None;
    }
    let says = "This build of zmq-rdma has no rdma-core device: it was configured with \
                --without-rdma-verbs.";
    let finding = Finding::new(Level::Warn, "build", says);
    Some(finding.mend("./configure --with-rdma, with librdmacm-dev and libibverbs-dev installed"))
}

fn missing_modules(machine: &Machine) -> Vec<Finding> {
    let lacking = machine.without_rdma_module().into_iter();
    let told = lacking.map(|(interface, driver, module)| {
        let says = format!("{interface} ({driver}) can do RDMA, but {module} is not loaded.");
        Finding::new(Level::Note, "modules", says).mend(format!("modprobe {module}"))
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::{fake, ROCE};

    const GOOD: &[(&str, &str)] = &[
        ("/dev/infiniband/uverbs3", ""),
        ("/dev/infiniband/rdma_cm", ""),
        ("/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so", ""),
    ];

    fn with(more: &[(&str, &str)], without: &str) -> (Vec<Finding>, Vec<String>) {
        let all = ROCE.iter().chain(GOOD).chain(more);
        let kept: Vec<_> = all.filter(|(path, _)| *path != without).copied().collect();
        let (_dir, machine) = fake(&kept);
        judge(&machine, &machine.devices())
    }

    fn about<'a>(findings: &'a [Finding], what: &str) -> &'a Finding {
        let found = findings.iter().find(|f| f.about == what);
        found.unwrap_or_else(|| panic!("nothing of {what}: {findings:#?}"))
    }

    #[test]
    #[cfg(feature = "verbs")]
    fn a_device_in_good_order_is_used() {
        let (findings, usable) = with(&[], "");
        assert_eq!(usable, ["rxe0"], "{findings:#?}");
        let mtu = about(&findings, "mtu");
        assert!(mtu.says.contains("1024") && mtu.mend[0].contains("mtu 9000"));
    }

    #[test]
    fn an_infiniband_port_needs_an_address_too() {
        let at = "/sys/class/infiniband/mlx5_0";
        let (port, net) = (format!("{at}/ports/1"), "/sys/class/net/ib0/address");
        let files = [
            (format!("{port}/link_layer"), "InfiniBand"),
            (format!("{port}/state"), "4: ACTIVE"),
            (format!("{port}/gids/0"), "fe80::2:c903:a:b"),
            (
                net.to_string(),
                "00:00:10:29:fe:80:00:00:00:00:00:00:00:02:c9:03:00:0a:00:0b",
            ),
        ];
        for (files, what, mend) in [
            (&files[..], "address", "ip addr add ADDRESS/PREFIX dev ib0"),
            (&files[..3], "interface", "modprobe ib_ipoib"),
        ] {
            let files: Vec<_> = files
                .iter()
                .map(|(path, text)| (&path[..], *text))
                .collect();
            let (_dir, machine) = fake(&files);
            let (findings, usable) = judge(&machine, &machine.devices());
            assert!(usable.is_empty());
            let told = &about(&findings, what).mend;
            assert!(told.iter().any(|how| how.starts_with(mend)), "{told:?}");
        }
    }

    #[test]
    fn a_device_of_datagrams_is_not_used() {
        let (findings, usable) = with(
            &[("/sys/class/infiniband/efa_0/ports/1/state", "4: ACTIVE")],
            "",
        );
        assert!(!usable.contains(&"efa_0".to_string()));
        assert!(about(&findings, "kind").says.contains("efa_0"));
    }

    #[test]
    fn a_pulled_cable_is_named_with_its_interface() {
        let down = [
            ("/sys/class/infiniband/rxe0/ports/1/state", "1: DOWN\n"),
            (
                "/sys/class/infiniband/rxe0/ports/1/phys_state",
                "3: Disabled\n",
            ),
        ];
        let (findings, usable) = with(&down, "");
        assert!(usable.is_empty());
        let port = about(&findings, "port");
        assert!(port.says.contains("DOWN") && port.says.contains("Disabled"));
        assert!(
            port.mend[0].contains("ip link set eth0 up"),
            "{:?}",
            port.mend
        );
    }

    #[test]
    fn a_missing_node_provider_or_manager_keeps_a_device_from_use() {
        for (path, what) in [
            ("/dev/infiniband/uverbs3", "rights"),
            ("/dev/infiniband/rdma_cm", "rdma_cm"),
            (
                "/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so",
                "provider",
            ),
            ("/sys/class/infiniband_verbs/uverbs3/ibdev", "rights"),
        ] {
            let (findings, usable) = with(&[], path);
            assert!(usable.is_empty(), "without {path}");
            assert!(!about(&findings, what).mend.is_empty());
        }
    }
}
