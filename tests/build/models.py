# SPDX-License-Identifier: MPL-2.0
"""Threads in every order: the loom models, of what threads hand to each other."""

import json
import os
import re

import builds
from zt import ROOT, test


@test(bound=900)
def loom():
    """Slab, chunks, the bell and the name threads."""
    builds.tool("cargo", "cargo")
    shared = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "tests", "loom", "target"))
    env = {"CARGO_TARGET_DIR": os.path.join(shared, "loom")}
    manifest = os.path.join(ROOT, "tests", "loom", "Cargo.toml")
    models = ["os::bell::tests", "stream::resolve::crew::tests", "device::region::models"]
    said = builds.run("cargo", "test", "--locked", "--release", "--manifest-path", manifest, "--lib", "--", *models, env=env)
    for model in models:
        assert re.search(rf"^test {model}::\w+ \.\.\. ok$", said, re.MULTILINE), f"{model}: nothing ran"


#: Tests of code that is all memory and no system: what a checker of memory can judge.
BY_MEMORY = ["wire::", "proto::", "device::region", "abi::addr", "stream::pair_tests::what_is_lent"]


@test(bound=900)
def memcheck():
    """wire, proto, region and links over them under valgrind: no byte is read that was not written, or that is gone."""
    builds.tool("cargo", "cargo")
    valgrind = builds.tool("valgrind", "valgrind")
    said = builds.run("cargo", "test", "--locked", "--lib", "--no-run", "--message-format", "json", cwd=ROOT)
    found = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    programs = [one["executable"] for one in found if one.get("executable") and one["target"]["name"] == "zmq_rdma"]
    assert len(programs) == 1, f"programs: {programs}"
    said = builds.run(valgrind, "--error-exitcode=9", "--leak-check=no", "-q", programs[0], "--test-threads=1", *BY_MEMORY)
    ran = int(re.search(r"test result: ok\. (\d+) passed", said).group(1))
    print(f"SHOW: {ran} tests under valgrind")
    assert ran > 30, "few tests ran"


@test(bound=1800, needs="ZMQ_RDMA_MIRI")
def miri():
    """The same under Miri, where a nightly Rust has it (ZMQ_RDMA_MIRI=nightly)."""
    toolchain = "+" + os.environ["ZMQ_RDMA_MIRI"]
    env = {"MIRIFLAGS": "-Zmiri-strict-provenance -Zmiri-ignore-leaks", "PROPTEST_CASES": "8"}
    env["CARGO_TARGET_DIR"] = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "miri")
    said = builds.run("cargo", toolchain, "miri", "test", "--locked", "--lib", "--", *BY_MEMORY[:-1], cwd=ROOT, env=env)
    ran = int(re.search(r"test result: ok\. (\d+) passed", said).group(1))
    print(f"SHOW: {ran} tests under Miri")
    assert ran > 30, "few tests ran"
