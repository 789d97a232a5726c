// SPDX-License-Identifier: MPL-2.0
//! Which network interface an RDMA device stands for, by what the kernel lists in
//! `/sys/class`, so that a device may be named where an interface may.

use std::fs;
use std::path::{Path, PathBuf};

const CLASS: &str = "/sys/class";

/// Whether the kernel lists an RDMA device.
pub(super) fn any_listed() -> bool {
    !names(&Path::new(CLASS).join("infiniband")).is_empty()
}

/// The network interface of an RDMA device.
pub fn interface_of(device: &str) -> Option<String> {
    interface_below(Path::new(CLASS), device)
}

/// Interfaces of iWARP devices: their TCP ports are not ours alone.
pub(in crate::device) fn iwarp_interfaces() -> Vec<String> {
    let devices = Path::new(CLASS).join("infiniband");
    let is_iwarp = |device: &String| {
        fs::read_to_string(devices.join(device).join("node_type"))
            .is_ok_and(|kind| kind.contains("RNIC"))
    };
    let all = names(&devices).into_iter().filter(is_iwarp);
    all.filter_map(|device| interface_of(&device)).collect()
}

/// Whether one of the devices is siw, which says so of itself and lets nobody change that.
pub(super) fn any_siw() -> bool {
    let devices = Path::new(CLASS).join("infiniband");
    names(&devices).iter().any(|device| {
        fs::read_to_string(devices.join(device).join("node_desc"))
            .is_ok_and(|words| words.starts_with("Software iWARP"))
    })
}

fn interface_below(class: &Path, device: &str) -> Option<String> {
    if device.is_empty() || device.contains('/') || device.starts_with('.') {
        return None;
    }
    let ports = class.join("infiniband").join(device).join("ports");
    names(&ports).iter().find_map(|port| {
        let port = ports.join(port);
        by_gids(&port).or_else(|| by_hardware_address(class, &port))
    })
}

/// RoCE: each GID names its interface.
fn by_gids(port: &Path) -> Option<String> {
    let at = port.join("gid_attrs/ndevs");
    let mut indices: Vec<PathBuf> = names(&at).iter().map(|index| at.join(index)).collect();
    indices.sort_by_key(|path| path.as_os_str().len());
    // An index without an entry cannot be read, nor can any of InfiniBand.
    indices.iter().find_map(|index| {
        let name = fs::read_to_string(index).ok()?;
        Some(name.trim().to_string()).filter(|name| !name.is_empty())
    })
}

/// The port's first GID begins with the hardware address of the interface (iWARP), or is the
/// end of it (IPoIB). Of several, which then lie above one another, the lowest.
fn by_hardware_address(class: &Path, port: &Path) -> Option<String> {
    let gid = digits(&port.join("gids/0"))?;
    let net = class.join("net");
    let is_it = |interface: &String| {
        digits(&net.join(interface).join("address")).is_some_and(|address| match address.len() {
            12 => gid.starts_with(&address),
            40 => address.ends_with(&gid),
            _ => false,
        })
    };
    let height = |interface: &String| {
        let is_virtual = !net.join(interface).join("device").exists();
        (is_virtual, interface.len())
    };
    let all = names(&net).into_iter().filter(is_it);
    all.min_by_key(height)
}

/// Names in a directory, sorted.
fn names(at: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(at) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut names: Vec<_> = names.map(|n| n.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The hexadecimal digits of a file, without colons.
fn digits(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    Some(text.chars().filter(char::is_ascii_hexdigit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `/sys/class` of these files, which goes with it.
    struct Class(PathBuf);

    impl Class {
        fn new(name: &str, files: &[(&str, &str)]) -> Class {
            let name = format!("zmq-rdma-class-{}-{name}", std::process::id());
            let class = Class(std::env::temp_dir().join(name));
            for (path, text) in files {
                let path = class.0.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, format!("{text}\n")).unwrap();
            }
            class
        }

        fn interface(&self, device: &str) -> Option<String> {
            interface_below(&self.0, device)
        }
    }

    impl Drop for Class {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_device_of_infiniband_has_the_interface_of_its_guid() {
        let class = Class::new(
            "ib",
            &[
                (
                    "infiniband/mlx5_1/ports/1/gids/0",
                    "fe80:0000:0000:0000:f452:1403:007b:cba2",
                ),
                (
                    "net/ib0/address",
                    "80:00:02:08:fe:80:00:00:00:00:00:00:f4:52:14:03:00:7b:cb:a1",
                ),
                (
                    "net/ib1/address",
                    "80:00:02:09:fe:80:00:00:00:00:00:00:f4:52:14:03:00:7b:cb:a2",
                ),
                (
                    "net/ib1.8001/address",
                    "80:00:02:0a:fe:80:00:00:00:00:00:00:f4:52:14:03:00:7b:cb:a2",
                ),
                ("net/lo/address", "00:00:00:00:00:00"),
            ],
        );
        assert_eq!(class.interface("mlx5_1").as_deref(), Some("ib1"));
        assert_eq!(class.interface("mlx5_0"), None);
    }

    #[test]
    fn a_device_of_iwarp_has_the_card_and_not_what_lies_above_it() {
        let class = Class::new(
            "iwarp",
            &[
                (
                    "infiniband/cxgb4_0/ports/1/gids/0",
                    "0007:4328:bd00:0000:0000:0000:0000:0000",
                ),
                ("net/br0/address", "00:07:43:28:bd:00"),
                ("net/enp1s0f4/address", "00:07:43:28:bd:00"),
                ("net/enp1s0f4/device/vendor", "0x1425"),
                ("net/enp1s0f4d1/address", "00:07:43:28:bd:08"),
            ],
        );
        assert_eq!(class.interface("cxgb4_0").as_deref(), Some("enp1s0f4"));
    }

    #[test]
    fn a_device_of_roce_has_the_interface_of_its_first_gid() {
        let port = "infiniband/rxe0/ports/1";
        let ndev = |index: &str| format!("{port}/gid_attrs/ndevs/{index}");
        let (first, later) = (ndev("1"), ndev("10"));
        let class = Class::new("roce", &[(&later, "eth1"), (&first, "eth0")]);
        assert_eq!(class.interface("rxe0").as_deref(), Some("eth0"));
    }

    #[test]
    fn what_is_no_name_is_no_device() {
        assert_eq!(interface_of("../lo"), None);
        assert_eq!(interface_of(""), None);
    }
}
