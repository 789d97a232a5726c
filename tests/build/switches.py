# SPDX-License-Identifier: MPL-2.0
"""Switches of libzmq's configure mean what they mean there; both builds here
are of what `make dist` packs, without git, one beside its source and one in it."""

import fcntl
import os
import re

import builds
from zt import ROOT, test

#: What a release has besides the files of the repository: what autogen.sh makes.
GENERATED = re.compile(r"^(aclocal\.m4|configure|Makefile\.in|build-aux/[\w.-]+|m4/(libtool|lt\w+|lt~obsolete)\.m4)$")


def packed(directory):
    """Unpack a release tarball, made now, in `directory`; where it lies then."""
    build = builds.variable("ZMQ_RDMA_BUILD")
    with open(os.path.join(build, "dist.lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = builds.run("make", "-C", build, "dist")
        tarball = os.path.join(build, re.search(r"\b(zmq-rdma-[\d.]+)\.tar\.xz", said).group())
        builds.run("tar", "-xJf", tarball, "-C", directory)
        os.unlink(tarball)
    (name,) = os.listdir(directory)
    return os.path.join(directory, name)


def without_git(directory):
    """A PATH on which git fails."""
    path = os.path.join(directory, "no-git")
    os.mkdir(path)
    with open(os.path.join(path, "git"), "w", encoding="ascii", opener=lambda p, f: os.open(p, f, 0o755)) as git:
        git.write("#!/bin/sh\necho 'git was called:' \"$@\" >&2\nexit 70\n")
    return path + ":" + os.environ["PATH"]


def state(directory):
    """What is below a directory, with sizes and times."""
    paths = (os.path.join(where, name) for where, _, names in os.walk(directory) for name in names)
    return {path: (os.stat(path).st_size, os.stat(path).st_mtime_ns) for path in paths}


def built(source, directory, *switches, **variables):
    """Configure, build and install the library alone in `directory`."""
    prefix = os.path.join(directory, "inst")
    variables.setdefault("CXXFLAGS", "-O0")
    os.environ["PATH"] = without_git(directory)
    said = builds.configure(directory, f"--prefix={prefix}", *switches, source=source, **variables)
    builds.run("make", "-j2", cwd=directory)
    builds.run("make", "install", cwd=directory)
    return prefix, said


@test(bound=1500)
def shared_only():
    """--disable-static, --enable-drafts, --disable-curve, clang, a libdir."""
    builds.tool("clang++", "clang")
    with builds.scratch() as source, builds.scratch() as directory:
        source = packed(source)
        before = state(source)
        prefix, said = built(
            source,
            directory,
            "--with-rdma",
            "--disable-static",
            "--enable-drafts",
            "--disable-curve",
            "--without-pgm",
            "--disable-perf",
            "--libdir=${exec_prefix}/lib",
            CC="clang",
            CXX="clang++",
        )
        assert not os.path.exists(os.path.join(prefix, "lib", "libzmq.a"))
        have = builds.exported(prefix)
        assert {"zmq_join", "zmq_rdma_ops"} <= have, "drafts are not in"
        comments = builds.run("readelf", "-p", ".comment", os.path.join(prefix, "lib", "libzmq.so.5"))
        assert "clang" in comments, "not built by CXX"
        assert re.search(r"CURVE +no", said) and re.search(r"PGM +no", said), "the summary"
        platform = open(os.path.join(directory, "libzmq", "src", "platform.hpp"), encoding="utf-8").read()
        assert "define ZMQ_HAVE_CURVE" not in platform and "define ZMQ_HAVE_OPENPGM" not in platform
        assert "ZMQ_BUILD_DRAFT_API" in " ".join(builds.pkg_config(prefix, "--cflags"))
        assert state(source) == before, "the build wrote into its source"


@test(bound=1500)
def static_only():
    """--disable-shared and --disable-symvers; no rdma-core."""
    with builds.scratch() as directory:
        directory = packed(directory)
        prefix, said = built(
            directory, directory, "--with-rdma", "--without-rdma-verbs", "--disable-shared", "--disable-perf"
        )
        assert sorted(os.listdir(os.path.join(prefix, "lib"))) == ["cmake", "libzmq.a", "libzmq.la", "pkgconfig"]
        assert re.search(r"rdma://.*SoftRDMA", said)
        program = os.path.join(directory, "hello")
        flags = builds.pkg_config(prefix, "--cflags", "--libs", "--static")
        builds.run("cc", os.path.join(builds.HERE, "hello.c"), "-o", program, *flags)
        assert "hello over rdma://" in builds.run(program)


@test(bound=120)
def tarball():
    """`make dist` packs every file of the repository, and nothing that merely lies about."""
    with builds.scratch() as directory:
        top = packed(directory)
        have = {os.path.relpath(path, top) for path in state(top)}
    tracked = set(builds.run("git", "-C", ROOT, "ls-files").splitlines())
    others = set(builds.run("git", "-C", ROOT, "ls-files", "--others", "--exclude-standard").splitlines())
    assert len(tracked) > 100 and "src/lib.rs" in have
    missing = tracked - have - {".gitignore"}
    assert not missing, f"not in the tarball: {sorted(missing)}"
    stray = {path for path in have - tracked - others if not GENERATED.match(path)}
    assert not stray, f"in the tarball, and no file of the repository: {sorted(stray)}"


@test(bound=120)
def unknown_values():
    """A value that --with-rdma does not have is refused, and says so."""
    with builds.scratch() as directory:
        said = builds.run(os.path.join(builds.ROOT, "configure"), "--with-rdma=perhaps", cwd=directory, check=False)
        assert "--with-rdma takes no value but yes and no" in said


@test(bound=120)
def no_such_tree():
    """--with-libzmq at a directory that is not libzmq's."""
    with builds.scratch() as directory:
        said = builds.run(os.path.join(builds.ROOT, "configure"), f"--with-libzmq={directory}", cwd=directory, check=False)
        assert "no libzmq source there" in said
