# SPDX-License-Identifier: MPL-2.0
"""Many peers, peers that die, peers that stand still: the others go on, and every context ends."""

import os
import signal
import time

import zmq

import zt
from zt import test
from zt.proc import Peer, ask, say
from zt.sock import Monitor, blob, bound, context, dead_port, messages, sock


def echo_router(endpoint):
    """Echoes to all; binds where it is told, or anywhere."""
    with context() as ctx:
        router = sock(ctx, zmq.ROUTER, SNDHWM=0, RCVHWM=0, RCVTIMEO=-1)
        say(bound(router, endpoint))
        while True:
            router.send_multipart(router.recv_multipart())


@test(bound=120)
def row_39_connect_at_once():
    """1,000 sockets of one process connect at once, and each has its answer."""
    server = Peer(echo_router, None)
    endpoint = server.hear()
    with context() as ctx:
        dealers = [sock(ctx, zmq.DEALER) for _ in range(1000)]
        for dealer in dealers:
            dealer.connect(endpoint)
        for number, dealer in enumerate(dealers):
            dealer.send(blob(number, number * 10))
        for number, dealer in enumerate(dealers):
            assert dealer.recv() == blob(number, number * 10)
    server.kill()


def steady_clients(endpoint, sockets):
    """Dealers that keep talking. For each generation told, all must hear their own words again."""
    with context() as ctx:
        dealers = []
        for _ in range(sockets):
            dealer = sock(ctx, zmq.DEALER, RECONNECT_IVL=50, SNDHWM=100, RCVTIMEO=0)
            dealer.connect(endpoint)
            dealers.append(dealer)
        generation, poller, behind = "start", zmq.Poller(), set()
        for dealer in dealers:
            poller.register(dealer, zmq.POLLIN)
        say("ready")
        control = zmq.Poller()
        control.register(0, zmq.POLLIN)
        behind = set(dealers)
        while True:
            if control.poll(0):
                generation = ask()
                if generation is None:
                    return
                behind = set(dealers)
            for dealer in dealers:
                try:
                    dealer.send(generation.encode() + bytes(2000), zmq.DONTWAIT)
                except zmq.Again:
                    pass
            for dealer, _ in poller.poll(20):
                while dealer.poll(0):
                    if dealer.recv().startswith(generation.encode()) and dealer in behind:
                        behind.remove(dealer)
                        if not behind:
                            say(generation)


@test(bound=180)
def server_restarts():
    """100 clients under traffic; the server is killed and started again, three times: all come back."""
    server = Peer(echo_router, None)
    endpoint = server.hear()
    clients = [Peer(steady_clients, endpoint, 50) for _ in range(2)]
    for client in clients:
        assert client.hear() == "ready"
        assert client.hear() == "start"
    for number in range(3):
        server.kill()
        server = Peer(echo_router, endpoint)
        assert server.hear() == endpoint
        for client in clients:
            client.tell(f"gen{number}")
        for client in clients:
            assert client.hear() == f"gen{number}"
    for client in clients:
        client.tell(None)
        client.result()
    server.kill()


def busy(endpoint, kind, size):
    """Sends or receives until it is killed; says when it has begun."""
    with context() as ctx:
        socket = sock(ctx, getattr(zmq, kind))
        if endpoint:
            socket.connect(endpoint)
        else:
            say(bound(socket))
        for number in range(1 << 30):
            if kind == "PUSH":
                socket.send(bytes(size))
            else:
                socket.recv()
            if number == 20:
                say("going")


@test(bound=150)
def kill_and_terminate():
    """kill -9 of either side in full traffic: the other's zmq_ctx_term with linger 0 does not hang."""
    for size in (100, 20000, 4 << 20):
        for killed, survivor in (("PULL", "PUSH"), ("PUSH", "PULL")):
            for survivor_binds in (True, False):
                _kill_and_terminate(size, killed, survivor, survivor_binds)


