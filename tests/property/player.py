# SPDX-License-Identifier: MPL-2.0
"""One side of a case: its sockets, what each sends, what each has received."""

import time

import zmq

import zt
from case import kind_of
from stream import In, Out
from zt.sock import Monitor, bound, sock

HELLO = b"hello"
XPUB_VERBOSE, XPUB_NODROP = zmq.XPUB_VERBOSE, zmq.XPUB_NODROP


def other(side):
    """The side across."""
    return "A" if side == "B" else "B"


class Port:
    """One socket of a side."""

    def __init__(self, socket, index):
        self.socket = socket
        self.index = index
        self.inward = In()
        #: What it sends, by the route that goes before each message.
        self.outs = {}

    def left(self):
        """Whether it has something to send."""
        return any(out.left for out in self.outs.values())

    def send(self, most):
        """Send up to `most` messages; how many went."""
        went = 0
        for route, out in list(self.outs.items()):
            while out.left and went < most:
                try:
                    self.socket.send_multipart([*route, *out.message()], zmq.DONTWAIT)
                except zmq.Again:
                    break
                except zmq.ZMQError as error:
                    # A router's peer that is gone takes its stream with it.
                    assert route and error.errno == zmq.EHOSTUNREACH, error
                    del self.outs[route]
                    break
                out.gone()
                went += 1
        return went


