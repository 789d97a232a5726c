# SPDX-License-Identifier: MPL-2.0
"""The fuzz targets, a little of each: without libFuzzer, and with it."""

import os
import re

import builds
from zt import ROOT, test

FUZZ = os.path.join(ROOT, "fuzz")


def targets():
    """Names of all targets."""
    names = os.listdir(os.path.join(FUZZ, "fuzz_targets"))
    return sorted(name[:-3] for name in names if name.endswith(".rs"))


def target_dir():
    """Where their build is kept from one run to the next."""
    shared = os.environ.get("CARGO_TARGET_DIR", os.path.join(FUZZ, "target"))
    return {"CARGO_TARGET_DIR": os.path.join(shared, "fuzz")}


@test(bound=900)
def replay():
    """Each on its corpus and on inputs made from it, by an ordinary program."""
    builds.tool("cargo", "cargo")
    manifest = os.path.join(FUZZ, "Cargo.toml")
    said = builds.run("cargo", "test", "--locked", "--release", "--manifest-path", manifest, "--test", "replay", env=target_dir())
    ran = set(re.findall(r"^(\w+): \d+ of the corpus, \d+ made", said, re.MULTILINE))
    assert ran == set(targets()), f"did not run: {set(targets()) - ran}"
    print(f"SHOW: {len(ran)} fuzz targets")


@test(bound=1200)
def libfuzzer():
    """Each for some thousand inputs that coverage leads to."""
    builds.tool("g++", "g++")
    said = builds.run(os.path.join(FUZZ, "run"), "-n", "5000", env=target_dir())
    ran = re.findall(r"^(\w+): ok \d+ runs", said, re.MULTILINE)
    assert sorted(ran) == targets(), f"ran: {ran}"


@test(bound=60)
def corpus_is_small():
    """Less than a mebibyte in all, and something for each target."""
    sizes = {}
    for name in targets():
        directory = os.path.join(FUZZ, "corpus", name)
        sizes[name] = [os.path.getsize(os.path.join(directory, file)) for file in os.listdir(directory)]
    assert all(sizes.values()), f"no corpus: {[name for name, files in sizes.items() if not files]}"
    total = sum(map(sum, sizes.values()))
    print(f"SHOW: {total} bytes in {sum(map(len, sizes.values()))} files")
    assert total < 1 << 20
