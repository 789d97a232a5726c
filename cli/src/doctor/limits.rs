// SPDX-License-Identifier: MPL-2.0
//! What this process may use: locked memory, descriptors, huge pages, what a container
//! leaves of them, and what a firewall may keep back.

#![allow(unsafe_code)]

use super::{Finding, Level};
use crate::machine::{Device, Machine, Transport};
use crate::out::bytes;

/// What was found.
pub fn judge(machine: &Machine, devices: &[Device]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !devices.is_empty() {
        let status = machine.text("/proc/self/status");
        findings.push(memlock(
            limit(libc::RLIMIT_MEMLOCK),
            may_lock(&status) && !any_siw(),
        ));
        findings.extend(rdma_cgroup(machine));
    }
    findings.push(descriptors(limit(libc::RLIMIT_NOFILE)));
    findings.push(huge_pages(machine));
    findings.push(firewall(devices));
    findings.extend(container(machine).map(in_container));
    findings
}

/// The soft limit; `None`: there is none.
fn limit(which: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: valid for writes.
    let got = unsafe { libc::getrlimit(which, &mut limit) };
    (got == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// CAP_IPC_LOCK, whose bearer the kernel does not hold to the limit (siw apart).
fn may_lock(status: &str) -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let caps = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    caps.is_some_and(|caps| caps >> CAP_IPC_LOCK & 1 == 1)
}

/// siw holds everybody to it.
fn any_siw() -> bool {
    let is_siw = |device: std::fs::DirEntry| {
        std::fs::read_to_string(device.path().join("node_desc"))
            .is_ok_and(|words| words.starts_with("Software iWARP"))
    };
    std::fs::read_dir("/sys/class/infiniband")
        .is_ok_and(|mut devices| devices.any(|one| one.is_ok_and(is_siw)))
}

/// Below this the library uses small slots and windows.
const SMALL: u64 = 8 << 20;
/// Below this hardly one connection can be had.
const TINY: u64 = 256 << 10;

fn memlock(limit: Option<u64>, may_lock: bool) -> Finding {
    let Some(limit) = limit.filter(|_| !may_lock) else {
        return Finding::new(Level::Ok, "memlock", "There is no limit on pinned memory.");
    };
    if limit > SMALL {
        let says = format!("{} of memory may be pinned (ulimit -l).", bytes(limit));
        return Finding::new(Level::Ok, "memlock", says);
    }
    let says = if limit < TINY {
        format!(
            "Only {} of memory may be pinned (ulimit -l): enough for very few RDMA \
             connections, or for none.",
            bytes(limit)
        )
    } else {
        format!(
            "Only {} of memory may be pinned (ulimit -l): RDMA connections use small windows, \
             and few of them fit.",
            bytes(limit)
        )
    };
    Finding::new(Level::Warn, "memlock", says)
        .mend("in a shell: ulimit -l unlimited    # up to the hard limit")
        .mend("for users: echo '* - memlock unlimited' > /etc/security/limits.d/rdma.conf, then log in again")
        .mend("for a service: LimitMEMLOCK=infinity    # in its systemd unit")
        .mend("in a container: docker run --ulimit memlock=-1 ...")
}

fn rdma_cgroup(machine: &Machine) -> Option<Finding> {
    let group = machine.text("/proc/self/cgroup");
    let path = group.lines().find_map(|line| line.strip_prefix("0::"))?;
    let text = machine.text(&format!("/sys/fs/cgroup{path}/rdma.max"));
    let bound = text.lines().find(|line| {
        line.split_whitespace()
            .skip(1)
            .any(|limit| !limit.ends_with("=max"))
    })?;
    let says = format!("This control group limits what it may use of a device: {bound}.");
    let finding = Finding::new(Level::Note, "cgroup", says);
    Some(finding.mend(format!(
        "raise it in /sys/fs/cgroup{path}/rdma.max, as root"
    )))
}

fn descriptors(limit: Option<u64>) -> Finding {
    match limit {
        Some(limit) if limit < 4096 => {
            let says = format!(
                "{limit} descriptors may be open (ulimit -n); a connection takes 1 over soft, and \
                 up to 4 over an RDMA device."
            );
            Finding::new(Level::Note, "descriptors", says)
                .mend("many connections: ulimit -n 65536, or LimitNOFILE= in a systemd unit")
        }
        limit => {
            let limit = limit.map_or("any number of".into(), |limit| limit.to_string());
            let says = format!("{limit} descriptors may be open.");
            Finding::new(Level::Ok, "descriptors", says)
        }
    }
}

fn huge_pages(machine: &Machine) -> Finding {
    let text = machine.text("/proc/meminfo");
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let (all, free) = (number("HugePages_Total:"), number("HugePages_Free:"));
    let says = format!("Huge pages: {free} of {all} free. rdma:// needs none.");
    Finding::new(Level::Ok, "hugepages", says)
}

/// Their rules cannot be read from here; what they must allow can be told.
fn firewall(devices: &[Device]) -> Finding {
    let roce = devices
        .iter()
        .any(|device| device.transport == Transport::RoCE);
    let says = if roce {
        "Firewalls on the way must allow UDP port 4791 (RoCE), and for peers without RoCE the TCP \
         port of each endpoint (soft, iWARP)."
    } else {
        "Firewalls on the way must allow the TCP port of each endpoint, as for tcp:// (soft, \
         iWARP); between RoCE devices, UDP port 4791."
    };
    let finding = Finding::new(Level::Note, "firewall", says);
    if roce {
        return finding.mend(
            "iptables -I INPUT -p udp --dport 4791 -j ACCEPT    # nft, firewalld, ufw alike",
        );
    }
    finding
}

/// What kind of container this is, if it is one.
pub fn container(machine: &Machine) -> Option<&'static str> {
    if machine.has("/.dockerenv") {
        return Some("Docker");
    }
    if machine.has("/run/.containerenv") {
        return Some("Podman");
    }
    let environment = machine.text("/proc/1/environ");
    let is_other = environment
        .split('\0')
        .any(|word| word.starts_with("container="));
    is_other.then_some("a container")
}

