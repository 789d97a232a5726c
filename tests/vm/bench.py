#!/usr/bin/python3
# SPDX-License-Identifier: MPL-2.0
"""rdma:// over an RDMA device, beside tcp:// over the same two interfaces, and rdma-core's
perftest and rsockets on the same device: a table with ratios. It measures and prints; only an error of
rdma:// or tcp:// fails it. A raw tool that does not end is told, and not asked again.

usage: bench.py SERVER-ADDRESS CLIENT-ADDRESS NAME

libzmq's own perf tools (of ZMQ_RDMA_BUILD, with the library in ZMQ_RDMA_PREFIX) for rdma:// and tcp://, and
for inproc://, which tells what a hand-over between threads takes; ib_send_lat with polling and with
events (-e, as we must wait), ib_send_bw, rstream. All over the wire between the two addresses, but
rstream, whose client cannot be told where to come from. What is measured takes turns; figures are medians.
"""

import os
import re
import statistics
import subprocess
import sys
import time

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "2"))
PATIENCE = 120
#: Seconds for a raw tool.
RAW_PATIENCE = 30
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


def pair(scheme, at, first, second, patience=PATIENCE, **env):
    """Run a server, and a client once it listens; what both said."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "env": {**os.environ, **env}}
    end = time.monotonic() + patience
    with subprocess.Popen(first, **options) as one:
        while not listens(scheme, at):
            if one.poll() is not None or time.monotonic() > end:
                one.kill()
                raise AssertionError(f"{first}: does not listen: {one.communicate()[0]}")
            time.sleep(0.05)
        with subprocess.Popen(second, **options) as two:
            try:
                said = two.communicate(timeout=patience)[0] + one.communicate(timeout=patience)[0]
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


def raw(measure):
    """A figure of a raw tool, or why there is none."""
    try:
        return measure()
    except subprocess.TimeoutExpired:
        return f"did not end within {RAW_PATIENCE} s"
    except AssertionError as what:
        print(what, flush=True)
        return "failed"


def perftest(words, size, count, *more):
    """rdma-core's tools: the last row's figures."""
    at = next_port()
    words = [words, "-R", "-p", str(at), "-s", str(size), "-n", str(count), "-F", *more]
    said = pair("rdma", at, words, [*words, "--source_ip", client, server], RAW_PATIENCE)
    rows = re.findall(rf"^ *{size} +{count} +(.*)$", said, re.MULTILINE)
    assert rows, said
    return [float(word) for word in rows[-1].split()]


def send_bw(size, count):
    """Messages a second, average. There are receives for all of them: iWARP has no way to wait for
    one, and ends a connection that lacks it."""
    count = min(count, 5000)
    return raw(lambda: perftest("ib_send_bw", size, count, "-r", str(count))[1] * MIB / size)


def rstream(size, trips, transfers):
    """rsockets: microseconds for each transfer one way, average."""
    at = next_port()
    words = ["rstream", "-p", str(at), "-S", str(size), "-I", str(trips), "-C", str(transfers)]
    said = pair("rdma", at, [*words, "-b", server], [*words, "-s", server], RAW_PATIENCE)
    rows = re.findall(r"^\S+\s+.*?([0-9.]+)\s+([0-9.]+)\s*$", said, re.MULTILINE)
    assert rows, said
    return max(float(rows[-1][1]), 0.001)


def in_turn(measures):
    """Medians of what is measured, by name; words where there is no figure."""
    got = {what: [] for what in measures}
    words = {}
    for turn in range(ROUNDS):
        order = list(measures) if turn % 2 == 0 else list(measures)[::-1]
        for what in order:
            if what in words:
                continue
            figure = measures[what]()
            print(name, what, figure, flush=True)
            if isinstance(figure, str):
                words[what] = figure
            else:
                got[what].append(figure)
    return {what: words.get(what) or statistics.median(got[what]) for what in measures}


def show(text):
    """A line for people."""
    print("lab:", name, text, flush=True)


def told(figure, unit, form=".0f"):
    """A figure, or the words that stand for it."""
    return figure if isinstance(figure, str) else f"{figure:{form}}{unit}"


def ratio(figure, other):
    """One by the other, where both are figures."""
    return "-" if isinstance(figure, str) or isinstance(other, str) else f"{figure / other:.2f}"


def latency():
    """64 B there and back, half of it."""
    us = in_turn(
        {
            "tcp": lambda: zmq("lat", "tcp", 64, TRIPS),
            "never": lambda: zmq("lat", "rdma", 64, TRIPS, ZMQ_RDMA_BUSY_POLL="never"),
            "rdma": lambda: zmq("lat", "rdma", 64, TRIPS),
            "always": lambda: zmq("lat", "rdma", 64, TRIPS, ZMQ_RDMA_BUSY_POLL="always"),
            # Typical, then average; the average, as libzmq's tools tell it.
            "ib_send_lat": lambda: raw(lambda: perftest("ib_send_lat", 64, TRIPS)[3]),
            "ib_send_lat -e": lambda: raw(lambda: perftest("ib_send_lat", 64, TRIPS, "-e")[3]),
            "rstream": lambda: raw(lambda: rstream(64, TRIPS, 1)),
            "inproc": hand_over,
        }
    )
    share = us["always"] / us["tcp"]
    show(
        f"latency 64 B: rdma {us['rdma']:.0f} us ({us['rdma'] / us['tcp']:.2f} of tcp), never polling {us['never']:.0f} us "
        f"({us['never'] / us['tcp']:.2f}), always {us['always']:.0f} us ({share:.2f}, goal {GOAL_LATENCY}"
        f"{'' if share <= GOAL_LATENCY else ', missed'}), tcp {us['tcp']:.0f} us"
    )
    events = us["ib_send_lat -e"]
    sum_ = events if isinstance(events, str) else events + us["inproc"]
    show(
        f"latency 64 B: ib_send_lat {told(us['ib_send_lat'], ' us')}, with events {told(events, ' us')} (always/that "
        f"{ratio(us['always'], events)}; with inproc's {us['inproc']:.0f} us {ratio(us['always'], sum_)}), "
        f"rstream {told(us['rstream'], ' us')}"
    )


def hand_over():
    """From thread to thread within a process: microseconds."""
    said = subprocess.run([tool("inproc", "lat"), "64", str(TRIPS)], capture_output=True, text=True, check=True)
    return float(re.search(r"average latency: ([0-9.]+)", said.stdout).group(1))


def throughput(size, count):
    """One way."""
    rate = in_turn(
        {
            "tcp": lambda: zmq("thr", "tcp", size, count),
            "rdma": lambda: zmq("thr", "rdma", size, count),
            "ib_send_bw": lambda: send_bw(size, count),
            "rstream": lambda: raw(lambda: 1e6 / rstream(size, 1, min(count, 5000))),
        }
    )
    mib = {what: figure if isinstance(figure, str) else figure * size / MIB for what, figure in rate.items()}
    share = ratio(rate["rdma"], rate["ib_send_bw"])
    missed = ", missed" if share == "-" or float(share) < GOAL_BANDWIDTH else ""
    goal = f", goal {GOAL_BANDWIDTH}{missed}" if size == MIB else ""
    figures = {what: f"{told(rate[what], '/s')} {told(mib[what], ' MiB/s', '.1f')}" for what in rate}
    for what, figure in rate.items():
        if isinstance(figure, str):
            figures[what] = figure
    show(
        f"throughput {size} B: rdma {figures['rdma']}, tcp {figures['tcp']} (rdma/tcp {ratio(rate['rdma'], rate['tcp'])}), "
        f"ib_send_bw {figures['ib_send_bw']} (rdma/that {share}{goal}), "
        f"rstream {figures['rstream']} (rdma/that {ratio(rate['rdma'], rate['rstream'])})"
    )


latency()
for length, messages in THROUGHPUT:
    throughput(length, messages)
