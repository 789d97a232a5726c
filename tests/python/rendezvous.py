# SPDX-License-Identifier: MPL-2.0
"""Large messages that are READ from where they are: all arrive, and are counted; what ends midway ends
one connection."""

import ctypes
import hashlib
import os

import zmq

import zt
from zt import test
from zt.proc import Peer, ask, say
from zt.sock import Monitor, blob, bound, context, sock

import stats as counted

KIB, MIB = 1 << 10, 1 << 20
#: From so many bytes on.
FROM = 64 * KIB
#: What is not READ of a message: ZMTP's header, and what goes with it.
HEAD = 20
SIZES = [FROM + HEAD, 100_000, MIB, 3 * MIB + 1, 9 * MIB + 5, 17 * MIB]


class Stats(ctypes.Structure):
    """zmq_rdma_stats_t with its last fields."""

    _fields_ = [("known", counted.Stats)] + [
        (name, ctypes.c_uint64) for name in "bytes_copied read_by_peer read_from_peer".split()
    ]


def stats():
    """Bytes copied, READ by peers, READ from peers in this process."""
    found = Stats()
    found.known.size = ctypes.sizeof(Stats)
    assert counted.library().zmq_rdma_stats(ctypes.byref(found)) == 0
    assert found.known.size == ctypes.sizeof(Stats)
    return found


def switch(value):
    """For this process, and those that it starts from now on."""
    os.environ["ZMQ_RDMA_RENDEZVOUS"] = str(value)


def any_port():
    """These counters are of rdma:// connections, whatever the scheme under test."""
    return f"rdma://{zt.HOST}:*"


def receiver(count):
    """Takes so many messages; tells their hashes, and what was counted."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        say(bound(pull, any_port()))
        got = [hashlib.sha256(pull.recv(copy=False).buffer).hexdigest() for _ in range(count)]
        found = stats()
        ask()
        return got, found.bytes_copied, found.read_from_peer


def pass_all(sizes):
    """Send one message of each size; what was counted here and there."""
    peer = Peer(receiver, len(sizes))
    endpoint = peer.hear()
    with context() as ctx:
        push = sock(ctx, zmq.PUSH)
        push.connect(endpoint)
        messages = [blob(size, size) for size in sizes]
        for message in messages:
            push.send(message, copy=False)
        peer.tell()
        got, copied, read = peer.result()
        assert got == [hashlib.sha256(message).hexdigest() for message in messages]
        return stats(), copied, read


@test(needs="ZMQ_RDMA_PREFIX", bound=120)
def read_and_not_copied():
    """Every byte of a body but the first few is READ; next to nothing is copied."""
    switch(FROM)
    sizes = SIZES * 3
    found, copied, read = pass_all(sizes)
    assert found.read_by_peer == read, (found.read_by_peer, read)
    assert sum(sizes) - HEAD * len(sizes) <= read <= sum(sizes), (read, sum(sizes))
    assert copied < 64 * len(sizes) + 2000, copied
    assert found.bytes_copied < 2000, found.bytes_copied


@test(needs="ZMQ_RDMA_PREFIX", bound=120)
def read_by_default():
    """Where nothing is said, RDMA devices READ from 256 KiB on, iWARP from 1 MiB on, and the built-in one never."""
    switch("auto")
    sizes = [256 * KIB - 1, MIB]
    found, _, read = pass_all(sizes)
    assert found.read_by_peer == read
    if os.environ.get("ZMQ_RDMA_DEVICE") == "verbs":
        assert read == MIB, read
    else:
        assert read == 0


@test(needs="ZMQ_RDMA_PREFIX", bound=120)
def small_ones_are_copied():
    """Below the size, and where it is off, nothing is READ."""
    switch(FROM)
    assert pass_all([100, 20_000, FROM - 1])[0].read_by_peer == 0
    switch("off")
    found, copied, read = pass_all([MIB])
    assert (found.read_by_peer, read) == (0, 0)
    assert copied > MIB


def late(count):
    """Reads only when told to."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL, RCVHWM=1)
        say(bound(pull, any_port()))
        ask()
        return [hashlib.sha256(pull.recv()).hexdigest() for _ in range(count)]


