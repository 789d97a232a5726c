# SPDX-License-Identifier: MPL-2.0
"""Which library was loaded, and what it says of itself."""

import zmq

import zt
from zt import test


@test()
def loaded():
    """Unmodified pyzmq works on the library under test (main.py checks /proc/self/maps)."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        mapped = sorted({line.split()[-1] for line in maps if "libzmq.so" in line})
    print("libzmq mapped:", mapped, "version:", zmq.zmq_version(), "pyzmq:", zmq.__version__)
    assert zmq.__file__.startswith("/usr/lib/python3/dist-packages/"), zmq.__file__
    assert len(mapped) == 1


@test()
def has():
    """zmq_has knows rdma, and everything that Debian's libzmq5 has is there."""
    have = {name: bool(zmq.has(name)) for name in ("rdma", "ipc", "curve", "gssapi", "pgm", "norm")}
    assert have.pop("rdma") == (zt.SCHEME == "rdma")
    assert all(have.values()), have
