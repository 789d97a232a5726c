# SPDX-License-Identifier: MPL-2.0
"""What the tests of socket options share: options that pyzmq does not know by
name, and a look at the descriptors behind a socket."""

import ctypes
import os
import socket as posix

import zmq

import zt

# libzmq's numbers; pyzmq has no names for those that are drafts.
BACKLOG = 19
TCP_MAXRT = 80
USE_FD = 89
BINDTODEVICE = 92
ZAP_ENFORCE_DOMAIN = 93
LOOPBACK_FASTPATH = 94
MULTICAST_LOOP = 96
XPUB_MANUAL_LAST_VALUE = 98
SOCKS_USERNAME = 99
SOCKS_PASSWORD = 100
IN_BATCH_SIZE = 101
OUT_BATCH_SIZE = 102
ONLY_FIRST_SUBSCRIBE = 108
RECONNECT_STOP = 109
HELLO_MSG = 110
DISCONNECT_MSG = 111
PRIORITY = 112
BUSY_POLL = 113
HICCUP_MSG = 114
XSUB_VERBOSE_UNSUBSCRIBE = 115
TOPICS_COUNT = 116


def covers(*options):
    """Which options of the manual's table a test is for (table.py reads this)."""
    del options
    return lambda function: function


def _library():
    library = ctypes.CDLL(None, use_errno=True)
    try:
        library.zmq_setsockopt
    except AttributeError:
        with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
            path = next(line.split()[-1] for line in maps if "libzmq.so" in line)
        library = ctypes.CDLL(path, use_errno=True)
    return library


def put(socket, option, value):
    """Set an option by its number; the value is an int or bytes."""
    library = _library()
    if isinstance(value, int):
        value = ctypes.c_int(value)
        at, size = ctypes.byref(value), ctypes.sizeof(value)
    else:
        at, size = value, len(value)
    if library.zmq_setsockopt(ctypes.c_void_p(socket.underlying), option, at, ctypes.c_size_t(size)) != 0:
        code = library.zmq_errno()
        raise zmq.ZMQError(code)


def drafts():
    """Whether the library was built with libzmq's draft options."""
    return bool(zmq.has("draft"))


def descriptors(port, listening=False):
    """The TCP sockets of this process at a port (either end), or those that listen there. Only
    device soft has such."""
    found, known = [], set()
    for name in os.listdir("/proc/self/fd"):
        try:
            what = os.readlink(f"/proc/self/fd/{name}")
            if not what.startswith("socket:") or what in known:
                continue
            known.add(what)
            one = posix.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        if one.family in (posix.AF_INET, posix.AF_INET6) and one.type == posix.SOCK_STREAM:
            if bool(one.getsockopt(posix.SOL_SOCKET, posix.SO_ACCEPTCONN)) == listening:
                ends = [one.getsockname()]
                try:
                    ends.append(one.getpeername())
                except OSError:
                    pass
                if any(end[1] == port for end in ends):
                    found.append(one)
                    continue
        one.close()
    return found


def seen(port, level, name, size=None, listening=False):
    """The values of a kernel option at the sockets of a port, sorted."""
    sockets = descriptors(port, listening)
    assert sockets, f"no socket at port {port}"
    try:
        if size is None:
            return sorted(one.getsockopt(level, name) for one in sockets)
        return sorted(one.getsockopt(level, name, size) for one in sockets)
    finally:
        for one in sockets:
            one.close()


def soft():
    """Whether device soft serves: only it has kernel sockets to look at."""
    return zt.SCHEME == "tcp" or os.environ.get("ZMQ_RDMA_DEVICE", "auto") != "verbs"
