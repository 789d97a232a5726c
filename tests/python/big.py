# SPDX-License-Identifier: MPL-2.0
"""Messages of every size up to 64 MiB, many at once, and both ways at once."""

import hashlib

import zmq

import zt
from zt import test
from zt.proc import Peer, ask, say
from zt.sock import blob, bound, context, messages, sock

KIB, MIB = 1 << 10, 1 << 20
EDGES = [
    edge + delta
    for edge in (256, 4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, MIB)
    for delta in (-17, -10, -9, -8, -2, -1, 0, 1, 8, 9)
]
SIZES = [
    size
    for size in [*range(0, 130), *EDGES, 3 * MIB + 1, 16 * MIB, 64 * MIB - 9, 64 * MIB]
    if size <= zt.SIZE_MAX
]


def hasher():
    """Answers each message with its length and hash, then sends it back."""
    with context() as ctx:
        rep = sock(ctx, zmq.REP)
        say(bound(rep))
        for _ in SIZES:
            message = rep.recv(copy=False)
            digest = hashlib.sha256(message.buffer).hexdigest()
            rep.send_multipart([b"%d %s" % (len(message), digest.encode()), message], copy=False)
        ask()


@test(bound=180)
def sizes():
    """0 B to 64 MiB of random bytes there and back, checked by hash."""
    peer = Peer(hasher)
    with context() as ctx:
        req = sock(ctx, zmq.REQ)
        req.connect(peer.hear())
        for size in SIZES:
            message = blob(size, size)
            digest = hashlib.sha256(message).hexdigest()
            req.send(message)
            words, echo = req.recv_multipart()
            assert words.decode() == f"{size} {digest}", f"{size} B: {words[:90]} there"
            assert hashlib.sha256(echo).hexdigest() == digest, f"{size} B: differs on the way back"
        peer.tell()
        peer.result()


def edge_sender(endpoint, seconds):
    """Two parts at a time, so that both are there when the first is encoded."""
    with context() as ctx:
        push = sock(ctx, zmq.PUSH)
        push.connect(endpoint)
        for first in FIRSTS:
            for second in seconds:
                push.send_multipart([blob(first, first), blob(second, second)])
        ask()


FIRSTS = [buffers * 8 * KIB - short for buffers in (1, 2) for short in range(0, 60)]


@test(bound=90)
def edges():
    """A large part whose header meets the end of a buffer, at every distance from it."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        seconds = [255, 256, 8 * KIB, 100000]
        peer = Peer(edge_sender, bound(pull), seconds)
        for first in FIRSTS:
            for second in seconds:
                assert pull.recv_multipart() == [blob(first, first), blob(second, second)], (first, second)
        peer.tell()
        peer.result()


def both_ways_end(endpoint, seed, count):
    """Sends everything, then reads everything."""
    with context() as ctx:
        dealer = sock(ctx, zmq.DEALER, SNDHWM=0, RCVHWM=2)
        dealer.connect(endpoint)
        _send_then_read(dealer, seed, seed + 1, count)
        ask()


LARGE = (1, 500, 70000, MIB, 3 * MIB)


def _send_then_read(dealer, mine, theirs, count):
    for message in messages(mine, count, LARGE):
        dealer.send(message)
    for number, message in enumerate(messages(theirs, count, LARGE)):
        assert dealer.recv() == message, f"message {number} differs"


@test(bound=120)
def both_ways():
    """Both ends send 100 messages of up to 3 MiB before either reads one."""
    with context() as ctx:
        dealer = sock(ctx, zmq.DEALER, SNDHWM=0, RCVHWM=2)
        peer = Peer(both_ways_end, bound(dealer), 10, zt.some(100))
        _send_then_read(dealer, 11, 10, zt.some(100))
        peer.tell()
        peer.result()


def kept_sender(endpoint):
    """Many messages that the receiver will hold on to."""
    with context() as ctx:
        push = sock(ctx, zmq.PUSH, SNDHWM=0)
        push.connect(endpoint)
        for message in messages(12, zt.some(20000), (40, 300, 1500, 9000)):
            push.send(message)
        ask()


@test()
def kept():
    """A receiver that keeps 20,000 messages without freeing one starves nobody."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        peer = Peer(kept_sender, bound(pull))
        held = [pull.recv(copy=False) for _ in range(zt.some(20000))]
        for number, message in enumerate(messages(12, zt.some(20000), (40, 300, 1500, 9000))):
            assert held[number].bytes == message, f"message {number} differs"
        peer.tell()
        peer.result()


@test()
def max_message_size():
    """ZMQ_MAXMSGSIZE ends a connection that exceeds it, and serves the others."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL, MAXMSGSIZE=1000)
        endpoint = bound(pull)
        bad, good = sock(ctx, zmq.PUSH, RECONNECT_IVL=-1), sock(ctx, zmq.PUSH)
        bad.connect(endpoint)
        bad.send(bytes(1001))
        good.connect(endpoint)
        for _ in range(100):
            good.send(bytes(1000))
        assert all(pull.recv() == bytes(1000) for _ in range(100))
