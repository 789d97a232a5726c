# SPDX-License-Identifier: MPL-2.0
"""What is installed is stock libzmq's, and zmq_rdma_* besides."""

import glob
import os
import re

import builds
from zt import ROOT, test


@test()
def exports():
    """The shared library shows stock's symbols and the header's, no others."""
    have, want = builds.exported(builds.ours()), builds.exported(builds.stock())
    assert len(want) > 50, f"stock exports only {len(want)} symbols"
    assert builds.entries(), "zmq_rdma.h declares no function"
    assert not want - have, f"missing: {sorted(want - have)}"
    assert have - want == builds.entries(), f"besides stock's: {sorted(have - want)}"


@test()
def soname():
    """The name under which programs load it is stock's."""
    assert builds.dynamic(builds.ours(), "SONAME") == builds.dynamic(builds.stock(), "SONAME") == ["libzmq.so.5"]


@test()
def loads_no_more():
    """Programs load what stock loads; rdma-core only if it is used."""
    library = os.path.join(builds.ours(), "lib", "libzmq.so.5")
    undefined = builds.run("nm", "-D", "--undefined-only", library)
    allowed = {name for name in ("libibverbs.so.1", "librdmacm.so.1") if re.search(r" (ibv|rdma)_", undefined)}
    # the dynamic loader itself, where thread-local storage asks for it
    allowed |= {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    more = set(builds.dynamic(builds.ours(), "NEEDED")) - set(builds.dynamic(builds.stock(), "NEEDED"))
    assert more <= allowed, f"needs besides: {sorted(more)}"


@test()
def row_31_no_memory_hooks():
    """The library stands between nobody and his memory: it defines none of the allocator's or the
    kernel's names, and asks the loader for none behind his back."""
    library = os.path.join(builds.ours(), "lib", "libzmq.so.5")
    words = {"malloc", "calloc", "realloc", "free", "memalign", "posix_memalign", "aligned_alloc", "valloc", "reallocarray"}
    words |= {"mmap", "mmap64", "munmap", "mremap", "madvise", "brk", "sbrk", "shmat", "shmdt", "fork", "vfork", "clone"}
    for where in (library, os.path.join(builds.ours(), "lib", "libzmq.a")):
        defined = builds.run("nm", *(["-D"] if where == library else []), "--defined-only", where)
        taken = {line.split()[-1].split("@")[0] for line in defined.splitlines() if len(line.split()) == 3}
        assert len(taken) > 50 and not words & taken, f"{where} defines {sorted(words & taken)}"
    wanted = builds.run("nm", "-D", "--undefined-only", library)
    stock = builds.run("nm", "-D", "--undefined-only", os.path.join(builds.stock(), "lib", "libzmq.so.5"))
    names = [{line.split()[-1].split("@")[0] for line in text.splitlines()} for text in (wanted, stock)]
    hooks = {name for name in names[0] - names[1] if re.search(r"_hook$|^dlsym$|^dlvsym$|^userfaultfd$|^mallopt$", name)}
    assert not hooks - {"dlsym"}, f"it asks for {sorted(hooks)}"


@test()
def nothing_unresolved():
    """Every symbol that the library wants is there at load time."""
    text = builds.run("ldd", "-r", os.path.join(builds.ours(), "lib", "libzmq.so.5"))
    assert "undefined symbol" not in text and "not found" not in text


@test()
def archive_is_closed():
    """libzmq.a has the Rust object in it, and shows nothing of Rust's."""
    archive = os.path.join(builds.ours(), "lib", "libzmq.a")
    have = builds.symbols(archive, "-g")
    assert builds.entries() <= set(have)
    rust = [name for name in have if re.match(r"_R|__?rust|rust_|_ZN(3std|4core|5alloc)", name)]
    assert not rust, f"visible: {rust[:5]} and {len(rust)} in all"
    members = builds.run("ar", "t", archive).split()
    assert not [name for name in members if name.endswith(".a")], "an archive in the archive"


@test()
def headers():
    """The three headers are installed, zmq_rdma.h as it is in the tree."""
    include = os.path.join(builds.ours(), "include")
    assert {"zmq.h", "zmq_utils.h", "zmq_rdma.h"} <= set(os.listdir(include))
    installed = open(os.path.join(include, "zmq_rdma.h"), encoding="utf-8").read()
    assert installed == open(os.path.join(ROOT, "include", "zmq_rdma.h"), encoding="utf-8").read()
    for name in ("zmq.h", "zmq_utils.h"):
        mine = open(os.path.join(include, name), encoding="utf-8").read()
        assert mine == open(os.path.join(builds.stock(), "include", name), encoding="utf-8").read()


@test()
def manual_page():
    """zmq_rdma(7) and zmq-rdma(1) are installed, and man can show them."""
    for name in ("man7/zmq_rdma.7", "man1/zmq-rdma.1"):
        page = os.path.join(builds.ours(), "share", "man", name)
        text = open(page, encoding="utf-8").read()
        assert ".SH \"NAME\"" in text and "rdma://" in text.replace("\\", ""), name


@test()
def nothing_else_is_installed():
    """Beside stock's files there are the header, the command, the pages and what CMake reads, no more."""

    def files(prefix):
        found = glob.glob(os.path.join(prefix, "**"), recursive=True)
        return {os.path.relpath(path, prefix) for path in found if not os.path.isdir(path)}

    more = files(builds.ours()) - files(builds.stock())
    assert more == {
        "bin/zmq-rdma",
        "include/zmq_rdma.h",
        "lib/cmake/ZeroMQ/ZeroMQConfig.cmake",
        "lib/cmake/ZeroMQ/ZeroMQConfigVersion.cmake",
        "share/man/man1/zmq-rdma.1",
        "share/man/man7/zmq_rdma.7",
    }, sorted(more)
    assert not files(builds.stock()) - files(builds.ours())


@test()
def second_make_does_nothing():
    """When nothing changed, make neither compiles nor calls cargo."""
    build = builds.variable("ZMQ_RDMA_BUILD")
    text = builds.run("make", "-C", build, "CARGO=/bin/false")
    assert not re.search(r"\b(CXX|CC|CXXLD|CCLD|Compiling|Finished)\b", text), "it built something"


@test(bound=120)
def staged_install():
    """DESTDIR gets the same files, and uninstall takes each away again."""
    build = builds.variable("ZMQ_RDMA_BUILD")
    with builds.scratch() as stage:
        builds.run("make", "-C", build, "install", f"DESTDIR={stage}")
        staged = stage + builds.ours()

        def files(top):
            return sorted(
                os.path.relpath(os.path.join(where, name), top) for where, _, names in os.walk(top) for name in names
            )

        assert files(staged) == files(builds.ours())
        builds.run("make", "-C", build, "uninstall", f"DESTDIR={stage}")
        assert not files(stage), files(stage)
