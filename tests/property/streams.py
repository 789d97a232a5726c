# SPDX-License-Identifier: MPL-2.0
"""Random cases over two processes: types of sockets, sizes, parts, marks, and ends good and bad.

Each message tells its stream and its number, and carries a checksum. What
arrives is in order, whole, and complete up to a close. A case is drawn from its
number alone; `tests/run --cases N --seed S property` runs as many as one likes.
"""

import os
import signal
import time

import zmq

import zt
from case import draw, kind_of
from player import Player
from zt import cases, test
from zt.proc import Peer, ask, say


def worker():
    """B: plays its side of case after case."""
    while True:
        job = ask()
        if job is None:
            return
        _play(job["case"], job["phase"], job["endpoint"])


def _play(case, phase, endpoint):
    player = Player(zmq.Context(), case, "B", phase)
    at = player.start(endpoint)
    if phase:
        player.begin(phase)
    say(at)
    share = case["at"]

    def part():
        total = player.count() * len(player.ports)
        return not total or sum(player.sent().values()) >= share * total

    def enough():
        fate = case["fate"]
        if fate == "kill" and not phase:
            return False
        if fate == "abandon":
            return player.all_sent() and player.done >= share * case["forth"]
        if fate == "drop":
            return part() and player.done >= share * case["forth"]
        return player.all_sent() and player.all_received()

    if case["fate"] == "leave":
        player.control = 0
        _until_left(player)
        player.close(0)
    else:
        player.run(enough)
        player.close(0 if case["fate"] == "drop" else -1)
    say({"seen": player.seen(), "sent": player.sent()})


def _until_left(player):
    """A closes some time and says what it has sent: all of that arrives."""
    poller = zmq.Poller()
    poller.register(0, zmq.POLLIN)
    player.run(lambda: bool(poller.poll(0)))
    player.control = None
    sent = ask()
    player.run(lambda: not _missing(player.seen(), sent), sends=False)


def _missing(seen, sent):
    """Streams of which not all that was sent has come, to all sockets together."""
    have = {}
    for socket in seen:
        for name, numbers in socket.items():
            have.setdefault(name, set()).update(numbers)
    return [name for name, count in sent.items() if have.get(name, set()) != set(range(count)) and count]


class Case:
    """A's part of one case, and its word on what B has seen."""

    def __init__(self, number, peer):
        self.case = draw(number)
        self.peer = peer
        self.player = Player(zmq.Context(), self.case, "A")
        self.player.watch()
        self.told = None

    def play(self):
        """Play it to its end; returns the peer for the next case."""
        at = self.player.start() if self.player.binds else None
        self._call(at, 0)
        getattr(self, "_" + self.case["fate"])()
        return self.peer

    def _call(self, at, phase):
        """Have B play; if B binds, connect to it."""
        self.peer.tell({"case": self.case, "phase": phase, "endpoint": at})
        answer = self.peer.hear()
        self.player.control = self.peer.process.stdout.fileno()
        if not self.player.binds and not phase:
            self.player.start(answer)
        self.endpoint = answer

    def _ended(self):
        """Whether B has said its last word of this case."""
        if self.told is None and self.peer.heard():
            self.told = self.peer.hear()
        return self.told is not None

    def _finish(self):
        """Both have all; then both have closed."""
        self.player.run(lambda: self.player.all_sent() and self.player.all_received())
        self.player.run(self._ended)
        self._no_doubles(self.told["seen"])
        self.player.close(-1)

    def _no_doubles(self, seen):
        """Sockets among which a stream is dealt out have no message twice."""
        if self.player.binds and self.player.kind in ("PUSH", "DEALER", "PAIR"):
            for name in {name for socket in seen for name in socket}:
                numbers = [number for socket in seen for number in socket.get(name, ())]
                assert len(numbers) == len(set(numbers)), f"{name}: twice"

    _close = _finish

    def _stop(self):
        total = self._total()
        for stop in range(3):
            self.player.run(lambda stop=stop: self.player.done >= total * (self.case["at"] + stop) / 4 or self._ended())
            if self._ended():
                break
            self.peer.stop()
            self.player.idle()
            os.kill(self.peer.pid, signal.SIGCONT)
        self._finish()

    def _total(self):
        """Messages that go through A's sockets."""
        return (self.case["forth"] + self.case["back"]) * self.case["links"]

    def _kill(self):
        links, total = self.case["links"], self._total()
        if self.player.kind == "XPUB":
            total = self.case["forth"]
        self.player.run(lambda: self.player.done >= total * self.case["at"] and self.player.links()[0] == links)
        self.peer.kill()
        # What A still sends may be on its way to the dead one.
        self.player.run(lambda: self.player.links()[0] == 0, sends=False)
        # A PAIR that has not read all of its peer's turns the next one away, and tells nobody: over tcp too.
        self.player.idle(sends=False)
        self.peer = Peer(worker)
        if self.player.binds:
            self.player.begin(1)
            self._call(self.endpoint, 1)
        else:
            self._call(self.endpoint, 1)
            self.player.begin(1)
        self._finish()

    def _abandon(self):
        """B has closed with all sent: A gets it all, and B a beginning of each of A's streams."""
        self.player.run(lambda: self.player.all_received() and self._ended())
        self._close_at_once()

    def _drop(self):
        """B has dropped what it had: A has a beginning of it."""
        self.player.run(self._ended)
        self.player.idle()
        self._close_at_once()

    def _close_at_once(self):
        self._no_doubles(self.told["seen"])
        self._no_gaps(self.told["seen"])
        self._no_gaps(self.player.seen())
        self.player.close(0)

    def _no_gaps(self, seen):
        """A stream that came to one socket alone has no gap up to its end."""
        for socket in seen:
            for name, numbers in socket.items():
                alone = name[0] != self.case["binder"] or not self._deals_out(name[0])
                assert not alone or numbers == list(range(len(numbers))), f"{name}: a gap"

    def _deals_out(self, side):
        """Whether a side's stream is dealt out among the sockets across."""
        return self.case["links"] > 1 and kind_of(self.case, side) in ("PUSH", "DEALER")

    def _leave(self):
        """A closes in the middle, without waiting for B's streams: B gets all that A has sent."""
        # A publisher's one stream goes to all.
        total = max(1, self.case["forth"] * (1 if self.player.kind == "XPUB" else self.case["links"]))
        self.player.run(
            lambda: (self.player.links()[0] + self.player.links()[1] >= self.case["links"])
            and (not self.case["forth"] or sum(self.player.sent().values()) >= self.case["at"] * self.case["forth"])
            and self.player.done >= min(3, total)
        )
        sent = self.player.sent()
        if self.player.kind == "XPUB":
            sent = {name: count for name, count in sent.items() if count}
        self.peer.tell(sent)
        self.player.close(-1)
        told = self.peer.hear()
        assert not _missing(told["seen"], sent), f"missing: {_missing(told['seen'], sent)}"
        self._no_doubles(told["seen"])


@test(bound=150, only="rdma")
def random_streams():
    """Random cases, each checked message by message."""
    peer, begun, fates = Peer(worker), time.monotonic(), {}
    numbers = cases(120)
    for number in numbers:
        case = Case(number, peer)
        print(case.case, flush=True)
        try:
            peer = case.play()
        except BaseException:
            print(f"case {number}: {case.player.sent()} {case.player.links()}", flush=True)
            raise
        fates[case.case["fate"]] = fates.get(case.case["fate"], 0) + 1
    peer.tell(None)
    took = time.monotonic() - begun
    print(f"SHOW: {len(numbers)} cases from {numbers.start} on in {took:.0f} s: {fates}")
