# SPDX-License-Identifier: MPL-2.0
"""What the tests of the build share: where things are, commands that must
succeed, symbols, small programs."""

import os
import re
import shutil
import subprocess
import tempfile

from zt import ROOT, Missing, seconds_left

HERE = os.path.dirname(os.path.abspath(__file__))


def variable(name):
    """A directory that scripts/test names in the environment."""
    value = os.environ.get(name)
    if not value:
        raise Missing(f"{name} is not set: scripts/test sets it")
    return value


def ours():
    """Where our build is installed."""
    return variable("ZMQ_RDMA_PREFIX")


def stock():
    """Where the stock build is installed."""
    return variable("ZMQ_STOCK_PREFIX")


def run(*command, cwd=None, env=None, check=True):
    """Run a command and return what it printed; its failure is the test's."""
    print("+", *command, flush=True)
    full = dict(os.environ, **(env or {}))
    done = subprocess.run(
        command,
        cwd=cwd,
        env=full,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=seconds_left(),
        check=False,
    )
    print(done.stdout, flush=True)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(command)[:120]}: exit code {done.returncode}")
    return done.stdout


def tool(name, package):
    """The path of a program."""
    path = shutil.which(name)
    if not path:
        raise Missing(f"no {name}: apt-get install {package}")
    return path


def scratch():
    """A directory that goes with the test."""
    return tempfile.TemporaryDirectory(prefix="zmq-rdma-build-")


def symbols(file, *options):
    """Names and types of defined symbols, as nm tells."""
    lines = run("nm", "--defined-only", *options, file).splitlines()
    found = (re.match(r"[0-9a-f]* ?([A-Za-z]) (\S+)$", line) for line in lines)
    return {m[2]: m[1] for m in found if m}


def exported(prefix):
    """Symbols that a program can see in the shared library below `prefix`."""
    names = symbols(os.path.join(prefix, "lib", "libzmq.so.5"), "-D")
    return {re.sub("@.*", "", name) for name in names}


def dynamic(prefix, tag):
    """Values of a tag in the dynamic section of the shared library."""
    text = run("readelf", "-d", os.path.join(prefix, "lib", "libzmq.so.5"))
    return re.findall(rf"\({tag}\).*\[(.*)\]", text)


def entries():
    """The functions that zmq_rdma.h declares."""
    with open(os.path.join(ROOT, "include", "zmq_rdma.h"), encoding="utf-8") as header:
        return set(re.findall(r"^[a-z].*[ *](zmq_rdma_\w+)\(", header.read(), re.MULTILINE))


def pkg_config(prefix, *options):
    """The flags for a program of libzmq's."""
    path = os.path.join(prefix, "lib", "pkgconfig")
    return run("pkg-config", *options, "libzmq", env={"PKG_CONFIG_PATH": path}).split()


def configure(directory, *switches, source=ROOT, **variables):
    """Run our configure in `directory`."""
    words = [f"{name}={value}" for name, value in variables.items()]
    return run(os.path.join(source, "configure"), *switches, *words, cwd=directory)
