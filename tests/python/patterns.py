# SPDX-License-Identifier: MPL-2.0
"""Each messaging pattern between two processes, through Debian's unmodified python3-zmq."""

import hashlib

import zmq

from zt import test
from zt.proc import Peer, ask, say
from zt.sock import blob, bound, context, messages, sock

SIZES = (0, 1, 7, 64, 255, 256, 1000, 4095, 8183, 8192, 8193, 20000, 65536)


def replier(count):
    """Answers each request with its SHA-256 and the request itself."""
    with context() as ctx:
        rep = sock(ctx, zmq.REP)
        say(bound(rep))
        for _ in range(count):
            request = rep.recv()
            rep.send_multipart([hashlib.sha256(request).digest(), request])
        ask()


@test()
def req_rep():
    """Requests and replies in step."""
    peer = Peer(replier, 500)
    with context() as ctx:
        req = sock(ctx, zmq.REQ)
        req.connect(peer.hear())
        for request in messages(1, 500, SIZES):
            req.send(request)
            digest, echo = req.recv_multipart()
            assert echo == request and digest == hashlib.sha256(request).digest()
        peer.tell()
        peer.result()


def pusher(endpoint, count, seed):
    """Pushes to the endpoint, or from a bound one that it says."""
    with context() as ctx:
        push = sock(ctx, zmq.PUSH)
        if endpoint:
            push.connect(endpoint)
        else:
            say(bound(push))
        for message in messages(seed, count, SIZES):
            push.send(message)
        ask()


def _pull(peer, pull, seed):
    for number, message in enumerate(messages(seed, 3000, SIZES)):
        assert pull.recv() == message, f"message {number} differs"
    peer.tell()
    peer.result()


@test()
def push_connects():
    """PUSH connects, PULL binds: every message, in order."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        peer = Peer(pusher, bound(pull), 3000, 2)
        _pull(peer, pull, 2)


@test()
def push_binds():
    """PUSH binds, PULL connects: every message, in order."""
    peer = Peer(pusher, None, 3000, 3)
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        pull.connect(peer.hear())
        _pull(peer, pull, 3)


def publisher(count):
    """Knocks until the subscriber is there, then publishes topics a, b and c in turn."""
    with context() as ctx:
        pub = sock(ctx, zmq.XPUB, SNDHWM=0)
        say(bound(pub))
        wanted = {pub.recv(), pub.recv()}
        assert wanted == {b"\1a", b"\1c"}, wanted
        for number, body in enumerate(messages(4, count, SIZES)):
            pub.send_multipart([b"abc"[number % 3 : number % 3 + 1], b"%d" % number, body])
        pub.send_multipart([b"a", b"end", b""])
        ask()


@test()
def pub_sub():
    """A subscriber has its topics, whole and in order, and no other."""
    peer = Peer(publisher, 1500)
    with context() as ctx:
        sub = sock(ctx, zmq.SUB, RCVHWM=0)
        sub.connect(peer.hear())
        sub.setsockopt(zmq.SUBSCRIBE, b"a")
        sub.setsockopt(zmq.SUBSCRIBE, b"c")
        for number, body in enumerate(messages(4, 1500, SIZES)):
            topic = b"abc"[number % 3 : number % 3 + 1]
            if topic != b"b":
                assert sub.recv_multipart() == [topic, b"%d" % number, body], f"at {number}"
        assert sub.recv_multipart() == [b"a", b"end", b""]
        peer.tell()
        peer.result()


def plain_publisher():
    """A PUB (it cannot see subscriptions): knocks until told that one was heard."""
    with context() as ctx:
        pub = sock(ctx, zmq.PUB)
        say(bound(pub))
        # The subscriber answers over a socket: waiting for it between knocks paces them.
        answer = sock(ctx, zmq.PULL)
        say(bound(answer))
        while not answer.poll(20):
            pub.send(b"knock")
        for number in range(200):
            pub.send(b"%d" % number)
        ask()


@test()
def plain_pub_sub():
    """PUB and SUB, with the subscriber connecting late."""
    peer = Peer(plain_publisher)
    with context() as ctx:
        sub = sock(ctx, zmq.SUB)
        sub.connect(peer.hear())
        sub.setsockopt(zmq.SUBSCRIBE, b"")
        answer = sock(ctx, zmq.PUSH)
        answer.connect(peer.hear())
        assert sub.recv() == b"knock"
        answer.send(b"heard")
        got = sub.recv()
        while got == b"knock":
            got = sub.recv()
        for number in range(200):
            assert got == b"%d" % number
            got = sub.recv() if number < 199 else None
        peer.tell()
        peer.result()


def dealers(endpoint, names, count):
    """Dealers that each send `count` messages at will and check the answers."""
    with context() as ctx:
        sockets = []
        for name in names:
            dealer = sock(ctx, zmq.DEALER, IDENTITY=name.encode())
            dealer.connect(endpoint)
            sockets.append(dealer)
        for number in range(count):
            for name, dealer in zip(names, sockets):
                dealer.send_multipart([b"%d" % number, blob(name, number)])
        for number in range(count):
            for name, dealer in zip(names, sockets):
                index, body = dealer.recv_multipart()
                assert int(index) == number and body == blob(name, number)[::-1]
        ask()


@test()
def dealer_router():
    """A router answers interleaved dealers by their identities."""
    names = ["one", "two", "three"]
    with context() as ctx:
        router = sock(ctx, zmq.ROUTER, RCVHWM=0, SNDHWM=0)
        peer = Peer(dealers, bound(router), names, 400)
        next_index = dict.fromkeys(names, 0)
        for _ in range(400 * len(names)):
            name, index, body = router.recv_multipart()
            assert int(index) == next_index[name.decode()]
            next_index[name.decode()] += 1
            router.send_multipart([name, index, body[::-1]])
        peer.tell()
        peer.result()


def pair_end(endpoint, seed):
    """One end of a PAIR: sends its own stream while it reads the other's."""
    with context() as ctx:
        pair = sock(ctx, zmq.PAIR)
        pair.connect(endpoint)
        _pair_exchange(pair, seed, seed + 1)
        ask()


