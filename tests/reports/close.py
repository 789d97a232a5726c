# SPDX-License-Identifier: MPL-2.0
"""Rows 1, 2, 3 and 36 of docs/reports.md: what a close loses, and what it promises.

The promise is one paragraph of the manual, WHAT IS PROMISED; row 3 is that
paragraph sentence by sentence. tcp:// promises less, so some tests are ours alone.
"""

import os
import signal

import zmq

import zt
from zt import cases, test
from zt.proc import Peer, ask, say
from zt.sock import Monitor, bound, context, messages, sock

MIXED = (0, 1, 5, 30, 60, 100, 250, 256, 1000)
#: More than windows, kernel buffers and high-water marks hold together.
BODY, MANY = 10000, 2000


def leave(ctx, *sockets):
    """Close, terminate, say so, and end the process without another instruction."""
    for socket in sockets:
        socket.close()
    ctx.term()
    say("closed")
    os._exit(0)


def until_connected(socket, watch):
    """Wait for the handshake, and watch no more."""
    watch.until("HANDSHAKE_SUCCEEDED")
    socket.disable_monitor()
    watch.socket.close(0)


def tail_sender(endpoint, seed, count):
    """Queues everything, and leaves."""
    ctx = zmq.Context()
    push = sock(ctx, zmq.PUSH, SNDHWM=0, LINGER=-1, SNDBUF=256)
    push.connect(endpoint)
    for message in messages(seed, count, MIXED):
        push.send(message)
    leave(ctx, push)


@test(bound=180)
def row_01_tail():
    """A slow reader, two credits, 100,000 messages of mixed size, close and term: all arrive."""
    for seed in cases(1):
        with context() as ctx:
            pull = sock(ctx, zmq.PULL, RCVHWM=1, RCVBUF=256)
            count = 100000 if seed == 1 else 5000
            peer = Peer(tail_sender, bound(pull), seed, count)
            for number, message in enumerate(messages(seed, count, MIXED)):
                assert pull.recv() == message, f"case {seed}: message {number} differs"
            assert peer.hear() == "closed"
            assert not pull.poll(0), "one too many"
    print(f"SHOW: {len(cases(1))} runs")


