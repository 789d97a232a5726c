# SPDX-License-Identifier: MPL-2.0
"""Options about the network below: addresses, interfaces, marks, and those that
a transport without kernel sockets cannot have."""

import errno
import os
import socket as posix

import zmq

import reach
import zt
from reach import covers, put, seen
from sizes import _kernel_view
from zt import test
from zt.link import call, need, scratch
from zt.proc import Peer
from zt.sock import Monitor, any_port, bound, context, port_of, sock


@test(only="soft")
@covers("ZMQ_TOS")
def tos():
    """The type of service is set at both ends, as over tcp."""
    for value in (0x28, 0xb8):
        tcp, ours = zt.both(lambda scheme: _kernel_view(scheme, posix.IPPROTO_IP, posix.IP_TOS, TOS=value))
        assert ours == tcp == [value, value], (ours, tcp)


@test(only="soft")
@covers("ZMQ_PRIORITY")
def priority():
    """SO_PRIORITY, as over tcp."""
    so_priority = 12
    try:
        tcp, ours = zt.both(lambda scheme: _kernel_view(scheme, posix.SOL_SOCKET, so_priority, PRIORITY=3))
    except zmq.ZMQError as error:
        assert error.errno == errno.EINVAL and not reach.drafts(), error
        return
    assert ours == tcp == [3, 3], (ours, tcp)


@test()
@covers("ZMQ_IPV6")
def ipv6():
    """Off, an IPv6 address is refused as tcp refuses it. On, both families reach a wildcard."""

    def story(scheme):
        told = []
        with context() as ctx:
            plain = sock(ctx, zmq.PULL)
            try:
                plain.bind(f"{scheme}://[::1]:*")
                told.append("bound")
            except zmq.ZMQError as error:
                told.append(errno.errorcode[error.errno])
            pull = sock(ctx, zmq.PULL, IPV6=1)
            port = port_of(bound(pull, f"{scheme}://*:*"))
            told.append(zt.sock.last_endpoint(pull).replace(str(port), "P").split("://")[1])
            for host, six in (("127.0.0.1", 0), ("127.0.0.1", 1), ("[::1]", 1)):
                push = sock(ctx, zmq.PUSH, IPV6=six)
                push.connect(f"{scheme}://{host}:{port}")
                push.send(host.encode())
                frame = pull.recv(copy=False)
                told.append((frame.bytes, frame.get("Peer-Address")))
        return told

    tcp, ours = zt.both(story)
    assert ours == tcp, (ours, tcp)


@test()
@covers("ZMQ_BINDTODEVICE")
def bind_to_device():
    """A connection stays on the interface; one that is not there is refused as tcp refuses it."""

    def story(scheme):
        with context() as ctx:
            nowhere = sock(ctx, zmq.PULL)
            put(nowhere, reach.BINDTODEVICE, b"nosuchdev")
            try:
                nowhere.bind(any_port(scheme))
                refused = "bound"
            except zmq.ZMQError as error:
                refused = errno.errorcode[error.errno]
            pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
            put(pull, reach.BINDTODEVICE, b"lo")
            put(push, reach.BINDTODEVICE, b"lo")
            try:
                endpoint = bound(pull, any_port(scheme))
            except zmq.ZMQError as error:
                return refused, errno.errorcode[error.errno]
            push.connect(endpoint)
            push.send(b"hello")
            pull.recv()
            if not reach.soft():
                return refused, "lo"
            so_bindtodevice = 25
            names = seen(port_of(endpoint), posix.SOL_SOCKET, so_bindtodevice, 16)
            return refused, [name.rstrip(b"\0") for name in names]

    tcp, ours = zt.both(story)
    assert ours == tcp, (ours, tcp)


@test()
@covers("ZMQ_TCP_ACCEPT_FILTER")
def accept_filter():
    """Who does not match is not let in, and ACCEPT_FAILED tells; who matches is."""

    def story(scheme):
        with context() as ctx:
            shut, client = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH, RECONNECT_IVL=-1)
            put(shut, zmq.TCP_ACCEPT_FILTER, b"10.11.12.13/32")
            watch = Monitor(shut)
            client.connect(bound(shut, any_port(scheme)))
            told = [name for name, _, _ in watch.until("ACCEPT_FAILED", "ACCEPTED")]
            ajar, friend = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
            put(ajar, zmq.TCP_ACCEPT_FILTER, b"10.11.12.13/32")
            put(ajar, zmq.TCP_ACCEPT_FILTER, b"127.0.0.0/8")
            friend.connect(bound(ajar, any_port(scheme)))
            friend.send(b"hello")
            return told, ajar.recv()

    tcp, ours = zt.both(story)
    assert ours == tcp, (ours, tcp)


PLAN = (posix.TCP_KEEPIDLE, posix.TCP_KEEPINTVL, posix.TCP_KEEPCNT)


@test(only="rdma soft")
@covers("ZMQ_TCP_KEEPALIVE", "ZMQ_TCP_KEEPALIVE_CNT", "ZMQ_TCP_KEEPALIVE_IDLE", "ZMQ_TCP_KEEPALIVE_INTVL")
def keepalive():
    """Without effect: the transport's own watch over its peers stays as it is."""
    for name in PLAN:
        usual = _kernel_view(zt.SCHEME, posix.IPPROTO_TCP, name)
        asked = _kernel_view(
            zt.SCHEME, posix.IPPROTO_TCP, name,
            TCP_KEEPALIVE=1, TCP_KEEPALIVE_CNT=9, TCP_KEEPALIVE_IDLE=77, TCP_KEEPALIVE_INTVL=88,
        )
        assert asked == usual, (name, asked, usual)
    off = _kernel_view(zt.SCHEME, posix.SOL_SOCKET, posix.SO_KEEPALIVE, TCP_KEEPALIVE=0)
    assert off == [1, 1], off


