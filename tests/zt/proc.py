# SPDX-License-Identifier: MPL-2.0
"""Peers: a function of the test's module run in a process of its own, with a
line of JSON each way for what the two must agree on."""

import json
import os
import select
import signal
import subprocess
import sys
import time

import zt

_MAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "main.py")
_channel = None


class PeerFailed(AssertionError):
    """The peer raised, or ended without a word."""


class Peer:
    """A running peer. `hear` what it says, `tell` it something, `result` at its end."""

    def __init__(self, function, *arguments, env=None, stderr=None):
        path = function.__code__.co_filename
        self.name = function.__name__
        self.process = subprocess.Popen(
            [zt.PYTHON, _MAIN, "peer", path, self.name, json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(stderr, "wb") if stderr else None,
            env=dict(os.environ, **_device(), **(env or {})),
        )
        self._left = b""
        _peers.append(self)

    @property
    def pid(self):
        """Process id."""
        return self.process.pid

    def _line(self, timeout):
        end = time.monotonic() + timeout
        pipe = self.process.stdout.fileno()
        while b"\n" not in self._left:
            left = end - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise PeerFailed(f"peer {self.name} said nothing for {timeout:.0f} s")
            part = os.read(pipe, 65536)
            if not part:
                raise PeerFailed(f"peer {self.name} ended with {self.process.wait()}")
            self._left += part
        line, self._left = self._left.split(b"\n", 1)
        return json.loads(line)

    def hear(self, timeout=None):
        """What the peer says next."""
        word = self._line(timeout or zt.WAIT)
        if "error" in word:
            print(word["error"], file=sys.stderr)
            last = word["error"].strip().splitlines()[-1]
            raise PeerFailed(f"in peer {self.name}: {last}")
        if "said" not in word:
            raise PeerFailed(f"peer {self.name} is done, and should have said something")
        return word["said"]

    def heard(self):
        """Whether it has said something already (does not wait)."""
        return b"\n" in self._left or bool(select.select([self.process.stdout], [], [], 0)[0])

    def silent(self, seconds):
        """Whether it says nothing for so long."""
        return not self._left and not select.select([self.process.stdout], [], [], seconds)[0]

    def tell(self, value=None):
        """Say something to the peer."""
        self.process.stdin.write(json.dumps(value).encode() + b"\n")
        self.process.stdin.flush()

    def result(self, timeout=None):
        """What the peer's function returned; then it has ended."""
        word = self._line(timeout or zt.WAIT)
        if "error" in word:
            print(word["error"], file=sys.stderr)
            last = word["error"].strip().splitlines()[-1]
            raise PeerFailed(f"in peer {self.name}: {last}")
        if "done" not in word:
            raise PeerFailed(f"peer {self.name} said {word}, and should have ended")
        self.process.wait(zt.WAIT)
        return word["done"]

    def ended(self, timeout=None):
        """Wait for the end of a peer that leaves without a last word; its exit code."""
        return self.process.wait(timeout or zt.WAIT)

    def stop(self):
        """SIGSTOP; returns once none of its threads can do anything more."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def kill(self, how=signal.SIGKILL):
        """Send a signal; after SIGKILL also collect the process."""
        self.process.send_signal(how)
        if how == signal.SIGKILL:
            self.process.wait(zt.WAIT)


def _device():
    """What chooses the device of peers, where it is not the test's own (ZT_PEER_DEVICE)."""
    device = os.environ.get("ZT_PEER_DEVICE")
    return {"ZMQ_RDMA_DEVICE": device} if device else {}


_peers = []


def take_channel():
    """In a peer: keep stdout for the channel alone; stray prints go to stderr."""
    global _channel  # pylint: disable=global-statement
    _channel = os.dup(1)
    os.dup2(2, 1)


def send(word):
    """One word on the channel."""
    data = json.dumps(word).encode() + b"\n"
    while data:
        data = data[os.write(_channel, data):]


def say(value=None):
    """In a peer: say something to the test."""
    send({"said": value})


def ask():
    """In a peer: wait for what the test tells."""
    line = sys.stdin.readline()
    if not line:
        os._exit(3)
    return json.loads(line)
