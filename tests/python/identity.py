# SPDX-License-Identifier: MPL-2.0
"""Which library was loaded, and what it says of itself."""

import zmq

import zt
from zt import test
from zt.sock import bound, context, sock


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


@test()
def fork_leaves_parent_alone():
    """A forked child that exits at once closes nothing of the parent's."""
    import os  # pylint: disable=import-outside-toplevel

    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        push.connect(bound(pull))
        for number in range(20):
            push.send(b"%d" % number)
            child = os.fork()
            if child == 0:
                os._exit(0) if number % 2 else os.execv("/bin/true", ["true"])
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert pull.recv() == b"%d" % number
