# SPDX-License-Identifier: MPL-2.0
"""Monitor events: the same story over both schemes, event by event.

Each scenario runs over tcp:// and over the scheme under test, and yields the
events of both ends. Ports and scheme are taken out, descriptors become "fd"
and intervals "ms"; what is left must be equal.
"""

import errno
import os
import signal
import socket as posix

import zmq

import zt
from zt import test
from zt.proc import Peer, ask, say
from zt.servers import echo_once
from zt.sock import Monitor, any_port, bound, context, dead_port, port_of, sock

DESCRIPTORS = ("LISTENING", "ACCEPTED", "CONNECTED", "CLOSED", "DISCONNECTED")


def plain(events, scheme, ports):
    """Events without what differs from run to run."""
    story = []
    for name, value, endpoint in events:
        assert endpoint == "" or endpoint.startswith(scheme + "://"), f"{name} at {endpoint}"
        for port, label in ports.items():
            endpoint = endpoint.replace(f":{port}", f":{label}")
        if "://" in endpoint:
            host, port = endpoint.split("://")[1].rsplit(":", 1)
            endpoint = host + (f":{port}" if port in ports.values() else ":any")
        if name in DESCRIPTORS:
            assert value >= 0, (name, value)
            value = "fd"
        elif name == "CONNECT_RETRIED":
            value = "ms"
        elif name in ("CONNECT_DELAYED", "BIND_FAILED", "ACCEPT_FAILED", "CLOSE_FAILED") or "NO_DETAIL" in name:
            value = errno.errorcode.get(value, value)
        story.append((name, value, endpoint))
    return story


def compare(scenario):
    """Run over both schemes and compare the stories."""
    tcp, ours = zt.both(scenario)
    for role in tcp:
        print(role)
        for scheme, story in (("tcp", tcp[role]), (zt.SCHEME, ours[role])):
            print("  " + scheme, *story, sep="\n    ")
    for role in tcp:
        assert ours[role] == tcp[role], f"{role}: {ours[role]}, but tcp: {tcp[role]}"


def _crank(socket, watch, name):
    """Until `name`, let `socket` do what its own thread has to do for an end."""
    seen = []
    while not seen or seen[-1][0] != name:
        socket.getsockopt(zmq.EVENTS)
        seen += filter(None, [watch.next(0.02)])
    return seen


@test()
def life():
    """Listen, connect, shake hands, talk; then the client leaves; then the listener closes."""

    def scenario(scheme):
        with context() as ctx:
            server, client = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
            at_server, at_client = Monitor(server), Monitor(client)
            endpoint = bound(server, any_port(scheme))
            client.connect(endpoint)
            client.send(b"hello")
            server.recv()
            seen_client = at_client.until("HANDSHAKE_SUCCEEDED")
            client.close()
            seen_client += at_client.until("MONITOR_STOPPED")
            seen_server = at_server.until("DISCONNECTED")
            server.unbind(endpoint)
            seen_server += at_server.until("CLOSED")
            ports = {port_of(endpoint): "P"}
            return {
                "server": plain(seen_server, scheme, ports),
                "client": plain(seen_client, scheme, ports),
            }

    compare(scenario)


@test()
def server_leaves():
    """The server closes: the client sees DISCONNECTED, then retries."""

    def scenario(scheme):
        with context() as ctx:
            server, client = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH, RECONNECT_IVL=100)
            at_client = Monitor(client)
            endpoint = bound(server, any_port(scheme))
            client.connect(endpoint)
            client.send(b"hello")
            server.recv()
            seen = at_client.until("HANDSHAKE_SUCCEEDED")
            server.close(0)
            seen += at_client.until("DISCONNECTED")
            seen += at_client.until("CLOSED")
            seen += at_client.until("CONNECT_DELAYED")
            return {"client": plain(seen, scheme, {port_of(endpoint): "P"})}

    compare(scenario)


