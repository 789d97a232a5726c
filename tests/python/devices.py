# SPDX-License-Identifier: MPL-2.0
"""Which device serves: by socket option, by environment, an endpoint at a time, and what
a message says of it. In the lab's VM, where there are RDMA devices, the
tests that need ZT_RDMA_DEVICE (a device's name) and ZT_RDMA_HOST (its address) run too."""

import errno
import os

import zmq

import zt
from zt import test
from zt.proc import Peer, ask, say
from zt.sock import bound, context, last_endpoint, sock

#: zmq_rdma.h's, which no binding knows.
OPTION, ENVIRONMENT, AUTO, VERBS, SOFT = 21060, -1, 0, 1, 2


def refused(action):
    """The errno of a call that fails, or None."""
    try:
        action()
    except zmq.ZMQError as error:
        return error.errno
    return None


@test()
def numbers():
    """The header that is installed says the same numbers as this file."""
    with open(os.path.join(zt.prefix(), "include", "zmq_rdma.h"), encoding="utf-8") as header:
        words = dict(line.split()[1:3] for line in header if line.startswith("#define ZMQ_RDMA_DEVICE"))
    names = ("", "_ENVIRONMENT", "_AUTO", "_VERBS", "_SOFT")
    assert [int(words["ZMQ_RDMA_DEVICE" + name]) for name in names] == [
        OPTION,
        ENVIRONMENT,
        AUTO,
        VERBS,
        SOFT,
    ], words


def sender(endpoint, choice):
    """Sends one message over the chosen device; says what the answer's property is."""
    with context() as ctx:
        req = sock(ctx, zmq.REQ)
        req.setsockopt(OPTION, choice)
        req.connect(endpoint)
        req.send(b"hello")
        say(req.recv(copy=False).get("Rdma-Device"))
        ask()


def meet(rep, endpoint, choice, env=None):
    """What both ends of a connection say of their device."""
    peer = Peer(sender, endpoint, choice, env=env)
    here = rep.recv(copy=False).get("Rdma-Device")
    rep.send(b"hello")
    there = peer.hear()
    peer.tell()
    peer.result()
    return here, there


@test()
def soft():
    """The soft device by option, and by environment; both ends name it."""
    with context() as ctx:
        rep = sock(ctx, zmq.REP)
        rep.setsockopt(OPTION, SOFT)
        endpoint = bound(rep, f"{zt.SCHEME}://127.0.0.1:*")
        assert meet(rep, endpoint, SOFT) == ("soft", "soft")
        env = {"ZMQ_RDMA_DEVICE": "soft"}
        assert meet(rep, endpoint, ENVIRONMENT, env) == ("soft", "soft")
        # The option goes before the environment.
        env = {"ZMQ_RDMA_DEVICE": "verbs"}
        assert meet(rep, endpoint, SOFT, env) == ("soft", "soft")


@test()
def told():
    """Both ends of a connection name their devices."""
    with context() as ctx:
        rep = sock(ctx, zmq.REP)
        here, there = meet(rep, bound(rep), ENVIRONMENT)
        print("devices:", here, there)
        for said in (here, there):
            assert said == "soft" or said.startswith("verbs:"), said


@test()
def logged():
    """The device of a connection is in the log."""
    with context() as ctx:
        rep = sock(ctx, zmq.REP)
        rep.setsockopt(OPTION, SOFT)
        log = os.path.join(os.environ["ZT_LOGS"], "peer")
        os.makedirs(os.environ["ZT_LOGS"], exist_ok=True)
        peer = Peer(
            sender,
            bound(rep, f"{zt.SCHEME}://127.0.0.1:*"),
            SOFT,
            env={"ZMQ_RDMA_LOG": "info"},
            stderr=log,
        )
        rep.send(rep.recv())
        assert peer.hear() == "soft"
        peer.tell()
        peer.result()
        with open(log, encoding="utf-8") as lines:
            assert any("over device soft" in line for line in lines)


@test()
def no_rdma_device():
    """Without any RDMA device verbs is ENODEV at bind; the next bind may say soft."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        pull.setsockopt(OPTION, VERBS)
        code = refused(lambda: pull.bind(f"{zt.SCHEME}://127.0.0.1:*"))
        # With one, the RDMA CM takes even the loopback's address.
        devices = os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband")
        assert devices or code == errno.ENODEV, code
        # An endpoint at a time: the same socket, the other choice.
        pull.setsockopt(OPTION, SOFT)
        assert bound(pull, f"{zt.SCHEME}://127.0.0.1:*")


@test()
def unknown_name():
    """What is neither an interface nor an RDMA device is ENODEV, as with tcp."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        codes = zt.both(lambda scheme: refused(lambda: pull.bind(f"{scheme}://rxe77:*")))
        assert codes == (errno.ENODEV, errno.ENODEV), codes
        # And no way out of the directory of devices.
        for name in ("..", ".", "rxe0/..", "-"):
            codes = zt.both(lambda scheme, name=name: refused(lambda: pull.bind(f"{scheme}://{name}:*")))
            assert codes[0] == codes[1] == errno.ENODEV, (name, codes)


@test(needs="ZT_RDMA_DEVICE")
def device_name():
    """rdma://rxe0:* binds to the device's address, rdma://rxe0:0;host:port connects from it."""
    name, host = os.environ["ZT_RDMA_DEVICE"], os.environ["ZT_RDMA_HOST"]
    with context() as ctx:
        rep = sock(ctx, zmq.REP)
        rep.setsockopt(OPTION, VERBS)
        endpoint = bound(rep, f"rdma://{name}:*")
        assert endpoint.startswith(f"rdma://{host}:"), endpoint
        to = endpoint.replace("rdma://", f"rdma://{name}:0;")
        assert meet(rep, to, VERBS) == (f"verbs:{name}", f"verbs:{name}")
        rep.unbind(endpoint)
        # To the soft device it is its network interface.
        rep.setsockopt(OPTION, SOFT)
        endpoint = bound(rep, f"rdma://{name}:*")
        assert endpoint.startswith(f"rdma://{host}:"), endpoint
        assert meet(rep, endpoint.replace("rdma://", f"rdma://{name}:0;"), SOFT) == ("soft", "soft")


@test(needs="ZT_RDMA_DEVICE")
def an_endpoint_at_a_time():
    """One socket, one endpoint on each device; each message says by which it came."""
    name, host = os.environ["ZT_RDMA_DEVICE"], os.environ["ZT_RDMA_HOST"]
    with context() as ctx:
        rep = sock(ctx, zmq.REP)
        rep.setsockopt(OPTION, VERBS)
        rep.bind(f"rdma://{name}:*")
        over_verbs = last_endpoint(rep)
        rep.setsockopt(OPTION, SOFT)
        rep.bind(f"rdma://{host}:*")
        over_soft = last_endpoint(rep)
        assert meet(rep, over_verbs, VERBS) == (f"verbs:{name}", f"verbs:{name}")
        assert meet(rep, over_soft, SOFT) == ("soft", "soft")
        # The environment chooses for whoever does not say.
        env = {"ZMQ_RDMA_DEVICE": "verbs"}
        assert meet(rep, over_verbs, ENVIRONMENT, env) == (f"verbs:{name}", f"verbs:{name}")
        env = {"ZMQ_RDMA_DEVICE": "soft"}
        assert meet(rep, over_soft, ENVIRONMENT, env) == ("soft", "soft")
