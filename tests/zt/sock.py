# SPDX-License-Identifier: MPL-2.0
"""Sockets for tests: every wait bounded, everything closed at the end."""

import contextlib
import itertools
import random
import socket as posix

import zmq
from zmq.utils.monitor import recv_monitor_message

import zt

ZMQ_EVENTS = {
    int(getattr(zmq, "EVENT_" + name)): name
    for name in (
        "CONNECTED CONNECT_DELAYED CONNECT_RETRIED LISTENING BIND_FAILED ACCEPTED ACCEPT_FAILED "
        "CLOSED CLOSE_FAILED DISCONNECTED MONITOR_STOPPED HANDSHAKE_FAILED_NO_DETAIL "
        "HANDSHAKE_SUCCEEDED HANDSHAKE_FAILED_PROTOCOL HANDSHAKE_FAILED_AUTH"
    ).split()
}


def wait_ms():
    """Bound of a blocking call, in milliseconds."""
    return int(zt.WAIT * 1000)


@contextlib.contextmanager
def context(io_threads=1):
    """A context whose end closes what is left (without linger) and terminates."""
    ctx = zmq.Context(io_threads)
    yield ctx
    # Not in a finally: after a failure the traceback matters, not the term.
    ctx.destroy(linger=0)


def sock(ctx, kind, **options):
    """A socket whose send and recv raise zmq.Again when they hang."""
    socket = ctx.socket(kind)
    socket.setsockopt(zmq.RCVTIMEO, wait_ms())
    socket.setsockopt(zmq.SNDTIMEO, wait_ms())
    for name, value in options.items():
        socket.setsockopt(getattr(zmq, name), value)
    return socket


def any_port(scheme):
    """The endpoint to bind to any port of the host."""
    return f"{scheme}://{zt.HOST}:*"


def bound(socket, endpoint=None):
    """Bind (default: any port of the host) and return the endpoint to connect to."""
    socket.bind(endpoint or any_port(zt.SCHEME))
    return last_endpoint(socket)


def last_endpoint(socket):
    """ZMQ_LAST_ENDPOINT as text."""
    return socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()


def port_of(endpoint):
    """The port number of an endpoint."""
    return int(endpoint.rsplit(":", 1)[1])


def dead_port():
    """A port where nobody listens, held (close the socket to give it back) so that nobody else takes it."""
    family = posix.AF_INET6 if ":" in zt.HOST else posix.AF_INET
    held = posix.socket(family, posix.SOCK_STREAM)
    held.setsockopt(posix.SOL_SOCKET, posix.SO_REUSEADDR, 1)
    held.bind((zt.HOST, 0))
    return held, held.getsockname()[1]


class Monitor:
    """The events of a socket."""

    _count = itertools.count()

    def __init__(self, socket, mask=zmq.EVENT_ALL):
        # pyzmq names its own after a descriptor, which may be used again too soon.
        address = f"inproc://zt-monitor-{next(self._count)}"
        socket.monitor(address, mask)
        self.socket = sock(socket.context, zmq.PAIR)
        self.socket.connect(address)

    def next(self, timeout=None):
        """The next event as (name, value, endpoint), or None after `timeout` seconds."""
        if not self.socket.poll((zt.WAIT if timeout is None else timeout) * 1000):
            return None
        word = recv_monitor_message(self.socket)
        name = ZMQ_EVENTS.get(int(word["event"]), str(word["event"]))
        return name, word["value"], word["endpoint"].decode()

    def until(self, *names, timeout=None):
        """Events up to the first of one of these names, which comes last."""
        seen = []
        while not seen or seen[-1][0] not in names:
            event = self.next(timeout)
            assert event, f"no {' or '.join(names)}; only {[one[0] for one in seen]}"
            seen.append(event)
        return seen

    def wait_for(self, name, count=1):
        """Wait until `name` has come `count` times."""
        return [self.until(name)[-1] for _ in range(count)]


def blob(seed, size):
    """`size` random bytes, the same for the same seed."""
    return random.Random(seed).randbytes(size)


def messages(seed, count, sizes):
    """`count` messages of random bytes; sizes drawn from `sizes`. The same for the same seed."""
    dice = random.Random(seed)
    for _ in range(count):
        yield dice.randbytes(dice.choice(sizes))
