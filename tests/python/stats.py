# SPDX-License-Identifier: MPL-2.0
"""The counters of zmq_rdma.h through ctypes, as a program that uses a binding
may read them."""

import contextlib
import ctypes
import os
import socket as posix

import zmq

import zt
from zt import test
from zt.proc import Peer, ask, say
from zt.sock import Monitor, bound, context, port_of, sock

U32, U64 = ctypes.c_uint32, ctypes.c_uint64


class Counters(ctypes.Structure):
    """zmq_rdma_counters_t."""

    _fields_ = [
        (name, U64)
        for name in (
            "bytes_sent bytes_received data_sent data_received control_sent control_received "
            "pings rescues credit_stalls queue_stalls"
        ).split()
    ]


class Stats(ctypes.Structure):
    """zmq_rdma_stats_t."""

    _fields_ = (
        [("size", U32), ("links", U32)]
        + [
            (name, U64)
            for name in (
                "accepted connected failed_accepts failed_connects rejects_sent rejects_received closed died"
            ).split()
        ]
        + [("counters", Counters), ("pinned", U64), ("unpinned", U64)]
    )


class Link(ctypes.Structure):
    """zmq_rdma_link_stats_t."""

    _fields_ = (
        [("id", U64), ("since", U64), ("state", U32), ("accepted", U32), ("device_kind", ctypes.c_int32)]
        + [(name, U32) for name in "slot credits sends receives unread".split()]
        + [("counters", Counters), ("pinned", U64)]
        + [("device", ctypes.c_char * 32), ("local", ctypes.c_char * 96), ("peer", ctypes.c_char * 96)]
    )


def library():
    """The libzmq that this process uses."""
    lib = ctypes.CDLL("libzmq.so.5")
    lib.zmq_rdma_links.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
    return lib


def stats():
    """Counters of this process."""
    found = Stats(size=ctypes.sizeof(Stats))
    assert library().zmq_rdma_stats(ctypes.byref(found)) == 0
    assert found.size == ctypes.sizeof(Stats)
    return found


def links():
    """Counters of its links."""
    count = library().zmq_rdma_links(None, 0, ctypes.sizeof(Link))
    found = (Link * (count + 8))()
    count = library().zmq_rdma_links(found, len(found), ctypes.sizeof(Link))
    return list(found)[: min(count, len(found))]


def any_port():
    """These counters are of rdma:// connections, whatever the scheme under test."""
    return f"rdma://{zt.HOST}:*"


def echo():
    """Answers until told to end; then its counters."""
    with context() as ctx:
        rep = sock(ctx, zmq.REP)
        say(bound(rep, any_port()))
        for _ in range(ask()):
            rep.send(rep.recv())
        found = stats()
        told = [found.accepted, found.counters.bytes_received, len(links())]
        ask()
        return told


@test(needs="ZMQ_RDMA_PREFIX")
def both_sides_agree():
    """What one process sent the other received; a link names its device and its peer."""
    peer = Peer(echo)
    endpoint = peer.hear()
    with context() as ctx:
        req = sock(ctx, zmq.REQ)
        req.connect(endpoint)
        peer.tell(50)
        for _ in range(50):
            req.send(b"y" * 3000)
            req.recv()
        (link,) = links()
        assert link.peer.decode().endswith(f":{port_of(endpoint)}"), link.peer
        assert link.device and link.state == 1 and not link.accepted
        assert link.counters.bytes_sent > 150000 and link.counters.data_sent >= 50
        assert link.counters.bytes_received > 150000
        assert link.credits > 0 and link.receives > 0
        peer.tell()
        assert peer.result() == [1, link.counters.bytes_sent, 1]


