# SPDX-License-Identifier: MPL-2.0
"""Our decoder of ZMTP beside libzmq's: the same bytes, in the same pieces, make the same messages."""

import os
import shlex

import zt
from zt import test
from zt.link import build, call, need

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "decoder.cpp")
FLAGS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize=vptr", "-pthread")


@test(bound=120, needs="ZMQ_RDMA_BUILD")
def as_libzmq_does():
    """Random streams, sound and not, whole and in pieces; under the sanitizers."""
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    need(compiler[0], "g++")
    tree = os.path.join(os.environ["ZMQ_RDMA_BUILD"], "libzmq")
    program = build(compiler, SOURCE, True, *FLAGS, f"-I{tree}/src", f"-I{tree}", f"-I{tree}/include")
    # Streams that are none announce bodies of any size: there is no memory for them.
    env = dict(os.environ, ASAN_OPTIONS="allocator_may_return_null=1:max_allocation_size_mb=64")
    for seed in zt.cases(5):
        print("SHOW:", seed, call([program, str(seed), "400"], env=env).splitlines()[-1])
