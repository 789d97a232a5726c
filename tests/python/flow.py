# SPDX-License-Identifier: MPL-2.0
"""High-water marks, stalled readers, fan-in, reconnects: who waits for whom, and that nobody waits for ever."""

import zmq

import zt
from zt import test
from zt.proc import Peer, ask, say
from zt.sock import Monitor, blob, bound, context, dead_port, messages, sock

SIZES = (1, 100, 5000, 60000)


def fill(socket, seed, limit=100000):
    """Send until it would block for good; how many went. The count depends on buffers on the way."""
    count = 0
    for message in messages(seed, limit, SIZES):
        try:
            # A moment's patience lets the I/O threads move on; the mark is met when it is over.
            socket.setsockopt(zmq.SNDTIMEO, int(300 * zt.SLOW))
            socket.send(message)
            count += 1
        except zmq.Again:
            return count
    raise AssertionError(f"{limit} messages went into a socket that nobody reads")


def drain(socket, seed, count):
    """Receive and check what `fill` sent."""
    stream = messages(seed, count, SIZES)
    for number, message in enumerate(stream):
        assert socket.recv() == message, f"message {number} of {count} differs"


def filler(endpoint, seed):
    """Fills the other end, says how many went; reads when told how many there are; then once more."""
    with context() as ctx:
        dealer = sock(ctx, zmq.DEALER, SNDHWM=10, RCVHWM=10)
        dealer.connect(endpoint)
        dealer.send(b"connected")
        for round_ in range(2):
            say(fill(dealer, seed + round_))
            drain(dealer, ask(), ask())
            say("drained")
        ask()


@test(bound=120)
def stalled_both_ways():
    """Both ends send until their marks stop them, neither reading; then both read everything. Twice."""
    with context() as ctx:
        dealer = sock(ctx, zmq.DEALER, SNDHWM=10, RCVHWM=10)
        peer = Peer(filler, bound(dealer), 31)
        assert dealer.recv() == b"connected"
        for round_ in range(2):
            mine = fill(dealer, 41 + round_)
            theirs = peer.hear()
            print(f"round {round_}: {mine} and {theirs} messages went before the marks stopped them")
            assert mine >= 10 and theirs >= 10
            peer.tell(41 + round_)
            peer.tell(mine)
            drain(dealer, 31 + round_, theirs)
            assert peer.hear() == "drained"
        peer.tell()
        peer.result()


def stopped_then_reading(endpoint, count):
    """Waits to be told before it reads."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL, RCVHWM=5)
        pull.connect(endpoint)
        say("here")
        ask()
        for number in range(count):
            assert pull.recv() == b"%d" % number + blob(number, 3000)
        say("all")
        ask()


@test()
def stalled_reader_starves_nobody():
    """One reader stalls; the others of the same bound socket's context go on; then it catches up."""
    with context() as ctx:
        push = sock(ctx, zmq.PUSH, SNDHWM=0)
        stalled = Peer(stopped_then_reading, bound(push), 2000)
        stalled.hear()
        for number in range(2000):
            push.send(b"%d" % number + blob(number, 3000))
        other_in, other_out = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        other_out.connect(bound(other_in))
        for message in messages(5, 2000, SIZES):
            other_out.send(message)
            assert other_in.recv() == message
        stalled.tell()
        assert stalled.hear() == "all"
        stalled.tell()
        stalled.result()


@test()
def subscriber_too_slow():
    """A PUB drops for a subscriber that does not keep up, and neither blocks nor grows."""
    with context() as ctx:
        pub, slow = sock(ctx, zmq.XPUB, SNDHWM=50), sock(ctx, zmq.SUB, RCVHWM=50)
        slow.setsockopt(zmq.SUBSCRIBE, b"")
        slow.connect(bound(pub))
        assert pub.recv() == b"\1"
        for number in range(zt.some(20000)):
            pub.send(b"%05d" % number + bytes(2000))
        got = [int(slow.recv()[:5])]
        while slow.poll(500 * zt.SLOW):
            got.append(int(slow.recv()[:5]))
        print(f"{len(got)} of {zt.some(20000)} arrived")
        assert got == sorted(set(got)) and got[0] == 0


