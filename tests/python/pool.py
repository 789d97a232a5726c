# SPDX-License-Identifier: MPL-2.0
"""The memory of large messages that are READ: kept from one message to the next, whoever frees them
and whenever; and given back."""

import contextlib
import copy
import ctypes
import hashlib
import os
import signal
import threading

import zmq

import zt
from zt import test
from zt.proc import Peer, ask, say
from zt.sock import blob, bound, context, sock

from rendezvous import Stats as Large, any_port, switch
from stats import library

KIB, MIB = 1 << 10, 1 << 20
#: From so many bytes on.
FROM = 64 * KIB
SHARED = 3


class Stats(ctypes.Structure):
    """zmq_rdma_stats_t with its last fields."""

    _fields_ = [("large", Large)] + [
        (name, ctypes.c_uint64) for name in "sent received bytes lent hits misses refused".split()
    ]


def pool():
    """The pool of this process."""
    found = Stats()
    found.large.known.size = ctypes.sizeof(Stats)
    assert library().zmq_rdma_stats(ctypes.byref(found)) == 0
    assert found.large.known.size == ctypes.sizeof(Stats)
    return found


def books():
    """The same, for those who cannot be here."""
    found = pool()
    return [found.bytes, found.lent, found.hits, found.misses, found.refused]


def until(what):
    """Look until it is so; frames are freed by I/O threads in their own time."""
    pause = threading.Event()
    while not what():
        assert zt.seconds_left() > 1, "it never was"
        pause.wait(0.01)


def digest(frame):
    """Hash of a message in its place."""
    return hashlib.sha256(frame.buffer).hexdigest()


def server(rounds):
    """Takes so many messages of one peer and sends each back; its books with the socket open, and after."""
    with context() as ctx:
        rep = sock(ctx, zmq.REP)
        say(bound(rep, any_port()))
        for _ in range(rounds):
            rep.send(rep.recv(copy=False), copy=False)
        open_books = books()
        ask()
    return open_books, books()


@contextlib.contextmanager
def served(rounds):
    """A REQ socket with a server behind it, and what ends that and tells its books."""
    peer = Peer(server, rounds)
    with context() as ctx:
        req = sock(ctx, zmq.REQ)
        req.connect(peer.hear())


        def end():
            peer.tell()
            return peer.result()

        yield req, end


@test(needs="ZMQ_RDMA_PREFIX", bound=60)
def one_body_serves_many_messages():
    """Both sides take a few chunks for all messages of a size, and give all back at the end."""
    switch(FROM)
    with served(40) as (req, end):
        for n in range(40):
            message = blob(n, MIB)
            req.send(message)
            assert req.recv(copy=False).buffer == message
        here = books()
        there, after = end()
    for _, _, hits, misses, refused in (here, there):
        assert hits >= 30 and misses <= 6 and refused == 0, (here, there)
    assert here[3] * MIB >= here[0] > 0, here
    until(lambda: pool().bytes == 0)
    assert after[:2] == [0, 0], after


@test(needs="ZMQ_RDMA_PREFIX", bound=60)
def off_there_is_none():
    """Without READ, without a pool, and below the size, messages are malloc's."""
    for rendezvous, cap in (("off", "auto"), (FROM, "off"), (2 * MIB, "auto")):
        switch(rendezvous)
        os.environ["ZMQ_RDMA_POOL"] = cap
        with served(3) as (req, end):
            for n in range(3):
                req.send(blob(n, MIB))
                assert req.recv() == blob(n, MIB)
            assert books() == [0] * 5
            assert end()[0] == [0] * 5


class Message(ctypes.Structure):
    """zmq_msg_t."""

    _fields_ = [("bytes", ctypes.c_ubyte * 64)]
    _align_ = 8


def calls():
    """zmq_msg_ of libzmq."""
    lib = library()
    lib.zmq_msg_data.restype = ctypes.c_void_p
    lib.zmq_msg_size.restype = ctypes.c_size_t
    lib.zmq_msg_init_size.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return lib


@contextlib.contextmanager
def pooled():
    """While a socket with a use for it is open."""
    switch(FROM)
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        pull.bind(any_port())
        yield


