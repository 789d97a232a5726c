// SPDX-License-Identifier: MPL-2.0
//! What the kernel says of RDMA devices, as data. Nothing is opened and
//! nobody is asked but `/sys` and `/proc`, below a root that tests may choose.

use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// What lies beneath a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Transport {
    /// InfiniBand.
    InfiniBand,
    /// RDMA over Converged Ethernet: UDP port 4791.
    RoCE,
    /// RDMA over TCP.
    #[serde(rename = "iWARP")]
    Iwarp,
}

impl Transport {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Transport::InfiniBand => "InfiniBand",
            Transport::RoCE => "RoCE",
            Transport::Iwarp => "iWARP",
        }
    }
}

/// A name by which a port is known on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gid {
    /// Its place in the port's table.
    pub index: u32,
    /// The 16 bytes, as an IPv6 address.
    pub gid: Ipv6Addr,
    /// `RoCE v2`, `IB/RoCE v1`, or empty.
    pub kind: String,
    /// The IPv4 address that it stands for, if any.
    pub ipv4: Option<IpAddr>,
}

/// A port of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Port {
    /// From 1.
    pub number: u32,
    /// `ACTIVE`, `DOWN`, `INIT`, `ARMED`.
    pub state: String,
    /// `LinkUp`, `Disabled`, `Polling`.
    pub link: String,
    /// As the kernel has it, `100 Gb/sec (4X EDR)`.
    pub rate: String,
    /// The network interface that it shares, if any.
    pub interface: Option<String>,
    /// The interface's MTU in bytes.
    pub interface_mtu: Option<u32>,
    /// Bytes of a RoCE packet's payload, by that MTU.
    pub roce_mtu: Option<u32>,
    /// Addresses of the interface.
    pub addresses: Vec<IpAddr>,
    /// Names on the wire.
    pub gids: Vec<Gid>,
}

/// An RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Device {
    /// `mlx5_0`, `rxe0`.
    pub name: String,
    /// What lies beneath.
    pub transport: Transport,
    /// The kernel's driver, `mlx5_core`, `rxe`, or empty.
    pub driver: String,
    /// Firmware.
    pub firmware: String,
    /// Its node in `/dev/infiniband`, `uverbs0`.
    pub node: Option<String>,
    /// Its ports.
    pub ports: Vec<Port>,
}

/// A machine: the one we are on, or a test's.
pub struct Machine {
    root: PathBuf,
}

impl Machine {
    /// This one.
    pub fn here() -> Machine {
        Machine::below(Path::new("/"))
    }

    /// One whose `/sys`, `/proc`, `/dev` and `/etc` are below a directory.
    pub fn below(root: &Path) -> Machine {
        Machine {
            root: root.to_path_buf(),
        }
    }

    /// A path of this machine.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The text of a file, without the white space around it; empty if there is none.
    pub fn text(&self, path: &str) -> String {
        let text = fs::read_to_string(self.path(path)).unwrap_or_default();
        text.trim().to_string()
    }

