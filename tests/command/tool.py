# SPDX-License-Identifier: MPL-2.0
"""The installed zmq-rdma, run to its end."""

import json
import os
import subprocess

import zt
from zt import Missing


def path():
    """The command of the build under test."""
    prefix = os.environ.get("ZMQ_RDMA_PREFIX")
    if not prefix:
        raise Missing("ZMQ_RDMA_PREFIX is not set")
    return os.path.join(prefix, "bin", "zmq-rdma")


def run(*words, env=None):
    """Exit code, standard output, standard error."""
    done = subprocess.run(
        [path(), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ, **(env or {})),
        timeout=zt.seconds_left(),
        check=False,
    )
    print("+ zmq-rdma", *words, "=>", done.returncode)
    print(done.stdout + done.stderr, flush=True)
    assert "panicked" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def values(*words, env=None):
    """Exit code, and the objects that --json prints: one a line, and nothing else."""
    code, said, _ = run("--json", *words, env=env)
    return code, [json.loads(line) for line in said.splitlines()]


def value(*words, env=None):
    """Exit code, and the one object that --json prints."""
    code, found = values(*words, env=env)
    assert len(found) == 1, f"{len(found)} objects"
    return code, found[0]
