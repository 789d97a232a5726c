# SPDX-License-Identifier: MPL-2.0
"""Whoever connects to an rdma:// port without speaking its language: each
stranger is turned away, the log says why, and a good client never notices."""

import random
import socket

import zmq

import zt
from iwarp import REJECT, REPLY, dial, ended, hello, read_setup, setup
from victim import Victim
from zt import test
from zt.proc import Peer, ask, say
from zt.sock import Monitor, bound, context, sock


@test()
def http_client():
    """An HTTP request, and a TLS one."""
    with context() as ctx:
        victim = Victim(ctx)
        for words in (b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200)):
            raw = dial(victim.endpoint)
            raw.sendall(words)
            if zt.SCHEME == "rdma":
                ended(raw)
            raw.close()
            victim.unharmed()
        victim.says(r"(?i)error: .*(not|isn't|does not).*(rdma|MPA|iWARP|protocol)|broke the protocol")
        victim.end()


@test(only="rdma")
def other_version():
    """A peer of a version that we do not speak gets a reject with a reason, and the log has the numbers."""
    with context() as ctx:
        victim = Victim(ctx)
        for least, most in ((2, 9), (99, 99), (255, 255)):
            raw = dial(victim.endpoint)
            raw.sendall(setup(private=hello(least=least, most=most)))
            key, flags, _, private = read_setup(raw)
            assert key == REPLY and flags & REJECT, (key, flags)
            assert private[:5] == b"ZRDM\3" and private[7] == 1, private
            assert private[5] >= 1 and private[6] < least, private
            ended(raw)
            raw.close()
            victim.unharmed()
            victim.says(rf"(?i)version.*\b{least}\b")
        victim.end()


@test(only="rdma")
def private_data():
    """Private data that is not our hello is rejected; padding after a hello is not minded."""
    bad = [
        b"", b"Z", b"ZRDM", hello()[:19], hello(magic=b"ZRDN"), hello(kind=0), hello(kind=2), hello(kind=3), hello(kind=255),
        hello(least=0), hello(least=2, most=1), hello(slot=0), hello(slot=63), hello(slot=1 << 31), hello(slot=0xFFFFFFFF),
        hello(grant=0), hello(grant=3), hello(grant=4097), hello(grant=65535), bytes(20), bytes(56), b"\xff" * 56, b"\xff" * 508,
    ]  # fmt: skip
    good = [hello(), hello() + bytes(36), hello() + b"\xff" * 36, hello(features=0xFFFFFFFF), hello(most=255), hello(grant=4096)]
    with context() as ctx:
        victim = Victim(ctx)
        for private in bad:
            raw = dial(victim.endpoint)
            raw.sendall(setup(private=private))
            answer = read_setup(raw)
            assert answer is None or answer[1] & REJECT, f"accepted {private[:24]}"
            ended(raw)
            raw.close()
        victim.unharmed()
        for private in good:
            raw = dial(victim.endpoint)
            raw.sendall(setup(private=private))
            answer = read_setup(raw)
            assert answer and not answer[1] & REJECT, f"refused {private[:24]}"
            assert answer[3][:7] == b"ZRDM\2\1\1", answer
            assert answer[3][8:12] == bytes(4), "feature bits that nobody has"
            raw.close()
        victim.end()


@test(only="rdma")
def mpa_variants():
    """MPA frames of another revision, with odd flags or lengths."""
    with context() as ctx:
        victim = Victim(ctx)
        for frame in (
            setup(revision=0), setup(revision=3), setup(revision=255), setup(key=REPLY), setup(length=513, private=bytes(513)),
            setup(length=65535), setup(key=b"MPA ID Req FRame"), setup(flags=0xFF),
        ):  # fmt: skip
            raw = dial(victim.endpoint)
            raw.sendall(frame)
            answer = read_setup(raw)
            assert answer is None or answer[1] & REJECT or frame[16] == 0xFF, f"accepted {frame[:24]}"
            raw.close()
        victim.end()


