# SPDX-License-Identifier: MPL-2.0
"""Options about what is said: by the library itself at the start, at the end
and in the handshake, and by subscribers."""

import errno

import zmq

import reach
import zt
from reach import covers, put
from zt import test
from zt.proc import Peer, ask
from zt.sock import any_port, bound, context, dead_port, sock


def _put_draft(socket, option, value):
    """Set a draft option; False where the build has none, and says so."""
    try:
        put(socket, option, value)
        return True
    except zmq.ZMQError as error:
        assert error.errno == errno.EINVAL and not reach.drafts(), error
        return False


@test()
@covers("ZMQ_HELLO_MSG")
def hello_message():
    """The first message of a connection is the one that was set."""
    with context() as ctx:
        router, dealer = sock(ctx, zmq.ROUTER), sock(ctx, zmq.DEALER)
        if not _put_draft(router, reach.HELLO_MSG, b"welcome"):
            return
        dealer.connect(bound(router))
        assert dealer.recv() == b"welcome"


def brief(endpoint):
    """Connects, talks, leaves when told."""
    with context() as ctx:
        dealer = sock(ctx, zmq.DEALER)
        dealer.connect(endpoint)
        dealer.send(b"hello")
        ask()


@test()
@covers("ZMQ_DISCONNECT_MSG")
def disconnect_message():
    """Comes after a peer's last message, whether it left or was killed."""
    for kill in (False, True):
        with context() as ctx:
            router = sock(ctx, zmq.ROUTER)
            if not _put_draft(router, reach.DISCONNECT_MSG, b"gone"):
                return
            peer = Peer(brief, bound(router))
            who, word = router.recv_multipart()
            assert word == b"hello"
            if kill:
                peer.kill()
            else:
                peer.tell()
            assert router.recv_multipart() == [who, b"gone"]


@test()
@covers("ZMQ_HICCUP_MSG")
def hiccup_message():
    """Comes when a connection was lost and is being made again."""
    with context() as ctx:
        router, dealer = sock(ctx, zmq.ROUTER), sock(ctx, zmq.DEALER, RECONNECT_IVL=50)
        if not _put_draft(dealer, reach.HICCUP_MSG, b"hiccup"):
            return
        endpoint = bound(router)
        dealer.connect(endpoint)
        dealer.send(b"hello")
        router.recv_multipart()
        router.close(0)
        assert dealer.recv() == b"hiccup"
        again = sock(ctx, zmq.ROUTER)
        again.bind(endpoint)
        dealer.send(b"hello again")
        assert again.recv_multipart()[1] == b"hello again"


@test()
@covers("ZMQ_METADATA")
def metadata():
    """Properties of the application reach the peer, beside the transport's own."""

    def story(scheme):
        with context() as ctx:
            pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH, METADATA=b"X-Colour:green")
            push.connect(bound(pull, any_port(scheme)))
            push.send(b"hello")
            frame = pull.recv(copy=False)
            return [frame.get(name) for name in ("X-Colour", "Peer-Address", "Socket-Type")]

    tcp, ours = zt.both(story)
    assert ours == tcp == ["green", zt.HOST, "PUSH"], (ours, tcp)


@test()
@covers("ZMQ_ZAP_DOMAIN", "ZMQ_ZAP_ENFORCE_DOMAIN")
def zap_domain():
    """A ZAP handler is asked with the domain and the peer's bare address."""

    def story(scheme):
        with context() as ctx:
            handler = sock(ctx, zmq.REP)
            handler.bind("inproc://zeromq.zap.01")
            pull, push = sock(ctx, zmq.PULL, ZAP_DOMAIN=b"here"), sock(ctx, zmq.PUSH)
            put(pull, reach.ZAP_ENFORCE_DOMAIN, 1)
            push.connect(bound(pull, any_port(scheme)))
            push.send(b"hello")
            request = handler.recv_multipart()
            handler.send_multipart([request[0], request[1], b"200", b"OK", b"somebody", b""])
            frame = pull.recv(copy=False)
            return request[0], request[2:], frame.get("User-Id")

    tcp, ours = zt.both(story)
    assert ours == tcp, (ours, tcp)
    assert ours[1][:2] == [b"here", zt.HOST.encode()], ours


@test()
@covers("ZMQ_INVERT_MATCHING")
def invert_matching():
    """Those who did not subscribe to it get a message."""
    with context() as ctx:
        xpub = sock(ctx, zmq.XPUB, INVERT_MATCHING=1)
        sub = sock(ctx, zmq.SUB, INVERT_MATCHING=1)
        sub.setsockopt(zmq.SUBSCRIBE, b"not this")
        sub.connect(bound(xpub))
        assert xpub.recv() == b"\x01not this"
        xpub.send(b"not this one")
        xpub.send(b"but this one")
        assert sub.recv() == b"but this one"


def _subscribe(socket, topic, on=True):
    socket.send((b"\x01" if on else b"\x00") + topic)


