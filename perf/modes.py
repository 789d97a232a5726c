# SPDX-License-Identifier: MPL-2.0
"""What is measured: each mode is a list of cells, and the variants that are compared in each."""

import dataclasses

SIZES = [1 << n for n in (0, 6, 8, 10, 12, 13, 14, 16, 18, 20, 22, 24)]


@dataclasses.dataclass(frozen=True)
class Cell:
    """One measurement, to be made with each variant."""

    what: str
    size: int
    ms: int
    peers: int = 1
    io_threads: int = 1


@dataclasses.dataclass(frozen=True)
class Variant:
    """What a column of a table stands for."""

    name: str
    scheme: str
    env: tuple = ()


@dataclasses.dataclass(frozen=True)
class Mode:
    """Cells, and the name of the cell's field that tells the rows of a table apart."""

    title: str
    cells: list
    variants: list
    row: str


def _plain(schemes, wanted):
    return [Variant(scheme, scheme) for scheme in wanted if scheme in schemes]


def _sizes(schemes, sizes, ms, quick):
    sizes = sizes or ([1, 64, 4096, 65536, 1 << 20] if quick else SIZES)
    cells = [Cell(what, size, ms) for what in ("latency", "throughput") for size in sizes]
    return Mode("Two sockets, by size of the message", cells, _plain(schemes, ("rdma", "tcp", "ipc", "inproc")), "size")


def _fanout(schemes, sizes, ms, quick):
    peers = (1, 16) if quick else (1, 16, 64)
    cells = [Cell("fanout", size, ms, peers=n) for size in sizes or (64, 4096) for n in peers]
    return Mode("PUB/SUB fan-out, by subscribers", cells, _plain(schemes, ("rdma", "tcp", "ipc", "inproc")), "peers")


def _threads(schemes, sizes, ms, quick):
    threads = (1, 2) if quick else (1, 2, 4)
    cells = [Cell("throughput", size, ms, 4, n) for size in sizes or (64, 65536) for n in threads]
    return Mode("Four pairs of sockets, by I/O threads", cells, _plain(schemes, ("rdma", "tcp", "ipc")), "io_threads")


def _memory(schemes, sizes, ms, quick):
    peers = (1, 100) if quick else (1, 100, 1000, 5000)
    cells = [Cell("crowd", size, ms if quick else max(ms, 3000), peers=n) for size in sizes or (1024,) for n in peers]
    return Mode("Many connections to one socket, by connections", cells, _plain(schemes, ("rdma", "tcp")), "peers")


def _busy(schemes, sizes, ms, quick):
    sizes = sizes or ([64, 65536] if quick else [64, 1024, 65536, 1 << 20])
    cells = [Cell(what, size, ms) for what in ("latency", "throughput") for size in sizes]
    variants = []
    if "rdma" in schemes:
        variants = [Variant(how, "rdma", (("ZMQ_RDMA_BUSY_POLL", how),)) for how in ("never", "adaptive", "always")]
    return Mode("Busy polling, by size of the message", cells, variants + _plain(schemes, ("tcp",)), "size")


#: By name, in the order in which they run.
MODES = {"sizes": _sizes, "fanout": _fanout, "threads": _threads, "memory": _memory, "busy": _busy}
