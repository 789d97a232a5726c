# SPDX-License-Identifier: MPL-2.0
"""What a message says of its connection."""

import zmq

import zt
from zt import test
from zt.proc import Peer, ask
from zt.sock import bound, context, sock


def named_sender(endpoint):
    """Sends one message under a name."""
    with context() as ctx:
        dealer = sock(ctx, zmq.DEALER, IDENTITY=b"me", METADATA=b"X-Colour:green")
        dealer.connect(endpoint)
        dealer.send(b"hello")
        ask()


@test()
def properties():
    """Peer-Address is the bare address; type, identity and the application's own are there."""
    with context() as ctx:
        dealer = sock(ctx, zmq.DEALER)
        peer = Peer(named_sender, bound(dealer))
        frame = dealer.recv(copy=False)
        assert frame.get("Peer-Address") == zt.HOST, frame.get("Peer-Address")
        assert frame.get("Socket-Type") == "DEALER"
        assert frame.get("Identity") == "me"
        assert frame.get("X-Colour") == "green"
        peer.tell()
        peer.result()


@test()
def device():
    """Rdma-Device names the device that serves a connection; tcp has none."""
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        push.connect(bound(pull))
        push.send(b"hello")
        frame = pull.recv(copy=False)
        if zt.SCHEME == "rdma":
            print("device:", frame.get("Rdma-Device"))
            assert frame.get("Rdma-Device")
        else:
            try:
                assert False, frame.get("Rdma-Device")
            except zmq.ZMQError as error:
                assert error.errno == zmq.EINVAL


@test()
def fd():
    """A message's source descriptor (deprecated ZMQ_SRCFD) is a descriptor, as with tcp."""
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        push.connect(bound(pull))
        push.send(b"hello")
        assert pull.recv(copy=False).get(zmq.SRCFD if hasattr(zmq, "SRCFD") else 2) >= 0
