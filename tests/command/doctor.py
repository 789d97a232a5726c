# SPDX-License-Identifier: MPL-2.0
"""`zmq-rdma doctor`, on a machine as it is: mostly one without RDMA devices."""

import contextlib
import os
import socket as posix

import tool
import zmq

import zt
from zt import test
from zt.proc import Peer, ask, say
from zt.sock import bound, context, dead_port, port_of, sock


def devices():
    """Whether this machine has RDMA devices."""
    return bool(os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"))


@test(needs="ZMQ_RDMA_PREFIX")
def here():
    """Plain words, what to do, and an exit code that says which device serves."""
    code, words, _ = tool.run("doctor")
    again, report = tool.value("doctor")
    assert code == again, (code, again)
    if devices():
        assert code in (0, 3), code
    else:
        assert code == 3 and report["verdict"] == "soft", (code, report["verdict"])
        assert "no RDMA device" in words and "rdma link add rxe0" in words and "soft" in words
    assert all(finding["says"] for finding in report["findings"])
    about = {finding["about"] for finding in report["findings"]}
    assert {"library", "descriptors", "hugepages", "firewall"} <= about, about
    assert not [finding for finding in report["findings"] if finding["level"] == "bad"], report


@test(needs="ZMQ_RDMA_PREFIX")
def bad_environment():
    """A variable with an unknown value is BAD, since every bind fails because of it."""
    code, report = tool.value("doctor", env={"ZMQ_RDMA_DEVICE": "infiniband"})
    assert code == 1 and report["verdict"] == "broken", (code, report)
    (bad,) = [finding for finding in report["findings"] if finding["level"] == "bad"]
    assert "auto, verbs or soft" in bad["says"] and "unset ZMQ_RDMA_DEVICE" in bad["mend"], bad


def steps(report):
    """Names of the steps, and their levels."""
    return [(step["about"], step["level"]) for step in report["steps"]]


def server(endpoint, security):
    """Listens until told to end; says what its monitor told."""
    with context() as ctx:
        rep = sock(ctx, zmq.REP)
        if security:
            rep.setsockopt(zmq.PLAIN_SERVER, 1)
        say(bound(rep, endpoint))
        ask()


@test(needs="ZMQ_RDMA_PREFIX")
def reaches_a_listener():
    """All five steps; the device; what the peer speaks."""
    for security in (False, True):
        peer = Peer(server, f"rdma://{zt.HOST}:*", security)
        code, report = tool.value("doctor", peer.hear())
        want = [(name, "ok") for name in ("resolve", "route", "connect", "negotiate", "exchange")]
        assert steps(report) == want, report
        assert code == (3 if report["device"] == "soft" else 0), (code, report["device"])
        said = report["steps"][-1]["says"]
        assert "ZMTP 3.1" in said and ("PLAIN" if security else "NULL") in said, said
        peer.tell()
        peer.result()


@test(needs="ZMQ_RDMA_PREFIX")
def the_listener_lives_on():
    """Ten visits of the doctor leave a server as it was."""
    peer = Peer(server, f"rdma://{zt.HOST}:*", False)
    endpoint = peer.hear()
    for _ in range(10):
        assert tool.value("doctor", endpoint)[0] in (0, 3)
    peer.tell()
    peer.result()


@test(needs="ZMQ_RDMA_PREFIX")
def a_name_is_resolved():
    """localhost is looked up; a name that is none is told."""
    peer = Peer(server, "rdma://127.0.0.1:*", False)
    port = port_of(peer.hear())
    code, report = tool.value("doctor", f"rdma://localhost:{port}")
    assert code == 3 and "localhost is 127.0.0.1" in report["steps"][0]["says"], report
    peer.tell()
    peer.result()
    code, report = tool.value("doctor", "--timeout", "20", "rdma://no-such-host.invalid:5")
    assert code == 1 and report["stopped_at"] == "resolve", report
    assert "no-such-host.invalid" in report["steps"][-1]["says"]


@test(needs="ZMQ_RDMA_PREFIX")
def nobody_listens():
    """It stops at connect, and says what to look at."""
    held, port = dead_port()
    with contextlib.closing(held):
        code, report = tool.value("doctor", f"rdma://{zt.HOST}:{port}")
    assert code == 1 and report["stopped_at"] == "connect", report
    assert steps(report)[:2] == [("resolve", "ok"), ("route", "ok")]
    last = report["steps"][-1]
    assert "refused" in last["says"] and last["mend"], last


@test(needs="ZMQ_RDMA_PREFIX")
def a_tcp_listener():
    """One that speaks tcp:// is told from a silent one: it stops at negotiate."""
    peer = Peer(server, f"tcp://{zt.HOST}:*", False)
    port = port_of(peer.hear())
    code, report = tool.value("doctor", f"rdma://{zt.HOST}:{port}")
    assert code == 1 and report["stopped_at"] == "negotiate", report
    assert any("tcp://" in how for how in report["steps"][-1]["mend"]), report
    peer.tell()
    peer.result()


@test(needs="ZMQ_RDMA_PREFIX")
def a_silent_listener():
    """TCP stands, and nothing comes: negotiate, within the time allowed."""
    with contextlib.closing(posix.create_server((zt.HOST, 0))) as silent:
        port = silent.getsockname()[1]
        code, report = tool.value("doctor", "--timeout", "1", f"rdma://{zt.HOST}:{port}")
    assert code == 1 and report["stopped_at"] == "negotiate", report
    assert "said nothing" in report["steps"][-1]["says"], report


@test(needs="ZMQ_RDMA_PREFIX")
def a_raw_peer():
    """A ZMQ_STREAM socket says nothing by itself; bytes come through all the same."""
    with context() as ctx:
        stream = sock(ctx, zmq.STREAM)
        endpoint = bound(stream, f"rdma://{zt.HOST}:*")
        code, report = tool.value("doctor", "--timeout", "1", endpoint)
        assert code in (0, 3) and steps(report)[-1] == ("exchange", "note"), report


@test(needs="ZMQ_RDMA_PREFIX")
def bad_endpoints():
    """What is no endpoint to connect to is told, with how to write one."""
    for endpoint in ("tcp://127.0.0.1:5", "rdma://127.0.0.1", "rdma://*:5", "rdma://127.0.0.1:0"):
        code, report = tool.value("doctor", endpoint)
        assert code == 1 and report["stopped_at"] == "address" and report["steps"][0]["mend"], report


@test(needs="ZMQ_RDMA_PREFIX")
def verbs_alone():
    """Without a device on the way, ZMQ_RDMA_DEVICE=verbs stops at route."""
    code, report = tool.value("doctor", "rdma://127.0.0.1:5", env={"ZMQ_RDMA_DEVICE": "verbs"})
    assert code == 1 and report["stopped_at"] == "route", report
