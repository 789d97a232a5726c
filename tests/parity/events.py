# SPDX-License-Identifier: MPL-2.0
"""Monitor events of the bad days, in tcp's order: handshakes that fail, peers
that are refused, reconnects; and a peer of another version told apart."""

import errno
import os
import socket as posix
import sys

import zmq

import zt
from zt import test
from zt.sock import Monitor, any_port, bound, context, dead_port, port_of, sock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "options"), os.path.join(os.path.dirname(HERE), "python")]

import reach  # noqa: E402
from mock import Mock, command, greeting  # noqa: E402
from monitor import compare, plain  # noqa: E402

RECONNECT_STOP_HANDSHAKE_FAILED = 2


@test()
def reconnect():
    """The server goes and comes back: the whole story of both ends."""

    def scenario(scheme):
        with context() as ctx:
            first, client = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH, RECONNECT_IVL=50, RECONNECT_IVL_MAX=50)
            watch = Monitor(client)
            endpoint = bound(first, any_port(scheme))
            client.connect(endpoint)
            seen = watch.until("HANDSHAKE_SUCCEEDED")
            first.close(0)
            seen += watch.until("CONNECT_RETRIED")
            # Then it is refused until somebody listens again: how often depends on time.
            second = sock(ctx, zmq.PULL)
            at_second = Monitor(second)
            second.bind(endpoint)
            seen += watch.until("HANDSHAKE_SUCCEEDED")[-2:]
            served = at_second.until("HANDSHAKE_SUCCEEDED")
            ports = {port_of(endpoint): "P"}
            return {"client": plain(seen, scheme, ports), "server": plain(served, scheme, ports)}

    compare(scenario)


@test()
def bind_failures():
    """BIND_FAILED with its errno, whatever the reason."""

    def scenario(scheme):
        told = []
        with context() as ctx:
            taken = sock(ctx, zmq.PULL)
            port = port_of(bound(taken, any_port(scheme)))
            for address in (f"{zt.HOST}:{port}", "192.0.2.1:5555", "nosuchdev:5555", zt.HOST, f"{zt.HOST}:x"):
                socket = sock(ctx, zmq.PULL)
                watch = Monitor(socket)
                try:
                    socket.bind(f"{scheme}://{address}")
                    told.append("bound")
                except zmq.ZMQError as error:
                    # Over tcp a monitor may change what bind leaves in errno.
                    assert error.errno != errno.EAGAIN or scheme == "tcp", address
                # Over tcp, CLOSED without an endpoint may come first: a descriptor that was made in vain.
                name, value, where = watch.until("BIND_FAILED", timeout=2)[-1]
                told.append((name, errno.errorcode.get(value), where.replace(str(port), "P")))
        return {"server": told}

    compare(scenario)


@test()
def unreachable():
    """A connect that fails at once, and a name that nobody knows."""

    def scenario(scheme):
        with context() as ctx:
            told = {}
            for name, host in (("route", "255.255.255.255"), ("name", "no-such-host.invalid")):
                client = sock(ctx, zmq.PUSH, RECONNECT_IVL=50)
                watch = Monitor(client)
                client.connect(f"{scheme}://{host}:5555")
                told[name] = plain(watch.until("CONNECT_RETRIED") + watch.until("CONNECT_RETRIED"), scheme, {5555: "P"})
            return told

    compare(scenario)


class Doorman:
    """A ZAP handler that turns everybody away."""

    def __init__(self, ctx):
        self.socket = sock(ctx, zmq.REP)
        self.socket.bind("inproc://zeromq.zap.01")

    def refuse(self, code):
        """Answer one request."""
        request = self.socket.recv_multipart()
        self.socket.send_multipart([request[0], request[1], code, b"no", b"", b""])


def _rest(watch, wait=0.4):
    """What else is told within a while: over tcp, mostly nothing."""
    seen = []
    while seen[-1:] != [None] and len(seen) < 20:
        seen.append(watch.next(wait))
    return seen[:-1]


ENDS = ("HANDSHAKE_FAILED_AUTH", "HANDSHAKE_FAILED_PROTOCOL", "HANDSHAKE_FAILED_NO_DETAIL", "DISCONNECTED")