def leaver(endpoint, count):
    """Sends and is gone, as soon as zmq_ctx_term lets it."""
    ctx = zmq.Context()
    push = sock(ctx, zmq.PUSH, LINGER=-1)
    push.connect(endpoint)
    for n in range(count):
        push.send(blob(n, 2 * MIB))
    push.close()
    say("term")
    ctx.term()
    return "gone"


@test(needs="ZMQ_RDMA_PREFIX", bound=120)
def a_sender_that_leaves_loses_nothing():
    """zmq_ctx_term waits until the last body has been READ."""
    switch(FROM)
    peer = Peer(late, 6)
    sender = Peer(leaver, peer.hear(), 6)
    assert sender.hear() == "term"
    peer.tell()
    assert peer.result() == [hashlib.sha256(blob(n, 2 * MIB)).hexdigest() for n in range(6)]
    assert sender.result() == "gone"


def reader(rounds):
    """Takes messages for ever, and says so now and then."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        say(bound(pull, any_port()))
        for n in range(rounds):
            pull.recv(copy=False)
            if n % 4 == 0:
                say(n)


@test(needs="ZMQ_RDMA_PREFIX", bound=180)
def a_peer_that_is_killed_ends_one_connection():
    """kill -9 of a receiver in the middle of READs: the sender's other connection goes on."""
    switch(FROM)
    for n in range(4):
        victim = Peer(reader, 1 << 30)
        other = Peer(receiver, 5)
        with context() as ctx:
            doomed, good = sock(ctx, zmq.PUSH), sock(ctx, zmq.PUSH)
            watch = Monitor(doomed)
            doomed.connect(victim.hear())
            good.connect(other.hear())
            body = blob(n, 8 * MIB)
            for _ in range(20):
                doomed.send(body, copy=False)
            victim.hear()
            victim.kill()
            watch.wait_for("DISCONNECTED")
            for _ in range(5):
                good.send(body)
            other.tell()
            got, _, read = other.result()
            assert got == [hashlib.sha256(body).hexdigest()] * 5 and read > 39 * MIB


def flood(endpoint):
    """Sends until it is killed."""
    with context() as ctx:
        push = sock(ctx, zmq.PUSH)
        push.connect(endpoint)
        while True:
            push.send(blob(0, 8 * MIB), copy=False)
            say("sent")


@test(needs="ZMQ_RDMA_PREFIX", bound=180)
def a_sender_that_is_killed_leaves_no_half_message():
    """kill -9 of a sender while it is READ: what the receiver gets is whole."""
    switch(FROM)
    want = hashlib.sha256(blob(0, 8 * MIB)).hexdigest()
    for _ in range(4):
        with context() as ctx:
            pull = sock(ctx, zmq.PULL, RCVHWM=2)
            watch = Monitor(pull)
            victim = Peer(flood, bound(pull, any_port()))
            for _ in range(3):
                assert hashlib.sha256(pull.recv(copy=False).buffer).hexdigest() == want
            victim.kill()
            # What had come whole before the end may still be read; nothing follows.
            pull.setsockopt(zmq.RCVTIMEO, 500)
            try:
                while True:
                    assert hashlib.sha256(pull.recv(copy=False).buffer).hexdigest() == want
            except zmq.Again:
                watch.wait_for("DISCONNECTED")


@test(needs="ZMQ_RDMA_PREFIX", bound=180)
def a_socket_that_closes_midway_harms_nobody():
    """The receiver's socket closes with READs under way, and another takes its place."""
    switch(FROM)
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        endpoint = bound(pull, any_port())
        victim = Peer(flood, endpoint)
        for linger in (0, -1, 0, 100):
            pull.recv(copy=False)
            pull.close(linger=linger)
            pull = sock(ctx, zmq.PULL)
            while True:
                try:
                    pull.bind(endpoint)
                    break
                except zmq.ZMQError as error:
                    assert error.errno == zmq.EADDRINUSE, error
        assert len(pull.recv()) == 8 * MIB
        victim.kill()
