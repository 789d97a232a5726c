# SPDX-License-Identifier: MPL-2.0
"""The two hosts as a test on the first one sees them: commands on either, peers
(peer.py) on either, and the link between them."""

import json
import os
import select
import signal
import socket
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.environ.get("LAB_RESULTS", "/results")
NAME = os.environ.get("LAB_TEST", "hosts")
#: Seconds after which a wait is taken for a hang.
WAIT = 60
NEAR, FAR = "10.80.0.1", "10.80.0.2"


def say(*words):
    """A line of the run's summary."""
    print("lab:", *words, flush=True)


def order(word):
    """An order to the second host, and the connection that it went by."""
    end = time.monotonic() + WAIT
    while True:
        try:
            link = socket.create_connection(("10.99.0.2", 7000), WAIT)
            break
        except OSError:
            # It boots beside this one, and may take longer.
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
    link.sendall(json.dumps(word).encode() + b"\n")
    return link


def ask_far(**word):
    """What the second host answers to an order."""
    with order(word) as link, link.makefile() as answer:
        return json.loads(answer.readline())


def run(host, *argv, may_fail=False):
    """Run a command on "near" or "far", to its end; its output."""
    if host == "near":
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        status, output = done.returncode, done.stdout
    else:
        done = ask_far(run=argv)
        status, output = done["status"], done["output"]
    assert may_fail or status == 0, f"{host}: {' '.join(argv)}: {output.strip()}"
    return output


def both(*argv, may_fail=False):
    """Run a command on both hosts."""
    for host in ("far", "near"):
        run(host, *argv, may_fail=may_fail)


class Peer:
    """A running peer.py."""

    def __init__(self, host, *arguments, prefix=(), env=None):
        self.host = host
        self.left = b""
        self.events = []
        self.label = f"{NAME}-{host}-{arguments[0]}"
        self.log = os.path.join(RESULTS, self.label + ".err")
        argv = [*prefix, "/usr/bin/python3", os.path.join(HERE, "peer.py"), *arguments]
        env = dict(env or {}, LD_LIBRARY_PATH=os.environ["LD_LIBRARY_PATH"], ZMQ_RDMA_LOG="info")
        env.setdefault("ZMQ_RDMA_DEVICE", "verbs")
        if host == "near":
            ours, theirs = socket.socketpair()
            with open(self.log, "ab") as log:
                subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=log, env=dict(os.environ, **env))
            theirs.close()
            self.link = ours
            self.skew = 0.0
        else:
            before = time.monotonic()
            clock = ask_far(clock=0)["clock"]
            # By so much the other host's clock is ahead of ours.
            self.skew = clock - (before + time.monotonic()) / 2
            self.link = order({"start": argv, "env": env, "log": self.log})
        first = self.next_word()
        assert "pid" in first, first
        self.pid = first["pid"]

    def next_word(self, timeout=WAIT):
        """What the peer says next."""
        end = time.monotonic() + timeout
        while b"\n" not in self.left:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.link], [], [], left)[0]:
                raise AssertionError(f"{self.label} said nothing for {timeout:.0f} s; {self.told()}")
            part = self.link.recv(65536)
            if not part:
                raise AssertionError(f"{self.label} has ended; {self.told()}: {self.last_words()}")
            self.left += part
        line, self.left = self.left.split(b"\n", 1)
        word = json.loads(line)
        if "event" in word:
            word["at"] -= self.skew
            self.events.append(word)
        return word

    def told(self):
        """The names of its events."""
        return " ".join(event["event"] for event in self.events)

    def last_words(self):
        """The end of what it wrote to its log."""
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()[-1500:]

    def wait_event(self, *names, timeout=WAIT):
        """The next event of one of these names."""
        end = time.monotonic() + timeout
        while True:
            word = self.next_word(end - time.monotonic())
            if word.get("event") in names:
                return word

    def quiet(self):
        """What it has said by now; events are kept."""
        while select.select([self.link], [], [], 0)[0] or b"\n" in self.left:
            self.next_word()

    def tell(self, **word):
        """An order."""
        self.link.sendall(json.dumps(word).encode() + b"\n")

    def ask(self, answer, timeout=WAIT, **word):
        """An order, and the answer that has this field."""
        self.tell(**word)
        return self.await_answer(answer, timeout)

    def await_answer(self, answer, timeout=WAIT):
        """The word that has this field."""
        end = time.monotonic() + timeout
        while True:
            word = self.next_word(end - time.monotonic())
            if answer in word:
                return word

    def signal(self, number):
        """Send it a signal."""
        if self.host == "near":
            os.kill(self.pid, number)
        else:
            ask_far(kill=self.pid, signal=int(number))

    def kill(self):
        """kill -9."""
        self.signal(signal.SIGKILL)
        self.link.close()

    def quit(self):
        """End in good order."""
        self.ask("done", quit=0)
        self.link.close()

    def log_lines(self, *words):
        """Lines of its log that contain one of these."""
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return [line.strip() for line in log if any(word in line for word in words)]


def device_up(kind):
    """A new RDMA device of this kind, and no other, on the data card of both hosts, and
    the link as it should be."""
    other = {"rxe": "siw", "siw": "rxe"}[kind]
    module = {"rxe": "rdma_rxe", "siw": "siw"}[kind]
    for host in ("far", "near"):
        number = "2" if host == "far" else "1"
        script = f"""
            set -e
            . {HERE}/../guest/lib.sh
            lab_modules {module}
            modprobe -q sch_netem || :
            tc qdisc del dev data root 2>/dev/null || :
            ip link set data up
            ip addr replace 10.80.0.{number}/24 dev data
            for name in {other}h {kind}h; do
                [ ! -e /sys/class/infiniband/$name ] || rdma link delete $name
            done
            rdma link add {kind}h type {kind} netdev data
            lab_permit
        """
        run(host, "bash", "-c", script)
    run("near", "busybox", "ping", "-c", "1", "-W", "5", FAR)


def netem(*rule):
    """What happens to packets, on their way out of either host."""
    both("tc", "qdisc", "replace", "dev", "data", "root", "netem", *rule)


def heal():
    """Packets pass again."""
    both("tc", "qdisc", "del", "dev", "data", "root")
