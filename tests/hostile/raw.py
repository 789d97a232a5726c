# SPDX-License-Identifier: MPL-2.0
"""A peer made of bytes that goes on after its greeting: FPDUs with running numbers, ZMTP in
DATA frames, as docs/protocol.md has them. What it does not do, nobody does for it."""

import os
import socket
import struct
import sys

import zt

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "badenv"))

from iwarp import CREDIT, DATA, HELLO, SEND, connected, ended, fpdu, frame, read, untagged  # noqa: E402

GREETING = b"\xff" + bytes(8) + b"\x7f\3\0NULL" + bytes(48)


def ready(kind):
    """ZMTP's READY of a socket of this type."""
    words = b"\5READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    return bytes((4, len(words))) + words


def message(*parts):
    """A ZMTP message."""
    out = b""
    for part in parts:
        more = part is not parts[-1]
        if len(part) < 256:
            out += bytes((int(more), len(part))) + part
        else:
            out += bytes((2 | int(more),)) + struct.pack(">Q", len(part)) + part
    return out


def to_the_end(raw, patience=None):
    """Read until it is closed; whether it was in time."""
    raw.settimeout(patience or zt.WAIT)
    try:
        ended(raw)
    except ConnectionError:
        pass
    except socket.timeout:
        return False
    return True


class Raw:
    """One link, HELLO said."""

    def __init__(self, endpoint, grant=4, slot=8192, features=0, small_buffer=False):
        self.grant = grant
        self.raw = connected(endpoint, grant=grant, slot=slot, features=features)
        if small_buffer:
            self.raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.msn = 1
        #: Bytes of its stream.
        self.sent = 0
        self.heard = 0
        #: SENDs that the peer lets us have sent in all.
        self.may = 4

    def send(self, kind, payload=b"", **lies):
        """One frame, unless `lies` say other."""
        self.msn += 1
        self.sent += len(payload) if kind == DATA else 0
        lies.setdefault("grant", self.grant & 0xFFFF)
        self.raw.sendall(fpdu(untagged(SEND, frame(kind, payload, **lies), self.msn)))

    def segment(self):
        """The next DDP segment, or nothing at the end."""
        head = read(self.raw, 2)
        length = int.from_bytes(head, "big")
        return read(self.raw, length + (-(length + 2) % 4) + 4)[:length] if len(head) == 2 else b""

    def next(self):
        """The next frame as (type, grant, payload), or None at the end."""
        body = self.segment()
        if len(body) < 26 or body[1] & 0xF != SEND:
            return None
        self.heard += 1
        kind, _, grant, size = struct.unpack(">BBHI", body[18:26])
        self.may += (grant - self.may) & 0xFFFF
        return kind, grant, body[26 : 26 + size]

    def greet(self, kind=b"DEALER"):
        """Shake hands in ZMTP's way, reading no more than that takes."""
        self.send(DATA, GREETING)
        self.grant += 12
        data = b""
        sent = False
        while len(data) < 64 or b"READY" not in data:
            word = self.next()
            assert word, "it hung up in the handshake"
            data += word[2] if word[0] == DATA else b""
            if len(data) >= 64 and not sent:
                self.send(DATA, ready(kind))
                sent = True
        if not sent:
            self.send(DATA, ready(kind))
        return self

    def reset(self):
        """Cut it with a TCP reset."""
        self.raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.raw.close()

    def close(self):
        """Cut it."""
        self.raw.close()


__all__ = ["CREDIT", "DATA", "GREETING", "HELLO", "Raw", "message", "ready", "to_the_end"]
