# SPDX-License-Identifier: MPL-2.0
"""The Rust tests, and what judges the text of the code."""

import ast
import glob
import json
import os
import re

import builds
from zt import ROOT, test


def cargo(*words):
    """Run cargo on this project, with the lock file as it is."""
    builds.tool("cargo", "cargo")
    return builds.run("cargo", *words, cwd=ROOT)


def linter(component):
    """Whether a part of Rust that some distributions leave out is there. CI must have it."""
    there = builds.shutil.which(f"cargo-{component}") is not None
    if not there and not os.environ.get("CI"):
        print(f"SHOW: cargo {component} is not installed: not run")
        return False
    return True


@test(bound=1800)
def rust_tests():
    """Unit, pair, vector and rule tests; their number is told."""
    said = cargo("test", "--locked")
    results = [int(n) for n in re.findall(r"test result: ok\. (\d+) passed", said)]
    print(f"SHOW: {sum(results)} Rust tests in {len(results)} programs")
    assert sum(results) > 0, "no test ran"


@test(bound=900)
def command_tests():
    """The unit tests of the command zmq-rdma."""
    said = cargo("test", "--locked", "--package", "zmq-rdma-cli")
    assert sum(int(n) for n in re.findall(r"test result: ok\. (\d+) passed", said)) > 0, "no test ran"


@test(bound=900)
def verbs_tests():
    """The unit tests of the verbs device that need no device."""
    finder = os.path.join(ROOT, "scripts", "find-libclang")
    libclang = builds.run(finder, "15", env={"LIBCLANG_PATH": os.environ.get("LIBCLANG_PATH", "")}).strip()
    assert libclang, "no libclang up to 15: apt-get install libclang-14-dev"
    words = ("test", "--locked", "--features", "verbs", "--lib", "device::verbs")
    said = builds.run("cargo", *words, cwd=ROOT, env={"LIBCLANG_PATH": libclang})
    assert re.search(r"test result: ok\. [1-9]\d* passed", said), "no test ran"


@test(bound=900)
def clippy():
    """Clippy finds nothing."""
    if linter("clippy"):
        cargo("clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings")


@test()
def rust_format():
    """The Rust code is formatted."""
    if linter("fmt"):
        cargo("fmt", "--all", "--check")


@test(bound=300)
def docs():
    """The documentation of the crate builds without a warning."""
    builds.tool("cargo", "cargo")
    builds.run("cargo", "doc", "--locked", "--no-deps", cwd=ROOT, env={"RUSTDOCFLAGS": "-D warnings"})


@test()
def glue_format():
    """The glue is formatted as libzmq's own .clang-format says."""
    formatter = builds.tool("clang-format", "clang-format")
    style = os.path.join(builds.variable("ZMQ_RDMA_BUILD"), "libzmq", ".clang-format")
    files = sorted(glob.glob(os.path.join(ROOT, "glue", "*.[ch]pp")))
    assert files, "no glue"
    builds.run(formatter, f"--style=file:{style}", "--dry-run", "--Werror", *files)


@test()
def scripts_parse():
    """Shell scripts are POSIX sh; Perl ones compile."""
    for path in sorted(glob.glob(os.path.join(ROOT, "scripts", "*"))) + [os.path.join(ROOT, ".ci", "run")]:
        with open(path, encoding="utf-8") as text:
            first = text.readline()
        if first.startswith("#!/bin/sh"):
            builds.run("sh", "-n", path)
        elif "perl" in first:
            builds.run("perl", "-c", path)


def defined(path):
    """Names at the top of a Python file."""
    with open(path, encoding="utf-8") as text:
        tree = ast.parse(text.read(), path)
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return names, [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]


@test()
def python_imports():
    """What a Python file takes from another one of ours is there: most tests are loaded by nobody until they run."""
    tracked = builds.run("git", "-C", ROOT, "ls-files", "*.py").splitlines()
    tops = [ROOT, os.path.join(ROOT, "tests"), os.path.join(ROOT, "tests", "parity")]
    lost, looked = [], 0
    for name in tracked:
        path = os.path.join(ROOT, name)
        for node in defined(path)[1]:
            under = os.path.join(*node.module.split("."))
            places = [os.path.join(top, under) for top in [os.path.dirname(path), *tops]]
            found = [file for place in places for file in (place + ".py", os.path.join(place, "__init__.py")) if os.path.exists(file)]
            if not found:
                continue
            looked += 1
            there = defined(found[0])[0]
            beside = os.path.dirname(found[0])
            for alias in node.names:
                if alias.name not in there and not os.path.exists(os.path.join(beside, alias.name + ".py")):
                    lost.append(f"{name}: {alias.name} of {node.module}")
    assert not lost, lost
    assert looked > 100, looked


@test()
def licences():
    """Each source file names its licence in its first lines."""
    tracked = builds.run("git", "-C", ROOT, "ls-files").splitlines()
    named = re.compile(r"\.(rs|c|cpp|hpp|h|py|pl|rb|php|sh|ac|am|m4)$|^scripts/|^\.ci/|^tests/run$")
    bare = []
    for path in filter(named.search, tracked):
        with open(os.path.join(ROOT, path), encoding="utf-8") as text:
            head = "".join(text.readline() for _ in range(5))
        if "SPDX-License-Identifier: MPL-2.0" not in head:
            bare.append(path)
    assert not bare, f"no licence line: {bare}"


@test()
def third_party():
    """THIRD-PARTY.md names the crates that are linked, and no others."""
    with open(os.path.join(ROOT, "THIRD-PARTY.md"), encoding="utf-8") as text:
        library, command = text.read().split("| crate of the command |")

    def linked(package):
        words = ("--features", "verbs", "-e", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}")
        tree = cargo("tree", "--quiet", "--locked", "--package", package, *words)
        return {line.split()[0] for line in tree.splitlines() if line} - {"zmq-rdma", "zmq-rdma-cli"}

    def check(table, want):
        named = set(re.findall(r"^\| ([a-z][\w-]*)(?: \(.*\))? \|", table, re.MULTILINE)) - {"crate"}
        assert want and named == want, f"not named: {want - named}; named in vain: {named - want}"

    ours = linked("zmq-rdma")
    check(library, ours)
    check(command, linked("zmq-rdma-cli") - ours)


@test()
def least_rust():
    """No crate of the lock file asks for a later Rust than Cargo.toml says is enough."""
    host = re.search(r"^host: (\S+)$", builds.run("rustc", "-vV"), re.MULTILINE).group(1)
    said = cargo("metadata", "--locked", "--format-version", "1", "--all-features", "--filter-platform", host)
    line = next(line for line in said.splitlines() if line.startswith("{"))
    asked = [(p["name"], p["rust_version"]) for p in json.loads(line)["packages"] if p["rust_version"]]

    def number(version):
        return tuple(int(n) for n in (version + ".0").split(".")[:2])

    least = number(dict(asked)["zmq-rdma"])
    late = [(name, version) for name, version in asked if number(version) > least]
    assert len(asked) > 5 and not late, f"ask for a later Rust: {late}"