@test()
def cut_short():
    """A request cut at every byte, ended and reset."""
    request = setup() if zt.SCHEME == "rdma" else b"\xff" + bytes(8) + b"\x7f\3\0NULL" + bytes(48)
    with context() as ctx:
        victim = Victim(ctx)
        for length in range(len(request)):
            raw = dial(victim.endpoint)
            raw.sendall(request[:length])
            if length % 2:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            raw.close()
        victim.end()


@test(only="rdma")
def dribble():
    """A request that comes a byte at a time is understood."""
    with context() as ctx:
        victim = Victim(ctx)
        raw = dial(victim.endpoint)
        for byte in setup():
            raw.sendall(bytes([byte]))
        answer = read_setup(raw)
        assert answer and answer[0] == REPLY and not answer[1] & REJECT
        raw.close()
        victim.end()


@test(bound=90, only="rdma")
def garbage():
    """400 connections of random bytes, some behind a good beginning."""
    dice = random.Random(70)
    with context() as ctx:
        victim = Victim(ctx)
        for number in range(400):
            raw = dial(victim.endpoint)
            start = setup()[: dice.choice((0, 0, 16, 18, 20, 25, 40))]
            try:
                raw.sendall(start + dice.randbytes(dice.choice((1, 20, 100, 5000))))
                if number % 3 == 0:
                    raw.shutdown(socket.SHUT_WR)
                    ended(raw)
            except (ConnectionError, OSError):
                pass
            raw.close()
            if number % 40 == 0:
                victim.unharmed()
        victim.end()


@test(bound=90)
def half_open():
    """300 connections that say nothing cost the good client nothing, and are closed in time."""
    with context() as ctx:
        victim = Victim(ctx, HANDSHAKE_IVL=2000, BACKLOG=500)
        mute = [dial(victim.endpoint) for _ in range(300)]
        if zt.SCHEME == "rdma":
            for raw in mute[::2]:
                raw.sendall(setup()[:20])
        victim.unharmed()
        late = sock(ctx, zmq.REQ)
        late.connect(victim.endpoint)
        late.send(b"me too")
        assert late.recv() == b"me too"
        for raw in mute:
            ended(raw)
            raw.close()
        victim.end()


def tcp_server():
    """An ordinary tcp:// server."""
    with context() as ctx:
        rep = sock(ctx, zmq.REP)
        say(bound(rep, f"tcp://{zt.HOST}:*"))
        rep.send(rep.recv())
        ask()


@test(only="rdma")
def to_a_tcp_port():
    """An rdma:// client of a tcp:// port fails clearly and at its interval; the tcp server goes on."""
    peer = Peer(tcp_server)
    endpoint = peer.hear()
    with context() as ctx:
        lost, good = sock(ctx, zmq.REQ, RECONNECT_IVL=100), sock(ctx, zmq.REQ)
        watch = Monitor(lost)
        lost.connect(endpoint.replace("tcp", "rdma"))
        names = [name for name, _, _ in watch.until("CONNECT_RETRIED") + watch.until("CONNECT_RETRIED")]
        assert "CONNECTED" not in names and "HANDSHAKE_SUCCEEDED" not in names, names
        good.connect(endpoint)
        good.send(b"hello")
        assert good.recv() == b"hello"
        peer.tell()
        peer.result()


@test(only="rdma")
def from_a_tcp_client():
    """A tcp:// client of an rdma:// port never gets through, and both sides go on."""
    with context() as ctx:
        victim = Victim(ctx)
        lost = sock(ctx, zmq.REQ, RECONNECT_IVL=100)
        watch = Monitor(lost)
        lost.connect(victim.endpoint.replace("rdma", "tcp"))
        names = [name for name, _, _ in watch.until("CONNECT_RETRIED") + watch.until("CONNECT_RETRIED")]
        assert "HANDSHAKE_SUCCEEDED" not in names, names
        victim.says(r"(?i)error: .*tcp://")
        victim.end()
