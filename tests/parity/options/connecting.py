# SPDX-License-Identifier: MPL-2.0
"""Options about when: connecting, trying again, giving up, leaving."""

import contextlib
import socket as posix

import zmq

import reach
import zt
from mock import Mock
from reach import covers, put
from zt import test
from zt.proc import Peer, ask, say
from zt.servers import echo_once
from zt.sock import Monitor, any_port, bound, context, dead_port, sock


@contextlib.contextmanager
def _unanswering():
    """A port where a connect is neither taken nor refused."""
    with posix.socket() as full, contextlib.ExitStack() as stack:
        full.bind((zt.HOST, 0))
        full.listen(0)
        for _ in range(3):
            one = stack.enter_context(posix.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        yield full.getsockname()[1]


def _names(events):
    return [name for name, _, _ in events]


@test()
@covers("ZMQ_CONNECT_TIMEOUT")
def connect_timeout():
    """A connect that nobody answers is given up, then tried again."""

    def story(scheme):
        with context() as ctx, _unanswering() as port:
            push = sock(ctx, zmq.PUSH, CONNECT_TIMEOUT=200, RECONNECT_IVL=100)
            watch = Monitor(push)
            push.connect(f"{scheme}://{zt.HOST}:{port}")
            return _names(watch.until("CONNECT_RETRIED") + watch.until("CONNECT_RETRIED"))

    tcp, ours = zt.both(story)
    assert ours == tcp == ["CONNECT_DELAYED", "CLOSED", "CONNECT_RETRIED"] * 2, (ours, tcp)


@test(only="rdma soft")
@covers("ZMQ_CONNECT_TIMEOUT", "ZMQ_HANDSHAKE_IVL")
def mute_below_zmtp():
    """A TCP server that takes the connection and says nothing: either option gives it up."""
    for options in ({"CONNECT_TIMEOUT": 200}, {"HANDSHAKE_IVL": 200}):
        with context() as ctx, posix.create_server((zt.HOST, 0)) as mute:
            push = sock(ctx, zmq.PUSH, RECONNECT_IVL=100, **options)
            watch = Monitor(push)
            push.connect(f"{zt.SCHEME}://{zt.HOST}:{mute.getsockname()[1]}")
            told = _names(watch.until("CONNECT_RETRIED"))
            assert told == ["CONNECT_DELAYED", "CLOSED", "CONNECT_RETRIED"], (options, told)


def _intervals(scheme, count, **options):
    """The intervals between tries at a port where nobody listens."""
    with context() as ctx:
        held, port = dead_port()
        push = sock(ctx, zmq.PUSH, **options)
        watch = Monitor(push, zmq.EVENT_CONNECT_RETRIED)
        push.connect(f"{scheme}://{zt.HOST}:{port}")
        values = [value for _, value, _ in watch.wait_for("CONNECT_RETRIED", count)]
        held.close()
        return values


@test()
@covers("ZMQ_RECONNECT_IVL", "ZMQ_RECONNECT_IVL_MAX")
def reconnect_intervals():
    """From one to two intervals; with a maximum, doubling up to it."""
    for value in _intervals(zt.SCHEME, 5, RECONNECT_IVL=40):
        assert 40 <= value < 80, value
    tcp, ours = zt.both(lambda scheme: _intervals(scheme, 5, RECONNECT_IVL=20, RECONNECT_IVL_MAX=100))
    assert ours == tcp == [20, 40, 80, 100, 100], (ours, tcp)


@test()
@covers("ZMQ_RECONNECT_IVL")
def no_reconnect():
    """-1: a lost connection is not made again."""

    def story(scheme):
        with context() as ctx:
            pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH, RECONNECT_IVL=-1)
            watch = Monitor(push)
            push.connect(bound(pull, any_port(scheme)))
            push.send(b"hello")
            pull.recv()
            pull.close(0)
            told = _names(watch.until("DISCONNECTED"))
            while (event := watch.next(0.4)) is not None:
                told.append(event[0])
            return told

    tcp, ours = zt.both(story)
    assert ours == tcp and ours[-1] in ("DISCONNECTED", "CLOSED"), (ours, tcp)


