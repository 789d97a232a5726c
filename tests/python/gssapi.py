# SPDX-License-Identifier: MPL-2.0
"""GSSAPI, with a Kerberos realm of the test's own in a scratch directory."""

import atexit
import os
import shutil
import subprocess
import time

import zmq

import zt
from security import Zap
from zt import Missing, test
from zt.link import call, scratch
from zt.sock import Monitor, blob, bound, context, dead_port, sock

REALM = "RDMA.TEST"
SERVER, CLIENT, OTHER = f"server@{REALM}", f"client@{REALM}", f"other@{REALM}"
#: ZMQ_GSSAPI_NT_KRB5_PRINCIPAL, and the options that take it.
KRB5_PRINCIPAL, PRINCIPAL_NAMETYPE, SERVICE_NAMETYPE = 2, 90, 91

LIBRARY = """[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
"""
CENTRE = """[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {directory}/principals
  key_stash_file = {directory}/stash
  acl_file = {directory}/acl
 }}
[logging]
 kdc = FILE:{directory}/kdc.log
"""


def _tool(name, package):
    path = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin:" + os.environ.get("PATH", ""))
    if not path:
        raise Missing(f"no {name}: apt-get install {package}")
    return path


class Realm:
    """A key distribution centre, and keys for three principals; this process's environment knows it."""

    def __init__(self):
        directory = scratch()
        held, port = dead_port()
        held.close()
        words = {"realm": REALM, "port": port, "directory": directory}
        for name, text in (("krb5.conf", LIBRARY), ("kdc.conf", CENTRE), ("acl", "")):
            with open(os.path.join(directory, name), "w", encoding="ascii") as file:
                file.write(text.format(**words))
        keytab, caches = os.path.join(directory, "keytab"), os.path.join(directory, "caches")
        os.mkdir(caches, 0o700)
        os.environ.update(
            KRB5_CONFIG=os.path.join(directory, "krb5.conf"),
            KRB5_KDC_PROFILE=os.path.join(directory, "kdc.conf"),
            KRB5_KTNAME=keytab,
            KRB5_CLIENT_KTNAME=keytab,
            # A cache for each principal.
            KRB5CCNAME="DIR:" + caches,
        )
        call([_tool("kdb5_util", "krb5-kdc"), "create", "-s", "-r", REALM, "-P", "of no use"])
        local = _tool("kadmin.local", "krb5-admin-server")
        for principal in (SERVER, CLIENT, OTHER):
            call([local, "-r", REALM, "addprinc", "-randkey", principal])
            call([local, "-r", REALM, "ktadd", "-k", keytab, principal])
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen([_tool("krb5kdc", "krb5-kdc"), "-n", "-r", REALM])
        atexit.register(self.end)
        self._wait(os.path.join(directory, "kdc.log"))

    def _wait(self, log):
        end = time.monotonic() + zt.WAIT
        while not (os.path.exists(log) and "commencing operation" in open(log, encoding="utf-8").read()):
            assert self.process.poll() is None and time.monotonic() < end, "krb5kdc does not begin"
            time.sleep(0.02)

    def end(self):
        """Stop the centre."""
        self.process.kill()
        self.process.wait()


def _server(ctx, **options):
    pull = sock(ctx, zmq.REP, GSSAPI_SERVER=1, GSSAPI_PRINCIPAL=SERVER.encode(), **options)
    pull.setsockopt(PRINCIPAL_NAMETYPE, KRB5_PRINCIPAL)
    return pull


def _client(ctx, principal, **options):
    req = sock(ctx, zmq.REQ, GSSAPI_PRINCIPAL=principal.encode(), GSSAPI_SERVICE_PRINCIPAL=SERVER.encode(), **options)
    req.setsockopt(PRINCIPAL_NAMETYPE, KRB5_PRINCIPAL)
    req.setsockopt(SERVICE_NAMETYPE, KRB5_PRINCIPAL)
    return req


@test(bound=120)
def gssapi():
    """Messages of many sizes go both ways, wrapped and plain; ZAP is told the principal and the address."""
    realm = Realm()
    for plaintext in (0, 1):
        with context() as ctx:
            zap = Zap(ctx, lambda request: request[5] == b"GSSAPI" and request[6] == CLIENT.encode())
            rep = _server(ctx, ZAP_DOMAIN=b"house", GSSAPI_PLAINTEXT=plaintext)
            endpoint = bound(rep)
            req = _client(ctx, CLIENT, GSSAPI_PLAINTEXT=plaintext)
            req.connect(endpoint)
            for size in (0, 1, 255, 8192, 70000, 1 << 20):
                req.send_multipart([blob(size, size), b"", b"end"])
                frames = rep.recv_multipart(copy=False)
                assert [frame.bytes for frame in frames] == [blob(size, size), b"", b"end"]
                assert frames[0].get("Peer-Address") == zt.HOST and frames[0].get("User-Id") == "somebody"
                rep.send_multipart(frames)
                assert req.recv_multipart() == [blob(size, size), b"", b"end"]
            assert zap.requests[0][3] == zt.HOST.encode(), zap.requests[0]
            zap.stop()
    realm.end()


def _denied(scheme):
    """What a server and its handler make of a principal that the handler turns away."""
    with context() as ctx:
        zap = Zap(ctx, lambda request: request[6] == CLIENT.encode())
        rep = _server(ctx, ZAP_DOMAIN=b"house")
        watch = Monitor(rep)
        endpoint = bound(rep, f"{scheme}://{zt.HOST}:*")
        other = _client(ctx, OTHER, RECONNECT_IVL=200)
        other.connect(endpoint)
        other.send(b"let me in")
        told = watch.until("HANDSHAKE_FAILED_AUTH")[-1][:2]
        let_in = bool(rep.poll(1000))
        asked = len(zap.requests)
        zap.stop()
        return told, let_in, asked


@test(bound=120)
def gssapi_denied():
    """A principal that ZAP turns away fares as over tcp. (There too libzmq tells of the denial, and lets it in.)"""
    realm = Realm()
    tcp, ours = zt.both(_denied)
    realm.end()
    assert tcp == ours, f"{ours}, but over tcp {tcp}"
    assert ours[0] == ("HANDSHAKE_FAILED_AUTH", 400) and ours[2] == 1


@test(bound=120)
def gssapi_without_a_ticket():
    """A client that gets no ticket for its server stays out, tries again at its interval, and disturbs nobody."""
    realm = Realm()
    with context() as ctx:
        zap = Zap(ctx, lambda request: True)
        rep = _server(ctx, ZAP_DOMAIN=b"house", HANDSHAKE_IVL=300)
        watch = Monitor(rep)
        endpoint = bound(rep)
        lost, good = _client(ctx, OTHER, RECONNECT_IVL=100, HANDSHAKE_IVL=300), _client(ctx, CLIENT)
        lost.setsockopt(zmq.GSSAPI_SERVICE_PRINCIPAL, f"nobody@{REALM}".encode())
        lost.connect(endpoint)
        watch.until("ACCEPTED")
        begun, again = time.monotonic(), 0
        while again < 5 and (event := watch.next(2)):
            again += event[0] == "ACCEPTED"
        assert not again or (time.monotonic() - begun) / again >= 0.1, f"{again} times: a hot loop"
        good.connect(endpoint)
        good.send(b"and me")
        assert rep.recv() == b"and me"
        zap.stop()
    realm.end()