@test()
def denied():
    """A client that ZAP refuses: HANDSHAKE_FAILED_AUTH with the code, and no hot loop of retries."""

    def scenario(scheme):
        told = {}
        for code in (b"300", b"400", b"500"):
            with context() as ctx:
                doorman = Doorman(ctx)
                server = sock(ctx, zmq.PULL, PLAIN_SERVER=1, ZAP_DOMAIN=b"here")
                client = sock(ctx, zmq.PUSH, PLAIN_USERNAME=b"me", PLAIN_PASSWORD=b"bad", RECONNECT_IVL=2000, HANDSHAKE_IVL=1000)
                at_server, at_client = Monitor(server), Monitor(client)
                endpoint = bound(server, any_port(scheme))
                client.connect(endpoint)
                doorman.refuse(code)
                ports = {port_of(endpoint): "P"}
                seen = plain(at_client.until("DISCONNECTED") + _rest(at_client), scheme, ports)
                # On 300 the client is left to wait, or, over both, now and then cut off at once.
                told["client" + code.decode()] = [
                    (name, "any" if "NO_DETAIL" in name else value, where) for name, value, where in seen
                ]
                told["server" + code.decode()] = plain(at_server.until(*ENDS) + _rest(at_server), scheme, ports)
        return told

    compare(scenario)


@test()
def mechanisms_differ():
    """NULL against PLAIN: both ends tell of a protocol error."""

    def scenario(scheme):
        with context() as ctx:
            server = sock(ctx, zmq.PULL, PLAIN_SERVER=1, ZAP_DOMAIN=b"here")
            client = sock(ctx, zmq.PUSH, RECONNECT_IVL=2000)
            at_server, at_client = Monitor(server), Monitor(client)
            endpoint = bound(server, any_port(scheme))
            client.connect(endpoint)
            ports = {port_of(endpoint): "P"}
            return {
                "client": plain(at_client.until(*ENDS) + _rest(at_client), scheme, ports),
                "server": plain(at_server.until(*ENDS) + _rest(at_server), scheme, ports),
            }

    compare(scenario)


@test()
def garbled_handshakes():
    """ZMTP that is wrong in many ways, from a client: the server's story."""
    wrong = {
        "empty command": b"\x04\x00",
        "unknown command": command(b"BOGUS"),
        "truncated property": command(b"READY", b"\x0bSocket-Type\x00\x00\x00\xff"),
        "message for READY": b"\x00\x01x",
        "error command": command(b"ERROR", b"\x02no"),
        "unknown mechanism": None,
        "end in the greeting": None,
    }

    def scenario(scheme):
        told = {}
        for name, data in wrong.items():
            with context() as ctx:
                server = sock(ctx, zmq.PULL)
                watch = Monitor(server)
                endpoint = bound(server, any_port(scheme))
                mock = Mock(ctx, endpoint=endpoint)
                if data:
                    mock.greet()
                    mock.write(data)
                elif "mechanism" in name:
                    mock.write(greeting(b"BOGUS"))
                else:
                    mock.write(greeting()[:20])
                    mock.drop()
                seen = watch.until(*ENDS, "HANDSHAKE_SUCCEEDED") + _rest(watch, 0.2)
                # Which of the two it is over tcp depends on what the kernel had not yet read.
                told[name] = [
                    (event, "EPIPE" if value == "ECONNRESET" else value, where)
                    for event, value, where in plain(seen, scheme, {port_of(endpoint): "P"})
                ]
                print(scheme, name, told[name], flush=True)
        return told

    compare(scenario)


def _hello(kind, least, most, reason=0):
    """A hello of protocol.md."""
    return (b"ZRDM" + bytes([kind, least, most, reason]) + (0).to_bytes(4, "big")
            + (8192).to_bytes(4, "big") + (4).to_bytes(2, "big") + b"\0\0")


def _mpa(key, flags, private):
    """An MPA request or reply of revision 2 (RFC 6581): with the depths of READs, 16 each."""
    private = (16).to_bytes(2, "big") * 2 + private
    return key + bytes([flags | ENHANCED, 2]) + len(private).to_bytes(2, "big") + private


REQUEST, REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
ENHANCED, REJECT, CRC = 0x10, 0x20, 0x40