@test()
@covers("ZMQ_RECONNECT_STOP")
def reconnect_stop():
    """Stops after a refusal, a failed handshake, a disconnect: each where asked for, and there only."""
    refused, handshake, disconnect = 1, 2, 4

    def refusal(scheme, stop):
        with context() as ctx:
            held, port = dead_port()
            push = sock(ctx, zmq.PUSH, RECONNECT_IVL=50)
            put(push, reach.RECONNECT_STOP, stop)
            watch = Monitor(push)
            push.connect(f"{scheme}://{zt.HOST}:{port}")
            told = _names(watch.until("CLOSED"))
            again = watch.next(zt.WAIT if stop != refused else 0.4)
            held.close()
            return told, again and again[0]

    def failure(scheme, stop):
        with context() as ctx:
            mock = Mock(ctx, scheme)
            push = sock(ctx, zmq.PUSH, RECONNECT_IVL=50)
            put(push, reach.RECONNECT_STOP, stop)
            watch = Monitor(push)
            push.connect(mock.endpoint)
            mock.write(b"\xff" + b"\0" * 8 + b"\x7f" + b"\x03\x00" + b"BOGUS".ljust(20, b"\0") + b"\0" * 32)
            told = _names(watch.until("DISCONNECTED", "HANDSHAKE_FAILED_PROTOCOL", "HANDSHAKE_FAILED_NO_DETAIL"))
            while (event := watch.next(0.4 if stop == handshake else 1)) is not None and event[0] != "CONNECT_RETRIED":
                told.append(event[0])
            return told, event and event[0]

    def leave(scheme, stop):
        with context() as ctx:
            pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH, RECONNECT_IVL=50)
            put(push, reach.RECONNECT_STOP, stop)
            watch = Monitor(push)
            endpoint = bound(pull, any_port(scheme))
            push.connect(endpoint)
            push.send(b"hello")
            pull.recv()
            push.disconnect(endpoint)
            told = _names(watch.until("HANDSHAKE_SUCCEEDED"))
            while (event := watch.next(0.4)) is not None:
                told.append(event[0])
            return told

    for scenario in (refusal, failure, leave):
        for stop in (0, refused, handshake, disconnect):
            tcp, ours = zt.both(lambda scheme: scenario(scheme, stop))
            print(scenario.__name__, stop, ours)
            assert ours == tcp, (scenario.__name__, stop, ours, tcp)


@test()
@covers("ZMQ_HANDSHAKE_IVL")
def handshake_interval():
    """A peer that connects, or is connected to, and says nothing is given up."""

    def acceptor(scheme):
        with context() as ctx:
            pull = sock(ctx, zmq.PULL, HANDSHAKE_IVL=200)
            watch = Monitor(pull)
            mock = Mock(ctx, endpoint=bound(pull, any_port(scheme))).connected()
            told = _names(watch.until("DISCONNECTED", "HANDSHAKE_FAILED_NO_DETAIL"))
            mock.ended()
            return told

    def connecter(scheme):
        with context() as ctx:
            mock = Mock(ctx, scheme)
            push = sock(ctx, zmq.PUSH, HANDSHAKE_IVL=200, RECONNECT_IVL=-1)
            watch = Monitor(push)
            push.connect(mock.endpoint)
            told = _names(watch.until("DISCONNECTED", "HANDSHAKE_FAILED_NO_DETAIL"))
            mock.connected().ended()
            return told

    for story in (acceptor, connecter):
        tcp, ours = zt.both(story)
        assert ours == tcp, (ours, tcp)


