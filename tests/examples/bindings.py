# SPDX-License-Identifier: MPL-2.0
"""The examples: each language's binding, as its packagers made it, over the library under test."""

import os
import re
import shlex
import subprocess

import zt
from zt import ROOT, test
from zt.link import call, linked, need, scratch

HERE = os.path.join(ROOT, "examples")
#: What is kept from run to run: the builds by pip and cargo.
KEPT = os.path.join(os.environ.get("ZMQ_RDMA_WORK", os.path.join(ROOT, "build")), "examples")
PYZMQ = "pyzmq==27.3.0"


def _says(*command, properties=True, **variables):
    """Run an example: it says that the message came, by which device if the binding can tell, and the
    library's log says the device as well."""
    env = dict(os.environ, ZMQ_RDMA_LOG="info", **variables)
    said = call([*command, f"{zt.SCHEME}://{zt.HOST}:*"], env=env)
    line = re.search(rf"^hello over {zt.SCHEME}://{re.escape(zt.HOST)}:\d+(?: by (.*))?$", said, re.MULTILINE)
    assert line, said
    assert bool(line[1]) == properties, f"no device named: {line[0]}"
    if zt.SCHEME == "rdma":
        devices = set(re.findall(r"over device (\S+)$", said, re.MULTILINE))
        assert len(devices) == 1 and (not properties or devices == {line[1]}), f"{line[0]}, and the log says {devices}"


def _compiled(compiler, package, source, *packages):
    """An example built as pkg-config says, and linked with the library under test."""
    words = shlex.split(compiler)
    need(words[0], package)
    program = os.path.join(scratch(), "hello")
    env = dict(os.environ, PKG_CONFIG_PATH=os.path.join(zt.libdir(), "pkgconfig"))
    flags = shlex.split(call(["pkg-config", "--cflags", "--libs", *packages], env=env))
    call([*words, "-Wall", "-Wextra", "-Werror", os.path.join(HERE, source), "-o", program, *flags])
    _ours(linked(program))
    return program


def _ours(library):
    assert library and os.path.realpath(library).startswith(os.path.realpath(zt.libdir()) + "/"), library


@test(bound=120)
def c():
    """libzmq's own interface."""
    _says(_compiled(os.environ.get("CC", "cc"), "gcc", "hello.c", "libzmq"))


@test(bound=120)
def cpp():
    """cppzmq, from Debian."""
    _says(_compiled(os.environ.get("CXX", "c++"), "g++", "hello.cpp", "libzmq"))


@test(bound=120)
def czmq():
    """czmq, from Debian."""
    _says(_compiled(os.environ.get("CC", "cc"), "gcc", "hello-czmq.c", "libczmq", "libzmq"))


@test(bound=120)
def python():
    """Debian's python3-zmq, plain and with asyncio."""
    _says(zt.PYTHON, os.path.join(HERE, "hello.py"))
    _says(zt.PYTHON, os.path.join(HERE, "hello-asyncio.py"))


@test(bound=600)
def python_pip():
    """pyzmq as pip builds it against the library."""
    python = os.path.join(KEPT, "venv", "bin", "python")
    extension = "import zmq, zmq.backend.cython._zmq as z; print(zmq.__version__, z.__file__)"

    def built():
        if not os.path.exists(python):
            return False
        done = subprocess.run([python, "-c", extension], capture_output=True, text=True, check=False)
        words = done.stdout.split()
        return done.returncode == 0 and words[0] == PYZMQ.split("==")[1] and linked(words[1])

    if not built():
        call([zt.PYTHON, "-m", "venv", "--clear", os.path.join(KEPT, "venv")])
        pip = [python, "-m", "pip", "install", "-q", "--no-cache-dir", "--disable-pip-version-check"]
        call([*pip, "--no-binary", "pyzmq", PYZMQ], env=dict(os.environ, ZMQ_PREFIX=zt.prefix()))
    _ours(built())
    _says(python, os.path.join(HERE, "hello.py"))
    _says(python, os.path.join(HERE, "hello-asyncio.py"))


@test(bound=600)
def rust():
    """The crate zmq, linked by the build-script override of the example's .cargo/config.toml."""
    need("cargo", "cargo")
    host = re.search(r"^host: (\S+)$", call(["rustc", "-vV"]), re.MULTILINE)[1]
    target = os.path.join(KEPT, "rust")
    where = f"target.{host}.zmq.rustc-link-search=['{zt.libdir()}']"
    call(
        ["cargo", "build", "--locked", "--config", where],
        cwd=os.path.join(HERE, "rust"),
        env=dict(os.environ, CARGO_TARGET_DIR=target),
    )
    program = os.path.join(target, "debug", "hello")
    _ours(linked(program))
    _says(program)


@test()
def ruby():
    """ffi-rzmq, from Debian."""
    need("ruby", "ruby-ffi-rzmq")
    _says("ruby", os.path.join(HERE, "hello.rb"))


@test()
def perl():
    """ZMQ::FFI, from Debian; it looks for libraries itself, beginning with FFI_CHECKLIB_PATH."""
    _says("perl", os.path.join(HERE, "hello.pl"), properties=False, FFI_CHECKLIB_PATH=zt.libdir())


@test()
def php():
    """The extension zmq, from Debian."""
    need("php", "php-zmq php-cli")
    _says("php", os.path.join(HERE, "hello.php"), properties=False)