@test(needs="ZMQ_RDMA_PREFIX")
def a_message_is_as_ever():
    """zmq_msg_t from the pool: size, data, copy, move, ZMQ_SHARED; the last copy frees it, in any thread."""
    lib = calls()
    with pooled():
        one, two, three = (Message() for _ in range(3))
        at = [ctypes.byref(message) for message in (one, two, three)]
        assert lib.zmq_msg_init_size(at[0], MIB) == 0
        assert (pool().lent, lib.zmq_msg_size(at[0])) == (MIB, MIB)
        data = lib.zmq_msg_data(at[0])
        assert data % 16 == 0 and lib.zmq_msg_get(at[0], SHARED) == 0
        ctypes.memmove(data, blob(1, MIB), MIB)
        for message in at[1:]:
            assert lib.zmq_msg_init(message) == 0
        assert lib.zmq_msg_copy(at[1], at[0]) == 0
        assert [lib.zmq_msg_get(message, SHARED) for message in at[:2]] == [1, 1]
        assert lib.zmq_msg_move(at[2], at[0]) == 0
        assert lib.zmq_msg_size(at[0]) == 0
        assert lib.zmq_msg_data(at[1]) == lib.zmq_msg_data(at[2]) == data
        assert lib.zmq_msg_close(at[1]) == 0
        assert pool().lent == MIB
        assert ctypes.string_at(data, MIB) == blob(1, MIB)
        thread = threading.Thread(target=lib.zmq_msg_close, args=[at[2]])
        thread.start()
        thread.join()
        assert books()[:2] == [MIB, 0], books()
        assert lib.zmq_msg_close(at[0]) == 0
        # A message of its size has its place; a larger one another.
        assert lib.zmq_msg_init_size(at[0], MIB - 5000) == 0
        assert lib.zmq_msg_data(at[0]) == data
        assert lib.zmq_msg_init_size(at[1], MIB + 1) == 0
        assert lib.zmq_msg_size(at[1]) == MIB + 1
        for message in at[:2]:
            assert lib.zmq_msg_close(message) == 0


@test(needs="ZMQ_RDMA_PREFIX")
def a_message_outlives_all():
    """What the program keeps stays readable after zmq_ctx_term, and goes when it is freed."""
    switch(FROM)
    with served(1) as (req, end):
        req.send(blob(0, MIB))
        kept = req.recv(copy=False)
        end()
    until(lambda: pool().bytes == pool().lent == MIB)
    other = copy.copy(kept)
    assert kept.buffer == blob(0, MIB)
    del kept
    assert other.buffer == blob(0, MIB)
    del other
    assert books()[:2] == [0, 0]


def fan(endpoint):
    """Takes messages of a publisher; their hashes."""
    with context() as ctx:
        sub = sock(ctx, zmq.SUB, SUBSCRIBE=b"", RCVHWM=0)
        sub.connect(endpoint)
        return [digest(sub.recv(copy=False)) for _ in range(ask())]


@test(needs="ZMQ_RDMA_PREFIX", bound=120)
def peers_share_a_body():
    """A publisher's peers READ one body, one at its own time, one is killed in the middle: the others lose nothing."""
    switch(FROM)
    count = 6
    want = [hashlib.sha256(blob(n, 4 * MIB)).hexdigest() for n in range(count)]
    with context() as ctx:
        pub = sock(ctx, zmq.XPUB, SNDHWM=0, XPUB_VERBOSE=1)
        endpoint = bound(pub, any_port())
        peers = [Peer(fan, endpoint) for _ in range(3)]
        victim = Peer(fan, endpoint)
        for _ in range(4):
            assert pub.recv() == b"\1"
        victim.tell(1 << 20)
        for peer in peers[:2]:
            peer.tell(count)
        for n in range(count):
            pub.send(blob(n, 4 * MIB))
            if n == 2:
                victim.kill()
        for peer in peers[:2]:
            assert peer.result() == want
        peers[2].tell(count)
        assert peers[2].result() == want
        until(lambda: pool().lent == 0)
    assert pool().bytes == 0


