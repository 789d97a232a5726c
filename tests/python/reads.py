# SPDX-License-Identifier: MPL-2.0
"""Bad days of large messages that are READ: forks, stopped processes, next to no memory that may be locked."""

import os
import resource
import signal

import zmq

from rendezvous import FROM, MIB, any_port, stats, switch
from zt import test
from zt.proc import Peer, ask, say
from zt.sock import blob, bound, context, sock

SIZE = 2 * MIB


def body(number):
    """One of three large bodies."""
    return blob(number % 3, SIZE)


def taker(count, marks):
    """Takes so many, checks each, and says so at `marks`; tells what was READ."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL, RCVHWM=1)
        say(bound(pull, any_port()))
        bodies = [body(n) for n in range(3)]
        for number in range(count):
            got = pull.recv(copy=False).buffer
            assert got == bodies[number % 3], f"body {number} is another"
            if number in marks:
                say(number)
                ask()
        return stats().read_from_peer


def giver(endpoint, count):
    """Sends so many."""
    with context() as ctx:
        push = sock(ctx, zmq.PUSH, SNDHWM=1)
        push.connect(endpoint)
        for number in range(count):
            push.send(body(number))
        push.close(linger=-1)


@test(needs="ZMQ_RDMA_PREFIX", bound=120)
def forks_midway():
    """Children that end at once, or become another program, or write all over what they have inherited: the
    parent's READs go on."""
    switch(FROM)
    count = 30
    peer = Peer(taker, count, [])
    with context() as ctx:
        push = sock(ctx, zmq.PUSH, SNDHWM=2)
        push.connect(peer.hear())
        kept = [bytearray(body(n)) for n in range(3)]
        for number in range(count):
            push.send(kept[number % 3], copy=False)
            if number % 3:
                continue
            child = os.fork()
            if not child:
                if number % 2:
                    os.execv("/bin/true", ["true"])
                for one in kept:
                    one[:] = bytes(SIZE)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        read = peer.result()
        assert read > (count - 1) * (SIZE - 100), read


@test(needs="ZMQ_RDMA_PREFIX", bound=120)
def a_receiver_is_stopped_midway():
    """With READs under way the receiver is stopped until nothing more can be sent, and goes on: all arrive."""
    switch(FROM)
    count = 24
    peer = Peer(taker, count, [3, 9])
    with context() as ctx:
        push = sock(ctx, zmq.PUSH, SNDHWM=1, SNDTIMEO=300)
        push.connect(peer.hear())
        sent = stops = 0
        while sent < count:
            try:
                push.send(body(sent), copy=False)
                sent += 1
            except zmq.Again:
                # It has said where it is, and waits; or it is stopped, and the last send has shown that it is full.
                if stops < 2:
                    stops += 1
                    peer.hear()
                    peer.stop()
                    peer.tell()
                    try:
                        while sent < count:
                            push.send(body(sent), copy=False)
                            sent += 1
                    except zmq.Again:
                        pass
                    os.kill(peer.pid, signal.SIGCONT)
        assert stops == 2
        assert peer.result() > (count - 1) * (SIZE - 100)


@test(needs="ZMQ_RDMA_PREFIX", bound=120)
def a_sender_is_stopped_midway():
    """The sender of what is READ is stopped now and then: nothing comes, and when it goes on, all."""
    switch(FROM)
    count = 24
    with context() as ctx:
        pull = sock(ctx, zmq.PULL, RCVHWM=1, RCVTIMEO=300)
        peer = Peer(giver, bound(pull, any_port()), count)
        got = 0
        while got < count:
            if got in (4, 12):
                peer.stop()
            try:
                assert pull.recv() == body(got), f"body {got} is another"
                got += 1
            except zmq.Again:
                os.kill(peer.pid, signal.SIGCONT)
        os.kill(peer.pid, signal.SIGCONT)
        peer.result()
        assert stats().read_from_peer > (count - 1) * (SIZE - 100)


def pinched(function, *arguments):
    """A peer that may lock 64 KiB of memory."""
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (min(65536, before[1]) if before[1] >= 0 else 65536, before[1]))
    try:
        return Peer(function, *arguments)
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, before)


@test(needs="ZMQ_RDMA_PREFIX", bound=120)
def next_to_nothing_may_be_locked():
    """With 64 KiB of memory that may be locked on either side, or both: all arrive, READ or copied."""
    switch(FROM)
    count = 6
    for first, second in ((pinched, Peer), (Peer, pinched), (pinched, pinched)):
        takes = first(taker, count, [])
        gives = second(giver, takes.hear(), count)
        takes.result()
        gives.result()