def fan_in_clients(endpoint, first, sockets, count):
    """Many dealers, each with its own stream, each awaiting as many answers."""
    with context() as ctx:
        dealers = []
        for number in range(first, first + sockets):
            dealer = sock(ctx, zmq.DEALER, IDENTITY=b"d%d" % number)
            dealer.connect(endpoint)
            dealers.append((number, dealer))
        for index in range(count):
            for number, dealer in dealers:
                dealer.send_multipart([b"%d" % index, blob(number * 1000 + index, (number * 37 + index * 501) % 9000)])
        for index in range(count):
            for number, dealer in dealers:
                assert dealer.recv() == b"%d" % index, f"dealer {number}"
        ask()


@test(bound=180)
def fan_in():
    """A ROUTER with 200 dealers in four processes, 40 messages each, all answered."""
    processes, sockets, count = 4, 50, zt.some(40)
    with context(io_threads=2) as ctx:
        router = sock(ctx, zmq.ROUTER, RCVHWM=0, SNDHWM=0, BACKLOG=500)
        endpoint = bound(router)
        peers = [Peer(fan_in_clients, endpoint, n * sockets, sockets, count) for n in range(processes)]
        seen = {}
        for _ in range(processes * sockets * count):
            name, index, body = router.recv_multipart()
            number, turn = int(name[1:]), int(index)
            assert seen.get(number, 0) == turn
            assert body == blob(number * 1000 + turn, (number * 37 + turn * 501) % 9000)
            seen[number] = turn + 1
            router.send_multipart([name, index])
        assert len(seen) == processes * sockets
        for peer in peers:
            peer.tell()
        for peer in peers:
            peer.result()


@test()
def connect_before_bind():
    """A client that connects long before its server binds gets there."""
    with context() as ctx:
        held, port = dead_port()
        endpoint = f"{zt.SCHEME}://{zt.HOST}:{port}"
        push = sock(ctx, zmq.PUSH, RECONNECT_IVL=50)
        watch = Monitor(push)
        push.connect(endpoint)
        push.send(b"early")
        watch.until("CONNECT_RETRIED")
        held.close()
        pull = sock(ctx, zmq.PULL)
        pull.bind(endpoint)
        assert pull.recv() == b"early"


@test()
def many_io_threads():
    """Connections spread over four I/O threads in one context."""
    with context(io_threads=4) as ctx:
        pairs = []
        for _ in range(24):
            pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
            push.connect(bound(pull))
            pairs.append((pull, push))
        for number in range(200):
            for _, push in pairs:
                push.send(blob(number, 3000))
        for number in range(200):
            for pull, _ in pairs:
                assert pull.recv() == blob(number, 3000)


def proxied_client(endpoint, count):
    """Requests through a proxy."""
    with context() as ctx:
        req = sock(ctx, zmq.REQ)
        req.connect(endpoint)
        for request in messages(51, count, SIZES):
            req.send(request)
            assert req.recv() == request
        ask()


def proxy(front_scheme, back_scheme):
    """A ROUTER/DEALER proxy between two schemes."""
    with context() as ctx:
        front, back = ctx.socket(zmq.ROUTER), ctx.socket(zmq.DEALER)
        say(bound(front, f"{front_scheme}://{zt.HOST}:*"))
        say(bound(back, f"{back_scheme}://{zt.HOST}:*"))
        zmq.proxy(front, back)


@test()
def proxied():
    """zmq_proxy joins our scheme and tcp, in both directions."""
    for front, back in ((zt.SCHEME, "tcp"), ("tcp", zt.SCHEME)):
        between = Peer(proxy, front, back)
        client = Peer(proxied_client, between.hear(), 200)
        with context() as ctx:
            rep = sock(ctx, zmq.REP)
            rep.connect(between.hear())
            for request in messages(51, 200, SIZES):
                assert rep.recv() == request
                rep.send(request)
            client.tell()
            client.result()
        between.kill()
