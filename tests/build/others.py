# SPDX-License-Identifier: MPL-2.0
"""The edits land where they are meant to or refuse, and fit other versions of
libzmq, which then carry messages too."""

import os
import re

import builds
from zt import ROOT, test

SCRIPT = os.path.join(builds.HERE, "other-libzmq")


def hello(said):
    """Which libzmq the program has spoken by."""
    (version,) = re.findall(r"^hello over rdma://\S+ by libzmq (\S+)$", said, re.MULTILINE)
    return version


@test()
def edits():
    """The tool that applies them, anchor by anchor, and on the source of this build."""
    facts = os.path.join(builds.variable("ZMQ_RDMA_BUILD"), "libzmq", ".zmq-rdma-origin")
    source = open(facts, encoding="utf-8").read().rsplit(" ", 1)[0]
    builds.run(os.path.join(ROOT, "tests", "glue", "edits"), source)


@test(bound=1500)
def v4_3_4():
    """libzmq 4.3.4, from its crate."""
    assert hello(builds.run(SCRIPT, "4.3.4")) == "4.3.4"


@test(bound=1500, needs="ZMQ_MASTER")
def master():
    """A checkout of libzmq's master, where ZMQ_MASTER says there is one."""
    tree = os.environ["ZMQ_MASTER"]
    with open(os.path.join(tree, "include", "zmq.h"), encoding="utf-8") as header:
        version = re.findall(r"^#define ZMQ_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header.read(), re.MULTILINE)
    assert hello(builds.run(SCRIPT, tree)) == ".".join(version)
