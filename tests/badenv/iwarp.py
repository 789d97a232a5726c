# SPDX-License-Identifier: MPL-2.0
"""A peer made of bytes: MPA, DDP and RDMAP as RFC 5044, 5041 and 5040 have
them, and the hello and frames of docs/protocol.md. Written apart from the
library, so that neither is judged by its own hand."""

import socket
import struct

import zt

REQUEST, REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
CRC, REJECT, ENHANCED = 0x40, 0x20, 0x10
HELLO, DATA, CREDIT, FIN, FIN_ACK, PING = range(1, 7)
SEND, WRITE, READ_REQUEST, TERMINATE = 3, 0, 1, 7


def _table():
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        yield byte


_TABLE = list(_table())


def crc32c(data):
    """CRC32C, as iSCSI and MPA have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283


def hello(kind=1, least=1, most=1, magic=b"ZRDM", reason=0, features=0, slot=8192, grant=4):
    """Our private data."""
    return struct.pack(">4sBBBBIIHH", magic, kind, least, most, reason, features, slot, grant, 0)


def setup(key=REQUEST, flags=CRC, revision=1, private=None, length=None):
    """An MPA request or reply."""
    private = hello() if private is None else private
    return key + struct.pack(">BBH", flags, revision, len(private) if length is None else length) + private


def fpdu(ulpdu, crc=None):
    """A framed DDP segment."""
    data = struct.pack(">H", len(ulpdu)) + ulpdu
    data += bytes(-len(data) % 4)
    return data + struct.pack("<I", crc32c(data) if crc is None else crc)


def untagged(opcode, payload, msn, queue=0, offset=0, ddp=0x41, rdmap=0x40):
    """An untagged DDP segment, the last of its message."""
    return struct.pack(">BBIIII", ddp, rdmap | opcode, 0, queue, msn, offset) + payload


def tagged(opcode, payload, stag, offset):
    """A tagged DDP segment, the last of its message."""
    return struct.pack(">BBIQ", 0xC1, 0x40 | opcode, stag, offset) + payload


def frame(kind, payload=b"", grant=4, version=1, flags=0, length=None):
    """A frame of the stream protocol."""
    return struct.pack(">BBHI", kind, version << 4 | flags, grant, len(payload) if length is None else length) + payload


def dial(endpoint):
    """A TCP connection to an endpoint's port."""
    raw = socket.create_connection((zt.HOST, int(endpoint.rsplit(":", 1)[1])), timeout=zt.WAIT)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return raw


def read(raw, count):
    """Exactly `count` bytes, or what came before the end."""
    data = b""
    while len(data) < count:
        try:
            part = raw.recv(count - len(data))
        except ConnectionResetError:
            break
        if not part:
            break
        data += part
    return data


def read_setup(raw):
    """The peer's MPA frame as (key, flags, revision, private data), or None if it closed instead."""
    head = read(raw, 20)
    if len(head) < 20:
        return None
    flags, revision, length = struct.unpack(">BBH", head[16:])
    private = read(raw, length)
    if flags & ENHANCED:
        private = private[4:]
    return head[:16], flags, revision, private


def ended(raw):
    """Read to the end of the connection; all that came."""
    data = b""
    while True:
        part = read(raw, 65536)
        data += part
        if len(part) < 65536:
            return data


def connected(endpoint, **options):
    """A connection that stands, HELLO and all: the peer takes us for one of its own."""
    raw = dial(endpoint)
    raw.sendall(setup(private=hello(**options)))
    key, flags, _, private = read_setup(raw)
    assert key == REPLY and not flags & REJECT, (key, flags)
    assert private[:5] == b"ZRDM\2", private
    raw.sendall(fpdu(untagged(SEND, frame(HELLO, grant=options.get("grant", 4)), 1)))
    return raw