@test(needs="ZMQ_RDMA_PREFIX")
def a_child_has_its_copy():
    """A forked child reads and frees what it has inherited, and uses a pool of its own; the parent's
    message, connection and pool do not notice."""
    switch(FROM)
    with served(3) as (req, end):
        req.send(blob(0, MIB))
        kept = req.recv(copy=False)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                assert kept.buffer == blob(0, MIB)
                del kept
                assert books() == [0] * 5, books()
                # What the parent had of an RDMA device a child cannot use.
                os.environ["ZMQ_RDMA_DEVICE"] = "soft"
                with context() as ctx:
                    push, pull = sock(ctx, zmq.PUSH), sock(ctx, zmq.PULL)
                    push.connect(bound(pull, any_port()))
                    push.send(blob(7, MIB))
                    assert pull.recv() == blob(7, MIB)
                    assert pool().misses > 0
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert kept.buffer == blob(0, MIB)
        for n in range(2):
            req.send(kept, copy=False)
            assert req.recv() == blob(0, MIB), n
        end()


@test(needs="ZMQ_RDMA_PREFIX", bound=120)
def at_its_cap_malloc_stands_in():
    """More messages under way than the pool may hold: all arrive, and the pool is no larger than it may be."""
    switch(FROM)
    os.environ["ZMQ_RDMA_POOL"] = "3"
    peer = Peer(fan_in, 20)
    endpoint = peer.hear()
    most = 0
    with context() as ctx:
        push = sock(ctx, zmq.PUSH)
        # Nothing goes before all of them are there.
        peer.stop()
        push.connect(endpoint)
        for n in range(20):
            push.send(blob(n, MIB))
            most = max(most, pool().bytes)
        os.kill(peer.pid, signal.SIGCONT)
        assert most == 3 * MIB and pool().refused > 0, (most, books())
        peer.tell()
        got, there = peer.result()
        assert got == [hashlib.sha256(blob(n, MIB)).hexdigest() for n in range(20)]
        assert there[0] <= 3 * MIB


def fan_in(count):
    """Takes messages when told to, and keeps them all until the end."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        say(bound(pull, any_port()))
        ask()
        kept = [pull.recv(copy=False) for _ in range(count)]
        return [digest(frame) for frame in kept], books()


def late(count):
    """Reads only when told to; hashes."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL, RCVHWM=1)
        say(bound(pull, any_port()))
        ask()
        return [digest(pull.recv(copy=False)) for _ in range(count)]


@test(needs="ZMQ_RDMA_PREFIX")
def a_child_has_what_peers_may_read():
    """A fork with messages exposed to a peer, of the pool and of the program: the child has them all."""
    switch(FROM)
    bodies = [blob(n, 2 * MIB) for n in range(8)]
    peer = Peer(late, len(bodies))
    with context() as ctx:
        push = sock(ctx, zmq.PUSH)
        push.connect(peer.hear())
        for n, body in enumerate(bodies):
            push.send(body, copy=n % 2 == 0)
        # The others wait for a peer that does not read.
        until(lambda: pool().large.read_by_peer > MIB)
        child = os.fork()
        if child == 0:
            same = all(blob(n, 2 * MIB) == body for n, body in enumerate(bodies))
            os._exit(0 if same else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        peer.tell()
        assert peer.result() == [hashlib.sha256(body).hexdigest() for body in bodies]


def keeper(count):
    """Takes so many messages and keeps them; how much was READ, and is pinned while they are kept."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        say(bound(pull, any_port()))
        kept = [pull.recv(copy=False) for _ in range(count)]
        found = pool()
        ask()
        return [digest(frame) for frame in kept], found.large.read_from_peer, found.large.known.pinned


@test(needs="ZMQ_RDMA_PREFIX", bound=120)
def what_is_kept_is_not_in_the_way():
    """Messages that the program keeps, more than may be pinned for such: the next are READ all the same."""
    switch(FROM)
    count = 80
    peer = Peer(keeper, count)
    with context() as ctx:
        push = sock(ctx, zmq.PUSH)
        push.connect(peer.hear())
        for n in range(count):
            push.send(blob(n, MIB))
        peer.tell()
        got, read, pinned = peer.result()
        assert got == [hashlib.sha256(blob(n, MIB)).hexdigest() for n in range(count)]
        assert read > count * (MIB - 64), read
        assert pinned < 80 * MIB, pinned


@test(needs="ZMQ_RDMA_PREFIX")
def what_is_idle_is_given_back():
    """A connection that goes on without large messages keeps no memory for them."""
    switch(FROM)
    with served(2) as (req, end):
        req.send(blob(0, MIB))
        req.recv()
        assert pool().bytes > 0
        until(lambda: pool().bytes == 0)
        req.send(blob(0, MIB))
        assert req.recv() == blob(0, MIB)
        end()
