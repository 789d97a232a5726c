# SPDX-License-Identifier: MPL-2.0
"""What connections cost on two hosts, and that it is given back."""

import os
import time

import zmq
from peer import message
from two import WAIT, Peer, run, say

ROUNDS = 100


def books(kind, pid):
    """What the kernel keeps for this host's RDMA device and process, and for the other's."""
    found = {}
    for host, process in (("near", os.getpid()), ("far", pid)):
        lines = run(host, "rdma", "resource", "show").splitlines()
        found[host] = next(line.split(":", 1)[1].strip() for line in lines if f" {kind}h:" in line)
        count = run(host, "sh", "-c", f"ls /proc/{process}/fd | wc -l").strip()
        found[host] += f", {count} descriptors"
    return found


def resident(host, pid):
    """Resident memory of a process, in KiB."""
    return int(run(host, "sh", "-c", f"sed -n 's/^VmRSS:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/{pid}/status"))


def settled(kind, pid, wanted):
    """The books once they are as wanted, or as they stay."""
    end = time.monotonic() + WAIT
    while (now := books(kind, pid)) != wanted and time.monotonic() < end:
        time.sleep(0.5)
    return now


def at_rest(kind, pid):
    """The books once they do not change."""
    last = None
    while last != (now := books(kind, pid)):
        last = now
        time.sleep(2)
    return last


def cycles(kind):
    """Three times 100 connections of this process, one after the other, each of which carries a
    message. What leaks leaks in each hundred; a chunk that is kept is taken once."""
    os.environ["ZMQ_RDMA_DEVICE"] = "verbs"
    endpoint = "rdma://10.80.0.2:6200"
    pull = Peer("far", "pull", "bind", endpoint)
    ctx = zmq.Context()
    number = 0

    def rounds(count):
        nonlocal number
        for _ in range(count):
            push = ctx.socket(zmq.PUSH)
            push.connect(endpoint)
            push.send(message(number))
            number += 1
            push.close(20000)
            # One after the other: between connections nothing has an order.
            word = pull.ask("got", until=number)
            assert word["missed"] == 0, word

    rounds(20)
    before, memory = at_rest(kind, pull.pid), [resident("far", pull.pid)]
    for _ in range(3):
        rounds(ROUNDS)
        after = settled(kind, pull.pid, before)
        memory.append(resident("far", pull.pid))
        assert after == before
    for host, was in before.items():
        say(f"{host} before 3 times {ROUNDS} connections: {was}")
        say(f"{host} after: {after[host]}")
    say(f"memory of the server: {memory} KiB")
    assert min(now - then for then, now in zip(memory, memory[1:])) < 128
    pull.quit()
    ctx.term()
