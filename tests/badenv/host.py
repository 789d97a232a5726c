# SPDX-License-Identifier: MPL-2.0
"""The program around us: its environment is its own; its standard error is closed, full, or read by
nobody."""

import errno
import os
import resource
import signal

import zmq

import zt
from zt import test
from zt.link import call, need, scratch
from zt.proc import Peer
from zt.sock import Monitor, bound, context, dead_port, sock


# Ends a program in which another thread than the first looks for a variable of ours.
_GETENV = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
char *getenv (const char *name)
{
    if (!strncmp (name, "ZMQ_RDMA_", 9) && syscall (SYS_gettid) != getpid ())
        abort ();
    return ((char *(*) (const char *)) dlsym (RTLD_NEXT, "getenv")) (name);
}
"""


def retrying(endpoint):
    """A connection that stands, and one that is asked for in vain three times."""
    held, port = dead_port()
    with context() as ctx:
        req, push, pull = sock(ctx, zmq.REQ), sock(ctx, zmq.PUSH, RECONNECT_IVL=1), sock(ctx, zmq.PULL)
        watch = Monitor(push)
        bound(pull)
        push.connect(f"{zt.SCHEME}://{zt.HOST}:{port}")
        watch.wait_for("CONNECT_RETRIED", 3)
        req.connect(endpoint)
        req.send(b"question")
        answer = req.recv()
    held.close()
    return answer.decode()


@test()
def environment_is_left_to_its_thread():
    """No thread but those of the program reads the environment: the program may be changing it meanwhile, and
    C frees what a reader looks through."""
    shim = os.path.join(scratch(), "getenv.so")
    source = os.path.join(os.path.dirname(shim), "getenv.c")
    with open(source, "w", encoding="ascii") as text:
        text.write(_GETENV)
    call([need("cc", "gcc"), "-shared", "-fPIC", source, "-o", shim, "-ldl"])
    with context() as ctx:
        rep = sock(ctx, zmq.REP)
        peer = Peer(retrying, bound(rep), env={"LD_PRELOAD": shim})
        assert rep.recv() == b"question"
        rep.send(b"answer")
        assert peer.result() == "answer"


def talker(endpoint, closes):
    """A hundred answers, with standard error as told; a bind that has something to log."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    with context() as ctx:
        req, pull = sock(ctx, zmq.REQ), sock(ctx, zmq.PULL)
        reader, writer = os.pipe()
        if closes == "reader":
            os.dup2(writer, 2)
            os.close(reader)
        elif closes == "nobody":
            os.set_blocking(writer, False)
            try:
                while True:
                    os.write(writer, bytes(4096))
            except BlockingIOError:
                os.set_blocking(writer, True)
            os.dup2(writer, 2)
        else:
            # The socket of the connection gets the number.
            os.close(2)
        req.connect(endpoint)
        for _ in range(100):
            req.send(b"question")
            assert req.recv() == b"answer"
        taken = bound(pull)
        try:
            sock(ctx, zmq.PULL).bind(taken)
        except zmq.ZMQError as error:
            return errno.errorcode[error.errno]
    return "bound twice"


def _talks(closes):
    with context() as ctx:
        rep = sock(ctx, zmq.REP)
        peer = Peer(talker, bound(rep), closes, env={"ZMQ_RDMA_LOG": "trace"})
        for _ in range(100):
            assert rep.recv() == b"question"
            rep.send(b"answer")
        assert peer.result() == "EADDRINUSE"


@test()
def standard_error_without_a_reader():
    """A log line to a pipe that nobody reads any more does not end the process (SIGPIPE)."""
    _talks("reader")


@test()
def standard_error_that_is_full():
    """A log line to a pipe whose reader is stopped holds up no thread."""
    _talks("nobody")


@test()
def standard_error_that_is_closed():
    """A log line does not go into the connection that has the number of a closed standard error."""
    _talks("itself")


def small_files():
    """Counts for other processes, and logs to a file, where no file may grow."""
    with context() as ctx:
        # Python ignores the signal, as few programs do.
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        push.connect(bound(pull))
        push.send(b"hello")
        return pull.recv().decode()


@test()
def no_file_may_grow():
    """A limit on the size of files (ulimit -f) costs counters and log lines, not the process."""
    os.makedirs(os.environ["ZT_LOGS"], exist_ok=True)
    log = os.path.join(os.environ["ZT_LOGS"], "log")
    peer = Peer(small_files, env={"ZMQ_RDMA_LOG": "debug", "ZMQ_RDMA_STATS": "on"}, stderr=log)
    assert peer.result() == "hello"