def _pair_exchange(pair, mine, theirs):
    expected = messages(theirs, 1500, SIZES)
    received = 0
    for message in messages(mine, 1500, SIZES):
        pair.send(message)
        while received < 1500 and pair.poll(0):
            assert pair.recv() == next(expected), f"at {received}"
            received += 1
    for message in expected:
        assert pair.recv() == message


@test()
def pair():
    """Both ends of a PAIR send at once."""
    with context() as ctx:
        end = sock(ctx, zmq.PAIR)
        peer = Peer(pair_end, bound(end), 5)
        _pair_exchange(end, 6, 5)
        peer.tell()
        peer.result()


def xsub_end(endpoint):
    """Subscribes, receives, unsubscribes."""
    with context() as ctx:
        xsub = sock(ctx, zmq.XSUB)
        xsub.connect(endpoint)
        xsub.send(b"\1red")
        say(xsub.recv_multipart()[1].decode())
        xsub.send(b"\0red")
        xsub.send(b"upstream")
        ask()


@test()
def xpub_xsub():
    """Subscriptions, data and upstream messages between XPUB and XSUB."""
    with context() as ctx:
        xpub = sock(ctx, zmq.XPUB)
        peer = Peer(xsub_end, bound(xpub))
        assert xpub.recv() == b"\1red"
        xpub.send_multipart([b"blue", b"not for you"])
        xpub.send_multipart([b"red", b"for you"])
        assert peer.hear() == "for you"
        assert xpub.recv() == b"\0red"
        assert xpub.recv() == b"upstream"
        peer.tell()
        peer.result()


def echo_parts(count):
    """Echoes multipart messages."""
    with context() as ctx:
        rep = sock(ctx, zmq.REP)
        say(bound(rep))
        for _ in range(count):
            rep.send_multipart(rep.recv_multipart())
        ask()


@test()
def multipart():
    """Messages of 1 to 2,000 parts, empty ones among them, stay whole."""
    counts = (1, 2, 3, 100, 2000)
    peer = Peer(echo_parts, len(counts))
    with context() as ctx:
        req = sock(ctx, zmq.REQ)
        req.connect(peer.hear())
        for count in counts:
            parts = list(messages(count, count, SIZES if count < 2000 else (0, 1, 300, 9000)))
            req.send_multipart(parts)
            assert req.recv_multipart() == parts
        peer.tell()
        peer.result()


def stream_end(endpoint):
    """A STREAM client: sends raw bytes, and reads until it has all of them back."""
    with context() as ctx:
        client = sock(ctx, zmq.STREAM)
        client.connect(endpoint)
        name, empty = client.recv_multipart()
        assert empty == b""
        data, back = blob(7, 300000), b""
        for start in range(0, len(data), 9000):
            client.send_multipart([name, data[start : start + 9000]])
        while len(back) < len(data):
            back += client.recv_multipart()[1]
        assert back == data
        ask()


@test()
def stream():
    """ZMQ_STREAM sockets carry raw bytes both ways."""
    with context() as ctx:
        server = sock(ctx, zmq.STREAM)
        peer = Peer(stream_end, bound(server))
        name, empty = server.recv_multipart()
        assert empty == b""
        echoed = 0
        while echoed < 300000:
            name, data = server.recv_multipart()
            server.send_multipart([name, data])
            echoed += len(data)
        peer.tell()
        peer.result()