def _story_of_answer(answer, tries=2, stop=0):
    """What a client tells of a server that answers its request like that."""
    with context() as ctx, posix.create_server((zt.HOST, 0)) as server:
        client = sock(ctx, zmq.PUSH, RECONNECT_IVL=50)
        reach.put(client, reach.RECONNECT_STOP, stop)
        watch = Monitor(client)
        port = server.getsockname()[1]
        client.connect(f"{zt.SCHEME}://{zt.HOST}:{port}")
        seen = []
        for _ in range(tries):
            peer, _ = server.accept()
            assert peer.recv(20).startswith(REQUEST)
            peer.sendall(answer)
            if stop:
                seen += watch.until("HANDSHAKE_FAILED_NO_DETAIL")
                assert watch.next(0.4) is None, "it went on"
            else:
                seen += watch.until("CONNECT_RETRIED")
            peer.close()
        return plain(seen, zt.SCHEME, {port: "P"})


@test(only="rdma soft")
def versions_and_refusals():
    """A refusal is ECONNREFUSED in tcp's words; another version, or another protocol, is EPROTO aloud."""
    host = f"{zt.HOST}:P"
    refused = [("CONNECT_DELAYED", "EINPROGRESS", host), ("CLOSED", "fd", host), ("CONNECT_RETRIED", "ms", host)]
    failed = refused[:2] + [("HANDSHAKE_FAILED_NO_DETAIL", "EPROTO", host)] + refused[2:]
    answers = {
        "no room": (_mpa(REPLY, CRC | REJECT, _hello(3, 1, 1, 3)), refused),
        "version 2 to 3 only": (_mpa(REPLY, CRC | REJECT, _hello(3, 2, 3, 1)), failed),
        "hello not understood": (_mpa(REPLY, CRC | REJECT, _hello(3, 1, 1, 2)), failed),
        "a version not offered": (_mpa(REPLY, CRC, _hello(2, 9, 9)), failed),
        "another protocol over iWARP": (_mpa(REPLY, CRC, b"who are you?"), failed),
        "HTTP": (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", failed),
    }
    for name, (answer, expected) in answers.items():
        seen = _story_of_answer(answer)
        print(name, seen)
        assert seen == expected * 2, (name, seen)
        if expected is failed:
            seen = _story_of_answer(answer, 1, RECONNECT_STOP_HANDSHAKE_FAILED)
            assert seen == failed[:3], (name, seen)


def _leave(connection):
    """Say no more, unless the other side is gone already."""
    try:
        connection.shutdown(posix.SHUT_WR)
    except OSError as error:
        assert error.errno == errno.ENOTCONN, error


def _to_its_end(connection):
    """Read until the other side is gone, in whatever way."""
    try:
        while connection.recv(1000):
            pass
    except ConnectionResetError:
        pass


@test(only="rdma soft")
def strangers_at_the_door():
    """Who comes with another version, another protocol or none: the server's story, in tcp's words."""
    words = {
        "another version": _mpa(REQUEST, CRC, _hello(1, 2, 3)),
        "another protocol over iWARP": _mpa(REQUEST, CRC, b"who are you?"),
        "HTTP": b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        "nothing": b"",
    }
    for name, data in words.items():
        with context() as ctx:
            server, friend = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
            watch = Monitor(server)
            endpoint = bound(server)
            with posix.create_connection((zt.HOST, port_of(endpoint))) as stranger:
                stranger.sendall(data)
                # Who is rejected reads why, and leaves.
                if data:
                    stranger.recv(1000)
                _leave(stranger)
                seen = watch.until("HANDSHAKE_FAILED_NO_DETAIL", "DISCONNECTED")
                code = seen[-1][1]
                story = [one for one, _, _ in seen]
                assert story == ["LISTENING", "ACCEPTED", "HANDSHAKE_FAILED_NO_DETAIL"], (name, story)
                print(name, errno.errorcode[code])
                assert code in ((errno.EPROTO,) if data else (errno.EPROTO, errno.EPIPE, errno.ECONNRESET)), (name, code)
                _to_its_end(stranger)
            friend.connect(endpoint)
            friend.send(b"hello")
            assert server.recv() == b"hello"


@test()
def refused_once():
    """Nobody listens: ECONNREFUSED is not told apart by an event of its own, as over tcp."""

    def scenario(scheme):
        with context() as ctx:
            held, port = dead_port()
            client = sock(ctx, zmq.PUSH, RECONNECT_IVL=-1)
            watch = Monitor(client)
            client.connect(f"{scheme}://{zt.HOST}:{port}")
            seen = watch.until("CLOSED")
            assert watch.next(0.3) is None
            held.close()
            return {"client": plain(seen, scheme, {port: "P"})}

    compare(scenario)
