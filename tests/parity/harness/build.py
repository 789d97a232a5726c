# SPDX-License-Identifier: MPL-2.0
"""Compiles the copies with the switches that the tree's own Makefile gives its tests."""

import glob
import os
import shlex
import subprocess

from . import Trouble
from .rewrite import copy, touches_tcp

#: Sources of ours and of libzmq that every test is linked with.
SHARED = ("testutil.cpp", "testutil_monitoring.cpp", "testutil_security.cpp", "testutil_unity.cpp", "cases.cpp", "bridge.cpp")

#: libzmq leaves these out where valgrind is installed; nothing is wrong with them.
ALSO = ("test_fork", "test_socks")


class Tree:
    """A built libzmq tree."""

    def __init__(self, path):
        self.path = os.path.abspath(path)
        if not os.path.exists(os.path.join(self.path, "src", "libzmq.la")):
            raise Trouble(f"no built libzmq in {path}")

    def variables(self, names):
        """The values of variables of the tree's Makefile."""
        rule = "parity-%:\n\t@echo '$*=$($*)'\n"
        done = subprocess.run(
            ["make", "-s", "--no-print-directory", "-f", "Makefile", "-f", "-"] + ["parity-" + name for name in names],
            cwd=self.path, input=rule, capture_output=True, text=True, check=False,
        )
        if done.returncode != 0:
            raise Trouble(f"make in {self.path}: {done.stderr.strip()}")
        return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)

    def programs(self):
        """Names of the tests, as this tree is configured, that touch tcp."""
        listed = self.variables(["TESTS"])["TESTS"].split()
        names = {os.path.basename(one) for one in listed if one.startswith("tests/")}
        names.update(name for name in ALSO if os.path.exists(self._source(name)))
        return sorted(name for name in names if touches_tcp(self._source(name)))

    def _source(self, name):
        return os.path.join(self.path, "tests", name + ".cpp")

    def libdir(self):
        """Where the shared library is."""
        return os.path.join(self.path, "src", ".libs")


class Workshop:
    """Where the copies for one scheme are compiled."""

    def __init__(self, tree, directory, scheme, host="127.0.0.1"):
        self.tree = tree
        self.scheme = scheme
        self.directory = os.path.abspath(directory)
        self.sources = copy(tree.path, self.directory, scheme, host)
        self.flags = tree.variables(["CXX", "CC", "UNITY_CPPFLAGS", "LIBS", "CPPFLAGS"])
        self._objects = None

    def _words(self, name):
        return [
            word.replace("$(top_srcdir)", self.tree.path) for word in shlex.split(self.flags.get(name, ""))
        ]

    def _call(self, command):
        done = subprocess.run(command, cwd=self.sources, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Trouble(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")

    def _headers(self):
        """Whatever a test may include."""
        return [
            path
            for directory in (self.sources, os.path.join(self.tree.path, "include"), os.path.join(self.tree.path, "src"))
            for path in glob.glob(os.path.join(directory, "*.h*"))
        ]

    def _compile(self, source, target, extra=()):
        """Compile unless the object is newer than the source and all headers."""
        newest = max(os.path.getmtime(path) for path in self._headers() + [source])
        if os.path.exists(target) and os.path.getmtime(target) > newest:
            return target
        compiler = "CC" if source.endswith(".c") else "CXX"
        include = [f"-I{self.tree.path}/external/unity", "-I.", "-DUNITY_EXCLUDE_FLOAT"]
        self._call(self._words(compiler) + self._words("CPPFLAGS") + include + list(extra)
                   + ["-O0", "-w", "-c", source, "-o", target])
        return target

    def objects(self):
        """What every program is linked with."""
        if self._objects is None:
            sources = [os.path.join(self.sources, name) for name in SHARED if self.scheme != "tcp" or name != "bridge.cpp"]
            sources.append(os.path.join(self.tree.path, "external", "unity", "unity.c"))
            self._objects = [
                self._compile(source, os.path.join(self.directory, os.path.basename(source) + ".o")) for source in sources
            ]
        return self._objects

    def program(self, name):
        """The path of a test program, compiled and linked."""
        objects = self.objects()
        words = self.tree.variables([f"tests_{name}_{what}" for what in ("SOURCES", "CPPFLAGS", "LDADD")])
        others = [
            os.path.join(self.tree.path, source)
            for source in words[f"tests_{name}_SOURCES"].split()
            if source.endswith(".cpp") and not source.startswith("tests/")
        ]
        extra = [word for word in shlex.split(words[f"tests_{name}_CPPFLAGS"]) if "unity" not in word.lower()]
        extra = [word for word in extra if word.startswith(("-I/", "-D"))]
        own = [os.path.join(self.sources, name + ".cpp")] + others
        mine = [
            self._compile(source, os.path.join(self.directory, f"{name}-{os.path.basename(source)}.o"), extra)
            for source in own
        ]
        libs = [word for word in shlex.split(words[f"tests_{name}_LDADD"]) if word.startswith("-")]
        target = os.path.join(self.directory, name)
        library = os.path.join(self.tree.libdir(), "libzmq.so")
        if not os.path.exists(library):
            raise Trouble(f"no {library}: the tests need the shared library")
        newest = max(map(os.path.getmtime, mine + objects))
        if not os.path.exists(target) or os.path.getmtime(target) < newest:
            self._call(self._words("CXX") + ["-o", target] + mine + objects
                       + [f"-L{self.tree.libdir()}", f"-Wl,-rpath,{self.tree.libdir()}", "-lzmq", "-lpthread"] + libs)
        if self.scheme != "tcp":
            self._check(target)
        return target

    def _check(self, target):
        """A program that still knows tcp:// would prove nothing."""
        with open(target, "rb") as program:
            if b"tcp://" in program.read():
                raise Trouble(f"{target} still has an endpoint of tcp://")
