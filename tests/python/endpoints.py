# SPDX-License-Identifier: MPL-2.0
"""Endpoint forms: what tcp:// takes, rdma:// takes; what tcp:// refuses,
rdma:// refuses with the same errno."""

import errno
import os
import re
import socket as posix

import zmq

import zt
from zt import Missing, test
from zt.sock import Monitor, bound, context, dead_port, last_endpoint, port_of, sock


def interface():
    """The interface under test; of the loopback's host, if there is one, another that has an IPv4 address."""
    if zt.HOST_INTERFACE != "lo":
        return zt.HOST_INTERFACE, _ipv4(zt.HOST_INTERFACE)
    for name in sorted(os.listdir("/sys/class/net")):
        if name != "lo" and _ipv4(name):
            return name, _ipv4(name)
    return "lo", "127.0.0.1"


def _ipv4(name):
    """The IPv4 address of an interface, or None."""
    import fcntl  # pylint: disable=import-outside-toplevel
    import struct  # pylint: disable=import-outside-toplevel

    with posix.socket(posix.AF_INET, posix.SOCK_DGRAM) as probe:
        try:
            raw = fcntl.ioctl(probe, 0x8915, struct.pack("256s", name.encode()[:15]))
        except OSError:
            return None
    return posix.inet_ntoa(raw[20:24])


def talk(ctx, bind_to, reach, **options):
    """Bind, check the endpoint given back against `reach` (a pattern with PORT), and
    exchange a message through `reach`. Returns the endpoint given back."""
    pull, push = sock(ctx, zmq.PULL, **options), sock(ctx, zmq.PUSH, **options)
    pull.bind(bind_to)
    given = last_endpoint(pull)
    push.connect(reach.replace("PORT", str(port_of(given))))
    push.send(b"hello")
    assert pull.recv() == b"hello"
    pull.unbind(given)
    push.close(0)
    pull.close(0)
    return given


FORMS = (
    # bind to, connect to, options, what ZMQ_LAST_ENDPOINT says; capitals stand for what zt says of this host
    ("HOST:*", "HOST:PORT", {}, r"HOST:\d+"),
    ("HOST:0", "HOST:PORT", {}, r"HOST:\d+"),
    ("*:*", "HOST:PORT", {}, r"0\.0\.0\.0:\d+"),
    ("0.0.0.0:*", "HOST:PORT", {}, r"0\.0\.0\.0:\d+"),
    ("INTERFACE:*", "HOST:PORT", {}, r"HOST:\d+"),
    ("HOST:*", "NAME:PORT", {}, r"HOST:\d+"),
    ("HOST:*", "HOST:0;HOST:PORT", {}, r"HOST:\d+"),
    ("HOST:*", "SECOND:0;HOST:PORT", {}, r"HOST:\d+"),
    ("HOST:*", "INTERFACE:0;HOST:PORT", {}, r"HOST:\d+"),
    ("HOST:*", "0.0.0.0:0;HOST:PORT", {}, r"HOST:\d+"),
    ("[IPV6]:*", "[IPV6]:PORT", {"IPV6": 1}, r"\[IPV6\]:\d+"),
    ("[::]:*", "[IPV6]:PORT", {"IPV6": 1}, r"\[::\]:\d+"),
    ("*:*", "[IPV6]:PORT", {"IPV6": 1}, r"\[::\]:\d+"),
    ("*:*", "HOST:PORT", {"IPV6": 1}, r"\[::\]:\d+"),
    ("HOST:*", "HOST:PORT", {"IPV6": 1}, r"\[::ffff:HOST\]:\d+"),
    ("[IPV6]:*", "[IPV6]:0;[IPV6]:PORT", {"IPV6": 1}, r"\[IPV6\]:\d+"),
    ("[IPV6%INTERFACE]:*", "[IPV6%INTERFACE]:PORT", {"IPV6": 1}, r"\[IPV6(%INTERFACE)?\]:\d+"),
    ("[::ffff:HOST]:*", "HOST:PORT", {"IPV6": 1}, r".*:\d+"),
)
HERE = {
    "HOST": zt.HOST,
    "SECOND": zt.HOST_SECOND,
    "NAME": zt.HOST_NAME,
    "INTERFACE": zt.HOST_INTERFACE,
    "IPV6": zt.HOST6,
}


def here(form, quote=str):
    """A form with what this host goes by in place of the capitals."""
    for word, name in HERE.items():
        form = form.replace(word, quote(name))
    return form


