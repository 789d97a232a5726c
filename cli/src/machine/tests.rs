// SPDX-License-Identifier: MPL-2.0
//! Machines of files, and what is read of them.

use super::*;

/// A machine of files: path and text.
pub fn fake(files: &[(&str, &str)]) -> (tempdir::Dir, Machine) {
    let dir = tempdir::Dir::new();
    for (path, text) in files {
        let path = dir.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let machine = Machine::below(dir.path());
    (dir, machine)
}

/// A directory that goes with its test.
pub mod tempdir {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering};

    pub struct Dir(PathBuf);

    impl Dir {
        pub fn new() -> Dir {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let n = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("zmq-rdma-test-{}-{n}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).unwrap();
            Dir(path)
        }

        pub fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// The files of a RoCE device in good order.
pub const ROCE: &[(&str, &str)] = &[
    ("/sys/class/infiniband/rxe0/node_type", "1: CA\n"),
    ("/sys/class/infiniband/rxe0/parent", "eth0\n"),
    ("/sys/class/infiniband/rxe0/fw_ver", "\n"),
    ("/sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE\n"),
    (
        "/sys/class/infiniband/rxe0/ports/1/phys_state",
        "5: LinkUp\n",
    ),
    (
        "/sys/class/infiniband/rxe0/ports/1/link_layer",
        "Ethernet\n",
    ),
    (
        "/sys/class/infiniband/rxe0/ports/1/rate",
        "2.5 Gb/sec (1X SDR)\n",
    ),
    (
        "/sys/class/infiniband/rxe0/ports/1/gids/0",
        "fe80:0000:0000:0000:0000:00ff:fe00:0001\n",
    ),
    (
        "/sys/class/infiniband/rxe0/ports/1/gids/1",
        "0000:0000:0000:0000:0000:ffff:0a4d:0001\n",
    ),
    (
        "/sys/class/infiniband/rxe0/ports/1/gids/2",
        "0000:0000:0000:0000:0000:0000:0000:0000\n",
    ),
    (
        "/sys/class/infiniband/rxe0/ports/1/gid_attrs/types/1",
        "RoCE v2\n",
    ),
    (
        "/sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/0",
        "eth0\n",
    ),
    ("/sys/class/infiniband_verbs/uverbs3/ibdev", "rxe0\n"),
    ("/sys/class/net/eth0/mtu", "1500\n"),
];

#[test]
fn a_roce_device_is_read() {
    let (_dir, machine) = fake(ROCE);
    let devices = machine.devices();
    let [device] = &devices[..] else {
        panic!("{devices:?}")
    };
    assert_eq!(
        (device.name.as_str(), device.transport),
        ("rxe0", Transport::RoCE)
    );
    assert_eq!(
        (device.driver.as_str(), provider(device)),
        ("rxe", Some("rxe"))
    );
    assert_eq!(device.node.as_deref(), Some("uverbs3"));
    let port = &device.ports[0];
    assert_eq!(
        (port.state.as_str(), port.link.as_str()),
        ("ACTIVE", "LinkUp")
    );
    assert_eq!(port.interface.as_deref(), Some("eth0"));
    assert_eq!(
        (port.interface_mtu, port.roce_mtu),
        (Some(1500), Some(1024))
    );
    assert_eq!(port.gids.len(), 2, "an empty entry is none");
    assert_eq!(port.gids[1].ipv4, Some("10.77.0.1".parse().unwrap()));
}

#[test]
fn an_iwarp_device_is_known_by_its_interface_s_hardware_address() {
    let (_dir, machine) = fake(&[
        ("/sys/class/infiniband/siw0/node_type", "4: RNIC"),
        ("/sys/class/infiniband/siw0/ports/1/state", "1: DOWN"),
        ("/sys/class/infiniband/siw0/ports/1/link_layer", "Ethernet"),
        (
            "/sys/class/infiniband/siw0/ports/1/gids/0",
            "0210:3a4b:5c6d:0000:0000:0000:0000:0000",
        ),
        ("/sys/class/net/w0/address", "02:10:3a:4b:5c:6d"),
        ("/sys/class/net/lo/address", "00:00:00:00:00:00"),
    ]);
    let device = machine.devices().remove(0);
    assert_eq!(device.transport, Transport::Iwarp);
    assert_eq!(device.ports[0].interface.as_deref(), Some("w0"));
    assert_eq!(device.ports[0].state, "DOWN");
    assert_eq!(provider(&device), Some("siw"));
}

#[test]
fn the_ports_of_an_infiniband_card_have_the_interfaces_of_their_guids() {
    let at = "/sys/class/infiniband/mlx4_0";
    let gid = |port: u32| {
        (
            format!("{at}/ports/{port}/gids/0"),
            format!("fe80::2:c9ff:{port}"),
        )
    };
    let layer = |port: u32| (format!("{at}/ports/{port}/link_layer"), "InfiniBand".into());
    let address = |name: &str, port: u32| {
        let above = "00:00:00:00:00:00:00:00:00:02:c9:ff";
        let text = format!("80:00:00:48:fe:80:{above}:00:{port:02x}");
        (format!("/sys/class/net/{name}/address"), text)
    };
    let below = |name: &str| (format!("{at}/device/net/{name}/mtu"), String::new());
    let files = [
        gid(1),
        gid(2),
        layer(1),
        layer(2),
        address("ib0", 1),
        address("ib0.8001", 1),
        address("ib1", 2),
        below("ib0"),
        below("ib1"),
    ];
    let files = files.each_ref().map(|(path, text)| (&path[..], &text[..]));
    let (_dir, machine) = fake(&files);
    let device = machine.devices().remove(0);
    assert_eq!(device.transport, Transport::InfiniBand);
    let interfaces = device.ports.iter().map(|port| port.interface.as_deref());
    assert_eq!(interfaces.collect::<Vec<_>>(), [Some("ib0"), Some("ib1")]);
}

#[test]
fn a_machine_without_rdma_has_no_devices() {
    let (_dir, machine) = fake(&[("/proc/meminfo", "")]);
    assert!(machine.devices().is_empty());
    assert!(machine.without_rdma_module().is_empty());
}

#[test]
fn the_mtu_of_roce_is_a_power_of_two() {
    assert_eq!(
        [9000, 4200, 2200, 1500, 576].map(roce_mtu),
        [4096, 4096, 2048, 1024, 256]
    );
}
