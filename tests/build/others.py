# SPDX-License-Identifier: MPL-2.0
"""The edits fit other versions of libzmq, and those carry messages too."""

import os

import builds
from zt import test

SCRIPT = os.path.join(builds.HERE, "other-libzmq")


@test(bound=1500)
def v4_3_4():
    """libzmq 4.3.4, from its crate."""
    assert "hello over rdma://" in builds.run(SCRIPT, "4.3.4")


@test(bound=1500)
def master():
    """A checkout of libzmq's master, where ZMQ_MASTER says there is one."""
    tree = os.environ.get("ZMQ_MASTER")
    if not tree:
        print("SHOW: ZMQ_MASTER names no checkout of libzmq's master: not run")
        return
    assert "hello over rdma://" in builds.run(SCRIPT, tree)
