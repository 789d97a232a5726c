# SPDX-License-Identifier: MPL-2.0
"""libzmq's own tests over rdma://, case by case against tcp://; see tests/parity/run."""

import os
import subprocess
import sys

import zt
from zt import test
from zt.link import scratch

#: Cases that pass on any machine; fewer mean that the harness has lost some.
LEAST = 250


@test(bound=1500, alone=True)
def natively():
    """Every case that passes over tcp passes over rdma."""
    if not os.environ.get("ZMQ_RDMA_BUILD"):
        raise zt.Missing("ZMQ_RDMA_BUILD is not set: it names the build directory")
    run = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run")
    process = subprocess.Popen(
        [zt.PYTHON, run, "--work", scratch()],
        stdout=subprocess.PIPE, text=True, errors="replace",
    )
    words = []
    for line in process.stdout:
        print(line, end="", flush=True)
        words.append(line.strip())
    code = process.wait()
    failed = [line for line in words if line.startswith("FAIL ")]
    assert not failed, "; ".join(failed)
    assert code == 0, f"the run ended with {code}: {words[-1] if words else sys.exc_info()}"
    passed = sum(line.startswith("ok ") for line in words)
    assert passed >= LEAST, f"only {passed} cases passed"
    print("SHOW: " + "; ".join(words[-3:]))