def go_sender(endpoint, size, options):
    """One message, and gone."""
    ctx = zmq.Context()
    push = sock(ctx, zmq.PUSH, **options)
    if endpoint:
        push.connect(endpoint)
    else:
        say(bound(push))
    push.send(bytes(range(256)) * (size // 256) + bytes(size % 256))
    leave(ctx, push)


@test()
def row_02_send_and_go():
    """1 B and 4 MB, closed at once: received, whoever binds."""
    for size in (1, 4000000):
        for binds in (True, False):
            with context() as ctx:
                pull = sock(ctx, zmq.PULL)
                if binds:
                    peer = Peer(go_sender, bound(pull), size, {"LINGER": -1})
                else:
                    peer = Peer(go_sender, None, size, {"LINGER": -1})
                    pull.connect(peer.hear())
                message = pull.recv()
                assert len(message) == size and message.startswith(bytes(range(256))[: size // 256 * 256])
                assert peer.hear() == "closed"


def deaf(kind, hwm, endpoint=None):
    """Binds, and reads only when told to; then tells the numbers that it got, until a last one."""
    with context() as ctx:
        pull = sock(ctx, getattr(zmq, kind), RCVHWM=hwm)
        watch = Monitor(pull, zmq.EVENT_HANDSHAKE_SUCCEEDED)
        say(bound(pull, endpoint))
        watch.until("HANDSHAKE_SUCCEEDED")
        say("met")
        last = ask()
        numbers = []
        while last not in numbers[-1:] and pull.poll(None if last is not None else 500):
            message = pull.recv()
            assert message[8:] == bytes([message[7]]) * (len(message) - 8), "spoilt"
            numbers.append(int.from_bytes(message[:8], "big"))
        say(numbers)
        ask()


def body(number, size=BODY):
    """Message `number`."""
    head = number.to_bytes(8, "big")
    return head + head[7:] * (size - 8)


def promiser(endpoint, count, size, linger):
    """Sends, says that it begins to close, closes, says that it has."""
    ctx = zmq.Context()
    push = sock(ctx, zmq.PUSH, SNDHWM=0, LINGER=linger, RECONNECT_IVL=50)
    watch = Monitor(push, zmq.EVENT_HANDSHAKE_SUCCEEDED)
    push.connect(endpoint)
    for number in range(count):
        push.send(body(number, size))
    until_connected(push, watch)
    say("closing")
    leave(ctx, push)


@test()
def row_02_peer_goes_first():
    """The peer is killed before it has it all: the end is bounded by the linger that was asked for."""
    for linger in (0, 300):
        reader = Peer(deaf, "PULL", 1)
        sender = Peer(promiser, reader.hear(), MANY, BODY, linger)
        assert reader.hear() == "met"
        assert sender.hear() == "closing"
        reader.kill()
        assert sender.hear() == "closed"


@test()
def row_03_finished_means_that_the_peer_has_it():
    """Closed, gone, and only then read: every message is in the memory of the peer's process."""
    reader = Peer(deaf, "PULL", 0)
    sender = Peer(promiser, reader.hear(), 500, 1000, -1)
    assert reader.hear() == "met"
    assert sender.hear() == "closing"
    assert sender.hear() == "closed"
    assert sender.ended() == 0
    reader.tell(499)
    assert reader.hear() == list(range(500))
    reader.tell()


@test()
def row_03_not_finished_before_the_peer_has_it():
    """A reader that takes nothing keeps the close waiting; once it reads, all is there."""
    reader = Peer(deaf, "PULL", 1)
    sender = Peer(promiser, reader.hear(), MANY, BODY, -1)
    assert reader.hear() == "met"
    assert sender.hear() == "closing"
    assert sender.silent(1), "closed, and the peer cannot have it all"
    reader.tell(MANY - 1)
    assert reader.hear() == list(range(MANY))
    assert sender.hear() == "closed"
    reader.tell()


@test(only="rdma")
def row_03_a_stopped_peer_is_waited_for():
    """A process that stands still acknowledges nothing, however little it is; when it wakes, it does."""
    reader = Peer(deaf, "PULL", 0)
    endpoint = reader.hear()
    with context() as ctx:
        # It must have met somebody before it is stopped, or it could not shake hands.
        first = sock(ctx, zmq.PUSH)
        first.connect(endpoint)
        assert reader.hear() == "met"
        sender = Peer(stopped_sender, endpoint)
        assert sender.hear() == "connected"
        reader.stop()
        sender.tell()
        assert sender.hear() == "closing"
        assert sender.silent(1), "closed, and nobody can have acknowledged it"
        os.kill(reader.pid, signal.SIGCONT)
        assert sender.hear() == "closed"
        reader.tell(4)
        assert reader.hear() == list(range(5))
        reader.tell()


def stopped_sender(endpoint, count=5, size=100):
    """Connects; sends some messages and closes when told to."""
    ctx = zmq.Context()
    push = sock(ctx, zmq.PUSH, LINGER=-1, SNDHWM=0)
    watch = Monitor(push, zmq.EVENT_HANDSHAKE_SUCCEEDED)
    push.connect(endpoint)
    until_connected(push, watch)
    say("connected")
    ask()
    for number in range(count):
        push.send(body(number, size))
    say("closing")
    leave(ctx, push)


@test()
def row_03_linger_that_runs_out():
    """Linger 0 and a finite linger end without the peer: it has a beginning, in order."""
    for linger in (0, 300):
        reader = Peer(deaf, "PULL", 1)
        sender = Peer(promiser, reader.hear(), MANY, BODY, linger)
        assert reader.hear() == "met"
        assert sender.hear() == "closing"
        assert sender.hear() == "closed"
        reader.tell(None)
        numbers = reader.hear()
        print(f"linger {linger}: {len(numbers)} of {MANY}")
        assert numbers == list(range(len(numbers))) and len(numbers) < MANY
        reader.tell()


@test()
def row_03_a_broken_connection_takes_what_was_on_its_way():
    """The peer dies while a close waits: what was on its way is lost, what still waited goes to the next."""
    reader = Peer(deaf, "PULL", 1)
    endpoint = reader.hear()
    sender = Peer(promiser, endpoint, MANY, BODY, -1)
    assert reader.hear() == "met"
    assert sender.hear() == "closing"
    reader.kill()
    second = Peer(deaf, "PULL", 1, endpoint)
    assert second.hear() == endpoint
    assert second.hear() == "met"
    second.tell(MANY - 1)
    numbers = second.hear()
    print(f"{MANY - len(numbers)} were on their way")
    assert 0 < numbers[0] and numbers == list(range(numbers[0], MANY))
    assert sender.hear() == "closed"
    second.tell()


@test()
def row_03_a_peer_that_dies_is_not_waited_for():
    """All is on its way to a stopped peer, which is then killed: the close ends, whatever its linger."""
    reader = Peer(deaf, "PULL", 0)
    endpoint = reader.hear()
    with context() as ctx:
        first = sock(ctx, zmq.PUSH)
        first.connect(endpoint)
        assert reader.hear() == "met"
        # One: an idle link has credits for no more than a few frames.
        sender = Peer(stopped_sender, endpoint, 1)
        assert sender.hear() == "connected"
        reader.stop()
        sender.tell()
        assert sender.hear() == "closing"
        # Long enough for all of it to have left the queue; what is still there would wait for another peer.
        assert sender.silent(2) or zt.SCHEME == "tcp", "closed, and nobody can have acknowledged it"
        reader.kill()
        assert sender.hear() == "closed"


@test(bound=120)
def row_36_shutdown_does_not_overtake_data():
    """The sender leaves right after its term; the receiver has been standing still for 11 s, which is longer
    than a dead peer is waited for: every byte is read."""
    count, size = 3000, 3000
    with context() as ctx:
        reader = Peer(deaf, "PULL", 0)
        endpoint = reader.hear()
        first = sock(ctx, zmq.PUSH)
        first.connect(endpoint)
        assert reader.hear() == "met"
        sender = Peer(stopped_sender, endpoint, count, size)
        assert sender.hear() == "connected"
        reader.stop()
        sender.tell()
        assert sender.hear() == "closing"
        assert sender.silent(11) or zt.SCHEME == "tcp"
        os.kill(reader.pid, signal.SIGCONT)
        reader.tell(count - 1)
        assert reader.hear() == list(range(count))
        assert sender.hear() == "closed"
        reader.tell()