def doomed_server(scheme):
    """Takes one message, then waits to be killed."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        say(bound(pull, any_port(scheme)))
        pull.recv()
        say("got it")
        ask()


@test()
def server_killed():
    """kill -9 of the server reads like its close."""

    def scenario(scheme):
        peer = Peer(doomed_server, scheme)
        with context() as ctx:
            client = sock(ctx, zmq.PUSH, RECONNECT_IVL=100)
            watch = Monitor(client)
            endpoint = peer.hear()
            client.connect(endpoint)
            client.send(b"hello")
            peer.hear()
            seen = watch.until("HANDSHAKE_SUCCEEDED")
            peer.kill()
            seen += watch.until("DISCONNECTED")
            seen += watch.until("CLOSED")
            return {"client": plain(seen, scheme, {port_of(endpoint): "P"})}

    compare(scenario)


@test()
def nobody_listens():
    """Connecting to a dead port: DELAYED, CLOSED, RETRIED, again and again; then it succeeds."""

    def scenario(scheme):
        with context() as ctx:
            held, port = dead_port()
            endpoint = f"{scheme}://{zt.HOST}:{port}"
            client = sock(ctx, zmq.PUSH, RECONNECT_IVL=50)
            watch = Monitor(client)
            client.connect(endpoint)
            seen = watch.until("CONNECT_RETRIED") + watch.until("CONNECT_RETRIED")
            ports = {port_of(endpoint): "P"}
            held.close()
            server = sock(ctx, zmq.PULL)
            server.bind(endpoint)
            last = watch.until("HANDSHAKE_SUCCEEDED")[-2:]
            return {"tries": plain(seen, scheme, ports), "success": plain(last, scheme, ports)}

    compare(scenario)


@test()
def refused_stops():
    """ZMQ_RECONNECT_STOP_CONN_REFUSED ends the retries."""

    def scenario(scheme):
        with context() as ctx:
            held, port = dead_port()
            endpoint = f"{scheme}://{zt.HOST}:{port}"
            client = sock(ctx, zmq.PUSH, RECONNECT_IVL=50)
            client.setsockopt(109, 1)  # ZMQ_RECONNECT_STOP; 1: when refused
            watch = Monitor(client)
            client.connect(endpoint)
            seen = watch.until("CLOSED")
            assert watch.next(0.5) is None, "it went on"
            held.close()
            return {"client": plain(seen, scheme, {port_of(endpoint): "P"})}

    compare(scenario)


@test()
def bind_fails():
    """A port in use is told as BIND_FAILED with its errno."""

    def scenario(scheme):
        with context() as ctx:
            first, second = sock(ctx, zmq.PULL), sock(ctx, zmq.PULL)
            endpoint = bound(first, any_port(scheme))
            watch = Monitor(second)
            try:
                second.bind(endpoint)
                assert False, "bound twice"
            except zmq.ZMQError as error:
                assert error.errno == errno.EADDRINUSE
            name, value, where = watch.until("BIND_FAILED")[-1]
            return {"server": [(name, errno.errorcode[value], where.replace(str(port_of(endpoint)), "P"))]}

    compare(scenario)


@test()
def unbind_and_disconnect():
    """unbind ends the listener and its connections, disconnect the one connection."""

    def scenario(scheme):
        with context() as ctx:
            server, client = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH, RECONNECT_IVL=50)
            endpoint = bound(server, any_port(scheme))
            client.connect(endpoint)
            client.send(b"one")
            server.recv()
            at_server, at_client = Monitor(server), Monitor(client)
            server.unbind(endpoint)
            seen_server = at_server.until("CLOSED")
            seen_client = _crank(server, at_client, "DISCONNECTED")
            server.bind(endpoint)
            at_client.until("HANDSHAKE_SUCCEEDED")
            at_server.until("HANDSHAKE_SUCCEEDED")
            client.disconnect(endpoint)
            seen_server += _crank(client, at_server, "DISCONNECTED")
            ports = {port_of(endpoint): "P"}
            assert at_client.next(0.3) is None, "disconnect is silent at its own side"
            return {
                "server": plain(seen_server, scheme, ports),
                "client": plain(seen_client, scheme, ports),
            }

    compare(scenario)


@test()
def heartbeat_times_out():
    """A stopped peer misses its heartbeats: DISCONNECTED; when it wakes all goes on."""

    def scenario(scheme):
        peer = Peer(echo_once, scheme)
        with context() as ctx:
            client = sock(ctx, zmq.DEALER, HEARTBEAT_IVL=100, HEARTBEAT_TIMEOUT=500, RECONNECT_IVL=100)
            watch = Monitor(client)
            endpoint = peer.hear()
            client.connect(endpoint)
            client.send(b"hello")
            assert client.recv() == b"hello"
            seen = watch.until("HANDSHAKE_SUCCEEDED")
            peer.stop()
            seen += watch.until("DISCONNECTED")
            os.kill(peer.pid, signal.SIGCONT)
            watch.until("HANDSHAKE_SUCCEEDED")
            peer.kill()
            return {"client": plain(seen, scheme, {port_of(endpoint): "P"})}

    compare(scenario)


@test()
def heartbeats_keep_alive():
    """Heartbeats of an idle, living connection disturb nothing."""
    peer = Peer(echo_once, zt.SCHEME)
    with context() as ctx:
        client = sock(ctx, zmq.DEALER, HEARTBEAT_IVL=50, HEARTBEAT_TIMEOUT=int(5000 * zt.SLOW), HEARTBEAT_TTL=30000)
        client.connect(peer.hear())
        client.send(b"hello")
        assert client.recv() == b"hello"
        watch = Monitor(client)
        assert watch.next(2) is None, "an idle connection with heartbeats was disturbed"
        peer.kill()
        watch.until("DISCONNECTED")


@test()
def handshake_interval():
    """Both ends give up a handshake that the other never answers (ZMQ_HANDSHAKE_IVL)."""

    def scenario(scheme):
        with context() as ctx:
            server = sock(ctx, zmq.PULL, HANDSHAKE_IVL=300)
            watch = Monitor(server)
            endpoint = bound(server, any_port(scheme))
            mute = posix.create_connection((zt.HOST, port_of(endpoint)))
            names = [name for name, _, _ in watch.until("DISCONNECTED", "HANDSHAKE_FAILED_NO_DETAIL", "CLOSED")]
            assert mute.recv(1000) is not None
            mute.close()
            return {"server": names[:2]}

    compare(scenario)
