# SPDX-License-Identifier: MPL-2.0
"""Streams of messages that tell who sent them, which they are, and whether they are whole."""

import random
import struct
import zlib

from case import sizes

HEAD = struct.Struct("<8sIIHI")
_NOISE = random.Random(1).randbytes(1 << 21)


class Out:
    """What one socket sends: message after message, each with its number and a checksum."""

    def __init__(self, case, name, count):
        self.name = name.encode()
        self.count = count
        self.sent = 0
        self._sizes = sizes(case, name)
        self._next = None

    @property
    def left(self):
        """Messages still to send."""
        return self.count - self.sent

    def message(self):
        """The next message; the same until `gone`."""
        if self._next is None:
            bodies = []
            for at, size in enumerate(next(self._sizes)):
                start = (self.sent * 7919 + at * 104729) % (len(_NOISE) - size)
                bodies.append(_NOISE[start : start + size])
            check = 0
            for part in bodies:
                check = zlib.crc32(part, zlib.crc32(b"|", check))
            self._next = [HEAD.pack(self.name.ljust(8, b"\0"), self.sent, self.count, len(bodies), check)] + bodies
        return self._next

    def gone(self):
        """It was sent."""
        self.sent += 1
        self._next = None


class In:
    """What one socket received, by stream: in order, whole, none twice."""

    def __init__(self):
        self.seen = {}

    def take(self, parts):
        """Check a message; returns its stream."""
        name, number, count, bodies, check = HEAD.unpack(parts[0])
        name = name.rstrip(b"\0").decode()
        assert len(parts) == 1 + bodies, f"{name} {number}: {len(parts) - 1} parts of {bodies}"
        found = 0
        for part in parts[1:]:
            found = zlib.crc32(part, zlib.crc32(b"|", found))
        assert found == check, f"{name} {number} is spoilt"
        assert number < count
        last = self.seen[name][-1] if name in self.seen else -1
        assert number > last, f"{name}: {number} after {last}"
        self.seen.setdefault(name, []).append(number)
        return name
