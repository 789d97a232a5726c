# SPDX-License-Identifier: MPL-2.0
"""A C program, linked with pkg-config: shared and static."""

import os
import shlex

import zt
from zt import test
from zt.link import build, call, exchange, need

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "exchange.c")


def _compiler():
    words = shlex.split(os.environ.get("CC", "cc"))
    need(words[0], "gcc")
    return words


def _flags():
    strict = ["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    return strict + (["-DWITH_ZMQ_RDMA_H"] if zt.SCHEME == "rdma" else [])


@test(bound=120)
def shared():
    """Against libzmq.so."""
    exchange(_compiler(), SOURCE, False, *_flags())


@test(bound=120)
def static():
    """Against libzmq.a, with what libzmq.pc lists for it."""
    exchange(_compiler(), SOURCE, True, *_flags())


@test(bound=120, needs="ZMQ_RDMA_PREFIX")
def stats():
    """The counters of zmq_rdma.h, as a C program reads them."""
    call([build(_compiler(), SOURCE.replace("exchange.c", "stats.c"), False, *_flags())])
