# SPDX-License-Identifier: MPL-2.0
"""Peers that mean ill, while a good one goes on talking to the same socket: the bad link ends
or is given up in time, the good one loses nothing, and memory stays bounded."""

import random
import select
import socket

import zt
from arena import Arena
from raw import CREDIT, DATA, GREETING, Raw, message, to_the_end

from iwarp import HELLO, PING, SEND, dial, fpdu, frame, hello, read_setup, setup, untagged
from inside import BROKEN
from zt import test


@test(bound=120, only="rdma")
def broken_rules():
    """Every lie about lengths, stags, numbers, credits and frames, several times over."""
    arena = Arena(HANDSHAKE_IVL=0)
    alive = []
    for name, words in BROKEN.items():
        print(name, flush=True)
        for _ in range(5):
            bad = Raw(arena.endpoint)
            try:
                bad.raw.sendall(words)
            except ConnectionError:
                pass
            if not to_the_end(bad.raw, 5 * zt.SLOW):
                alive.append(name)
            bad.close()
        arena.goes_on()
    arena.end(f"{5 * len(BROKEN)} broken rules", 4096)
    assert not alive, f"links that went on: {alive}"


PRIVATE = {
    "slot of nothing": hello(slot=0),
    "slot of 63": hello(slot=63),
    "slot beyond 1 MiB": hello(slot=(1 << 20) + 1),
    "slot of 4 GiB": hello(slot=0xFFFFFFFF),
    "no credit": hello(grant=0),
    "three credits": hello(grant=3),
    "more credits than may be": hello(grant=4097),
    "all the credits": hello(grant=0xFFFF),
    "a reply": hello(kind=2),
    "a reject": hello(kind=3, reason=3),
    "another magic": hello(magic=b"ZRDN"),
    "no version": hello(least=0, most=0),
    "versions backwards": hello(least=9, most=1),
    "short": hello()[:19],
    "nothing": b"",
}


@test(only="rdma")
def private_data():
    """Hellos that lie: rejected in words, and the connection closed."""
    arena = Arena()
    for name, private in PRIVATE.items():
        raw = dial(arena.endpoint)
        raw.sendall(setup(private=private))
        answer = read_setup(raw)
        assert answer is None or answer[1] & 0x20, f"{name}: accepted"
        assert to_the_end(raw), f"{name}: goes on"
        raw.close()
    for length in (0, 19, 21, 511, 512, 513, 0xFFFF):
        raw = dial(arena.endpoint)
        raw.sendall(setup(private=hello(), length=length))
        raw.shutdown(socket.SHUT_WR)
        assert to_the_end(raw), f"length {length}: goes on"
        raw.close()
    # All features, and the largest of everything, is no lie.
    for good in ({"features": 0xFFFFFFFF}, {"slot": 64}, {"slot": 1 << 20}, {"grant": 4096}):
        Raw(arena.endpoint, **{k: v for k, v in good.items() if k != "features"}).greet().close()
    arena.end("hellos that lie", 2048)


@test(bound=120, only="rdma")
def never_reads():
    """100 peers that ask for 20 MB each, grant all credits there are, and never read a byte."""
    arena = Arena()
    deaf = []
    for number in range(100):
        bad = Raw(arena.endpoint, grant=4000, small_buffer=True).greet()
        bad.send(DATA, message(b"flood", b"2000"))
        deaf.append(bad)
        if number % 10 == 9:
            arena.goes_on()
    for _ in range(5):
        arena.goes_on()
    # A mark of 200 messages of 2 kB and what is on its way, each; the kernel has its own bounds.
    held = arena.most - arena.before
    print(f"SHOW: {held / len(deaf):.0f} KiB of the server's a deaf peer")
    for bad in deaf:
        bad.close()
    arena.end("100 peers that never read", 100 * 2048)


@test(only="rdma")
def takes_credit_and_gives_none():
    """Peers that grant four SENDs and no more: what is meant for them waits, within the marks."""
    arena = Arena()
    for _ in range(50):
        bad = Raw(arena.endpoint, grant=4).greet()
        bad.grant = 4
        bad.send(DATA, message(b"flood", b"2000"), grant=16)
        arena.resident()
    arena.goes_on()
    arena.end("50 peers that grant next to nothing", 50 * 1500, still=50)


def _stages():
    """Beginnings of a connection, each good as far as it goes."""
    request = setup(private=hello())
    hello_frame = fpdu(untagged(SEND, frame(HELLO), 1))
    greeting = fpdu(untagged(SEND, frame(DATA, GREETING), 2))
    return [b"", request[:1], request[:19], request, request + hello_frame[:3], request + hello_frame, request + hello_frame + greeting]


