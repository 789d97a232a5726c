# SPDX-License-Identifier: MPL-2.0
"""What is used is given back: descriptors and memory stay flat, idle connections cost nothing."""

import os
import resource
import time

import zmq

import zt
from zt import test
from zt.sock import Monitor, bound, context, dead_port, sock


def descriptors():
    """Open descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


def resident():
    """Resident memory of this process, in KiB."""
    with open("/proc/self/statm", encoding="ascii") as words:
        return int(words.read().split()[1]) * resource.getpagesize() // 1024


def threads():
    """Threads of this process."""
    return len(os.listdir("/proc/self/task"))


def settled(count):
    """Wait until no more than `count` descriptors are open: closing is done by other threads."""
    end = time.monotonic() + zt.WAIT
    while descriptors() > count and time.monotonic() < end:
        time.sleep(0.005)
    return descriptors()


def at_rest():
    """The number of descriptors once it has stopped falling."""
    least, since = descriptors(), time.monotonic()
    while time.monotonic() - since < 0.3:
        time.sleep(0.005)
        if descriptors() < least:
            least, since = descriptors(), time.monotonic()
    return least


def flat(cycle, rounds, warm_up, slack_kib):
    """Run `cycle` again and again; descriptors come back, memory does not grow."""
    rounds, warm_up = zt.some(rounds), zt.some(warm_up)
    for number in range(warm_up):
        cycle(number)
    fds, memory, tasks = at_rest(), resident(), threads()
    for number in range(rounds):
        cycle(number)
        if number % 20 == 19:
            # Let the closing catch up, or the memory of those under way looks like growth.
            settled(fds)
    fds_after, memory_after = settled(fds), resident()
    print(
        f"SHOW: {rounds} cycles: descriptors {fds} -> {fds_after}, "
        f"resident {memory} -> {memory_after} KiB, threads {tasks} -> {threads()}"
    )
    assert fds_after <= fds, f"descriptors grew from {fds} to {fds_after} in {rounds} cycles"
    assert memory_after - memory < slack_kib, f"resident memory grew from {memory} to {memory_after} KiB"
    assert threads() <= tasks + 1, f"threads grew from {tasks} to {threads()}"


@test(bound=240)
def connects():
    """10,000 connections made, used and closed."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        endpoint = bound(pull)

        def cycle(number):
            push = sock(ctx, zmq.PUSH)
            push.connect(endpoint)
            push.send(b"%d" % number + bytes(number % 7 * 5000))
            assert pull.recv().startswith(b"%d" % number)
            push.close(0 if number % 2 else None)

        flat(cycle, 10000, 300, 4096)


@test(bound=150)
def listeners():
    """500 listeners made, used and closed."""
    with context() as ctx:

        def cycle(number):
            pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
            push.connect(bound(pull))
            push.send(b"%d" % number)
            assert pull.recv() == b"%d" % number
            pull.close()
            push.close()

        flat(cycle, 500, 200, 4096)


@test(bound=150)
def contexts():
    """200 whole contexts with a connection each."""

    def cycle(number):
        with context() as ctx:
            pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
            push.connect(bound(pull))
            push.send(bytes(100000))
            assert len(pull.recv()) == 100000 and number >= 0

    flat(cycle, 200, 60, 6144)


@test(bound=150)
def refusals():
    """Retries against a dead port, and connects cut before they are made."""
    with context() as ctx:
        held, port = dead_port()

        def cycle(number):
            push = sock(ctx, zmq.PUSH, RECONNECT_IVL=1)
            push.connect(f"{zt.SCHEME}://{zt.HOST}:{port}")
            if number % 2:
                watch = Monitor(push, zmq.EVENT_CONNECT_RETRIED)
                watch.until("CONNECT_RETRIED")
                push.disable_monitor()
                watch.socket.close(0)
            push.close(0)

        flat(cycle, 300, 100, 4096)
        held.close()


@test(bound=150)
def large_messages():
    """Large messages leave no memory behind."""
    with context() as ctx:
        pull, push = sock(ctx, zmq.PULL), sock(ctx, zmq.PUSH)
        push.connect(bound(pull))
        data = bytes(8 << 20)

        def cycle(number):
            push.send(data)
            assert len(pull.recv()) == len(data) and number >= 0

        flat(cycle, 100, 20, 24576)


@test(bound=150, alone=True)
def idle():
    """500 idle connections use no processor time, and little memory each."""
    with context() as ctx:
        router = sock(ctx, zmq.ROUTER, BACKLOG=1000)
        endpoint = bound(router)
        before = resident()
        dealers = [sock(ctx, zmq.DEALER) for _ in range(500)]
        for dealer in dealers:
            dealer.connect(endpoint)
            dealer.send(b"hello")
        for _ in dealers:
            router.recv_multipart()
        each = (resident() - before) / len(dealers)
        used = time.process_time()
        time.sleep(3)
        used = time.process_time() - used
        print(f"SHOW: 500 idle connections: {used / 3 * 100:.1f} % of a processor, {each:.0f} KiB each (both ends)")
        assert used < 1.5 * zt.SLOW, f"{used:.2f} s of processor time in 3 idle seconds"