@test(only="rdma soft")
@covers("ZMQ_TCP_MAXRT")
def maxrt():
    """How long a silent peer is waited for; ten seconds if it is not set, two at least."""
    for asked, seconds in ((None, 10), (30000, 30), (1, 2)):
        options = {} if asked is None else {"TCP_MAXRT": asked}
        idle, every, times = (_kernel_view(zt.SCHEME, posix.IPPROTO_TCP, name, **options) for name in PLAN)
        assert [a + b * c for a, b, c in zip(idle, every, times)] == [seconds, seconds], (asked, idle, every, times)


@test(only="rdma")
@covers("ZMQ_SOCKS_PROXY", "ZMQ_SOCKS_USERNAME", "ZMQ_SOCKS_PASSWORD")
def socks():
    """A proxy is refused at connect, aloud; a user name alone does nothing."""
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH, SOCKS_PROXY=b"127.0.0.1:1080")
        endpoint = bound(pull)
        try:
            push.connect(endpoint)
            assert False, "connected past the proxy"
        except zmq.ZMQError as error:
            assert error.errno == errno.EINVAL, error
        named = sock(ctx, zmq.PUSH)
        put(named, reach.SOCKS_USERNAME, b"me")
        put(named, reach.SOCKS_PASSWORD, b"secret")
        named.connect(endpoint)
        named.send(b"hello")
        assert pull.recv() == b"hello"


@test(only="rdma")
@covers("ZMQ_USE_FD")
def use_fd():
    """Refused at bind; the descriptor is left alone."""
    with context() as ctx, posix.create_server((zt.HOST, 0)) as listener:
        pull = sock(ctx, zmq.PULL)
        put(pull, reach.USE_FD, listener.fileno())
        try:
            pull.bind(f"{zt.SCHEME}://{zt.HOST}:{listener.getsockname()[1]}")
            assert False, "took over a descriptor"
        except zmq.ZMQError as error:
            assert error.errno == errno.EINVAL, error
        pull.close()
        with posix.create_connection(listener.getsockname()):
            listener.accept()[0].close()


@test()
@covers(
    "ZMQ_RATE", "ZMQ_RECOVERY_IVL", "ZMQ_MULTICAST_HOPS", "ZMQ_MULTICAST_LOOP", "ZMQ_MULTICAST_MAXTPDU", "ZMQ_BUSY_POLL",
    "ZMQ_LOOPBACK_FASTPATH", "ZMQ_VMCI_BUFFER_SIZE", "ZMQ_VMCI_BUFFER_MIN_SIZE", "ZMQ_VMCI_BUFFER_MAX_SIZE", "ZMQ_VMCI_CONNECT_TIMEOUT",
    "ZMQ_IPC_FILTER_PID", "ZMQ_IPC_FILTER_UID", "ZMQ_IPC_FILTER_GID",
)
def other_transports():
    """What is about other transports does no harm."""
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        for socket in (pull, push):
            for option in (zmq.RATE, zmq.RECOVERY_IVL, zmq.MULTICAST_HOPS, zmq.MULTICAST_MAXTPDU):
                put(socket, option, 3)
            put(socket, reach.MULTICAST_LOOP, 0)
            put(socket, reach.LOOPBACK_FASTPATH, 1)
            for option in (zmq.IPC_FILTER_UID, zmq.IPC_FILTER_GID, zmq.IPC_FILTER_PID):
                put(socket, option, 12345)
            if reach.drafts():
                put(socket, reach.BUSY_POLL, 50)
        push.connect(bound(pull))
        push.send(b"hello")
        assert pull.recv() == b"hello"


def without_ipv6(scheme):
    """Asks for IPv6 where the kernel has none (no_ipv6.c is preloaded)."""
    told = []
    with context() as ctx:
        for host in ("*", zt.HOST):
            pull, push = sock(ctx, zmq.PULL, IPV6=1), sock(ctx, zmq.PUSH, IPV6=1)
            port = port_of(bound(pull, f"{scheme}://{host}:*"))
            push.connect(f"{scheme}://{zt.HOST}:{port}")
            push.send(b"hello")
            frame = pull.recv(copy=False)
            told.append([frame.bytes.decode(), frame.get("Peer-Address")])
    return told


@test(only="soft")
@covers("ZMQ_IPV6")
def ipv6_without_ipv6():
    """ZMQ_IPV6 on a kernel that has no IPv6 falls back to IPv4, as over tcp."""
    shim = os.path.join(scratch(), "no_ipv6.so")
    here = os.path.dirname(os.path.abspath(__file__))
    call([need("cc", "gcc"), "-shared", "-fPIC", "-o", shim, os.path.join(here, "no_ipv6.c"), "-ldl"])
    tcp, ours = zt.both(lambda scheme: Peer(without_ipv6, scheme, env={"LD_PRELOAD": shim}).result())
    assert ours == tcp, (ours, tcp)