    /// Whether a file is there.
    pub fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Names in a directory, sorted; those with numbers by their numbers.
    pub fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(path)) else {
            return Vec::new();
        };
        let names = entries.flatten().map(|e| e.file_name());
        let mut names: Vec<_> = names.map(|n| n.to_string_lossy().into_owned()).collect();
        names.sort_by_key(|name| (name.parse::<u32>().ok(), name.clone()));
        names
    }

    fn link_name(&self, path: &str) -> String {
        let to = fs::read_link(self.path(path)).unwrap_or_default();
        let name = to.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// All RDMA devices.
    pub fn devices(&self) -> Vec<Device> {
        let names = self.list("/sys/class/infiniband");
        names.iter().map(|name| self.device(name)).collect()
    }

    fn device(&self, name: &str) -> Device {
        let at = format!("/sys/class/infiniband/{name}");
        let iwarp = self.text(&format!("{at}/node_type")).contains("RNIC");
        let ports: Vec<u32> = self
            .list(&format!("{at}/ports"))
            .iter()
            .filter_map(|number| number.parse().ok())
            .collect();
        let layer = |n: &u32| self.text(&format!("{at}/ports/{n}/link_layer"));
        let transport = match ports.first().map(layer).as_deref() {
            _ if iwarp => Transport::Iwarp,
            Some("InfiniBand") => Transport::InfiniBand,
            _ => Transport::RoCE,
        };
        let ports = ports.iter().map(|&n| self.port(name, n, transport));
        Device {
            name: name.to_string(),
            transport,
            driver: self.driver(name),
            firmware: self.text(&format!("{at}/fw_ver")),
            node: self.node(name),
            ports: ports.collect(),
        }
    }

    fn driver(&self, device: &str) -> String {
        let driver = self.link_name(&format!("/sys/class/infiniband/{device}/device/driver"));
        // The software devices have none that /sys tells of.
        let parent = self.text(&format!("/sys/class/infiniband/{device}/parent"));
        if driver.is_empty() && !parent.is_empty() {
            return "rxe".into();
        }
        driver
    }

    fn node(&self, device: &str) -> Option<String> {
        let nodes = self.list("/sys/class/infiniband_verbs");
        nodes
            .into_iter()
            .find(|node| self.text(&format!("/sys/class/infiniband_verbs/{node}/ibdev")) == device)
    }

    fn port(&self, device: &str, number: u32, transport: Transport) -> Port {
        let at = format!("/sys/class/infiniband/{device}/ports/{number}");
        let word = |name: &str| {
            let text = self.text(&format!("{at}/{name}"));
            text.split_once(": ")
                .map_or(text.clone(), |(_, w)| w.to_string())
        };
        let gids = self.gids(&at);
        let interface = self.interface(device, &at, &gids);
        let mtu = interface.as_ref().and_then(|name| {
            self.text(&format!("/sys/class/net/{name}/mtu"))
                .parse()
                .ok()
        });
        Port {
            number,
            state: word("state"),
            link: word("phys_state"),
            rate: self.text(&format!("{at}/rate")),
            roce_mtu: mtu.filter(|_| transport == Transport::RoCE).map(roce_mtu),
            interface_mtu: mtu,
            addresses: interface
                .as_deref()
                .map_or(Vec::new(), |name| self.addresses(name)),
            interface,
            gids,
        }
    }

    fn gids(&self, port: &str) -> Vec<Gid> {
        let indices = self.list(&format!("{port}/gids"));
        let gids = indices.iter().filter_map(|index| {
            let gid: Ipv6Addr = self.text(&format!("{port}/gids/{index}")).parse().ok()?;
            Some(Gid {
                index: index.parse().ok()?,
                gid,
                kind: self.text(&format!("{port}/gid_attrs/types/{index}")),
                ipv4: gid.to_ipv4_mapped().map(IpAddr::V4),
            })
        });
        gids.filter(|gid| !gid.gid.is_unspecified()).collect()
    }

    /// RoCE names it beside each GID; the first GID of iWARP begins with its hardware address, and
    /// that of IPoIB ends with InfiniBand's; hardware has it below its device, with those of its
    /// other ports.
    fn interface(&self, device: &str, port: &str, gids: &[Gid]) -> Option<String> {
        let by_gid = self
            .list(&format!("{port}/gid_attrs/ndevs"))
            .iter()
            .map(|index| self.text(&format!("{port}/gid_attrs/ndevs/{index}")))
            .find(|name| !name.is_empty());
        let below = || {
            let names = self.list(&format!("/sys/class/infiniband/{device}/device/net"));
            names.into_iter().next()
        };
        by_gid
            .or_else(|| self.by_hardware_address(gids.first()?.gid.octets()))
            .or_else(below)
    }

    /// Of several, which then lie above one another, the lowest.
    fn by_hardware_address(&self, gid: [u8; 16]) -> Option<String> {
        let is_it = |name: &String| {
            let text = self.text(&format!("/sys/class/net/{name}/address"));
            let bytes = text.split(':').map(|hex| u8::from_str_radix(hex, 16));
            let bytes: Result<Vec<u8>, _> = bytes.collect();
            bytes.is_ok_and(|bytes| match bytes.len() {
                6 => gid.starts_with(&bytes),
                20 => bytes.ends_with(&gid),
                _ => false,
            })
        };
        let height = |name: &String| {
            let is_virtual = !self.has(&format!("/sys/class/net/{name}/device"));
            (is_virtual, name.len())
        };
        let all = self.list("/sys/class/net").into_iter().filter(is_it);
        all.min_by_key(height)
    }

    fn addresses(&self, interface: &str) -> Vec<IpAddr> {
        // The kernel lists them for itself only, not below a test's root.
        if self.root != Path::new("/") {
            return Vec::new();
        }
        let all = zmq_rdma::os::addr::of_interfaces();
        let ours = all.into_iter().filter(|(name, _)| name == interface);
        ours.filter_map(|(_, ip)| ip).collect()
    }

    /// Network adapters whose RDMA driver is not loaded: interface, its driver, the module that lacks.
    pub fn without_rdma_module(&self) -> Vec<(String, String, &'static str)> {
        let interfaces = self.list("/sys/class/net").into_iter();
        let found = interfaces.filter_map(|name| {
            let driver = self.link_name(&format!("/sys/class/net/{name}/device/driver"));
            let (_, module) = MODULES.iter().find(|(of, _)| *of == driver)?;
            let loaded = self.has(&format!("/sys/module/{module}"));
            (!loaded).then_some((name, driver, *module))
        });
        found.collect()
    }
}

