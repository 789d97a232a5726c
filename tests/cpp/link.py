# SPDX-License-Identifier: MPL-2.0
"""A C++ program, linked with pkg-config: shared and static."""

import os
import shlex

from zt import test
from zt.link import exchange, need

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "exchange.cpp")


def _compiler():
    words = shlex.split(os.environ.get("CXX", "c++"))
    need(words[0], "g++")
    return words


FLAGS = ("-std=c++11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread")


@test(bound=120)
def shared():
    """Against libzmq.so."""
    exchange(_compiler(), SOURCE, False, *FLAGS)


@test(bound=120)
def static():
    """Against libzmq.a, with what libzmq.pc lists for it."""
    exchange(_compiler(), SOURCE, True, *FLAGS)
