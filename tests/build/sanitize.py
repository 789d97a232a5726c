# SPDX-License-Identifier: MPL-2.0
"""All of libzmq with our glue under AddressSanitizer and UndefinedBehaviorSanitizer."""

import os
import re

import builds
from zt import ROOT, test


@test(bound=1200)
def glue():
    """libzmq's own tests over rdma://, and a C program: neither sanitizer has a word to say."""
    builds.tool("g++", "g++")
    work = os.environ.get("ZMQ_RDMA_WORK", os.path.join(ROOT, "build"))
    said = builds.run(os.path.join(ROOT, "tests", "sanitize", "run"), env={"ZMQ_RDMA_SANITIZE": os.path.join(work, "sanitize")})
    passed = int(re.search(r"^(\d+) passed, 0 failed$", said, re.MULTILINE).group(1))
    print(f"SHOW: {passed} of libzmq's cases under address,undefined")
    assert passed > 40, "few cases ran"
    assert "ok exchange.c" in said and "no report of address,undefined" in said
