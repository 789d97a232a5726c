# SPDX-License-Identifier: MPL-2.0
"""What every test shares: the scheme under test, bounds on time, peers in
other processes, sockets that cannot block for ever.

A test is a function marked with `@test`; tests/run starts each in a process
of its own (zt/main.py). Nothing here sleeps to let something happen: a wait
is always for an event, and its bound is only there to turn a hang into a
failure.
"""

import os
import time

#: The scheme under test, `rdma` or (to prove the tests) `tcp`.
SCHEME = os.environ.get("ZT_SCHEME", "rdma")
#: The host of this machine that tests bind to and connect to, and what else it goes by:
#: a second address, a name, the interface, an IPv6 address.
HOST = os.environ.get("ZT_HOST", "127.0.0.1")
HOST_SECOND = os.environ.get("ZT_HOST_SECOND", "127.0.0.7")
HOST_NAME = os.environ.get("ZT_HOST_NAME", "localhost")
HOST_INTERFACE = os.environ.get("ZT_HOST_INTERFACE", "lo")
HOST6 = os.environ.get("ZT_HOST6", "::1")
#: How much longer than on a plain machine things may take here.
SLOW = float(os.environ.get("ZT_SLOW", "1"))
#: Bytes of the largest message; less than there are elsewhere where all is slow.
SIZE_MAX = int(os.environ.get("ZT_SIZE_MAX", str(64 << 20)))
#: By what the long tests divide their number of messages or rounds here.
SHORT = int(os.environ.get("ZT_SHORT", "1"))
#: Seconds after which a wait is taken for a hang.
WAIT = 30 * SLOW

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON = "/usr/bin/python3"


class Missing(Exception):
    """Something that a test needs is not on this machine."""


def test(bound=60, alone=False, needs=None, only=""):
    """Mark a function as a test that a hang bound of `bound` seconds ends;
    `alone`: nothing else may run beside it; `needs`: an environment variable
    without which it is no part of the run, nor is it where `only` does not hold:
    "rdma", not over tcp://; "soft", on no device but that one; or both words."""

    def mark(function):
        function.zt_bound = bound
        function.zt_alone = alone
        function.zt_needs = needs
        function.zt_only = only
        return function

    return mark


def cases(few, first=1):
    """The numbers of the cases to run: `few` from `first` on, unless the user said other (tests/run --cases)."""
    start = int(os.environ.get("ZT_SEED", first))
    return range(start, start + int(os.environ.get("ZT_CASES", few)))


def seconds_left():
    """Until the runner ends this test."""
    end = float(os.environ.get("ZT_END", "0"))
    return end - time.monotonic() if end else 3600.0


def prefix():
    """Where the library under test is installed."""
    name = "ZMQ_RDMA_PREFIX" if SCHEME == "rdma" else "ZMQ_STOCK_PREFIX"
    path = os.environ.get("ZMQ_RDMA_PREFIX") or os.environ.get(name)
    if not path:
        raise Missing(f"{name} is not set: build and install first, then give the prefix")
    return path


def libdir():
    """The directory of the library under test."""
    return os.path.join(prefix(), "lib")


def some(count):
    """`count` messages or rounds, or on a slow machine the fewer that ZT_SHORT makes of them."""
    return max(1, count // SHORT)


def by_verbs():
    """Whether the connections under test must be those of an RDMA device."""
    return SCHEME == "rdma" and os.environ.get("ZMQ_RDMA_DEVICE") == "verbs"


def both(function):
    """`function(scheme)` for tcp and for the scheme under test, as a pair."""
    return function("tcp"), function(SCHEME)