fn in_container(kind: &str) -> Finding {
    let says = format!(
        "This is {kind}: what it may use of RDMA is decided where it is started. It must be given \
         the devices, their network, and the right to pin memory."
    );
    Finding::new(Level::Note, "container", says).mend(
        "docker run --network=host --device=/dev/infiniband --ulimit memlock=-1 ...    \
         # podman alike",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::fake;

    #[test]
    fn a_small_limit_of_pinned_memory_is_told_with_its_size() {
        assert_eq!(memlock(None, false).level, Level::Ok);
        assert_eq!(memlock(Some(65536), true).level, Level::Ok, "CAP_IPC_LOCK");
        let small = memlock(Some(8 << 20), false);
        assert_eq!(small.level, Level::Warn);
        assert!(small.says.contains("8.0 MiB") && small.mend.len() >= 3);
        assert!(memlock(Some(65536), false).says.contains("64 KiB"));
        assert!(may_lock("CapEff:\t0000000000004000\n"));
        assert!(!may_lock("CapEff:\t0000000000000000\n"));
    }

    #[test]
    fn few_descriptors_are_told() {
        assert_eq!(descriptors(Some(1024)).level, Level::Note);
        assert_eq!(descriptors(None).level, Level::Ok);
    }

    #[test]
    fn a_container_is_seen_in_its_dress() {
        assert_eq!(container(&fake(&[("/.dockerenv", "")]).1), Some("Docker"));
        let podman = fake(&[("/proc/1/environ", "A=b\0container=podman\0")]);
        assert!(container(&podman.1).is_some());
        assert_eq!(container(&fake(&[("/proc/1/environ", "A=b\0")]).1), None);
    }

    #[test]
    fn the_control_group_s_share_is_told() {
        let (_dir, machine) = fake(&[
            ("/proc/self/cgroup", "0::/box\n"),
            (
                "/sys/fs/cgroup/box/rdma.max",
                "rxe0 hca_handle=2 hca_object=max\n",
            ),
        ]);
        assert!(rdma_cgroup(&machine).unwrap().says.contains("hca_handle=2"));
    }
}