@test(needs="ZMQ_RDMA_PREFIX")
def a_death_is_counted():
    """A peer that is killed is a link that died; libzmq's next attempts are failed connects."""
    peer = Peer(echo)
    endpoint = peer.hear()
    with context() as ctx:
        req = sock(ctx, zmq.REQ)
        watch = Monitor(req)
        req.connect(endpoint)
        peer.tell(2)
        req.send(b"x")
        req.recv()
        assert stats().connected == 1
        peer.kill()
        watch.wait_for("DISCONNECTED")
        watch.wait_for("CONNECT_RETRIED", 2)
        found = stats()
        assert (found.died, found.closed, found.links) == (1, 0, 0), (found.died, found.closed, found.links)
        assert found.failed_connects >= 1, found.failed_connects
        assert found.counters.bytes_sent > 0


@test(needs="ZMQ_RDMA_PREFIX")
def strangers_are_counted():
    """One who does not speak the protocol is a failed accept, and no death."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        watch = Monitor(pull)
        endpoint = bound(pull, any_port())
        with contextlib.closing(posix.create_connection((zt.HOST, port_of(endpoint)))) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" * 4)
            watch.wait_for("DISCONNECTED")
    # The event comes a moment before the link goes.
    found = stats()
    assert (found.failed_accepts, found.accepted, found.died, found.links) == (1, 0, 0, 0)


@test(needs="ZMQ_RDMA_PREFIX")
def a_slow_reader_stalls_the_sender():
    """The sender's stalls count the waits for credit; unread frames show at the reader."""
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL, RCVHWM=1), sock(ctx, zmq.PUSH, SNDHWM=1)
        push.connect(bound(pull, any_port()))
        sent = 0
        push.setsockopt(zmq.SNDTIMEO, 500)
        with contextlib.suppress(zmq.Again):
            while sent < 100000:
                push.send(b"z" * 65536)
                sent += 1
        found = stats()
        assert found.counters.credit_stalls > 0, "nobody waited"
        accepted = next(link for link in links() if link.accepted)
        assert accepted.unread > 0
        before = found.counters.bytes_received
        for _ in range(sent):
            pull.recv()
        assert stats().counters.bytes_received >= max(before, sent * 65536)




@test(needs="ZMQ_RDMA_PREFIX")
def any_thread_may_read():
    """Reading while links come and go neither crashes nor stops them."""
    with context(io_threads=2) as ctx:
        pull = sock(ctx, zmq.PULL)
        endpoint = bound(pull, any_port())
        for _ in range(60):
            push = sock(ctx, zmq.PUSH)
            push.connect(endpoint)
            push.send(b"a" * 100)
            found = links()
            assert all(link.id and link.peer for link in found)
            pull.recv()
            push.close()
            stats()
        assert stats().connected == 60


@test(needs="ZMQ_RDMA_PREFIX")
def a_child_has_its_own():
    """After fork the child's counters begin at zero, and the parent's stay."""
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        push.connect(bound(pull, any_port()))
        push.send(b"b")
        pull.recv()
        child = os.fork()
        if child == 0:
            found = stats()
            os._exit(int(found.links != 0 or found.connected != 0 or links() != []))
        assert os.waitpid(child, 0)[1] == 0
        assert stats().links == 2


def shared_descriptors(pid):
    """Descriptors of a process by which others read its counters."""
    names = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        # The descriptor of the listing itself is gone.
        with contextlib.suppress(FileNotFoundError):
            names.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return [name for name in names if "zmq-rdma-stats" in name]


def binds(on):
    """Binds; says how many descriptors share its counters."""
    if on:
        os.environ["ZMQ_RDMA_STATS"] = on
    with context() as ctx:
        bound(sock(ctx, zmq.PULL), any_port())
        bound(sock(ctx, zmq.PULL), any_port())
        return len(shared_descriptors(os.getpid()))


@test(needs="ZMQ_RDMA_PREFIX")
def shared_on_request_only():
    """Without ZMQ_RDMA_STATS=on there is no descriptor by which others could read."""
    assert Peer(binds, None).result() == 0
    assert Peer(binds, "off").result() == 0
    assert Peer(binds, "on").result() == 1
