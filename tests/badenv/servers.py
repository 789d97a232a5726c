# SPDX-License-Identifier: MPL-2.0
"""What an rdma:// client finds where it connects: a server of another kind,
another version, or of bad manners. It says so, retries at its interval, and
its context goes on with the others."""

import os
import socket
import threading
import time

import zmq

import zt
from iwarp import CRC, ENHANCED, REJECT, REPLY, hello, read_setup, setup
from victim import wait_for_line
from zt import test
from zt.proc import Peer, ask, say
from zt.sock import Monitor, bound, context, sock


def client(endpoint):
    """Connects to the bad server and to a good one; says how the bad one looks from here."""
    with context() as ctx:
        lost = sock(ctx, zmq.PUSH, RECONNECT_IVL=100, HANDSHAKE_IVL=1000)
        watch = Monitor(lost)
        lost.connect(endpoint)
        begun = time.monotonic()
        names = [name for name, _, _ in watch.until("CONNECT_RETRIED", "DISCONNECTED")]
        for _ in range(3):
            names += [name for name, _, _ in watch.until("CONNECT_RETRIED")]
        took = time.monotonic() - begun
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        push.connect(bound(pull))
        push.send(b"hello")
        assert pull.recv() == b"hello"
        say([names, took])
        ask()


def fake(manner):
    """A server that answers each connection by `manner(connection)`, in a thread; its endpoint."""
    listening = socket.create_server((zt.HOST, 0), backlog=50)

    def serve():
        while True:
            raw, _ = listening.accept()
            threading.Thread(target=_one, args=(manner, raw), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return f"rdma://{zt.HOST}:{listening.getsockname()[1]}"


def _one(manner, raw):
    try:
        raw.settimeout(zt.WAIT)
        manner(raw)
    except OSError:
        pass
    raw.close()


def _answer(private, flags=CRC, then=b""):
    """The manner of a server that answers in the revision it was asked in."""

    def manner(raw):
        _, asked, revision, _ = read_setup(raw)
        # RFC 6581: both depths of the reads, four bytes before what is ours.
        words = bytes((0, 1, 0, 1)) if asked & ENHANCED else b""
        raw.sendall(setup(REPLY, flags | asked & ENHANCED, revision, words + private) + then)
        raw.recv(1000)

    return manner


def _words(reply):
    """The manner of a server that takes the request and says these bytes."""

    def manner(raw):
        read_setup(raw)
        raw.sendall(reply)
        raw.recv(1000)

    return manner


def _meet(manner, pattern, may_stand=False):
    """A client meets such a server; its log must match."""
    os.makedirs(os.environ["ZT_LOGS"], exist_ok=True)
    log = os.path.join(os.environ["ZT_LOGS"], "client.log")
    peer = Peer(client, fake(manner), env={"ZMQ_RDMA_LOG": "info"}, stderr=log)
    names, took = peer.hear()
    print(names, took)
    assert "HANDSHAKE_SUCCEEDED" not in names
    assert may_stand or "CONNECTED" not in names, names
    assert took > 0.1, f"four tries in {took:.3f} s: a hot loop"

    def said():
        with open(log, encoding="utf-8", errors="replace") as text:
            return text.read()

    wait_for_line(said, pattern)
    assert "defect" not in said(), said()
    peer.tell()
    peer.result()


NOT_OURS = r"(?i)(error|warn): .*(protocol|MPA|not|tcp://)"


@test(only="rdma")
def another_version():
    """A reply or a reject of a version that we do not speak: the log has both ranges."""
    reject = hello(kind=3, least=7, most=9, reason=1)
    _meet(_answer(reject, CRC | REJECT), r"(?i)version.*\b7\b.*\b9\b|version.*\b9\b")


@test(only="rdma")
def wrong_choice():
    """A server that chooses a version nobody offered."""
    _meet(_answer(hello(kind=2, least=9, most=9)), NOT_OURS)


@test(only="rdma")
def not_understood():
    """A reject that says our hello was not understood."""
    _meet(_answer(hello(kind=3, reason=2), CRC | REJECT), r"(?i)(error|warn): .*(hello|underst|refused)")


@test(only="rdma")
def no_room():
    """A reject for want of room."""
    _meet(_answer(hello(kind=3, reason=3), CRC | REJECT), r"(?i)(error|warn): .*(room|refused)")


@test(only="rdma")
def bare_reject():
    """A reject without a word."""
    _meet(_answer(b"", CRC | REJECT), r"(?i)(error|warn): .*(refused|reject|does not speak)")


@test(only="rdma")
def bare_accept():
    """An iWARP server of another kind: it accepts, without our hello."""
    _meet(_answer(b""), NOT_OURS)


@test(only="rdma")
def http_server():
    """An HTTP server."""
    _meet(lambda raw: raw.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"), NOT_OURS)


@test(only="rdma")
def talks_first():
    """A server that speaks before it is spoken to (SSH, SMTP)."""
    _meet(lambda raw: (raw.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), raw.recv(1000), raw.recv(1000)), NOT_OURS)


@test(only="rdma")
def closes_at_once():
    """A server that closes every connection."""
    _meet(lambda raw: None, r"(?i)(error|warn): .*")


@test(only="rdma")
def closes_after_request():
    """A server that takes the request and closes."""
    _meet(read_setup, r"(?i)(error|warn): .*")


@test(only="rdma")
def silent():
    """A server that never answers: ZMQ_HANDSHAKE_IVL bounds it."""
    _meet(lambda raw: (raw.recv(1000), raw.recv(1000)), r"")


@test(only="rdma")
def long_reply():
    """A reply that announces more than MPA allows."""
    _meet(_answer(b"x" * 600), NOT_OURS)


@test(only="rdma")
def other_revision():
    """MPA replies of revisions that were not asked for."""
    for revision in (0, 3, 77):
        _meet(_words(setup(REPLY, revision=revision, private=hello(kind=2))), NOT_OURS)


@test(only="rdma")
def garbage_after_accept():
    """A server that accepts in our name, and goes on with garbage."""
    _meet(_answer(hello(kind=2), then=b"\x55" * 500), r"(?i)(error|warn): .*", may_stand=True)
