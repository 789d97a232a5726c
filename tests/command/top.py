# SPDX-License-Identifier: MPL-2.0
"""`zmq-rdma top` on live processes."""

import json
import os
import signal
import subprocess

import tool
import zmq

import zt
from zt import test
from zt.proc import Peer, ask, say
from zt.sock import bound, context, sock

SHARED = {"ZMQ_RDMA_STATS": "on"}


def busy(count):
    """Two links with some traffic, until told to end."""
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        endpoint = bound(pull, f"rdma://{zt.HOST}:*")
        push.connect(endpoint)
        for _ in range(count):
            push.send(b"t" * 500)
            pull.recv()
        say(endpoint)
        while ask():
            for _ in range(count):
                push.send(b"t" * 500)
                pull.recv()
            say()


@test(needs="ZMQ_RDMA_PREFIX")
def a_live_process():
    """Its connections with peers, devices and bytes, by number and without."""
    peer = Peer(busy, 100, env=SHARED)
    endpoint = peer.hear()
    code, look = tool.value("top", str(peer.pid), "--once")
    assert code == 0 and look["pid"] == peer.pid, look
    assert (look["links"], look["accepted"], look["connected"], look["died"]) == (2, 1, 1, 0), look
    ours, theirs = sorted(look["connections"], key=lambda one: one["role"] == "accepted")
    assert ours["peer"] == theirs["local"] == endpoint.split("://")[1], look
    assert ours["bytes_sent"] == theirs["bytes_received"] > 50000
    assert ours["device"] == theirs["device"] and ours["state"] == "open"
    assert (ours["messages_sent"], ours["messages_received"]) == (100, 0), look
    assert (theirs["messages_sent"], theirs["messages_received"]) == (0, 100), look
    assert (look["messages_sent"], look["messages_received"]) == (100, 100), look
    code, looks = tool.values("top", "--once")
    assert code == 0 and peer.pid in [look["pid"] for look in looks]
    code, words, _ = tool.run("top", str(peer.pid), "--once")
    assert code == 0 and endpoint.split("://")[1] in words and ours["device"] in words
    assert "in 100 messages" in words and "msgs out" in words, words
    peer.tell(False)
    peer.result()


@test(needs="ZMQ_RDMA_PREFIX")
def rates_follow():
    """From one look to the next bytes become rates; the end of the process is the end of it."""
    peer = Peer(busy, 50, env=SHARED)
    peer.hear()
    top = subprocess.Popen(
        [tool.path(), "--json", "top", str(peer.pid)], stdout=subprocess.PIPE, text=True
    )
    first = json.loads(top.stdout.readline())
    assert all(one["send_rate"] is None for one in first["connections"])
    peer.tell(True)
    peer.hear()
    while True:
        look = json.loads(top.stdout.readline())
        if sum(one["send_rate"] for one in look["connections"]) > 0:
            assert sum(one["message_rate"] for one in look["connections"]) > 0
            break
    peer.tell(False)
    peer.result()
    top.stdout.read()
    assert top.wait(zt.WAIT) == 0


@test(needs="ZMQ_RDMA_PREFIX")
def one_that_does_not_share():
    """It is told how a process is made to share; one that is not there, too."""
    peer = Peer(busy, 1)
    peer.hear()
    code, said, error = tool.run("top", str(peer.pid), "--once")
    assert code == 1 and said == "" and "ZMQ_RDMA_STATS=on" in error, error
    peer.tell(False)
    peer.result()
    code, _, error = tool.run("top", str(peer.pid), "--once")
    assert code == 1 and "no process" in error, error


def forks():
    """A parent that shares, and a child that has its own links."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        bound(pull, f"rdma://{zt.HOST}:*")
        parent_done, done = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(done)
            inner = zmq.Context()
            one, two = inner.socket(zmq.PULL), inner.socket(zmq.PUSH)
            two.connect(bound(one, f"rdma://{zt.HOST}:*"))
            two.send(b"c")
            one.recv()
            say(child or os.getpid())
            os.read(parent_done, 1)
            os._exit(0)
        ask()
        os.write(done, b"x")
        assert os.waitpid(child, 0)[1] == 0


@test(needs="ZMQ_RDMA_PREFIX")
def a_child_is_not_its_parent():
    """After a fork each shows its own connections."""
    peer = Peer(forks, env=SHARED)
    child = peer.hear()
    assert tool.value("top", str(child), "--once")[1]["links"] == 2
    assert tool.value("top", str(peer.pid), "--once")[1]["links"] == 0
    peer.tell()
    peer.result()


@test(needs="ZMQ_RDMA_PREFIX")
def another_user_may_not():
    """The kernel keeps it from those who may not trace the process."""
    peer = Peer(busy, 1, env=SHARED)
    peer.hear()
    words = [tool.path(), "top", str(peer.pid), "--once"]
    if os.geteuid() == 0:
        words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] + words
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode != 0 and done.stdout == "", done
        assert "may not be read" in done.stderr or "Permission denied" in done.stderr, done.stderr
    else:
        assert os.stat(f"/proc/{peer.pid}/fd").st_uid == os.geteuid()
    peer.tell(False)
    peer.result()


@test(needs="ZMQ_RDMA_PREFIX")
def interrupted():
    """A watcher that is interrupted ends, and its process goes on."""
    peer = Peer(busy, 1, env=SHARED)
    peer.hear()
    top = subprocess.Popen([tool.path(), "top", str(peer.pid)], stdout=subprocess.PIPE, text=True)
    top.stdout.readline()
    top.send_signal(signal.SIGINT)
    top.wait(zt.WAIT)
    peer.tell(True)
    peer.hear()
    peer.tell(False)
    peer.result()
