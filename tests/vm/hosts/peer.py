# SPDX-License-Identifier: MPL-2.0
"""One end of a connection between the lab's hosts: a libzmq socket in a process
of its own, which speaks JSON, a line each, on its standard input and output.

`peer.py push|pull bind|connect ENDPOINT [OPTION=VALUE...]`

It says {"pid": N} first, then {"event": NAME, "value": N, "endpoint": TEXT, "at":
SECONDS of the monotonic clock} for what its monitor tells, and answers:
  {"flow": SECONDS}  push: send a message each so often from now on (0: as fast as they go)
  {"hold": 0}        push: stop -> {"sent": how many since the start}
  {"until": N}       pull: -> once the message with number N - 1 or a later one is here: {"got": the
                     number after the latest, "first": the first one's, "missed": how many
                     between the two did not come, "device": by which device}
  {"quit": 0}        close in good order and end -> {"done": 0}
Messages are numbered from 0, of many sizes, and carry a checksum. A message that
is torn, or not younger than the one before it, ends the process.
"""

import json
import os
import struct
import sys
import time
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))

import zmq  # noqa: E402
from zt.sock import Monitor  # noqa: E402

SIZES = (16, 40, 200, 1000, 4000, 16, 9000, 100, 30, 70000)
HEAD = struct.Struct("!QI")


def say(**word):
    """A line to whoever started us."""
    os.write(1, json.dumps(word).encode() + b"\n")


def message(number):
    """The message of this number."""
    size = SIZES[number % len(SIZES)] - HEAD.size
    unit = struct.pack("!Q", number * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF)
    body = (unit * (size // 8 + 1))[:size]
    return HEAD.pack(number, zlib.crc32(body)) + body


class Pull:
    """What came."""

    def __init__(self):
        self.first = None
        self.next = 0
        self.missed = 0
        self.wanted = None
        self.device = None

    def take(self, frame):
        """One message."""
        data = memoryview(frame.buffer)
        number, check = HEAD.unpack(data[: HEAD.size])
        assert zlib.crc32(data[HEAD.size :]) == check, f"message {number} is torn"
        assert len(data) == SIZES[number % len(SIZES)], f"message {number} has {len(data)} bytes"
        assert number >= self.next, f"message {number} after {self.next - 1}"
        if self.first is None:
            self.first = self.next = number
        self.missed += number - self.next
        self.next = number + 1
        self.device = frame.get("Rdma-Device")

    def answer(self):
        """Tell that what was waited for is here."""
        if self.wanted is not None and self.next >= self.wanted:
            say(got=self.next, first=self.first, missed=self.missed, device=self.device)
            self.wanted = None


class Push:
    """What goes."""

    def __init__(self):
        self.number = 0
        self.pause = None
        self.due = 0.0

    def wait_ms(self):
        """Until the next message is due; None: none is."""
        if self.pause is None:
            return None
        return max(0, (self.due - time.monotonic()) * 1000)


def drain(data, pull):
    """Take in what is there, up to some."""
    for _ in range(100):
        try:
            pull.take(data.recv(zmq.NOBLOCK, copy=False))
        except zmq.Again:
            break
    pull.answer()


def fill(data, push):
    """Send what is due, up to some."""
    for _ in range(20):
        if push.wait_ms() != 0:
            break
        try:
            data.send(message(push.number), zmq.NOBLOCK)
        except zmq.Again:
            break
        push.number += 1
        push.due = time.monotonic() + push.pause


def orders(lines, push, pull):
    """What we are told; whether to go on."""
    for line in lines:
        order = json.loads(line)
        if "flow" in order:
            push.pause, push.due = order["flow"], time.monotonic()
        elif "hold" in order:
            push.pause = None
            say(sent=push.number)
        elif "until" in order:
            pull.wanted = order["until"]
        else:
            return False
    return True


def loop(data, watch, is_push):
    """Until told to quit."""
    push, pull = Push(), Pull()
    poller = zmq.Poller()
    poller.register(0, zmq.POLLIN)
    poller.register(watch.socket, zmq.POLLIN)
    left = b""
    while True:
        wait = push.wait_ms() if is_push else None
        if not is_push:
            poller.register(data, zmq.POLLIN)
        elif wait == 0:
            poller.register(data, zmq.POLLOUT)
            wait = None
        elif data in poller:
            poller.unregister(data)
        ready = dict(poller.poll(wait))
        if watch.socket in ready:
            name, value, endpoint = watch.next()
            say(event=name, value=value, endpoint=endpoint, at=time.monotonic())
        if 0 in ready:
            part = os.read(0, 65536)
            if not part:
                return
            *lines, left = (left + part).split(b"\n")
            if not orders(lines, push, pull):
                return
            pull.answer()
        if is_push:
            fill(data, push)
        else:
            drain(data, pull)


def main(kind, way, endpoint, *options):
    """Open the socket, serve, close it."""
    say(pid=os.getpid())
    ctx = zmq.Context()
    data = ctx.socket(zmq.PUSH if kind == "push" else zmq.PULL)
    data.setsockopt(zmq.SNDHWM, 100)
    data.setsockopt(zmq.RCVHWM, 100)
    for option in options:
        name, value = option.split("=")
        data.setsockopt(getattr(zmq, name), int(value))
    watch = Monitor(data)
    try:
        getattr(data, way)(endpoint)
    except zmq.ZMQError as what:
        say(error=str(what))
        os._exit(1)
    loop(data, watch, kind == "push")
    data.disable_monitor()
    watch.socket.close(0)
    data.close(20000)
    ctx.term()
    say(done=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