@test()
@covers("ZMQ_HEARTBEAT_IVL", "ZMQ_HEARTBEAT_TIMEOUT", "ZMQ_HEARTBEAT_TTL")
def heartbeats():
    """PING carries the TTL; a peer that does not answer within the timeout is dropped."""

    def story(scheme):
        with context() as ctx:
            mock = Mock(ctx, scheme)
            dealer = sock(
                ctx, zmq.DEALER, HEARTBEAT_IVL=100, HEARTBEAT_TIMEOUT=400, HEARTBEAT_TTL=2500, RECONNECT_IVL=-1
            )
            watch = Monitor(dealer)
            dealer.connect(mock.endpoint)
            mock.shake_hands(b"ROUTER")
            told = _names(watch.until("HANDSHAKE_SUCCEEDED"))
            ping = mock.read(9)
            told += _names(watch.until("DISCONNECTED"))
            mock.ended()
            return ping, told

    tcp, ours = zt.both(story)
    # A command of 7 bytes: PING, and the TTL in tenths of a second.
    assert ours == tcp and ours[0] == b"\x04\x07\x04PING\x00\x19", (ours, tcp)


@test()
@covers("ZMQ_IMMEDIATE")
def immediate():
    """Set, nothing is queued for a connection that is not there yet; unset, it is."""
    with context() as ctx:
        held, port = dead_port()
        endpoint = f"{zt.SCHEME}://{zt.HOST}:{port}"
        eager, patient = sock(ctx, zmq.PUSH, IMMEDIATE=0), sock(ctx, zmq.PUSH, IMMEDIATE=1)
        eager.connect(endpoint)
        patient.connect(endpoint)
        eager.send(b"eager", zmq.DONTWAIT)
        try:
            patient.send(b"too soon", zmq.DONTWAIT)
            assert False, "queued without a connection"
        except zmq.Again:
            pass
        held.close()
        pull = sock(ctx, zmq.PULL)
        pull.bind(endpoint)
        patient.send(b"patient")
        assert sorted((pull.recv(), pull.recv())) == [b"eager", b"patient"]


def slow_reader(scheme, linger):
    """Sends more than fits to a stopped peer, closes, and says when it is out."""
    with context() as ctx:
        push = sock(ctx, zmq.PUSH, SNDHWM=0, LINGER=linger)
        watch = Monitor(push)
        push.connect(ask())
        watch.until("HANDSHAKE_SUCCEEDED")
        for _ in range(400):
            push.send(bytes(100000))
        push.disable_monitor()
        watch.socket.close(0)
        push.close()
        ctx.term()
    say("out")


@test(bound=120)
@covers("ZMQ_LINGER")
def linger():
    """0 and a finite value end the wait for a peer that does not read; -1 delivers all once it does."""
    for value in (0, 300, -1):
        with context() as ctx:
            pull = sock(ctx, zmq.PULL, RCVHWM=1)
            peer = Peer(slow_reader, zt.SCHEME, value)
            peer.tell(bound(pull))
            if value >= 0:
                assert peer.hear() == "out"
                continue
            for _ in range(400):
                assert len(pull.recv()) == 100000
            assert peer.hear() == "out"


@test()
@covers("ZMQ_AFFINITY")
def affinity():
    """Each of several I/O threads can serve."""
    with context(io_threads=3) as ctx:
        for mask in (1, 2, 4, 6):
            pull, push = sock(ctx, zmq.PULL, AFFINITY=mask), sock(ctx, zmq.PUSH, AFFINITY=mask)
            push.connect(bound(pull))
            push.send(b"hello")
            assert pull.recv() == b"hello", mask


@test()
@covers("ZMQ_HEARTBEAT_IVL")
def heartbeats_and_a_stopped_peer():
    """A stopped process is noticed with heartbeats."""
    peer = Peer(echo_once, zt.SCHEME)
    with context() as ctx:
        client = sock(ctx, zmq.DEALER, HEARTBEAT_IVL=100, HEARTBEAT_TIMEOUT=400)
        watch = Monitor(client)
        client.connect(peer.hear())
        client.send(b"hello")
        assert client.recv() == b"hello"
        peer.stop()
        watch.until("DISCONNECTED")
        peer.kill()
