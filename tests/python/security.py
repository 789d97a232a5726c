# SPDX-License-Identifier: MPL-2.0
"""CURVE, PLAIN and NULL with a ZAP handler: who may come in, who may not, and
what the handler is told about them."""

import threading
import time

import zmq
import zmq.utils.z85

import zt
from zt import test
from zt.proc import Peer, ask, say
from zt.sock import Monitor, blob, bound, context, sock

SERVER_PUBLIC, SERVER_SECRET = b"rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7", b"JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6"
CLIENT_PUBLIC, CLIENT_SECRET = b"Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID", b"D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"


class Zap:
    """A ZAP handler in a thread: says yes to what `judge` likes, keeps the requests."""

    def __init__(self, ctx, judge, code=b"400"):
        self.requests = []
        self._judge, self._code = judge, code
        self._reply = sock(ctx, zmq.REP)
        self._reply.bind("inproc://zeromq.zap.01")
        self._quit = sock(ctx, zmq.PAIR)
        self._quit.bind("inproc://zap-quit")
        self._end = sock(ctx, zmq.PAIR)
        self._end.connect("inproc://zap-quit")
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        poller = zmq.Poller()
        poller.register(self._reply, zmq.POLLIN)
        poller.register(self._end, zmq.POLLIN)
        while self._end not in dict(poller.poll()):
            request = self._reply.recv_multipart()
            self.requests.append(request)
            version, number = request[0], request[1]
            ok = self._judge(request)
            code, text = (b"200", b"OK") if ok else (self._code, b"no")
            self._reply.send_multipart([version, number, code, text, b"somebody" if ok else b"", b""])

    def stop(self):
        """End the thread."""
        self._quit.send(b"")
        self._thread.join(zt.WAIT)
        for socket in (self._reply, self._quit, self._end):
            socket.close(0)


def curve_server(count):
    """A CURVE server without ZAP: echoes."""
    with context() as ctx:
        rep = sock(ctx, zmq.REP, CURVE_SERVER=1, CURVE_SECRETKEY=SERVER_SECRET)
        say(bound(rep))
        for _ in range(count):
            rep.send_multipart(rep.recv_multipart())
        ask()


def curve_client(ctx, server_key=SERVER_PUBLIC):
    """A REQ with CURVE keys."""
    return sock(
        ctx, zmq.REQ, CURVE_PUBLICKEY=CLIENT_PUBLIC, CURVE_SECRETKEY=CLIENT_SECRET, CURVE_SERVERKEY=server_key
    )


