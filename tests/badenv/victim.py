# SPDX-License-Identifier: MPL-2.0
"""A server that is attacked, and a good client that must not notice."""

import os
import re
import time

import zmq

import zt
from zt.proc import Peer, say
from zt.sock import bound, sock


def server(options):
    """Echoes until it is killed."""
    ctx = zmq.Context()
    rep = sock(ctx, zmq.REP, RCVTIMEO=-1, **options)
    say(bound(rep))
    while True:
        rep.send(rep.recv())


class Victim:
    """A server process with its log, and a client of it in this process."""

    def __init__(self, ctx, level="info", **options):
        self.log = os.path.join(os.environ["ZT_LOGS"], "victim.log")
        os.makedirs(os.environ["ZT_LOGS"], exist_ok=True)
        self.peer = Peer(server, options, env={"ZMQ_RDMA_LOG": level}, stderr=self.log)
        self.endpoint = self.peer.hear()
        self.good = sock(ctx, zmq.REQ)
        self.good.connect(self.endpoint)
        self._count = 0
        self.unharmed()

    def unharmed(self):
        """The good client still has its answers."""
        for _ in range(3):
            self._count += 1
            self.good.send(b"%d" % self._count * 100)
            assert self.good.recv() == b"%d" % self._count * 100
        assert self.peer.process.poll() is None, "the server is gone"

    def said(self):
        """Its log so far."""
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def says(self, pattern):
        """Wait for a log line; only our own transport has a log."""
        if zt.SCHEME == "rdma":
            wait_for_line(self.said, pattern)

    def end(self):
        """It is alive to the last, and told of no defect."""
        self.unharmed()
        self.peer.kill()
        assert "defect" not in self.said(), re.search(".*defect.*", self.said()).group(0)


def wait_for_line(said, pattern):
    """Wait until what `said` returns matches."""
    end = time.monotonic() + zt.WAIT
    while not re.search(pattern, said()):
        assert time.monotonic() < end, f"nothing like /{pattern}/ in the log; it says: {said()[-600:]}"
        time.sleep(0.02)
