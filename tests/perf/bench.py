# SPDX-License-Identifier: MPL-2.0
"""perf/run: it runs through at its quick sizes, and what it leaves is whole. How fast anything was is not judged."""

import json
import math
import os
import resource
import subprocess
import sys
import xml.etree.ElementTree as xml

import zt
from zt import Missing, test
from zt.link import call, scratch

RUN = os.path.join(zt.ROOT, "perf", "run")
sys.path.insert(0, os.path.join(zt.ROOT, "perf"))

import bench  # noqa: E402  pylint: disable=wrong-import-position

#: Measurements and variants of each mode at its quick sizes: those over rdma://, and those not.
CELLS = {"sizes": (10, 1, 3), "fanout": (4, 1, 3), "threads": (4, 1, 2), "memory": (2, 1, 1), "busy": (4, 3, 1)}


def measured(prefix, *words):
    """What perf/run leaves in its JSON."""
    out = scratch()
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    # The program must find the library that it was linked with by itself.
    env.pop("LD_LIBRARY_PATH", None)
    call([zt.PYTHON, RUN, "--quick", "--time", "20", "--prefix", prefix, "--out", out, *words], env=env)
    with open(os.path.join(out, "figures.json"), encoding="utf-8") as file:
        return json.load(file), out


def check_record(record):
    """Every figure is there and is a number that can be."""
    for name, value in record.items():
        if isinstance(value, (int, float)):
            # Memory of few connections is within what the heap gives and takes.
            assert math.isfinite(value) and (value >= 0 or name.endswith("_kib")), f"{name} is {value}: {record}"
    count = {"latency": "trips", "throughput": "messages", "fanout": "published", "crowd": "messages"}[record["what"]]
    assert record[count] > 0, record
    if record["what"] == "crowd":
        assert record["accepted"] == record["connections"] == record["peers"] and record["lost"] == 0, record
        assert record["least"] <= record["median"] <= record["most"] <= record["messages"], record
    if record["what"] == "latency":
        assert 0 < record["median_us"] <= record["p99_us"] <= (record["p999_us"] or math.inf), record


@test(bound=180, alone=True)
def quick():
    """All modes, quick: records of every cell, a summary with ratios of each, tables, and a plot with its panels."""
    found, out = measured(zt.prefix())
    assert os.path.realpath(found["about"]["library"]).startswith(os.path.realpath(zt.prefix())), found["about"]
    has_rdma = "rdma" in found["about"]["schemes"]
    assert has_rdma == (zt.SCHEME == "rdma"), found["about"]
    for record in found["records"]:
        check_record(record)
    for mode, (cells, ours, others) in CELLS.items():
        want = cells * (others + (ours if has_rdma else 0))
        got = [entry for entry in found["summary"] if entry["mode"] == mode]
        assert len(got) == want, f"{mode}: {len(got)} summaries, not {want}"
        for entry in got:
            name = "median_us" if entry["what"] == "latency" else "messages_s"
            name = {"fanout": "deliveries_s"}.get(entry["what"], name)
            assert entry["figures"][name][0] > 0 and entry["ratios"][name][0] > 0, entry
    with open(os.path.join(out, "tables.txt"), encoding="utf-8") as file:
        assert file.read().count("==") == 2 * len(CELLS)
    assert xml.parse(os.path.join(out, "plot.svg")).getroot().tag.endswith("svg")


@test(bound=60)
def one_mode_with_stock():
    """A stock libzmq is measured as well: the schemes that it has, a mode alone, sizes of the user's, without a plot."""
    prefix = os.environ.get("ZMQ_STOCK_PREFIX")
    if not prefix:
        raise Missing("ZMQ_STOCK_PREFIX is not set: build and install a stock libzmq first, then give the prefix")
    found, out = measured(prefix, "sizes", "--sizes", "100,2000", "--rounds", "2", "--no-plot")
    assert "rdma" not in found["about"]["schemes"], found["about"]
    assert {record["mode"] for record in found["records"]} == {"sizes"}
    assert {record["size"] for record in found["records"]} == {100, 2000}
    assert len(found["records"]) == 2 * 2 * 2 * 3, len(found["records"])
    assert not os.path.exists(os.path.join(out, "plot.svg"))


@test(bound=180, alone=True)
def crowd():
    """5,000 connections to one I/O thread, or as many as descriptors allow: each is accepted once, takes one descriptor
    and, idle, hardly more memory than over tcp."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    count = min(5000, (most - 200) // 2)
    if count < 1000:
        raise Missing(f"{most} descriptors: `ulimit -Hn` of 2200 at least is needed, for 5,000 connections 10200")
    program = bench.Bench(zt.prefix(), scratch(), zt.HOST)
    ours, tcp = (program.measure("crowd", scheme, 1024, 2000, count, 1, {}) for scheme in (zt.SCHEME, "tcp"))
    for name, one in ((zt.SCHEME, ours), ("tcp", tcp)):
        print(
            f"SHOW: {name}: {count} connections in {one['connect_s']:.1f} s, idle {one['server_idle_kib']:.1f} KiB each, "
            f"messages of a peer {one['least']} to {one['most']}, median {one['median']}"
        )
        print(one)
    assert ours["accepted"] == count and ours["lost"] == 0, "a connection was made twice, or lost"
    assert ours["server_descriptors"] == count, f"{ours['server_descriptors']} descriptors"
    # A slot, or a page of a chunk each and what goes with it, would be more.
    more = ours["server_idle_kib"] - tcp["server_idle_kib"]
    assert more < 6, f"an idle connection takes {more:.1f} KiB more than one over tcp"


@test()
def what_is_missing():
    """Without gnuplot, or without a libzmq, it says what to do and measures nothing."""
    for path, words, hint in (
        ("/nonexistent", [], "apt-get install gnuplot-nox"),
        (os.environ["PATH"], ["--no-plot", "--prefix", "/nonexistent"], "no libzmq is installed in /nonexistent"),
    ):
        command = [zt.PYTHON, RUN, "--quick", "--out", scratch(), *words]
        env = dict(os.environ, PATH=path, PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=zt.WAIT)
        assert done.returncode == 1 and hint in done.stderr, (done.returncode, done.stderr)
