# SPDX-License-Identifier: MPL-2.0
"""ZMQ_RDMA_BUSY_POLL: messages pass whatever it is; who waits in vain sleeps, or not, as it
says; and a thread that looks notices signals. (What it gains perf/ measures.)"""

import os
import signal
import time

import zmq

import zt
from zt import test
from zt.proc import Peer, ask, say
from zt.sock import bound, context, sock

#: libzmq's number of the option ZMQ_BUSY_POLL, a draft.
BUSY_POLL = 113
SETTINGS = ("never", "adaptive", "1", "50", "20000", "always")


def echo():
    """Answers what comes, until an empty message does."""
    with context() as ctx:
        rep = sock(ctx, zmq.REP)
        say(bound(rep))
        while True:
            message = rep.recv()
            rep.send(message)
            if not message:
                break
        ask()


@test()
def each_setting():
    """A thousand round trips and a burst, with either end set to each value."""
    for setting in SETTINGS:
        peer = Peer(echo, env={"ZMQ_RDMA_BUSY_POLL": setting})
        os.environ["ZMQ_RDMA_BUSY_POLL"] = setting
        with context() as ctx:
            req = sock(ctx, zmq.REQ)
            req.connect(peer.hear())
            for n in range(zt.some(1000)):
                word = b"%d" % n * (n % 7 + 1)
                req.send(word)
                assert req.recv() == word
            req.send(b"")
            assert req.recv() == b""
            peer.tell()
            peer.result()


def states(thread):
    """State, and processor time in ticks, of a thread of this process."""
    with open(f"/proc/self/task/{thread}/stat", encoding="ascii") as stat:
        words = stat.read().rpartition(") ")[2].split()
    return words[0], int(words[11]) + int(words[12])


def io_thread(before):
    """The one thread beside the reaper that a context has started."""
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/comm", encoding="ascii") as comm:
            if thread not in before and "IO" in comm.read():
                return thread
    raise AssertionError("no I/O thread")


def idler(endpoint, option):
    """A connection that is used and then idle; tells what its I/O thread does then."""
    before = set(os.listdir("/proc/self/task"))
    with context() as ctx:
        req = sock(ctx, zmq.REQ)
        if option:
            req.setsockopt(BUSY_POLL, option)
        req.connect(endpoint)
        for _ in range(200):
            req.send(b"x")
            req.recv()
        thread = io_thread(before)
        # Either it is found asleep many times on end without having run, or it goes on running.
        asleep, (_, since) = 0, states(thread)
        while True:
            state, ticks = states(thread)
            asleep = asleep + 1 if state == "S" and ticks == since else 0
            if asleep == 2000 or ticks > since + 20:
                break
            if ticks != since and state == "S":
                since = ticks
            time.sleep(0.0001)
        say("sleeps" if asleep == 2000 else "runs")
        req.send(b"")
        req.recv()


@test()
def idle():
    """With nothing to do the I/O thread sleeps, and runs only if it is always to."""
    tried = [("never", 0, "sleeps"), ("adaptive", 0, "sleeps"), ("100", 0, "sleeps"), ("always", 0, "runs")]
    if zmq.has("draft"):
        tried.append(("never", 60_000_000, "runs"))
    for setting, option, does in tried:
        peer = Peer(echo, env={"ZMQ_RDMA_BUSY_POLL": "never"})
        it = Peer(idler, peer.hear(), option, env={"ZMQ_RDMA_BUSY_POLL": setting})
        told = it.hear()
        assert told == does, (setting, told)
        it.result()
        peer.tell()
        peer.result()


def interrupted():
    """Waits for a message that never comes, in a loop of its own, until a signal."""
    def note(_number, _frame):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGUSR1, note)
    with context() as ctx:
        pull = sock(ctx, zmq.PULL, RCVTIMEO=-1)
        bound(pull)
        try:
            say(os.getpid())
            pull.recv()
            say("a message")
        except KeyboardInterrupt:
            say("a signal")


@test()
def signals():
    """A signal ends a wait even if threads always look. One that
     comes before the wait has begun is lost on any transport, so it is sent until it is seen."""
    for setting in SETTINGS:
        peer = Peer(interrupted, env={"ZMQ_RDMA_BUSY_POLL": setting})
        pid = peer.hear()
        while not peer.heard():
            os.kill(pid, signal.SIGUSR1)
            peer.silent(0.1)
        assert peer.hear() == "a signal", setting
        peer.result()


@test()
def time_outs():
    """A time-out that is shorter than the look ends the wait all the same."""
    os.environ["ZMQ_RDMA_BUSY_POLL"] = "1000000"
    with context() as ctx:
        pull = sock(ctx, zmq.PULL, RCVTIMEO=1)
        bound(pull)
        for _ in range(5):
            try:
                pull.recv()
                assert False, "a message"
            except zmq.Again:
                pass
