# SPDX-License-Identifier: MPL-2.0
"""The edited tree by libzmq's other build system: with the transport and, since the
edits stay in the tree then, without it."""

import os
import shutil

import builds
from zt import test

#: A message over tcp://, by a library that must not have rdma.
PLAIN = r"""
#include <string.h>
#include <zmq.h>
int main (void)
{
    char endpoint[64], text[8];
    size_t size = sizeof endpoint;
    void *ctx = zmq_ctx_new ();
    void *a = zmq_socket (ctx, ZMQ_PAIR), *b = zmq_socket (ctx, ZMQ_PAIR);
    if (zmq_has ("rdma") || zmq_bind (a, "rdma://127.0.0.1:*") != -1 || zmq_errno () != EPROTONOSUPPORT)
        return 1;
    if (zmq_bind (a, "tcp://127.0.0.1:*") || zmq_getsockopt (a, ZMQ_LAST_ENDPOINT, endpoint, &size)
        || zmq_connect (b, endpoint))
        return 2;
    if (zmq_send (a, "hello", 5, 0) != 5 || zmq_recv (b, text, sizeof text, 0) != 5 || memcmp (text, "hello", 5))
        return 3;
    return zmq_close (a) || zmq_close (b) || zmq_ctx_term (ctx);
}
"""


def made(directory, *switches):
    """Build the library in `directory` from a copy of the edited tree; where it is."""
    tree = os.path.join(builds.variable("ZMQ_RDMA_BUILD"), "libzmq")
    # Without what the other build system has left there.
    left = shutil.ignore_patterns("*.o", "*.lo", "*.la", "*.a", ".libs", "platform.hpp", "perf", "tests", "unittests")
    source, build = os.path.join(directory, "source"), os.path.join(directory, "build")
    shutil.copytree(tree, source, symlinks=True, ignore=left)
    builds.tool("cmake", "cmake")
    words = ("BUILD_TESTS=OFF", "BUILD_STATIC=OFF", "WITH_PERF_TOOL=OFF", "WITH_DOCS=OFF", "CMAKE_CXX_FLAGS=-O0", *switches)
    builds.run("cmake", "-S", source, "-B", build, *(f"-D{word}" for word in words))
    builds.run("cmake", "--build", build, "--parallel", "2")
    return source, os.path.join(build, "lib")


def says(directory, source, library, program):
    """What a program says that is built against that library."""
    result = os.path.join(directory, "program")
    include = os.path.join(source, "include")
    builds.run("cc", "-o", result, program, f"-I{include}", f"-L{library}", "-lzmq", f"-Wl,-rpath,{library}")
    # Before its rpath.
    return builds.run(result, env={"LD_LIBRARY_PATH": library})


@test(bound=1500)
def with_rdma():
    """WITH_RDMA: a message over rdma://."""
    core = os.path.join(builds.variable("ZMQ_RDMA_BUILD"), "rust", "zmq_rdma_core.o")
    with builds.scratch() as directory:
        source, library = made(directory, "WITH_RDMA=ON", f"ZMQ_RDMA_LIBS={core};rdmacm;ibverbs")
        assert "hello over rdma://" in says(directory, source, library, os.path.join(builds.HERE, "hello.c"))


@test(bound=1500)
def without_rdma():
    """As it is by default: a message over tcp://, and no rdma://."""
    with builds.scratch() as directory:
        program = os.path.join(directory, "plain.c")
        with open(program, "w", encoding="ascii") as text:
            text.write(PLAIN)
        says(directory, *made(directory), program)
