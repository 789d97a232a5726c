# SPDX-License-Identifier: MPL-2.0
"""Builds the measuring program against a libzmq, and runs it; runs rstream beside it."""

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
#: Seconds after which a measurement hangs.
BOUND = 300


def fail(why):
    """End with a line."""
    sys.exit(f"perf/run: {why}")


def need(tool, package):
    """A tool's path, or the end and what to install."""
    path = shutil.which(tool)
    if not path:
        fail(f"no {tool}: apt-get install {package}")
    return path


def output_of(command, **options):
    """What a command prints; if it fails, so do we, with its words."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        fail(f"{shlex.join(command)} ended with {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


class Bench:
    """The measuring program, linked with the libzmq below `prefix`, or with the one that pkg-config finds."""

    def __init__(self, prefix, directory, host):
        need("pkg-config", "pkg-config")
        env = dict(os.environ)
        if prefix:
            path = os.path.join(os.path.abspath(prefix), "lib", "pkgconfig")
            if not os.path.exists(os.path.join(path, "libzmq.pc")):
                fail(f"no libzmq is installed in {prefix}: {path}/libzmq.pc is not there")
            env["PKG_CONFIG_PATH"] = path
        words = shlex.split(output_of(["pkg-config", "--cflags", "--libs", "libzmq"], env=env))
        where = [word[2:] for word in words if word.startswith("-L")]
        words += [f"-Wl,-rpath,{path}" for path in where]
        compiler = shlex.split(os.environ.get("CC", "")) or [need("cc", "gcc")]
        self.program = os.path.join(directory, "bench")
        sources = sorted(glob.glob(os.path.join(HERE, "*.c")))
        flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-o", self.program]
        output_of(compiler + flags + sources + words + ["-lpthread"])
        self.host = host
        about = json.loads(output_of([self.program, "schemes"]))
        self.version, self.schemes = about["version"], about["schemes"]
        self.library = self._library()

    def _library(self):
        for line in output_of(["ldd", self.program]).splitlines():
            if "libzmq" in line and "=>" in line:
                return os.path.realpath(line.split("=>")[1].split()[0])
        return "linked statically"

    def measure(self, what, scheme, size, ms, peers, io_threads, env):
        """One measurement; the figures that the program tells."""
        command = [self.program, what, scheme, self.host] + [str(n) for n in (size, ms, peers, io_threads)]
        words = output_of(command, env=dict(os.environ, **env), timeout=BOUND)
        try:
            return json.loads(words)
        except ValueError:
            return fail(f"{shlex.join(command)} says {words!r}")


def rdma_devices():
    """RDMA devices of this machine."""
    return sorted(os.path.basename(path) for path in glob.glob("/sys/class/infiniband/*"))


def rstream(what, size, ms, host, port, sockets=False):
    """The same by rsockets (rdmacm-utils), whose figures are means. `sockets`: by the kernel's TCP instead."""
    # About so many as a slow device does in the time.
    count = max(10, min(20000, int(ms * 20 / (1 + size / 4096))))
    trips, transfers = (count, 1) if what == "latency" else (1, count)
    words = ["rstream", "-p", str(port), "-S", str(size), "-I", str(trips), "-C", str(transfers)]
    words += ["-T", "s"] if sockets else []
    server = subprocess.Popen(words + ["-b", host], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        # It does not say when it listens.
        for _ in range(50):
            done = subprocess.run(words + ["-s", host], capture_output=True, text=True, check=False, timeout=BOUND)
            row = re.findall(r"^\S+\s+.*?([0-9.]+)\s+([0-9.]+)\s*$", done.stdout, re.MULTILINE)
            if row:
                break
            time.sleep(0.1)
        else:
            fail(f"{shlex.join(words)}: {done.stdout} {done.stderr}")
    finally:
        server.kill()
        server.wait()
    each = max(float(row[-1][1]), 0.001)
    if what == "latency":
        return {"trips": trips, "mean_us": each}
    return {"messages": count, "messages_s": 1e6 / each, "bytes_s": size * 1e6 / each}