@test()
@covers("ZMQ_XPUB_VERBOSE", "ZMQ_XPUB_VERBOSER")
def verbose():
    """Every subscription is passed on, or only what is new; with VERBOSER, every unsubscription too."""

    def passed_on(**options):
        with context() as ctx:
            xpub = sock(ctx, zmq.XPUB, **options)
            endpoint = bound(xpub)
            one, two = sock(ctx, zmq.XSUB), sock(ctx, zmq.XSUB)
            told = []
            for xsub, topic in ((one, b"A"), (two, b"A"), (two, b"B")):
                if xsub.getsockopt(zmq.LAST_ENDPOINT) in (b"", b"\0"):
                    xsub.connect(endpoint)
                _subscribe(xsub, topic)
                if topic == b"A" and xsub is one:
                    told.append(xpub.recv())
            told.append(xpub.recv())
            if options:
                told.append(xpub.recv())
            for xsub, topic in ((one, b"A"), (two, b"A"), (two, b"B")):
                _subscribe(xsub, topic, False)
                if xsub is one and "XPUB_VERBOSER" in options:
                    told.append(xpub.recv())
            while told[-1] != b"\x00B":
                told.append(xpub.recv())
            return told

    assert passed_on() == [b"\x01A", b"\x01B", b"\x00A", b"\x00B"]
    assert passed_on(XPUB_VERBOSE=1) == [b"\x01A", b"\x01A", b"\x01B", b"\x00A", b"\x00B"]
    assert passed_on(XPUB_VERBOSER=1) == [b"\x01A", b"\x01A", b"\x01B", b"\x00A", b"\x00A", b"\x00B"]


@test()
@covers("ZMQ_XPUB_NODROP")
def nodrop():
    """A full subscriber makes send fail instead of losing the message."""
    with context() as ctx:
        xpub = sock(ctx, zmq.XPUB, XPUB_NODROP=1, SNDHWM=5, SNDTIMEO=0, SNDBUF=4096)
        sub = sock(ctx, zmq.SUB, RCVHWM=5, RCVBUF=4096)
        sub.setsockopt(zmq.SUBSCRIBE, b"")
        sub.connect(bound(xpub))
        assert xpub.recv() == b"\x01"
        sent = 0
        try:
            while sent < 100000:
                xpub.send(sent.to_bytes(4, "big") + bytes(4096))
                sent += 1
        except zmq.Again:
            pass
        assert 0 < sent < 100000, sent
        for number in range(sent):
            assert sub.recv()[:4] == number.to_bytes(4, "big")


@test()
@covers("ZMQ_XPUB_MANUAL", "ZMQ_XPUB_MANUAL_LAST_VALUE")
def manual():
    """The application decides what a subscriber is subscribed to."""
    for option in (zmq.XPUB_MANUAL, reach.XPUB_MANUAL_LAST_VALUE):
        with context() as ctx:
            xpub, sub = sock(ctx, zmq.XPUB), sock(ctx, zmq.SUB)
            put(xpub, option, 1)
            sub.connect(bound(xpub))
            sub.setsockopt(zmq.SUBSCRIBE, b"A")
            assert xpub.recv() == b"\x01A"
            xpub.setsockopt(zmq.SUBSCRIBE, b"XA")
            xpub.send(b"A")
            xpub.send(b"XA")
            # The subscriber filters too, by what it asked for.
            sub.setsockopt(zmq.SUBSCRIBE, b"XA")
            assert xpub.recv() == b"\x01XA"
            xpub.setsockopt(zmq.SUBSCRIBE, b"XA")
            xpub.send(b"XA again")
            assert sub.recv().startswith(b"XA"), option


@test()
@covers("ZMQ_XPUB_WELCOME_MSG")
def welcome_message():
    """Each new subscriber gets it."""
    with context() as ctx:
        xpub = sock(ctx, zmq.XPUB, XPUB_WELCOME_MSG=b"W")
        sub = sock(ctx, zmq.SUB)
        sub.setsockopt(zmq.SUBSCRIBE, b"W")
        sub.connect(bound(xpub))
        assert xpub.recv() == b"\x01W"
        assert sub.recv() == b"W"


@test()
@covers("ZMQ_ONLY_FIRST_SUBSCRIBE")
def only_first_subscribe():
    """Only the first part of a message can be a subscription."""
    with context() as ctx:
        xpub, xsub = sock(ctx, zmq.XPUB), sock(ctx, zmq.XSUB)
        put(xpub, reach.ONLY_FIRST_SUBSCRIBE, 1)
        put(xsub, reach.ONLY_FIRST_SUBSCRIBE, 1)
        xsub.connect(bound(xpub))
        _subscribe(xsub, b"A")
        assert xpub.recv() == b"\x01A"
        xsub.send_multipart([b"word", b"\x01B"])
        assert xpub.recv_multipart() == [b"word", b"\x01B"]
        xpub.send(b"B: not subscribed")
        xpub.send(b"A: subscribed")
        assert xsub.recv() == b"A: subscribed"


@test()
@covers("ZMQ_XSUB_VERBOSE_UNSUBSCRIBE", "ZMQ_TOPICS_COUNT")
def unsubscribe_verbosely():
    """Doubled unsubscriptions go upstream; the publisher counts its topics."""
    with context() as ctx:
        xpub, xsub = sock(ctx, zmq.XPUB, XPUB_VERBOSER=1), sock(ctx, zmq.XSUB)
        verbose = True
        try:
            put(xsub, reach.XSUB_VERBOSE_UNSUBSCRIBE, 1)
        except zmq.ZMQError as error:  # a draft: unknown without them
            assert error.errno == errno.EINVAL and not reach.drafts(), error
            verbose = False
        xsub.connect(bound(xpub))
        for _ in range(2):
            _subscribe(xsub, b"A")
            assert xpub.recv() == b"\x01A"
        _subscribe(xsub, b"B")
        assert xpub.recv() == b"\x01B"
        if reach.drafts():
            assert xpub.getsockopt(reach.TOPICS_COUNT) == 2
        _subscribe(xsub, b"A", False)
        if verbose:
            assert xpub.recv() == b"\x00A"
        _subscribe(xsub, b"A", False)
        assert xpub.recv() == b"\x00A"
        _subscribe(xsub, b"B", False)
        assert xpub.recv() == b"\x00B", "one more than was asked for"
