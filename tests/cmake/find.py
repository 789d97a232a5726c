# SPDX-License-Identifier: MPL-2.0
"""A CMake project finds the library, and its programs talk over it."""

import os

import zt
from zt import test
from zt.link import call, linked, need, scratch

HERE = os.path.dirname(os.path.abspath(__file__))


def _project(by, where):
    """Configure and build the project; its directory."""
    need("cmake", "cmake")
    directory = scratch()
    env = dict(os.environ, **where)
    call(["cmake", "-S", HERE, "-B", directory, f"-DBY={by}", "-DCMAKE_BUILD_TYPE=Release"], env=env)
    call(["cmake", "--build", directory, "-j2"], env=env)
    return directory


def _shared(directory, name):
    program = os.path.join(directory, name)
    library = linked(program)
    assert os.path.realpath(library).startswith(os.path.realpath(zt.libdir()) + "/"), library
    call([program, zt.SCHEME])


@test(bound=120)
def config():
    """find_package(ZeroMQ): targets libzmq and libzmq-static."""
    where = {"CMAKE_PREFIX_PATH": os.path.dirname(zt.libdir()), "PKG_CONFIG_PATH": ""}
    directory = _project("config", where)
    _shared(directory, "c_shared")
    _shared(directory, "cpp_shared")
    program = os.path.join(directory, "c_static")
    assert linked(program) is None, "linked with the shared library"
    call([program, zt.SCHEME], env={k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"})


@test(bound=120)
def pkg_config():
    """pkg_check_modules(libzmq)."""
    directory = _project("pkg-config", {"PKG_CONFIG_PATH": os.path.join(zt.libdir(), "pkgconfig")})
    _shared(directory, "c_shared")
    _shared(directory, "cpp_shared")
