# SPDX-License-Identifier: MPL-2.0
"""libzmq's own perf tools over rdma:// and tcp:// in one run, in turn; a table of medians and ratios.

It measures and prints; only an error fails it. A tool that is asked for one
size runs for a fraction of a second, and the schemes alternate, so that what
else the machine does falls on both.
"""

import os
import re
import statistics
import subprocess

import zt
from zt import Missing, test
from zt.sock import dead_port

ROUNDS = int(os.environ.get("ZT_PERF_ROUNDS", "5"))
#: Only these; all of them take minutes in a VM.
CHOSEN = [int(size) for size in os.environ.get("ZT_PERF_SIZES", "").split()]
# bytes, round trips for latency, messages for throughput
SIZES = (
    (1, 3000, 200000),
    (64, 3000, 200000),
    (256, 3000, 150000),
    (1024, 3000, 100000),
    (8192, 2000, 30000),
    (65536, 1000, 6000),
    (262144, 400, 1500),
    (1048576, 150, 400),
)


def tools():
    """The directory with the perf tools of the build under test."""
    variable = "ZMQ_RDMA_BUILD" if zt.SCHEME == "rdma" else "ZMQ_STOCK_BUILD"
    top = os.environ.get(variable)
    if not top:
        raise Missing(f"{variable} is not set: it names the build directory")
    for path in (os.path.join(top, "libzmq", "perf"), os.path.join(top, "perf")):
        if os.path.exists(os.path.join(path, "local_lat")):
            return path
    raise Missing(f"no perf tools in {top}: configure without --disable-perf, and make")


def listening(port, scheme):
    """Whether somebody on this machine listens on a port."""
    if zt.by_verbs() and scheme != "tcp":
        said = subprocess.run(["rdma", "resource", "show", "cm_id"], capture_output=True, text=True, check=True).stdout
        return re.search(rf"state LISTEN .*:{port}\b", said) is not None
    with open("/proc/net/tcp", encoding="ascii") as table:
        return any(f":{port:04X} " in line and " 0A " in line for line in table)


def pair(path, kind, scheme, size, count):
    """One run of local_KIND and remote_KIND; what both printed."""
    held, port = dead_port()
    held.close()
    words = [f"{scheme}://{zt.HOST}:{port}", str(size), str(int(count / zt.SLOW) or 1)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    local = subprocess.Popen([os.path.join(path, "local_" + kind)] + words, **options)
    # The clock of remote_lat starts at its connect, so the other end must be there.
    while not listening(port, scheme) and local.poll() is None:
        try:
            local.wait(0.005)
        except subprocess.TimeoutExpired:
            pass
    remote = subprocess.Popen([os.path.join(path, "remote_" + kind)] + words, **options)
    said = remote.communicate(timeout=zt.WAIT)[0] + local.communicate(timeout=zt.WAIT)[0]
    assert local.returncode == 0 and remote.returncode == 0, f"{kind} {scheme} {size} B: {said.strip()}"
    return said


def figure(kind, said):
    """Microseconds one way, or messages a second."""
    pattern = r"average latency: ([0-9.]+)" if kind == "lat" else r"mean throughput: ([0-9.]+) \[msg/s\]"
    return float(re.search(pattern, said).group(1))


def row(kind, size, figures):
    """A line of the table; a ratio above 1 means that our scheme is the better one. Of the
    medians and of the best runs: where they differ much, the machine was busy with something else."""
    best = min if kind == "lat" else max
    tcp, ours = figures["tcp"], figures["ours"]
    medians = statistics.median(tcp), statistics.median(ours)
    bests = best(tcp), best(ours)
    ratios = [(a / b if kind == "lat" else b / a) for a, b in (medians, bests)]
    unit = "us" if kind == "lat" else "msg/s"
    note = "  below 0.8" if max(ratios) < 0.8 else ""
    return (
        f"{kind} {size:>8} B  tcp {medians[0]:>10.1f} {unit:5}  {zt.SCHEME} {medians[1]:>10.1f} {unit:5}"
        f"  ratio {ratios[0]:5.2f}  of the best runs {ratios[1]:5.2f}{note}"
    )


@test(bound=300, alone=True)
def ratio():
    """Latency and throughput at each size, both schemes."""
    path = tools()
    for kind in ("lat", "thr"):
        for size, trips, messages in (one for one in SIZES if not CHOSEN or one[0] in CHOSEN):
            figures = {"tcp": [], "ours": []}
            for round_ in range(ROUNDS):
                order = ("tcp", "ours") if round_ % 2 else ("ours", "tcp")
                for name in order:
                    scheme = "tcp" if name == "tcp" else zt.SCHEME
                    said = pair(path, kind, scheme, size, trips if kind == "lat" else messages)
                    figures[name].append(figure(kind, said))
            print("SHOW:", row(kind, size, figures), flush=True)
            print("   ", figures)
