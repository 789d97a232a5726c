# SPDX-License-Identifier: MPL-2.0
"""How threads wait, on a clock that the test turns."""

import os
import shlex
import subprocess
import tempfile

from zt import test
from zt.link import call, need

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "busy_poll.cpp")
FLAGS = ("-std=c++11", "-O1", "-g", "-fsanitize=address,undefined", "-Wall", "-Wextra", "-Werror")


@test(bound=120, needs="ZMQ_RDMA_BUILD")
def on_a_clock_of_its_own():
    """When a wait looks, when it gives looking up, and who is looked at."""
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    need(compiler[0], "g++")
    tree = os.path.join(os.environ["ZMQ_RDMA_BUILD"], "libzmq", "src")
    with tempfile.TemporaryDirectory() as scratch:
        program = os.path.join(scratch, "busy_poll")
        files = (SOURCE, os.path.join(tree, "busy_poll.cpp"))
        subprocess.run([*compiler, *FLAGS, f"-I{tree}", "-o", program, *files], check=True)
        assert call([program]).endswith("ok\n")
