# SPDX-License-Identifier: MPL-2.0
"""A peer that shook hands in good order and then breaks the rules of DDP,
RDMAP or the stream protocol: its own link ends, and nothing else."""

import socket

import zt
from iwarp import CREDIT, DATA, FIN, FIN_ACK, HELLO, PING, READ_REQUEST, SEND, TERMINATE, WRITE
from iwarp import connected, dial, ended, fpdu, frame, hello, read, read_setup, setup, tagged, untagged
from victim import Victim
from zt import test
from zt.sock import context

GREETING = b"\xff" + bytes(8) + b"\x7f\3\0NULL" + bytes(48)


def segment(kind, payload=b"", msn=2, **options):
    """A frame as the second SEND of a link."""
    return fpdu(untagged(SEND, frame(kind, payload, **options), msn))


BROKEN = {
    "wrong CRC": fpdu(untagged(SEND, frame(DATA, GREETING), 2), crc=0x12345678),
    "zero length FPDU": fpdu(b""),
    "FPDU shorter than a DDP header": fpdu(b"\x41\x43"),
    "DDP version 2": fpdu(untagged(SEND, frame(DATA, b"x"), 2, ddp=0x42)),
    "RDMAP version 0": fpdu(untagged(SEND, frame(DATA, b"x"), 2, rdmap=0x00)),
    "unknown opcode": fpdu(untagged(9, frame(DATA, b"x"), 2)),
    "MSN repeated": segment(DATA, b"x", msn=1),
    "MSN from the future": segment(DATA, b"x", msn=9),
    "message offset out of order": fpdu(untagged(SEND, frame(DATA, b"x"), 2, offset=4096)),
    "message offset of 4 GiB": fpdu(untagged(SEND, frame(DATA, b"x"), 2, offset=0xFFFFFFFF)),
    "queue that is not there": fpdu(untagged(SEND, frame(DATA, b"x"), 2, queue=5)),
    "longer than a slot": fpdu(untagged(SEND, frame(DATA, bytes(30000)), 2)),
    "WRITE without a stag": fpdu(tagged(WRITE, b"overwrite", 0x1234, 0)),
    "WRITE to the highest offset": fpdu(tagged(WRITE, b"overwrite", 1, 2**64 - 4)),
    "READ of memory nobody exposed": fpdu(untagged(READ_REQUEST, bytes(12) + b"\0\0\x10\0" + bytes(12), 1, queue=1)),
    "short READ request": fpdu(untagged(READ_REQUEST, b"abc", 1, queue=1)),
    "READ response nobody asked for": fpdu(tagged(2, b"here you are", 7, 0)),
    "TERMINATE": fpdu(untagged(TERMINATE, b"\x10\x05\xc0\0", 1, queue=2)),
    "frame cut short": fpdu(untagged(SEND, frame(DATA)[:5], 2)),
    "empty SEND": fpdu(untagged(SEND, b"", 2)),
    "type 0": segment(0),
    "type 200": segment(200),
    "version 2": segment(DATA, b"x", version=2),
    "length too long": segment(DATA, b"x", length=2),
    "length too short": segment(DATA, b"xy", length=1),
    "length of 4 GiB": segment(DATA, b"x", length=0xFFFFFFFF),
    "empty DATA": segment(DATA),
    "second HELLO": segment(HELLO),
    "FIN_ACK without FIN": segment(FIN_ACK),
    "FIN with a wrong count": segment(FIN, (99).to_bytes(8, "big")),
    "FIN without a count": segment(FIN),
    "FIN that claims 2^64": segment(FIN, b"\xff" * 8),
    "DATA after FIN": segment(FIN, bytes(8)) + segment(DATA, b"x", msn=3),
    "grant that goes back": segment(CREDIT, grant=3),
    "grant of 50,000": segment(CREDIT, grant=50000),
    "SENDs without credit": b"".join(segment(PING, msn=msn) for msn in range(2, 5000)),
    "ZMTP of nonsense": segment(DATA, b"\xff\0\0\0\0\0\0\0\1\x7f\x09" + b"\xee" * 500),
}


@test(bound=120, only="rdma")
def broken_rules():
    """Each broken rule ends the one link that broke it."""
    with context() as ctx:
        # ZMTP's own patience shall not be what ends it.
        victim = Victim(ctx, HANDSHAKE_IVL=0)
        alive = []
        for name, words in BROKEN.items():
            print(name, flush=True)
            raw = connected(victim.endpoint)
            raw.settimeout(5 * zt.SLOW)
            try:
                raw.sendall(words)
                # Whatever it answers (a CREDIT, a TERMINATE, its greeting), the connection ends.
                ended(raw)
            except ConnectionError:
                pass
            except socket.timeout:
                alive.append(name)
            raw.close()
            victim.unharmed()
        victim.end()
        assert not alive, f"links that went on: {', '.join(alive)}"


@test(only="rdma")
def no_hello():
    """A connection that stands, and whose first frame is not HELLO."""
    with context() as ctx:
        victim = Victim(ctx)
        for kind, payload in ((DATA, b"x"), (CREDIT, b""), (FIN, bytes(8)), (77, b"")):
            raw = dial(victim.endpoint)
            raw.sendall(setup(private=hello()))
            read_setup(raw)
            raw.sendall(fpdu(untagged(SEND, frame(kind, payload), 1)))
            ended(raw)
            raw.close()
        victim.end()


@test(only="rdma")
def holds_until_hello():
    """The acceptor is silent until HELLO has come, and then speaks in our frames."""
    with context() as ctx:
        victim = Victim(ctx)
        raw = dial(victim.endpoint)
        raw.sendall(setup(private=hello()))
        read_setup(raw)
        raw.settimeout(0.3)
        try:
            early = raw.recv(100)
        except socket.timeout:
            early = b""
        assert early == b"", f"it spoke before HELLO: {early[:40]}"
        raw.settimeout(zt.WAIT)
        raw.sendall(fpdu(untagged(SEND, frame(HELLO), 1)))
        length = int.from_bytes(read(raw, 2), "big")
        segment_ = read(raw, length)
        assert segment_[0] & 0xC3 == 0x41, "a DDP segment: untagged, last, version 1"
        assert segment_[18:20] in (bytes((DATA, 0x10)), bytes((CREDIT, 0x10))), segment_[18:26]
        raw.close()
        victim.end()


@test(bound=90, only="rdma")
def stops_reading():
    """Peers that shake hands and never read again do not hold up the others, nor grow the server."""
    with context() as ctx:
        victim = Victim(ctx)
        deaf = []
        for _ in range(30):
            raw = connected(victim.endpoint)
            raw.sendall(segment(DATA, GREETING))
            deaf.append(raw)
        victim.unharmed()
        for raw in deaf:
            raw.close()
        victim.end()