class Player:
    """A side of a case, in one thread."""

    def __init__(self, ctx, case, side, life=0):
        self.case, self.side, self.ctx, self.life = case, side, ctx, life
        self.kind = kind_of(case, side)
        self.binds = case["binder"] == side
        self.phase = 0
        self.done = 0
        self.ports = []
        self.monitors = []
        self.known = []
        #: What else to poll for: a file descriptor.
        self.control = None
        for index in range(1 if self.binds else case["links"]):
            self.ports.append(Port(self._socket(index), index))

    def _socket(self, index):
        options = self.case["options"]["AB".index(self.side)]
        socket = sock(self.ctx, getattr(zmq, self.kind), RECONNECT_IVL=10, LINGER=-1, **options)
        if self.kind == "ROUTER":
            socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        if self.kind == "XPUB":
            socket.setsockopt(XPUB_VERBOSE, 1)
            socket.setsockopt(XPUB_NODROP, 1)
        if self.kind == "SUB":
            socket.setsockopt(zmq.SUBSCRIBE, b"")
        if self._other_routes():
            # A router turns away a second peer of one name while it has something left of the first.
            socket.setsockopt(zmq.IDENTITY, b"%d%d" % (self.life, index))
        return socket

    def _other_routes(self):
        return kind_of(self.case, other(self.side)) == "ROUTER"

    def watch(self):
        """Count the handshakes and the ends of its links from now on."""
        mask = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        self.monitors = [[Monitor(port.socket, mask), 0, 0] for port in self.ports]

    def links(self):
        """Links that stand, and links that were."""
        for monitor in self.monitors:
            while event := monitor[0].next(0):
                monitor[1 if event[0] == "HANDSHAKE_SUCCEEDED" else 2] += 1
        made, ended = (sum(monitor[n] for monitor in self.monitors) for n in (1, 2))
        return made - ended, ended

    def start(self, endpoint=None):
        """Bind (the endpoint is returned) or connect; then the first phase begins."""
        for port in self.ports:
            if self.binds:
                endpoint = bound(port.socket, endpoint)
            else:
                port.socket.connect(endpoint)
        self.begin(0)
        return endpoint

    def count(self):
        """Messages of one stream of this side."""
        return self.case["forth" if self.side == "A" else "back"]

    def begin(self, phase):
        """New streams; what is left of the old ones is not sent any more."""
        self.phase, self.known = phase, []
        for port in self.ports:
            port.outs = {}
            if self._other_routes():
                # The router learns of us by it.
                port.socket.send_multipart([HELLO])
            if self.count() and self.kind not in ("ROUTER", "XPUB"):
                share = self.case["links"] if self.binds else 1
                port.outs[()] = Out(self.case, f"{self.side}{phase}.{port.index}", self.count() * share)

    def _met(self, port, who):
        """A router or publisher has met a peer. All of them: it begins."""
        if self.kind == "ROUTER" and who in self.known:
            return
        self.known.append(who)
        if len(self.known) < self.case["links"]:
            return
        if self.kind == "XPUB":
            port.outs[()] = Out(self.case, f"{self.side}{self.phase}.0", self.count())
        elif self.count():
            for route in self.known:
                port.outs[(route,)] = Out(self.case, f"{self.side}{self.phase}.{route[1:].decode()}", self.count())

    def _take(self, port):
        parts = port.socket.recv_multipart(zmq.DONTWAIT)
        if self.kind == "XPUB":
            if parts[0][:1] == b"\1":
                self._met(port, parts[0])
            return
        if self.kind == "ROUTER":
            route = parts.pop(0)
            if parts == [HELLO]:
                self._met(port, route)
                return
        port.inward.take(parts)
        self.done += 1

    def step(self, reads=True, sends=True):
        """Do what can be done now; returns whether anything was."""
        before = self.done
        for port in self.ports:
            try:
                for _ in range(self.case["burst"] if reads and self.kind not in ("PUSH",) else 0):
                    self._take(port)
            except zmq.Again:
                pass
            if sends:
                self.done += port.send(self.case["burst"])
        return self.done > before

    def wait(self, milliseconds, reads=True, sends=True):
        """Wait until there is something to do; whether there is."""
        poller = zmq.Poller()
        for port in self.ports:
            flags = zmq.POLLIN if reads else 0
            if sends and port.left():
                # A publisher that must not drop says that it can send when it cannot.
                milliseconds = min(milliseconds, 5) if self.kind == "XPUB" else milliseconds
                flags |= 0 if self.kind == "XPUB" else zmq.POLLOUT
            if flags:
                poller.register(port.socket, flags)
        for monitor in self.monitors:
            poller.register(monitor[0].socket, zmq.POLLIN)
        if self.control is not None:
            poller.register(self.control, zmq.POLLIN)
        ready = poller.poll(milliseconds)
        self.links()
        events = [monitor[0].socket for monitor in self.monitors]
        return any(one not in events for one, _ in ready)

    def run(self, until, **how):
        """Go on until `until()`; if nothing moves for long, say where it stands."""
        moved = time.monotonic()
        while not until():
            if self.step(**how):
                moved = time.monotonic()
            else:
                self.wait(50, **how)
            assert time.monotonic() - moved < zt.WAIT * 0.8, f"stuck: {self}"

    def __str__(self):
        got = [{name: (len(numbers), numbers[-1]) for name, numbers in seen.items()} for seen in self.seen()]
        return f"{self.side}{self.phase} has sent {self.sent()}, and received (how many, last) {got}"

    def idle(self, **how):
        """Go on until there is nothing to do for a moment."""
        while self.step(**how) or (self.wait(20, **how) and self.step(**how)):
            pass

    def sent(self):
        """Messages sent of each stream of this phase."""
        return {out.name.decode(): out.sent for port in self.ports for out in port.outs.values()}

    def all_sent(self):
        """Everything of this phase has been given to the sockets."""
        begun = not self.count() or any(port.outs for port in self.ports)
        return begun and not any(port.left() for port in self.ports)

    def seen(self):
        """What came: for each socket, the numbers of each stream."""
        return [port.inward.seen for port in self.ports]

    def expected(self):
        """What this side gets in this phase: for each socket, the streams; and how many of each."""
        across = other(self.side)
        count = self.case["back" if self.side == "A" else "forth"]
        links = self.case["links"]
        if not count:
            return [], 0
        kind = kind_of(self.case, across)
        if self.binds:
            return [[f"{across}{self.phase}.{n}" for n in range(links)]], count
        if kind == "ROUTER":
            return [[f"{across}{self.phase}.{n}"] for n in range(links)], count
        if kind == "XPUB":
            return [[f"{across}{self.phase}.0"]] * links, count
        return None, count * links

    def all_received(self):
        """Everything of this phase has come."""
        streams, count = self.expected()
        if streams is None:
            # Dealt out among the sockets: together they have it all.
            return sum(len(seen.get(f"{other(self.side)}{self.phase}.0", ())) for seen in self.seen()) == count
        return all(len(seen.get(name, ())) == count for names, seen in zip(streams, self.seen()) for name in names)

    def close(self, linger):
        """Close all, and terminate."""
        for port, *monitor in zip(self.ports, *([self.monitors] if self.monitors else [])):
            if monitor:
                port.socket.disable_monitor()
                monitor[0][0].socket.close(0)
            # Subscriptions are not worth waiting for: libzmq thinks so too.
            port.socket.close(0 if self.kind == "SUB" else linger)
        self.monitors = []
        self.ctx.term()