@test(bound=240, only="rdma")
def opens_and_drops():
    """10,000 connections that are dropped at every stage, closed or reset."""
    arena = Arena()
    stages = _stages()
    for number in range(10000):
        raw = dial(arena.endpoint)
        try:
            raw.sendall(stages[number % len(stages)])
            if number % 3 == 0:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        except ConnectionError:
            pass
        raw.close()
        if number % 500 == 0:
            arena.goes_on()
    arena.end("10,000 connections dropped", 8192)


@test(bound=120, only="rdma")
def held_open():
    """1,000 connections held at every stage: closed when ZMQ_HANDSHAKE_IVL is over."""
    arena = Arena(HANDSHAKE_IVL=3000)
    stages = _stages()
    held = []
    for number in range(1000):
        raw = dial(arena.endpoint)
        raw.sendall(stages[number % len(stages)])
        held.append(raw)
        if number % 200 == 199:
            arena.goes_on()
    cost = arena.most - arena.before
    print(f"SHOW: {cost / len(held):.1f} KiB of the server's a half-open connection")
    for number, raw in enumerate(held):
        assert to_the_end(raw), f"stage {number % len(stages)} is held for ever"
        raw.close()
    arena.end("1,000 half-open connections", 1000 * 40)


@test(bound=120, only="rdma")
def byte_by_byte():
    """Peers that send a byte now and then: ZMQ_HANDSHAKE_IVL counts from the first, not from the last."""
    arena = Arena(HANDSHAKE_IVL=1000)
    whole = _stages()[-1]
    slow = [(dial(arena.endpoint), start) for start in (0, 10, 30, 45, 60, 75, len(whole) - 10) for _ in range(3)]
    for raw, start in slow:
        raw.sendall(whole[:start])
    sent = 0
    while slow and sent < 300:
        left = []
        for raw, start in slow:
            try:
                raw.sendall(whole[start : start + 1])
                # What it answers is read; its end is what is waited for.
                while select.select([raw], [], [], 0)[0]:
                    if not raw.recv(4096):
                        raise ConnectionError
                left.append((raw, min(start + 1, len(whole) - 1)))
            except ConnectionError:
                raw.close()
        slow, sent = left, sent + 1
        # A byte a tenth of a second: the good one talks meanwhile.
        select.select([], [], [], 0.1)
    print(f"SHOW: the last was closed after {sent} bytes of its own")
    assert not slow, f"{len(slow)} are still there after {sent} bytes"
    arena.end("byte by byte", 4096)


@test(bound=120, only="rdma")
def floods():
    """Frames that carry nothing, as fast as credits allow; data a byte a frame; numbers out of range."""
    arena = Arena(MAXMSGSIZE=1 << 20)
    dice = random.Random(5)
    for kind, payload in ((PING, b""), (CREDIT, b""), (DATA, b"\0")):
        bad = Raw(arena.endpoint).greet()
        sent = 0
        try:
            # ZMTP: empty messages, their two bytes in frames of one.
            while sent < 3000:
                # DATA leaves two credits, control frames one.
                while bad.may - bad.msn > (2 if kind == DATA else 1) and sent < 3000:
                    bad.grant = max(bad.grant, bad.heard + 8)
                    bad.send(kind, payload, flags=1)
                    sent += 1
                if sent < 3000 and bad.next() is None:
                    break
        except ConnectionError:
            pass
        bad.close()
        assert sent == 3000, f"after {sent} frames of type {kind} it was cut off"
        arena.goes_on()
    # A message that announces a tebibyte.
    for size in (1 << 20, (1 << 20) + 1, 1 << 40, (1 << 63) - 1):
        bad = Raw(arena.endpoint).greet()
        bad.send(DATA, b"\2" + size.to_bytes(8, "big") + dice.randbytes(100))
        arena.goes_on()
        bad.close()
    arena.end("floods", 4096)


@test(only="rdma")
def does_not_let_go():
    """Peers that never answer FIN, or do not even read what comes before it, hold up the end of the server's
    context for its linger and no longer."""
    arena = Arena()
    held = [Raw(arena.endpoint, grant=4).greet() for _ in range(20)]
    for _ in range(10):
        deaf = Raw(arena.endpoint, grant=4000, small_buffer=True).greet()
        deaf.send(DATA, message(b"flood", b"2000"))
        held.append(deaf)
    # It has seen to those.
    arena.goes_on()
    held[0].send(DATA, message(b"end"), grant=16)
    assert arena.peer.hear() == "ended"
    arena.good.kill()
    for bad in held:
        bad.close()
