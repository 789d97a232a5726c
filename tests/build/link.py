# SPDX-License-Identifier: MPL-2.0
"""Programs are built against what is installed as pkg-config says."""

import os

import builds
from zt import test

SOURCE = os.path.join(builds.HERE, "hello.c")
STRICT = ("-Wall", "-Wextra", "-Wundef", "-pedantic", "-Werror")
C = ("cc", "-std=c99", "-x", "c")
CXX = ("c++", "-std=c++98", "-x", "c++")


def build_and_run(compiler, static):
    """Build hello.c, check which libzmq it loads, run it."""
    prefix = builds.ours()
    with builds.scratch() as directory:
        program = os.path.join(directory, "hello")
        flags = builds.pkg_config(prefix, "--cflags", "--libs", *(["--static"] if static else []))
        # Of libzmq the archive; of its libraries what there is.
        flags = ["-l:libzmq.a" if flag == "-lzmq" and static else flag for flag in flags]
        builds.run(*compiler, *STRICT, SOURCE, "-x", "none", "-o", program, *flags)
        loaded = builds.run("ldd", program)
        assert ("libzmq.so" in loaded) != static, loaded
        said = builds.run(program)
        assert said.startswith("hello over rdma://127.0.0.1:"), said


@test()
def c_shared():
    """A C99 program with libzmq.so."""
    build_and_run(C, static=False)


@test()
def c_static():
    """A C99 program with libzmq.a."""
    build_and_run(C, static=True)


@test()
def cxx_shared():
    """A C++98 program with libzmq.so."""
    build_and_run(CXX, static=False)


@test()
def cxx_static():
    """A C++98 program with libzmq.a."""
    build_and_run(CXX, static=True)


@test()
def rust_static():
    """A Rust program with libzmq.a: two Rust worlds in one process."""
    builds.tool("rustc", "rustc")
    prefix = builds.ours()
    with builds.scratch() as directory:
        program = os.path.join(directory, "hello")
        flags = builds.pkg_config(prefix, "--libs", "--static")
        # As a build script says it, so that they come before what std needs itself.
        link = [flag.replace("-lzmq", "-lstatic=zmq") for flag in flags if flag.startswith(("-L", "-l"))]
        builds.run("rustc", "--edition", "2021", "-o", program, os.path.join(builds.HERE, "hello.rs"), *link)
        assert "libzmq.so" not in builds.run("ldd", program)
        assert "hello from Rust" in builds.run(program)


@test()
def header_alone():
    """zmq_rdma.h needs no other header and no newer language, by any compiler."""
    include = os.path.join(builds.ours(), "include")
    compilers = ["gcc", "g++"] + [name for name in ("clang", "clang++") if builds.shutil.which(name)]
    with builds.scratch() as directory:
        for compiler in compilers:
            cxx = compiler.endswith("++")
            source = os.path.join(directory, "alone.cpp" if cxx else "alone.c")
            with open(source, "w", encoding="ascii") as text:
                text.write("#include <zmq_rdma.h>\nint alone (void);\n")
                text.write("int alone (void) { return zmq_rdma_ops () != 0; }\n")
            standards = ("c++98", "c++11", "c++17") if cxx else ("c99", "c11")
            for standard in standards:
                builds.run(compiler, f"-std={standard}", *STRICT, "-fsyntax-only", f"-I{include}", source)
