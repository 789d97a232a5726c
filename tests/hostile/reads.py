# SPDX-License-Identifier: MPL-2.0
"""Peers that mean ill where large bodies are READ: they lie about what is to be READ, do not answer, or
read what is not theirs. The bad link ends, or costs what it may; the good client loses nothing."""

import os
import struct

import zt
from arena import Arena
from raw import DATA, Raw, message, to_the_end

from iwarp import FIN, READ_REQUEST, SEND, WRITE, fpdu, tagged, untagged
from zt import test

RTS, RDONE, RSTOP = 7, 8, 9
READ, RESUMED, RESPONSE = 1, 2, 2
#: Bytes of a message that a peer announces, and would have READ; of one that it asks for.
ANNOUNCED, ASKED = 100_000, 9_000


def arena(**options):
    """A server that lets messages be READ."""
    os.environ["ZMQ_RDMA_RENDEZVOUS"] = "1000"
    return Arena(**options)


def rts(length, address=0, key=7):
    """The payload of an RTS."""
    return struct.pack(">QII", address, key, length)


def count(number):
    """The payload of an RDONE or RSTOP."""
    return struct.pack(">I", number)


LIES = {
    "RTS of nothing": [(RTS, rts(0))],
    "RTS past the end of memory": [(RTS, rts(2, address=2**64 - 1))],
    "RTS cut short": [(RTS, rts(5)[:15])],
    "RTS after FIN": [(FIN, None), (RTS, rts(5))],
    "FIN before the answer": [(RTS, rts(5)), (FIN, None)],
    "RDONE to nothing": [(RDONE, count(1))],
    "RDONE of none": [(RDONE, count(0))],
    "RDONE of 2^32 - 1": [(RDONE, count(0xFFFFFFFF))],
    "RDONE without a count": [(RDONE, b"")],
    "RSTOP to nothing": [(RSTOP, count(0))],
    "RESUMED, and nothing was refused": [(DATA, b"\0\0", RESUMED)],
}


@test(only="rdma")
def lies():
    """Frames about READs that make no sense, or come at the wrong time: each ends its link."""
    bench = arena(HANDSHAKE_IVL=0)
    for name, words in LIES.items():
        print(name, flush=True)
        bad = Raw(bench.endpoint, features=READ).greet()
        sent = bad.sent
        for kind, payload, *flags in words:
            bad.send(kind, struct.pack(">Q", sent) if payload is None else payload, flags=sum(flags))
            sent += int.from_bytes(payload[12:], "big") if kind == RTS else 0
        assert to_the_end(bad.raw, 5 * zt.SLOW), f"{name}: goes on"
        bad.close()
    print("RTS that was not agreed on", flush=True)
    bad = Raw(bench.endpoint).greet()
    bad.send(RTS, rts(5))
    assert to_the_end(bad.raw, 5 * zt.SLOW), "an RTS that was not agreed on"
    bad.close()
    bench.end("lies about READs", 4096)


def announce(bench, length=ANNOUNCED):
    """A peer that has announced a message and would have `length` bytes READ."""
    bad = Raw(bench.endpoint, features=READ).greet()
    bad.send(DATA, b"\2" + struct.pack(">Q", ANNOUNCED))
    bad.send(RTS, rts(length))
    return bad


def request(bad, announced=ANNOUNCED):
    """What the server asks to READ: (stag of its sink, offset there, length)."""
    while (segment := bad.segment()) and segment[1] & 0xF != READ_REQUEST:
        pass
    assert segment, "it hung up before it asked"
    stag, offset, length, key, address = struct.unpack(">IQIIQ", segment[18:46])
    assert (length, key, address) == (announced, 7, 0), (length, key, address)
    return stag, offset, length


def _answers(stag, offset):
    """Answers that are none."""
    part = bytes(1000)
    not_last = bytearray(tagged(RESPONSE, part, stag, offset))
    not_last[0] &= ~0x40
    return {
        "another stag": fpdu(tagged(RESPONSE, part, stag ^ 1, offset)),
        "another offset": fpdu(tagged(RESPONSE, part, stag, offset + 1)),
        "fewer bytes": fpdu(tagged(RESPONSE, part, stag, offset)),
        "a WRITE to the sink": fpdu(tagged(WRITE, part, stag, offset)),
        "a wrong CRC": fpdu(bytes(not_last), crc=1),
        "twice the same bytes": fpdu(bytes(not_last)) * 2,
        "a READ of the sink": fpdu(untagged(READ_REQUEST, struct.pack(">IQIIQ", 1, 0, 10, stag, offset), 1, queue=1)),
    }


@test(only="rdma")
def false_answers():
    """READs of the server's answered with what was not asked for: each ends its link."""
    bench = arena()
    for name in _answers(1, 0):
        print(name, flush=True)
        bad = announce(bench)
        stag, offset, _ = request(bad)
        bad.raw.sendall(_answers(stag, offset)[name])
        assert to_the_end(bad.raw, 5 * zt.SLOW), f"{name}: goes on"
        bad.close()
    bench.end("false answers to READs", 4096)