@test()
def forms():
    """Wildcards, interfaces, IPv6, names, sources: each binds, connects, and names itself as with tcp."""
    if not os.path.exists("/proc/net/if_inet6"):
        raise Missing("no IPv6 on the loopback: sysctl net.ipv6.conf.lo.disable_ipv6=0")
    with context() as ctx:
        for bind_to, reach, options, given in FORMS:
            bind_to, reach, given = here(bind_to), here(reach), here(given, re.escape)
            said = {}
            for scheme in ("tcp", zt.SCHEME):
                print(scheme, bind_to, reach, options, flush=True)
                end = talk(ctx, f"{scheme}://{bind_to}", f"{scheme}://{reach}", **options)
                assert re.fullmatch(f"{scheme}://{given}", end), f"{bind_to}: {end}"
                said[scheme] = re.sub(r"\d+$", "", end.split("://")[1])
            assert said["tcp"] == said[zt.SCHEME], said


@test()
def interface_name():
    """`eth0:*` listens on the address of eth0."""
    name, address = interface()
    with context() as ctx:
        for scheme in ("tcp", zt.SCHEME):
            given = talk(ctx, f"{scheme}://{name}:*", f"{scheme}://{address}:PORT")
            assert given.startswith(f"{scheme}://{address}:"), given


@test()
def source_address():
    """`source;destination` really connects from the source: the peer's address says so."""
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        endpoint = bound(pull)
        held, port = dead_port()
        held.close()
        push.connect(endpoint.replace("//", f"//{zt.HOST_SECOND}:{port};"))
        push.send(b"hello")
        frame = pull.recv(copy=False)
        assert frame.get("Peer-Address") == zt.HOST_SECOND, frame.get("Peer-Address")


@test()
def given_back():
    """What ZMQ_LAST_ENDPOINT gives is good for unbind and disconnect, and frees the port."""
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        watch = Monitor(pull)
        for form in (f"{zt.HOST}:*", "*:*"):
            given = bound(pull, f"{zt.SCHEME}://{form}")
            push.connect(given.replace("0.0.0.0", zt.HOST))
            push.disconnect(last_endpoint(push))
            pull.unbind(given)
            watch.until("CLOSED")
            again = sock(ctx, zmq.PULL)
            again.bind(given)
            again.close(0)


