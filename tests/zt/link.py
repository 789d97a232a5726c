# SPDX-License-Identifier: MPL-2.0
"""Compile and link a program against the installed library, as pkg-config says."""

import os
import shlex
import shutil
import subprocess

import zt


def need(tool, package):
    """The path of a tool, or a failure that says what to install."""
    path = shutil.which(tool)
    if not path:
        raise zt.Missing(f"no {tool}: apt-get install {package}")
    return path


def call(command, **options):
    """Run a command to its end; its output goes to the log, and is returned."""
    print("$", shlex.join(command), flush=True)
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        timeout=zt.seconds_left(),
        **options,
    )
    print(done.stdout, flush=True)
    words = done.stdout.strip().splitlines()
    last = words[-1] if words else "no output"
    assert done.returncode == 0, f"{os.path.basename(command[0])} ended with {done.returncode}: {last}"
    return done.stdout


def pkg_config(*words):
    """What pkg-config says of the installed libzmq."""
    need("pkg-config", "pkg-config")
    path = os.path.join(zt.libdir(), "pkgconfig")
    output = call(["pkg-config", *words, "libzmq"], env=dict(os.environ, PKG_CONFIG_PATH=path))
    return shlex.split(output)


def scratch():
    """This test's own directory, empty."""
    path = os.environ["ZT_LOGS"]
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def build(compiler, source, static, *flags):
    """The program of one source file, linked shared or with libzmq.a."""
    program = os.path.join(scratch(), "program")
    words = ["--cflags", "--libs"] + (["--static"] if static else [])
    libs = pkg_config(*words)
    if static:
        # The linker prefers the shared library of the two unless told which file.
        libs = ["-l:libzmq.a" if word == "-lzmq" else word for word in libs]
        if zt.SCHEME == "tcp":
            # Debian's norm.pc names an archive that no package has; stock libzmq.pc passes it on.
            libs = [word for word in libs if word != "libprotokit.a"]
    call(compiler + list(flags) + [source, "-o", program] + libs)
    return program


def linked(program):
    """The shared libzmq that a program is linked with, or None."""
    for line in call(["ldd", program]).splitlines():
        if "libzmq" in line:
            return line.split("=>")[1].split()[0]
    return None


def exchange(compiler, source, static, *flags):
    """Build, check what was linked, run."""
    program = build(compiler, source, static, *flags)
    shared = linked(program)
    if static:
        assert shared is None, f"linked with {shared}, not statically"
        env = dict(os.environ)
        del env["LD_LIBRARY_PATH"]
    else:
        assert os.path.realpath(shared).startswith(os.path.realpath(zt.libdir()) + "/"), shared
        env = None
    call([program, zt.SCHEME], env=env)
