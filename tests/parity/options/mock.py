# SPDX-License-Identifier: MPL-2.0
"""A peer that speaks ZMTP byte by byte, over a ZMQ_STREAM socket of the scheme
under test: silent, garbled, or only as far as a test wants."""

import zmq

import zt
from zt.sock import bound, sock

GREETING = b"\xff" + b"\0" * 8 + b"\x7f" + b"\x03\x00"


def greeting(mechanism=b"NULL", server=False):
    """A ZMTP 3.0 greeting."""
    return GREETING + mechanism.ljust(20, b"\0") + (b"\x01" if server else b"\0") + b"\0" * 31


def command(name, body=b""):
    """A ZMTP command frame."""
    content = bytes([len(name)]) + name + body
    return bytes([0x04, len(content)]) + content


def ready(kind):
    """READY of the NULL mechanism."""
    name, value = b"Socket-Type", kind
    return command(b"READY", bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value)


class Mock:
    """A STREAM socket with one connection."""

    def __init__(self, ctx, scheme=None, endpoint=None):
        """Connect to `endpoint`, or bind over `scheme` and say where."""
        # (Not -1: then libzmq may lose the word of the end.)
        self.socket = sock(ctx, zmq.STREAM, LINGER=0, RECONNECT_IVL=3600000)
        self.endpoint = endpoint
        self._left = b""
        self._peer = None
        if endpoint:
            self.socket.connect(endpoint)
        else:
            self.endpoint = bound(self.socket, f"{scheme}://{zt.HOST}:*")

    def connected(self):
        """Wait for the connection."""
        while self._peer is None:
            self._take()
        return self

    def _take(self):
        """One message of the STREAM socket; an empty one tells of a connection or of its end."""
        peer, data = self.socket.recv_multipart()
        if data:
            self._left += data
            return True
        if self._peer is None:
            self._peer = peer
            return True
        return False

    def read(self, size):
        """Exactly `size` bytes."""
        while len(self._left) < size:
            assert self._take(), f"the connection ended after {len(self._left)} of {size} bytes"
        data, self._left = self._left[:size], self._left[size:]
        return data

    def write(self, data):
        """Send bytes."""
        self.connected()
        self.socket.send_multipart([self._peer, data])

    def ended(self):
        """Wait for the end of the connection."""
        while self._take():
            pass

    def drop(self):
        """End the connection, once everything is sent."""
        self.connected()
        self.socket.close(-1)

    def greet(self):
        """The NULL handshake, as far as READY of the other side."""
        self.write(greeting())
        self.read(64)
        head = self.read(2)
        self.read(head[1])

    def shake_hands(self, kind):
        """The NULL handshake."""
        self.greet()
        self.write(ready(kind))
