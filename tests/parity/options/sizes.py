# SPDX-License-Identifier: MPL-2.0
"""Options about how much: bytes in flight, waiting connections, messages."""

import errno
import socket as posix

import zmq

import reach
import zt
from reach import covers, put, seen
from zt import test
from zt.sock import Monitor, any_port, blob, bound, context, port_of, sock

SMALL = 4096
MESSAGE = 1000


def _in_flight(scheme, sender, receiver):
    """Bytes that a sender gets rid of while the receiver does not read."""
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL, RCVHWM=1, **receiver), sock(ctx, zmq.PUSH, SNDHWM=1, **sender)
        watch = Monitor(push)
        push.connect(bound(pull, any_port(scheme)))
        watch.until("HANDSHAKE_SUCCEEDED")
        count = 0
        while push.poll(1500 * zt.SLOW, zmq.POLLOUT):
            push.send(bytes(MESSAGE))
            count += 1
        return count * MESSAGE


@test(bound=120)
@covers("ZMQ_SNDBUF", "ZMQ_RCVBUF")
def in_flight():
    """They bound what is under way to a reader that does not read."""
    small = _in_flight(zt.SCHEME, {"SNDBUF": SMALL}, {"RCVBUF": SMALL})
    default = _in_flight(zt.SCHEME, {}, {})
    print(f"in flight: {small} bytes with buffers of {SMALL}, {default} without")
    assert small <= 64 << 10, small
    assert default >= 2 * small, default
    if zt.SCHEME == "rdma":
        receiver = _in_flight(zt.SCHEME, {}, {"RCVBUF": SMALL})
        print(f"in flight: {receiver} bytes with the receiver's buffer of {SMALL}")
        assert receiver <= 64 << 10, receiver


def _kernel_view(scheme, level, name, **options):
    """A kernel option at both ends of a connection between sockets with these options."""
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        for socket in (pull, push):
            for option, value in options.items():
                put(socket, getattr(reach, option, None) or getattr(zmq, option), value)
        endpoint = bound(pull, any_port(scheme))
        push.connect(endpoint)
        push.send(b"hello")
        pull.recv()
        return seen(port_of(endpoint), level, name)


@test(only="soft")
@covers("ZMQ_SNDBUF", "ZMQ_RCVBUF")
def kernel_buffers():
    """Device soft sets the kernel's buffers too, as tcp does."""
    for name, option in ((posix.SO_SNDBUF, "SNDBUF"), (posix.SO_RCVBUF, "RCVBUF")):
        tcp, ours = zt.both(lambda scheme: _kernel_view(scheme, posix.SOL_SOCKET, name, **{option: 20000}))
        assert ours == tcp and len(ours) == 2, (option, ours, tcp)


def _backlog(scheme, value):
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        if value is not None:
            put(pull, reach.BACKLOG, value)
        port = port_of(bound(pull, any_port(scheme)))
        # Of a listening socket: tcpi_sacked is the length of its queue.
        return [int.from_bytes(info[28:32], "little") for info in seen(port, posix.IPPROTO_TCP, posix.TCP_INFO, 104, True)]


@test(only="soft")
@covers("ZMQ_BACKLOG")
def backlog():
    """The queue of connections is as long as asked for; by default as tcp's."""
    for value in (1, 7, None):
        tcp, ours = zt.both(lambda scheme: _backlog(scheme, value))
        assert ours == tcp == [100 if value is None else value], (value, ours, tcp)


@test()
@covers("ZMQ_MAXMSGSIZE")
def maxmsgsize():
    """A message that is too long ends the connection; one that is just right does not."""

    def story(scheme):
        with context() as ctx:
            pull, push = sock(ctx, zmq.PULL, MAXMSGSIZE=100000), sock(ctx, zmq.PUSH, RECONNECT_IVL=-1)
            at_pull, at_push = Monitor(pull), Monitor(push)
            push.connect(bound(pull, any_port(scheme)))
            push.send(bytes(100000))
            assert len(pull.recv()) == 100000
            push.send(bytes(100001))
            ends = ("DISCONNECTED", "HANDSHAKE_FAILED_PROTOCOL", "HANDSHAKE_FAILED_NO_DETAIL")
            at_pull.until("HANDSHAKE_SUCCEEDED")
            at_push.until("HANDSHAKE_SUCCEEDED")
            return at_pull.until(*ends)[-1][0], at_push.until(*ends)[-1][0]

    tcp, ours = zt.both(story)
    assert ours == tcp == ("DISCONNECTED", "DISCONNECTED"), (ours, tcp)


@test()
@covers("ZMQ_CONFLATE")
def conflate():
    """Of what was sent before there was a connection, the last message alone goes out."""
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH, CONFLATE=1)
        held = posix.socket()
        held.bind((zt.HOST, 0))
        endpoint = f"{zt.SCHEME}://{zt.HOST}:{held.getsockname()[1]}"
        push.connect(endpoint)
        for number in range(100):
            push.send(b"%d" % number)
        held.close()
        pull.bind(endpoint)
        assert pull.recv() == b"99"
        push.send(b"after")
        assert pull.recv() == b"after"


@test()
@covers("ZMQ_IN_BATCH_SIZE", "ZMQ_OUT_BATCH_SIZE")
def batch_sizes():
    """Any value works; without draft options they are refused."""
    with context() as ctx:
        for size in (1, 64, 300, 1 << 20):
            pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
            try:
                for socket in (pull, push):
                    put(socket, reach.IN_BATCH_SIZE, size)
                    put(socket, reach.OUT_BATCH_SIZE, size)
            except zmq.ZMQError as error:
                assert error.errno == errno.EINVAL and not reach.drafts(), error
                return
            push.connect(bound(pull))
            for length in (0, 1, 31, 255, 256, 8192, 8193, 100000):
                push.send(blob(length, length))
                assert pull.recv() == blob(length, length), (size, length)
            push.close()
            pull.close()