@test()
def curve():
    """Encrypted messages of many sizes go both ways."""
    sizes = (0, 1, 200, 255, 8000, 8192, 70000, 1 << 20, 5 << 20)
    peer = Peer(curve_server, len(sizes))
    with context() as ctx:
        req = curve_client(ctx)
        req.connect(peer.hear())
        for size in sizes:
            parts = [blob(size, size), b"", blob(size + 1, size // 2)]
            req.send_multipart(parts)
            assert req.recv_multipart() == parts
        peer.tell()
        peer.result()


@test()
def curve_wrong_key():
    """A client that takes the server for another is kept out, and both are told; a good one goes on."""
    with context() as ctx:
        rep = sock(ctx, zmq.REP, CURVE_SERVER=1, CURVE_SECRETKEY=SERVER_SECRET)
        watch = Monitor(rep)
        endpoint = bound(rep)
        bad = curve_client(ctx, server_key=CLIENT_PUBLIC)
        bad.connect(endpoint)
        bad.send(b"let me in")
        watch.until("HANDSHAKE_FAILED_PROTOCOL", "HANDSHAKE_FAILED_NO_DETAIL")
        good = curve_client(ctx)
        good.connect(endpoint)
        good.send(b"and me")
        assert rep.recv() == b"and me"


@test()
def curve_against_null():
    """A client without CURVE does not get in."""
    with context() as ctx:
        rep = sock(ctx, zmq.REP, CURVE_SERVER=1, CURVE_SECRETKEY=SERVER_SECRET)
        watch = Monitor(rep)
        endpoint = bound(rep)
        bad = sock(ctx, zmq.REQ)
        bad.connect(endpoint)
        bad.send(b"let me in")
        watch.until("HANDSHAKE_FAILED_PROTOCOL", "HANDSHAKE_FAILED_NO_DETAIL")
        assert not rep.poll(0)


def plain_client(endpoint, name, password):
    """Sends one message; says the event of its handshake."""
    with context() as ctx:
        push = sock(ctx, zmq.PUSH, PLAIN_USERNAME=name.encode(), PLAIN_PASSWORD=password.encode())
        watch = Monitor(push)
        push.connect(endpoint)
        push.send(name.encode())
        say(watch.until("HANDSHAKE_SUCCEEDED", "HANDSHAKE_FAILED_AUTH")[-1][:2])
        ask()


@test()
def plain_zap():
    """PLAIN asks ZAP: the right password gets in with its user id, the wrong one gets a 400."""
    with context() as ctx:
        zap = Zap(ctx, lambda request: request[6:8] == [b"admin", b"secret"])
        pull = sock(ctx, zmq.PULL, PLAIN_SERVER=1, ZAP_DOMAIN=b"house")
        watch = Monitor(pull)
        endpoint = bound(pull)
        denied = Peer(plain_client, endpoint, "admin", "guess")
        assert denied.hear() == ["HANDSHAKE_FAILED_AUTH", 400]
        failed = watch.until("HANDSHAKE_FAILED_AUTH")[-1]
        assert failed[1] == 400, failed
        admitted = Peer(plain_client, endpoint, "admin", "secret")
        assert admitted.hear() == ["HANDSHAKE_SUCCEEDED", 0]
        frame = pull.recv(copy=False)
        assert frame.bytes == b"admin"
        assert frame.get("User-Id") == "somebody"
        assert frame.get("Peer-Address") == zt.HOST
        for request in zap.requests:
            assert request[0] == b"1.0" and request[2] == b"house", request
            assert request[3] == zt.HOST.encode(), f"ZAP is told the address {request[3]}"
            assert request[5] == b"PLAIN", request
        assert not pull.poll(0), "the denied peer's message came through"
        denied.tell()
        admitted.tell()
        denied.result()
        admitted.result()
        zap.stop()


def _asked(scheme, code, **options):
    """How often a denied client of a 100 ms interval comes back, and after how long each time."""
    with context() as ctx:
        zap = Zap(ctx, lambda request: False, code)
        server = {key: value for key, value in options.items() if key in ("PLAIN_SERVER", "CURVE_SERVER", "CURVE_SECRETKEY")}
        client = {key[7:]: value for key, value in options.items() if key.startswith("client_")}
        rep = sock(ctx, zmq.REP, ZAP_DOMAIN=b"house", HANDSHAKE_IVL=300, **server)
        req = sock(ctx, zmq.REQ, RECONNECT_IVL=100, HANDSHAKE_IVL=300, **client)
        watch = Monitor(rep)
        endpoint = bound(rep, f"{scheme}://{zt.HOST}:*")
        req.connect(endpoint)
        req.send(b"let me in")
        watch.until("HANDSHAKE_FAILED_AUTH")
        # Until it has come back ten times, or has stayed away for a second.
        begun, asked = time.monotonic(), 0
        while asked < 10 and (event := watch.next(1)):
            asked += event[0] == "HANDSHAKE_FAILED_AUTH"
        pace = (time.monotonic() - begun) / asked if asked else None
        assert all(request[3] == zt.HOST.encode() for request in zap.requests)
        assert not rep.poll(0)
        zap.stop()
    return asked, pace


@test(bound=120)
def denied_is_no_hot_loop():
    """Denied by each mechanism and with each code, a client comes back at its interval at most."""
    mechanisms = {
        "NULL": {},
        "PLAIN": {"PLAIN_SERVER": 1, "client_PLAIN_USERNAME": b"me", "client_PLAIN_PASSWORD": b"guess"},
        "CURVE": {
            "CURVE_SERVER": 1,
            "CURVE_SECRETKEY": SERVER_SECRET,
            "client_CURVE_PUBLICKEY": CLIENT_PUBLIC,
            "client_CURVE_SECRETKEY": CLIENT_SECRET,
            "client_CURVE_SERVERKEY": SERVER_PUBLIC,
        },
    }
    for name, options in mechanisms.items():
        for code in (b"300", b"400", b"500"):
            asked, pace = _asked(zt.SCHEME, code, **options)
            print(f"{name} {code.decode()}: came back {asked} times, each after {pace} s", flush=True)
            # It cannot be sooner, however fast or slow the machine is.
            assert not asked or pace >= 0.1, f"{name} {code.decode()}: a hot loop, {pace} s apart"


@test()
def null_zap_by_address():
    """NULL with a ZAP domain: the handler may turn an address away."""
    with context() as ctx:
        here = zt.HOST.encode()
        zap = Zap(ctx, lambda request: request[3] != here)
        pull = sock(ctx, zmq.PULL, ZAP_DOMAIN=b"house")
        watch = Monitor(pull)
        push = sock(ctx, zmq.PUSH)
        push.connect(bound(pull))
        push.send(b"let me in")
        failed = watch.until("HANDSHAKE_FAILED_AUTH", "HANDSHAKE_SUCCEEDED")[-1]
        assert failed[:2] == ("HANDSHAKE_FAILED_AUTH", 400), failed
        assert zap.requests[0][3] == here and zap.requests[0][5] == b"NULL"
        push.close(0)
        assert not pull.poll(0)
        zap.stop()


@test()
def curve_zap():
    """CURVE with ZAP: the handler sees the client's key."""
    with context() as ctx:
        zap = Zap(ctx, lambda request: request[6] == zmq.utils.z85.decode(CLIENT_PUBLIC))
        rep = sock(ctx, zmq.REP, CURVE_SERVER=1, CURVE_SECRETKEY=SERVER_SECRET, ZAP_DOMAIN=b"house")
        req = curve_client(ctx)
        req.connect(bound(rep))
        req.send(b"hello")
        frame = rep.recv(copy=False)
        assert frame.get("User-Id") == "somebody"
        assert zap.requests[0][3] == zt.HOST.encode() and zap.requests[0][5] == b"CURVE"
        zap.stop()
