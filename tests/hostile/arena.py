# SPDX-License-Identifier: MPL-2.0
"""A server, a good client that never stops talking to it, and the books: what the
hostile ones cost in memory and descriptors, and that the good one lost nothing."""

import os
import resource
import time

import zmq

import zt
from zt.proc import Peer, ask, say
from zt.sock import blob, bound, sock

PAGE = resource.getpagesize() >> 10


def server(options):
    """A ROUTER that echoes. On "flood" it sends a client far more than its mark allows, in messages of a size."""
    ctx = zmq.Context()
    router = sock(ctx, zmq.ROUTER, RCVTIMEO=-1, SNDTIMEO=0, BACKLOG=1000, **options)
    say(bound(router))
    while True:
        name, *parts = router.recv_multipart()
        if parts[0] == b"flood":
            # The router drops what is over the mark.
            for _ in range(10000):
                router.send_multipart([name, bytes(int(parts[1]))])
        elif parts == [b"end"]:
            router.close(300)
            ctx.term()
            say("ended")
            return
        else:
            router.send_multipart([name] + parts)


def talker(endpoint):
    """Sends numbered messages and checks the echoes, a few under way; tells how many when asked."""
    ctx = zmq.Context()
    dealer = sock(ctx, zmq.DEALER, IDENTITY=b"good")
    dealer.connect(endpoint)
    poller = zmq.Poller()
    poller.register(0, zmq.POLLIN)
    poller.register(dealer, zmq.POLLIN)
    sent = got = 0
    while True:
        while sent - got < 8:
            dealer.send_multipart([b"%d" % sent, blob(sent % 100, sent * 37 % 5000)])
            sent += 1
        ready = dict(poller.poll())
        if dealer in ready:
            number, body = dealer.recv_multipart()
            assert int(number) == got, f"{number} after {got - 1}"
            assert body == blob(got % 100, got * 37 % 5000), f"echo {got} is spoilt"
            got += 1
        if 0 in ready:
            if ask() == "end":
                return
            say(got)


class Arena:
    """The server under attack."""

    def __init__(self, **options):
        # Well above what the good one has under way: a ROUTER drops what is over its mark.
        options.setdefault("SNDHWM", 200)
        options.setdefault("RCVHWM", 20)
        log = os.path.join(os.environ["ZT_LOGS"], "server.log")
        os.makedirs(os.environ["ZT_LOGS"], exist_ok=True)
        self.log = log
        self.peer = Peer(server, options, env={"ZMQ_RDMA_LOG": "error", "ZMQ_RDMA_DEVICE": "soft"}, stderr=log)
        self.endpoint = self.peer.hear()
        self.good = Peer(talker, self.endpoint)
        self.echoes = 0
        self.most = 0
        self.goes_on()
        self.before = self.resident()
        self.rest = self.descriptors()

    def resident(self):
        """Resident memory of the server, in KiB."""
        with open(f"/proc/{self.peer.pid}/statm", encoding="ascii") as words:
            now = int(words.read().split()[1]) * PAGE
        self.most = max(self.most, now)
        return now

    def descriptors(self):
        """Open descriptors of the server."""
        return len(os.listdir(f"/proc/{self.peer.pid}/fd"))

    def goes_on(self):
        """The good client has had more echoes, all of them right."""
        assert self.peer.process.poll() is None, "the server is gone"
        before = self.echoes
        while self.echoes < before + 50:
            self.good.tell("how many")
            self.echoes = self.good.hear()
        self.resident() if self.most else None

    def until_closed(self, still=0):
        """Wait until the server has closed all but `still` of what came since the start."""
        end, most = time.monotonic() + zt.WAIT, self.rest + still
        while self.descriptors() > most:
            assert time.monotonic() < end, f"{self.descriptors()} descriptors are open, not {most}"
            self.goes_on()

    def end(self, what, most_kib, still=0):
        """The bad ones are closed, all but `still`; the good one has lost nothing, and the server's memory stayed
        within `most_kib` more."""
        self.until_closed(still)
        self.goes_on()
        grown = self.most - self.before
        print(f"SHOW: {what}: {grown} KiB more at most, {self.echoes} good echoes meanwhile")
        assert grown < most_kib, f"the server grew by {grown} KiB"
        self.good.tell("end")
        self.peer.kill()
        with open(self.log, encoding="utf-8", errors="replace") as log:
            assert "defect" not in log.read(), "a defect in its log"