@test()
def unbind_wildcard():
    """A wildcard port is unbound by the endpoint given back, and by nothing else."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        given = bound(pull)
        for wrong in (f"{zt.SCHEME}://{zt.HOST}:1", f"tcp://{zt.HOST}:1", given + "0"):
            _expect(errno.ENOENT, pull.unbind, wrong)
        pull.unbind(given)
        _expect(errno.ENOENT, pull.unbind, given)


def _expect(code, call, *arguments):
    try:
        call(*arguments)
    except zmq.ZMQError as error:
        assert error.errno == code, f"{arguments}: {error}"
    else:
        raise AssertionError(f"{arguments}: no error")


ADDRESSES = (
    "", ":", ":5555", "*", "*:", "junk", "junk:junk", "127.0.0.1", "127.0.0.1:", "127.0.0.1:junk",
    "127.0.0.1:-1", "127.0.0.1:65536", "127.0.0.1:99999999999", "127.0.0.1:0x10", "127.0.0.1: 80",
    "127.0.0.1:80 ", " 127.0.0.1:80", "127.0.0.1:8080/path", "127.0.0.1:8080/", "256.0.0.1:80", "1.2.3:80",
    "1.2.3.4.5:80", "[::1:80", "::1]:80", "[::1]", "[]:80", "[::1]:80", "[junk]:80", "eth99:80", "eth99:*", "lo:", "lo:*junk",
    "no-such-interface:80", "no.such.host.invalid:80", "under_score:80", "-dash:80", ".:80", "..:80", "a..b:80",
    ";127.0.0.1:80", "127.0.0.1:0;", "127.0.0.1;127.0.0.1:80", "junk;127.0.0.1:80", "eth99:0;127.0.0.1:80",
    "127.0.0.1:0;junk", "127.0.0.1:0;*:80", "1.2.3.4:0;127.0.0.1:80", "127.0.0.1:0;127.0.0.1:0;127.0.0.1:80",
    "localhost:0;127.0.0.1:80", "*:80", "0.0.0.0:80", "[::]:80", "127.0.0.1:0", "127.0.0.1:*", "*:0", "localhost:*",
    "http://127.0.0.1:80", "a" * 300 + ":80", "127.0.0.1:" + "9" * 300, "%lo:80", "127.0.0.1%lo:80", "\u00fcber:80",
)  # fmt: skip


def _of_this_host(address):
    """An address that says loopback, for the host under test."""
    address = address.replace("127.0.0.1", zt.HOST).replace("localhost", zt.HOST_NAME).replace("[::1]", f"[{zt.HOST6}]")
    return re.sub(r"\blo\b", zt.HOST_INTERFACE, address)


def _answer(how, endpoint, **options):
    """What a fresh socket's bind, connect, unbind or disconnect says: ok, or an errno's name."""
    # A context of its own: when it has ended, the port is free for the other scheme.
    with context() as ctx:
        socket = sock(ctx, zmq.PULL, **options)
        try:
            getattr(socket, how)(endpoint)
            return "ok"
        except zmq.ZMQError as error:
            return errno.errorcode.get(error.errno, f"ZMQ {error.errno}: {error}")


def _same_answers(cases, **options):
    """Both schemes answer all cases alike; all differences are told at once."""
    different = []
    for how, address in cases:
        tcp, ours = (_answer(how, f"{scheme}://{address}", **options) for scheme in ("tcp", zt.SCHEME))
        print(f"{how} {address[:60]!r}: tcp {tcp}, {zt.SCHEME} {ours}", flush=True)
        if tcp != ours:
            different.append(f"{how} {address[:60]!r}: {ours}, but tcp {tcp}")
    assert not different, f"{len(different)} differ: " + "; ".join(different)


@test(bound=90)
def malformed():
    """Each malformed or unusable address gets the errno that tcp gives, from every call."""
    addresses = [_of_this_host(address) for address in ADDRESSES]
    # A privileged port would bind for root: nothing listens on one for longer than the call.
    _same_answers([(how, a) for how in ("connect", "unbind", "disconnect", "bind") for a in addresses])
    _same_answers([(how, a) for how in ("connect", "bind") for a in addresses], IPV6=1)


@test()
def not_local():
    """An address of another machine, and one in use, cannot be bound."""
    for address in ("198.51.100.7:*", "8.8.8.8:5555", "[2001:db8::1]:5555"):
        option = {"IPV6": 1} if "[" in address else {}
        tcp, ours = (_answer("bind", f"{scheme}://{address}", **option) for scheme in ("tcp", zt.SCHEME))
        assert tcp == ours != "ok", f"{address}: {ours}, but tcp {tcp}"
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        given = bound(pull)
        answers = [_answer("bind", address) for address in (given, given.replace(zt.HOST, "*"))]
        assert answers == ["EADDRINUSE"] * 2, answers
        everywhere = sock(ctx, zmq.PULL)
        given = bound(everywhere, f"{zt.SCHEME}://*:*")
        assert _answer("bind", given.replace("0.0.0.0", zt.HOST)) == "EADDRINUSE"


@test(only="rdma")
def refused_options():
    """SOCKS_PROXY and USE_FD have no meaning here: refused aloud, not ignored."""
    held, port = dead_port()
    answer = _answer("connect", f"{zt.SCHEME}://{zt.HOST}:{port}", SOCKS_PROXY=b"127.0.0.1:1080")
    assert answer != "ok"
    held.close()
    with posix.create_server((zt.HOST, 0)) as listening:
        answer = _answer("bind", f"{zt.SCHEME}://{zt.HOST}:*", USE_FD=listening.fileno())
        assert answer != "ok"


@test()
def accept_filter():
    """ZMQ_TCP_ACCEPT_FILTER, a security option, is honoured."""
    with context() as ctx:
        shut, open_ = sock(ctx, zmq.PULL), sock(ctx, zmq.PULL)
        shut.setsockopt(zmq.TCP_ACCEPT_FILTER, b"192.0.2.0/24")
        open_.setsockopt(zmq.TCP_ACCEPT_FILTER, zt.HOST.encode() + b"/24")
        watch = Monitor(shut)
        kept_out, let_in = sock(ctx, zmq.PUSH, RECONNECT_IVL=50), sock(ctx, zmq.PUSH)
        kept_out.connect(bound(shut))
        let_in.connect(bound(open_))
        let_in.send(b"hello")
        assert open_.recv() == b"hello"
        seen = watch.until("ACCEPT_FAILED", "HANDSHAKE_SUCCEEDED")
        assert seen[-1][0] == "ACCEPT_FAILED", seen


@test()
def slow_name():
    """A name that does not resolve blocks neither other sockets nor the end of the context."""
    with context() as ctx:
        lost = [sock(ctx, zmq.PUSH) for _ in range(8)]
        for number, push in enumerate(lost):
            push.connect(f"{zt.SCHEME}://no-such-host-{number}.invalid:5555")
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        push.connect(bound(pull))
        push.send(b"hello")
        assert pull.recv() == b"hello"
