# SPDX-License-Identifier: MPL-2.0
"""Messages are counted as users count them: one for all of its parts, and none for what libzmq says by itself."""

import ctypes
import os
import time

import zmq

import zt
from zt import test
from zt.sock import blob, bound, context, sock

import stats as counted

U64 = ctypes.c_uint64
LATER = [(name, U64) for name in "bytes_copied read_by_peer read_from_peer sent received".split()]


class Stats(ctypes.Structure):
    """zmq_rdma_stats_t with its last fields."""

    _fields_ = [("known", counted.Stats)] + LATER


class Link(ctypes.Structure):
    """zmq_rdma_link_stats_t with its last fields."""

    _fields_ = [("known", counted.Link)] + LATER


def of_process():
    """Messages sent and received by all links of this process."""
    found = Stats()
    found.known.size = ctypes.sizeof(Stats)
    assert counted.library().zmq_rdma_stats(ctypes.byref(found)) == 0
    assert found.known.size == ctypes.sizeof(Stats)
    return found.sent, found.received


def links():
    """The links of this process, those of connects before those of binds, else oldest first."""
    found = (Link * 16)()
    count = counted.library().zmq_rdma_links(found, len(found), ctypes.sizeof(Link))
    return sorted(list(found)[:count], key=lambda link: (link.known.accepted, link.known.id))


def of_links():
    """Messages sent and received by each."""
    return [(link.sent, link.received) for link in links()]


def any_port():
    """These counters are of rdma:// connections, whatever the scheme under test."""
    return f"rdma://{zt.HOST}:*"


def pass_parts(push, pull, sizes):
    """Send messages of parts of these sizes, and take them."""
    for parts in sizes:
        push.send_multipart([blob(size, size) for size in parts])
    for parts in sizes:
        assert [len(part) for part in pull.recv_multipart()] == parts


SINGLE = [[0], [1], [33], [64], [255], [256], [8183], [8190], [8192], [20000]] * 3
PARTS = [[0, 0], [1, 2, 3], [255, 256], [300, 20000, 4], [8192] * 5, [64] * 400]


@test(needs="ZMQ_RDMA_PREFIX")
def with_all_their_parts():
    """Messages of one part and of many; what a connection counted stays counted when it is gone."""
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        push.connect(bound(pull, any_port()))
        pass_parts(push, pull, SINGLE)
        assert of_links() == [(len(SINGLE), 0), (0, len(SINGLE))], of_links()
        before = links()[0].known.counters.bytes_sent
        pass_parts(push, pull, PARTS)
        # ZMTP's framing, no more and no less.
        framed = sum(size + (2 if size < 256 else 9) for parts in PARTS for size in parts)
        assert links()[0].known.counters.bytes_sent == before + framed
        both = len(SINGLE) + len(PARTS)
        assert of_links() == [(both, 0), (0, both)], of_links()
        assert of_process() == (both, both)
    assert of_links() == [] and of_process() == (both, both), of_process()


@test(needs="ZMQ_RDMA_PREFIX")
def both_ways():
    """A request and its reply, with the empty part that libzmq puts before each."""
    with context() as ctx:
        rep, req = sock(ctx, zmq.REP), sock(ctx, zmq.REQ)
        req.connect(bound(rep, any_port()))
        for turn in range(1, 21):
            req.send(b"?")
            rep.send(rep.recv())
            req.recv()
            assert of_links() == [(turn, turn)] * 2, of_links()


@test(needs="ZMQ_RDMA_PREFIX")
def to_subscribers():
    """What a publisher filters away it does not send, and subscriptions are no messages."""
    with context() as ctx:
        pub, one, two = sock(ctx, zmq.XPUB), sock(ctx, zmq.SUB), sock(ctx, zmq.SUB)
        endpoint = bound(pub, any_port())
        for number, (sub, topics) in enumerate([(one, [b"a"]), (two, [b"b", b"ab"])]):
            for topic in topics + [b"end%d" % number]:
                sub.setsockopt(zmq.SUBSCRIBE, topic)
            sub.connect(endpoint)
            for _ in range(len(topics) + 1):
                assert pub.recv()[0] == 1
        two.setsockopt(zmq.UNSUBSCRIBE, b"ab")
        # It may be known to the publisher already from the other one's `a`.
        for number in range(300):
            pub.send(b"abc"[number % 3 : number % 3 + 1] + b"%d" % number)
        for number, sub in enumerate((one, two)):
            pub.send(b"end%d" % number)
            for _ in range(100):
                sub.recv()
            assert sub.recv() == b"end%d" % number
        sent = sorted(link.sent for link in links() if link.known.accepted)
        assert sent == [101, 101], sent
        assert of_process() == (202, 202), of_process()


@test(needs="ZMQ_RDMA_PREFIX")
def without_heartbeats():
    """PING and PONG go both ways in frames of their own, and are no messages."""
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL, HEARTBEAT_IVL=10), sock(ctx, zmq.PUSH, HEARTBEAT_IVL=10)
        push.connect(bound(pull, any_port()))
        pass_parts(push, pull, SINGLE)
        before = [link.known.counters.data_received for link in links()]
        while any(link.known.counters.data_received < frames + 10 for link, frames in zip(links(), before)):
            assert zt.seconds_left() > 0
            time.sleep(0.01)
        pass_parts(push, pull, PARTS)
        both = len(SINGLE) + len(PARTS)
        assert of_links() == [(both, 0), (0, both)], of_links()


@test(needs="ZMQ_RDMA_PREFIX")
def in_boxes():
    """Under CURVE what is on the wire does not tell what is a part, and what a heartbeat."""
    with context() as ctx:
        public, secret = zmq.curve_keypair()
        pull = sock(ctx, zmq.PULL, CURVE_SERVER=1, CURVE_SECRETKEY=secret, HEARTBEAT_IVL=10)
        public_too, secret_too = zmq.curve_keypair()
        keys = {"CURVE_SERVERKEY": public, "CURVE_PUBLICKEY": public_too, "CURVE_SECRETKEY": secret_too}
        push = sock(ctx, zmq.PUSH, **keys)
        push.connect(bound(pull, any_port()))
        pass_parts(push, pull, SINGLE + PARTS)
        both = len(SINGLE) + len(PARTS)
        assert of_links() == [(both, 0), (0, both)], of_links()


@test(needs="ZMQ_RDMA_PREFIX", bound=120)
def that_are_read():
    """Bodies that the receiver READs from where they are."""
    os.environ["ZMQ_RDMA_RENDEZVOUS"] = str(1 << 16)
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        push.connect(bound(pull, any_port()))
        pass_parts(push, pull, [[1 << 20], [3, 2 << 20], [1 << 17, 1 << 17, 5]] * 4)
        assert of_links() == [(12, 0), (0, 12)], of_links()
        assert links()[1].read_from_peer > 12 << 17


@test(needs="ZMQ_RDMA_PREFIX")
def that_wait_for_their_reader():
    """A reader that is behind does not make messages count twice."""
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL, RCVHWM=3), sock(ctx, zmq.PUSH, SNDHWM=3)
        push.connect(bound(pull, any_port()))
        push.setsockopt(zmq.SNDTIMEO, 300)
        total = 0
        try:
            while total < 100_000:
                push.send_multipart([b"w" * 5000, b"x" * 5000])
                total += 1
        except zmq.Again:
            pass
        for _ in range(total):
            pull.recv_multipart()
        assert of_links() == [(total, 0), (0, total)], (total, of_links())