def _kill_and_terminate(size, killed, survivor, survivor_binds):
    ctx = zmq.Context()
    socket = sock(ctx, getattr(zmq, survivor), LINGER=0)
    if survivor_binds:
        peer = Peer(busy, bound(socket), killed, size)
    else:
        peer = Peer(busy, None, killed, size)
        socket.connect(peer.hear())
    message = bytes(size)
    watch = Monitor(socket, zmq.EVENT_DISCONNECTED)
    if survivor == "PULL":
        # A sender may say that it is going before it is connected.
        socket.recv()
    while not peer.heard():
        _step(socket, survivor, message)
    peer.kill()
    while not watch.socket.poll(0):
        _step(socket, survivor, message)
    watch.socket.close(0)
    socket.close()
    start = time.monotonic()
    ctx.term()
    print(f"{size} B, {killed} killed, survivor binds: {survivor_binds}: term {time.monotonic() - start:.3f} s")


def _step(socket, kind, message):
    """One message, if it goes without waiting long."""
    try:
        if kind == "PUSH":
            socket.send(message, zmq.DONTWAIT)
        elif socket.poll(10):
            socket.recv(zmq.DONTWAIT)
    except zmq.Again:
        socket.poll(10, zmq.POLLOUT)


def counting_reader(endpoint, count):
    """Checks a stream to its end."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL, RCVHWM=10, RCVTIMEO=-1)
        pull.connect(endpoint)
        for number, message in enumerate(messages(61, count, (10, 3000, 40000))):
            assert pull.recv() == message, f"message {number} differs"
            if number % 1000 == 0:
                say(number)
        say("all")
        ask()


@test(bound=120)
def stop_and_continue():
    """The receiver is stopped and continued again and again under traffic: nothing is lost."""
    count = zt.some(12000)
    with context() as ctx:
        push = sock(ctx, zmq.PUSH, SNDHWM=50)
        watch = Monitor(push, zmq.EVENT_DISCONNECTED)
        reader = Peer(counting_reader, bound(push), count)
        stream = messages(61, count, (10, 3000, 40000))
        sent, stops, message = 0, 0, next(stream)
        while sent < count:
            try:
                push.setsockopt(zmq.SNDTIMEO, 400 if stops < 8 else -1)
                push.send(message)
                sent += 1
                message = next(stream, None)
            except zmq.Again:
                os.kill(reader.pid, signal.SIGCONT)
                stops += 1
                continue
            if sent % (count // 10) == 100 and stops < 8:
                reader.stop()
        os.kill(reader.pid, signal.SIGCONT)
        print(f"stopped {stops} times until the sender was blocked")
        while reader.hear() != "all":
            pass
        assert watch.next(0) is None, "the connection was lost"
        reader.tell()
        reader.result()


@test(bound=120)
def stopped_long():
    """A receiver that is stopped for longer than a dead peer is waited for, is not taken for dead."""
    with context() as ctx:
        push = sock(ctx, zmq.PUSH, SNDHWM=50)
        watch = Monitor(push, zmq.EVENT_DISCONNECTED)
        reader = Peer(counting_reader, bound(push), 3000)
        stream = messages(61, 3000, (10, 3000, 40000))
        for _ in range(500):
            push.send(next(stream))
        assert reader.hear() == 0
        reader.stop()
        waiting = None
        push.setsockopt(zmq.SNDTIMEO, 500)
        try:
            for waiting in stream:
                push.send(waiting)
            waiting = None
        except zmq.Again:
            pass
        assert watch.next(17) is None, "the connection was given up"
        os.kill(reader.pid, signal.SIGCONT)
        push.setsockopt(zmq.SNDTIMEO, -1)
        if waiting is not None:
            push.send(waiting)
        for message in stream:
            push.send(message)
        while reader.hear() != "all":
            pass
        reader.tell()
        reader.result()


@test(bound=120)
def reconnect_storm_is_paced():
    """Clients of a dead port retry at their interval, not in a hot loop; other sockets go on."""
    with context() as ctx:
        held, port = dead_port()
        lost = sock(ctx, zmq.PUSH, RECONNECT_IVL=100)
        watch = Monitor(lost, zmq.EVENT_CONNECT_RETRIED)
        others = [sock(ctx, zmq.PUSH, RECONNECT_IVL=100) for _ in range(50)]
        for push in [lost] + others:
            push.connect(f"{zt.SCHEME}://{zt.HOST}:{port}")
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        push.connect(bound(pull))
        watch.until("CONNECT_RETRIED")
        begun = time.monotonic()
        retries = 0
        while retries < 10:
            push.send(b"hello")
            assert pull.recv() == b"hello"
            retries += watch.next(0) is not None
        assert time.monotonic() - begun > 0.5, "ten retries of 100 ms each took less than half a second"
        held.close()