@test(only="rdma")
def more_than_was_announced():
    """An RTS of more than the message of 100,000 bytes that it is in: of more than a message may have, or of 4 GiB, it
    is refused, and costs nothing; of one byte more it may be READ ahead, and bytes behind the message are no message."""
    bench = arena(MAXMSGSIZE=1 << 20)
    for length in ((1 << 20) + 1, 0xFFFFFFFF):
        for _ in range(20):
            bad = announce(bench, length)
            while (word := bad.next()) and word[0] != RSTOP:
                pass
            assert word, "it hung up instead of declining"
            bad.close()
    bad = announce(bench, ANNOUNCED + 1)
    stag, offset, length = request(bad, ANNOUNCED + 1)
    # The message, and the first byte of one of 2^64 - 1 bytes.
    answer = bytes(length - 1) + b"\2"
    for at in range(0, length, 1000):
        part = bytearray(tagged(RESPONSE, answer[at : at + 1000], stag, offset + at))
        if at + 1000 < length:
            part[0] &= ~0x40
        bad.raw.sendall(fpdu(bytes(part)))
    bad.send(DATA, b"\xff" * 8)
    assert to_the_end(bad.raw, 5 * zt.SLOW), "a message of 2^64 - 1 bytes"
    bad.close()
    bench.end("41 RTS of more than was announced", 8192)


@test(bound=120, only="rdma")
def never_answers_a_read():
    """50 peers that announce a message and do not answer its READ, or only begin to. The server's end waits for
    none of them longer than its linger."""
    bench = arena()
    silent = []
    for number in range(50):
        bad = announce(bench)
        stag, offset, _ = request(bad)
        if number % 2:
            part = bytearray(tagged(RESPONSE, bytes(1000), stag, offset))
            part[0] &= ~0x40
            bad.raw.sendall(fpdu(bytes(part)))
        silent.append(bad)
    bench.goes_on()
    for bad in silent[:40]:
        bad.close()
    bench.until_closed(still=10)
    bench.goes_on()
    grown = bench.most - bench.before
    print(f"SHOW: {grown} KiB more at most with 50 READs that nobody answers")
    assert grown < 50 * 400, f"the server grew by {grown} KiB"
    last = Raw(bench.endpoint).greet()
    last.send(DATA, message(b"end"))
    assert bench.peer.hear() == "ended"
    bench.good.kill()
    for bad in silent[40:] + [last]:
        bad.close()


def asks(bench, size=ASKED):
    """A peer that has asked for messages, and has heard of the first to be READ: (peer, key, address, length)."""
    bad = Raw(bench.endpoint, grant=64, features=READ).greet()
    bad.send(DATA, message(b"flood", b"%d" % size))
    while (word := bad.next()) and word[0] != RTS:
        pass
    assert word, "it hung up, and had nothing to be READ"
    address, key, length = struct.unpack(">QII", word[2])
    return bad, key, address, length


@test(bound=120, only="rdma")
def never_reads_what_it_asked_for():
    """20 peers that ask for 90 MB each and answer no RTS: the mark bounds what waits for them."""
    bench = arena()
    deaf = [asks(bench)[0] for _ in range(20)]
    for _ in range(3):
        bench.goes_on()
    held = bench.most - bench.before
    print(f"SHOW: {held / len(deaf):.0f} KiB of the server's a peer that READs nothing")
    for bad in deaf:
        bad.close()
    bench.end("20 peers that READ nothing", 20 * 4096)


def read_of(bad, number, key, address, length):
    """READ that of the server's; the bytes, or None if it hangs up instead."""
    ask = struct.pack(">IQIIQ", 99, 0, length, key, address)
    bad.raw.sendall(fpdu(untagged(READ_REQUEST, ask, number, queue=1)))
    data = b""
    while len(data) < length:
        segment = bad.segment()
        if not segment or segment[1] & 0xF not in (RESPONSE, SEND):
            return None
        if segment[1] & 0xF == RESPONSE:
            data += segment[14:]
    return data


@test(bound=120, only="rdma")
def reads_what_is_not_its_own():
    """What was shown may be READ as often as one likes until it is done, and nothing else, nor then."""
    bench = arena()
    bad, key, address, length = asks(bench)
    for number in range(1, 1001):
        assert read_of(bad, number, key, address, length) == bytes(length)
    bad.send(RDONE, count(1))
    # The next RTS, or a CREDIT, comes after it was taken in.
    assert bad.next()
    assert read_of(bad, 1001, key, address, length) is None, "READ after it was done"
    bad.close()
    for what in ((0, 0, 1), (0, -1, 0), (1, 0, 0), (0, 1 << 40, 0)):
        bad, *shown = asks(bench)
        other = [max(0, a + b) if n else a ^ b for n, (a, b) in enumerate(zip(shown, what))]
        if other == shown:
            other[1] = 2**64 - 1
        assert read_of(bad, 1, *other) is None, f"READ of {other}, and shown was {shown}"
        bad.close()
    bench.end("READs of what is not shown", 8192)
