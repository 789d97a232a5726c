#!/usr/bin/python3
# SPDX-License-Identifier: MPL-2.0
"""rdma:// over an RDMA device, beside tcp:// over the same two interfaces and rdma-core's
perftest on the same device: a table with ratios. It measures and prints; only an error fails it.

usage: bench.py SERVER-ADDRESS CLIENT-ADDRESS NAME

libzmq's own perf tools (of ZMQ_RDMA_BUILD, with the library in ZMQ_RDMA_PREFIX) for rdma:// and tcp://; ib_send_lat with polling and with
events (-e, as we must wait), ib_send_bw. All over the wire between the two addresses. What is
measured takes turns; figures are medians.
"""

import os
import re
import statistics
import subprocess
import sys
import time

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "2"))
PATIENCE = 120
TRIPS = 1000
#: bytes, messages of a run
THROUGHPUT = ((64, 60000), (4096, 8000), (65536, 800), (1 << 20, 60))
MIB = 1 << 20
#: As close as one may hope to be: of tcp's latency, and of raw bandwidth.
GOAL_LATENCY, GOAL_BANDWIDTH = 0.5, 0.9

server, client, name = sys.argv[1:]
os.environ["LD_LIBRARY_PATH"] = os.path.join(os.environ["ZMQ_RDMA_PREFIX"], "lib")
tools = os.path.join(os.environ["ZMQ_RDMA_BUILD"], "libzmq", "perf")
port = 20000


def next_port():
    """A port of its own for each run."""
    global port  # pylint: disable=global-statement
    port += 1
    return port


def listens(scheme, at):
    """Whether somebody listens at this port."""
    if scheme == "tcp":
        with open("/proc/net/tcp", encoding="ascii") as table:
            return any(f":{at:04X} " in line and " 0A " in line for line in table)
    shown = subprocess.run(["rdma", "resource", "show", "cm_id"], capture_output=True, text=True, check=False)
    return re.search(rf"LISTEN.*:{at} ", shown.stdout) is not None


def pair(scheme, at, first, second, **env):
    """Run a server, and a client once it listens; what both said."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": {**os.environ, **env}}
    end = time.monotonic() + PATIENCE
    with subprocess.Popen(first, **options) as one:
        while not listens(scheme, at):
            if one.poll() is not None or time.monotonic() > end:
                one.kill()
                raise AssertionError(f"{first}: does not listen: {one.communicate()[0]}")
            time.sleep(0.05)
        with subprocess.Popen(second, **options) as two:
            try:
                said = two.communicate(timeout=PATIENCE)[0] + one.communicate(timeout=PATIENCE)[0]
            except subprocess.TimeoutExpired:
                one.kill()
                two.kill()
                raise
    assert one.returncode == 0 and two.returncode == 0, f"{second}: {said}"
    return said


def tool(side, kind):
    """A program of libzmq's; not the shell script around it, which takes longer than what it runs."""
    return os.path.join(tools, ".libs", f"{side}_{kind}")


def zmq(kind, scheme, size, count, **env):
    """libzmq's tools: microseconds one way, or messages a second."""
    at = next_port()
    here, there = f"{scheme}://{server}:{at}", f"{scheme}://{client}:0;{server}:{at}"
    words = [str(size), str(count)]
    said = pair(scheme, at, [tool("local", kind), here, *words], [tool("remote", kind), there, *words], **env)
    what = r"average latency: ([0-9.]+)" if kind == "lat" else r"mean throughput: ([0-9.]+) \[msg/s\]"
    return float(re.search(what, said).group(1))


def perftest(tool, size, count, *more):
    """rdma-core's tools: the last row's figures."""
    at = next_port()
    words = [tool, "-R", "-p", str(at), "-s", str(size), "-n", str(count), "-F", *more]
    said = pair("rdma", at, words, [*words, "--source_ip", client, server])
    rows = re.findall(rf"^ *{size} +{count} +(.*)$", said, re.MULTILINE)
    assert rows, said
    return [float(word) for word in rows[-1].split()]


def in_turn(measures):
    """Medians of what is measured, by name."""
    got = {what: [] for what in measures}
    for turn in range(ROUNDS):
        order = list(measures) if turn % 2 == 0 else list(measures)[::-1]
        for what in order:
            got[what].append(measures[what]())
            print(name, what, got[what][-1], flush=True)
    return {what: statistics.median(figures) for what, figures in got.items()}


def show(text):
    """A line for people."""
    print("lab:", name, text, flush=True)


def latency():
    """64 B there and back, half of it."""
    us = in_turn(
        {
            "tcp": lambda: zmq("lat", "tcp", 64, TRIPS),
            "never": lambda: zmq("lat", "rdma", 64, TRIPS, ZMQ_RDMA_BUSY_POLL="never"),
            "rdma": lambda: zmq("lat", "rdma", 64, TRIPS),
            "always": lambda: zmq("lat", "rdma", 64, TRIPS, ZMQ_RDMA_BUSY_POLL="always"),
            # Typical, then average; the average, as libzmq's tools tell it.
            "raw": lambda: perftest("ib_send_lat", 64, TRIPS)[3],
            "raw -e": lambda: perftest("ib_send_lat", 64, TRIPS, "-e")[3],
        }
    )
    share = us["always"] / us["tcp"]
    show(
        f"latency 64 B: rdma {us['rdma']:.0f} us ({us['rdma'] / us['tcp']:.2f} of tcp), never polling {us['never']:.0f} us "
        f"({us['never'] / us['tcp']:.2f}), always {us['always']:.0f} us ({share:.2f}, goal {GOAL_LATENCY}"
        f"{'' if share <= GOAL_LATENCY else ', missed'}), tcp {us['tcp']:.0f} us, ib_send_lat {us['raw']:.0f} us, "
        f"with events {us['raw -e']:.0f} us (always/that {us['always'] / us['raw -e']:.2f})"
    )


def throughput(size, count):
    """One way."""
    rate = in_turn(
        {
            "tcp": lambda: zmq("thr", "tcp", size, count),
            "rdma": lambda: zmq("thr", "rdma", size, count),
            # MiB a second, average.
            "raw": lambda: perftest("ib_send_bw", size, min(count, 5000))[1] * MIB / size,
        }
    )
    mib = {what: figure * size / MIB for what, figure in rate.items()}
    share = rate["rdma"] / rate["raw"]
    goal = f", goal {GOAL_BANDWIDTH}{'' if share >= GOAL_BANDWIDTH else ', missed'}" if size == MIB else ""
    show(
        f"throughput {size} B: rdma {rate['rdma']:.0f}/s {mib['rdma']:.1f} MiB/s, tcp {rate['tcp']:.0f}/s "
        f"{mib['tcp']:.1f} MiB/s (rdma/tcp {rate['rdma'] / rate['tcp']:.2f}), ib_send_bw {rate['raw']:.0f}/s "
        f"{mib['raw']:.1f} MiB/s (rdma/that {share:.2f}{goal})"
    )


latency()
for length, messages in THROUGHPUT:
    throughput(length, messages)