/// RDMA modules of network drivers.
const MODULES: &[(&str, &str)] = &[
    ("mlx5_core", "mlx5_ib"),
    ("mlx4_core", "mlx4_ib"),
    ("mlx4_en", "mlx4_ib"),
    ("ice", "irdma"),
    ("i40e", "irdma"),
    ("bnxt_en", "bnxt_re"),
    ("cxgb4", "iw_cxgb4"),
    ("qede", "qedr"),
    ("hns3", "hns_roce_hw_v2"),
    ("mana", "mana_ib"),
];

/// The provider library of a device, by its name or driver.
pub fn provider(device: &Device) -> Option<&'static str> {
    const PROVIDERS: &[(&str, &str)] = &[
        ("rxe", "rxe"),
        ("siw", "siw"),
        ("mlx5", "mlx5"),
        ("mlx4", "mlx4"),
        ("irdma", "irdma"),
        ("ice", "irdma"),
        ("i40", "irdma"),
        ("bnxt", "bnxt_re"),
        ("cxgb4", "cxgb4"),
        ("qed", "qedr"),
        ("hns", "hns"),
        ("efa", "efa"),
        ("hfi1", "hfi1verbs"),
        ("mthca", "mthca"),
        ("ocrdma", "ocrdma"),
        ("vmw_pvrdma", "vmw_pvrdma"),
        ("erdma", "erdma"),
        ("mana", "mana"),
    ];
    let of = |text: &str| PROVIDERS.iter().find(|(start, _)| text.starts_with(start));
    of(&device.driver)
        .or_else(|| of(&device.name))
        .map(|(_, library)| *library)
}

/// The payload of a RoCE packet on an interface of this MTU: a power of two from 256
/// to 4096, with IP, UDP and InfiniBand headers around it.
fn roce_mtu(interface: u32) -> u32 {
    const AROUND: u32 = 76;
    let room = interface.saturating_sub(AROUND);
    [4096, 2048, 1024, 512, 256]
        .into_iter()
        .find(|&mtu| mtu <= room)
        .unwrap_or(256)
}

#[cfg(test)]
pub mod tests;
