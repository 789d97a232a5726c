# SPDX-License-Identifier: MPL-2.0
"""Rows 23, 28 and 35 of docs/reports.md: forks under load, limits of locked memory, how long
connecting takes."""

import ctypes
import os
import re
import resource
import threading

import zmq

import zt
from zt import test
from zt.proc import Peer, ask, say
from zt.sock import blob, bound, context, sock


def _child(how):
    """What a forked child does before it is gone; it never returns."""
    try:
        if how == 0:
            os._exit(0)
        if how == 1:
            os.execv("/bin/true", ["true"])
        if how == 2:
            # A careful daemon: closes whatever it has inherited.
            os.closerange(3, 1024)
            os._exit(0)
        # Its own exit, with what C has registered for it.
        ctypes.CDLL(None).exit(0)
    finally:
        os._exit(9)


@test(bound=120)
def row_23_forks_under_load():
    """Children that exit, exec, or close all they inherited, while messages flow both ways: none is lost."""
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        push.connect(bound(pull))
        push.send(b"first")
        assert pull.recv() == b"first"
        count, done = 20000, threading.Event()

        def feed():
            for number in range(count):
                push.send(number.to_bytes(4, "big") + bytes(number % 3000))
            done.set()

        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        forks = 0
        for number in range(count):
            if number % 200 == 0:
                child = os.fork()
                if child == 0:
                    _child(forks % 4)
                forks += 1
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            message = pull.recv()
            assert message[:4] == number.to_bytes(4, "big") and len(message) == 4 + number % 3000
        feeder.join(zt.WAIT)
        print(f"{forks} children")


def _forked_talk(endpoint):
    """In a forked child: a context of its own, one exchange."""
    ctx = zmq.Context()
    req = sock(ctx, zmq.REQ)
    req.connect(endpoint)
    req.send(b"from the child")
    answer = req.recv()
    req.close()
    ctx.term()
    os._exit(0 if answer == b"from the child" else 8)


@test()
def row_23_a_child_of_its_own():
    """A forked child that makes a context of its own uses it, while the parent's goes on."""
    with context() as ctx:
        rep, mine = sock(ctx, zmq.REP), sock(ctx, zmq.REQ)
        endpoint = bound(rep)
        mine.connect(endpoint)
        for _ in range(10):
            child = os.fork()
            if child == 0:
                _forked_talk(endpoint)
            for _ in range(2):
                if not mine.getsockopt(zmq.EVENTS) & zmq.POLLIN and mine.getsockopt(zmq.EVENTS) & zmq.POLLOUT:
                    mine.send(b"from the parent")
                rep.send(rep.recv())
            assert mine.recv() == b"from the parent"
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def limited(limit):
    """Exchanges messages where so many bytes may be locked; says how many are."""
    hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    if hard != resource.RLIM_INFINITY and not 0 <= limit <= hard:
        # More than this is not ours to give.
        limit = hard
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
    # Root may lock as it likes: be nobody.
    if os.geteuid() == 0:
        os.setresuid(65534, 65534, 65534)
    with context() as ctx:
        rep, req = sock(ctx, zmq.REP), sock(ctx, zmq.REQ)
        req.connect(bound(rep))
        for size in (1, 8192, 300000, 4 << 20):
            req.send(blob(size, size))
            request = rep.recv(copy=False)
            rep.send(request)
            assert req.recv() == blob(size, size), size
        with open("/proc/self/status", encoding="ascii") as status:
            locked = dict(line.split(":\t") for line in status if line.startswith(("VmLck", "VmPin")))
        device = request.get("Rdma-Device") if zt.SCHEME == "rdma" else "none"
        say([device, {name: int(value.split()[0]) for name, value in locked.items()}])


@test()
def row_28_any_limit_of_locked_memory():
    """64 KiB to no limit: it works, and device soft locks nothing. (An RDMA device: tests/vm.)"""
    for limit in (0, 64 << 10, 1 << 20, 8 << 20, 64 << 20, resource.RLIM_INFINITY):
        peer = Peer(limited, limit)
        device, locked = peer.hear()
        print(limit, device, locked)
        assert device not in ("soft", "none") or not any(locked.values()), locked


def crowd(endpoint, count):
    """Connects many at once, by name and by number."""
    with context() as ctx:
        pushes = []
        for number in range(count):
            push = sock(ctx, zmq.PUSH)
            push.connect(endpoint.replace("127.0.0.1", "localhost") if number % 2 else endpoint)
            push.send(b"%d" % number)
            pushes.append(push)
        say("all asked")
        ask()


@test(only="rdma")
def row_35_the_time_of_each_part_is_logged():
    """Each connection made says in the log how long its name and its peer took."""
    log = os.path.join(os.environ["ZT_LOGS"], "log")
    os.makedirs(os.environ["ZT_LOGS"], exist_ok=True)
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        peer = Peer(crowd, bound(pull), 100, env={"ZMQ_RDMA_LOG": "debug"}, stderr=log)
        assert sorted(int(pull.recv()) for _ in range(100)) == list(range(100))
        peer.tell()
        peer.hear()
        peer.result()
    with open(log, encoding="utf-8", errors="replace") as text:
        said = re.findall(r"connected to (rdma://\S+): ([\d.]+) ms for the name, ([\d.]+) ms for the peer", text.read())
    # A line that repeats is counted, not written again; the times make most of them differ.
    names = {where.split("//")[1].split(":")[0] for where, _, _ in said}
    assert len(said) > 2 and names == {zt.HOST, "localhost" if zt.HOST == "127.0.0.1" else zt.HOST}, said[:5]
    slowest = max(said, key=lambda line: float(line[2]))
    print(f"SHOW: 100 at once: the slowest took {slowest[1]} ms for its name and {slowest[2]} ms for its peer")
