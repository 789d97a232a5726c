# SPDX-License-Identifier: MPL-2.0
"""`zmq-rdma perf`: figures are printed, never judged."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess

import tool

import zt
from zt import test

QUICK = ("--sizes", "1,1000,300000", "--time", "20")


def check(report, schemes=("rdma", "tcp")):
    """Every size by every scheme, and no figure that cannot be."""
    seen = {(figure["scheme"], figure["size"]) for figure in report["figures"]}
    assert seen == {(scheme, size) for scheme in schemes for size in (1, 1000, 300000)}, seen
    for figure in report["figures"]:
        assert 0 < figure["latency_us"] <= figure["latency_p99_us"], figure
        assert figure["messages"] > 0 and abs(figure["bytes"] - figure["messages"] * figure["size"]) < 1, figure


def four_ports():
    """The first of four ports in a row that are free: below those that the system gives to others meanwhile."""
    family = socket.AF_INET6 if ":" in zt.HOST else socket.AF_INET
    while True:
        first = random.randrange(20000, 32000)
        with contextlib.ExitStack() as held:
            try:
                for port in range(first, first + 4):
                    held.enter_context(socket.socket(family, socket.SOCK_STREAM)).bind((zt.HOST, port))
            except OSError:
                continue
            return first


@test(needs="ZMQ_RDMA_PREFIX", bound=120, alone=True)
def this_machine():
    """Both schemes with itself, as a table and as a picture."""
    plot = os.path.join(os.environ["ZT_LOGS"] + ".svg")
    code, words, progress = tool.run("perf", *QUICK, "--plot", plot)
    assert code == 0 and progress == "", "progress is for terminals"
    assert "device" in words and words.count("us") >= 6, words
    with open(plot, encoding="utf-8") as text:
        picture = text.read()
    assert picture.startswith("<svg") and "rdma://" in picture and "tcp://" in picture
    code, report = tool.value("perf", *QUICK)
    assert code == 0 and report["device"], report
    check(report)


@test(needs="ZMQ_RDMA_PREFIX", bound=120, alone=True)
def a_peer():
    """--listen answers several in turn, and ends when interrupted."""
    port = four_ports()
    server = subprocess.Popen(
        [tool.path(), "--json", "perf", "--listen", f"{zt.HOST}:{port}"], stdout=subprocess.PIPE, text=True
    )
    listening = [json.loads(server.stdout.readline())["listening"] for _ in range(2)]
    assert [one[0].split(":")[0] for one in listening] == ["rdma", "tcp"], listening
    for _ in range(2):
        code, report = tool.value("perf", f"{zt.HOST}:{port}", *QUICK)
        assert code == 0, report
        check(report)
    code, report = tool.value("perf", f"{zt.HOST}:{port}", "--schemes", "tcp", *QUICK)
    assert code == 0 and report["device"] is None
    check(report, ("tcp",))
    server.send_signal(signal.SIGINT)
    assert server.wait(zt.WAIT) in (0, -signal.SIGINT)


@test(needs="ZMQ_RDMA_PREFIX")
def a_library_without_rdma():
    """It says so, and which option names another."""
    stock = os.path.join(os.environ.get("ZMQ_STOCK_PREFIX", "/usr"), "lib", "libzmq.so.5")
    code, _, error = tool.run("perf", "--libzmq", "/nowhere/libzmq.so.5")
    assert code == 1 and "/nowhere" in error
    if os.path.exists(stock):
        code, _, error = tool.run("perf", "--libzmq", stock)
        assert code == 1 and "no rdma://" in error and "--libzmq" in error, error
