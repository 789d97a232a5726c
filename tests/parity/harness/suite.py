# SPDX-License-Identifier: MPL-2.0
"""The comparison: what passes over tcp passes over the scheme under test."""

import collections
import concurrent.futures
import fnmatch
import json
import os
import threading

from . import Trouble, cases
from .build import Tree, Workshop
from .skips import Skips

#: A case that fails is tried again, alone: a few of libzmq's tests depend on time (and some give themselves up then).
TRIES = 3
#: Where `Suite.build` leaves the names of programs and cases.
LIST = "built.json"


class Runner:
    """Runs cases of programs that are compiled, a line each."""

    def __init__(self, directory, logs=None, jobs=4, slow=1.0, say=print):
        self.slow = slow
        self._say = say
        self.jobs = jobs
        self.directory = os.path.abspath(directory)
        self.logs = os.path.abspath(logs or os.path.join(directory, "logs"))
        self.skips = Skips()
        self.isolated = False
        self._talking = threading.Lock()
        self.count = collections.Counter()

    def programs(self, patterns):
        """(program name, cases) of the programs that the patterns name."""
        raise NotImplementedError

    def select(self, patterns):
        """(program name, cases) for what the patterns name; everything if there are none."""
        chosen = []
        for name, found in self.programs(patterns):
            stale = self.skips.stale(name, found)
            if stale:
                raise Trouble(f"docs/parity.md lists {', '.join(stale)} of {name}, which has no such case")
            wanted = [
                case for case in found
                if not patterns or any(fnmatch.fnmatchcase(f"{name}/{case}", one if "/" in one else one + "/*") for one in patterns)
            ]
            chosen.append((name, wanted))
        return chosen

    def _log(self, scheme, program):
        path = os.path.join(self.logs, scheme, program)
        os.makedirs(path, exist_ok=True)
        return path

    def _once(self, scheme, program, case, bound=cases.BOUND):
        log = os.path.join(self._log(scheme, program), case + ".log")
        return cases.run(os.path.join(self.directory, scheme, program), case, log, self.isolated, bound * self.slow)

    def _tell(self, verdict, words):
        """A line, counted."""
        with self._talking:
            self.count[verdict] += 1
            self._say(f"{verdict} {words}")

    def over_tcp(self, program, case):
        """The outcome over tcp, where that can be had."""
        raise NotImplementedError

    def _again(self, program, case, outcome):
        """A case that failed, or gave itself up, once more, alone; then the same over tcp decides."""
        name = f"{program}/{case}"
        for _ in range(TRIES - 1):
            if outcome.word not in ("fail", "ignore"):
                break
            first, outcome = outcome, self._once("rdma", program, case)
            if outcome.word == "pass":
                self._tell("ok", f"{name} (at a second try; first: {first.why})")
                return
        tcp = self.over_tcp(program, case)
        if tcp.word == "pass":
            self._tell("FAIL", f"{name} {outcome.word} {outcome.why}; it passes over tcp")
        else:
            self._tell("alike", f"{name}: {outcome.word}, and over tcp {tcp.word} {tcp.why}")

    def _skip(self, program, case, reason):
        outcome = self._once("rdma", program, case, cases.SKIP_BOUND)
        if outcome.word == "pass":
            self._tell("FAIL", f"{program}/{case} is listed in docs/parity.md as one that cannot pass, and passes")
        else:
            self._tell("skip", f"{program}/{case} {reason}")

    def run(self, patterns):
        """Run what the patterns name; a line each. Returns whether all is well."""
        chosen = self.select(patterns)
        if not any(found for _, found in chosen):
            raise Trouble("no such case")
        own_network = not os.environ.get("PARITY_SHARED_NETWORK")
        program = os.path.join(self.directory, "rdma", chosen[0][0])
        self.isolated = own_network and cases.can_isolate(program)
        # Cases use fixed ports: without a network each they cannot run side by side.
        jobs = self.jobs if self.isolated else 1
        listed = [(name, case) for name, found in chosen for case in found]
        doubtful = []
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            running = {}
            for name, case in listed:
                reason = self.skips.reason(name, case)
                if reason:
                    running[pool.submit(self._skip, name, case, reason)] = None
                else:
                    running[pool.submit(self._once, "rdma", name, case)] = (name, case)
            for done in concurrent.futures.as_completed(running):
                which, outcome = running[done], done.result()
                if which and outcome.word == "pass":
                    self._tell("ok", f"{'/'.join(which)} {outcome.took:.1f}s")
                elif which:
                    doubtful.append((*which, outcome))
        for name, case, outcome in sorted(doubtful, key=lambda one: one[:2]):
            self._again(name, case, outcome)
        self._say(f"{self.count['alike']} that tcp does not pass here either")
        self._say(f"{self.count['skip']} skipped for the reasons in docs/parity.md")
        self._say(f"{self.count['ok']} passed, {self.count['FAIL']} failed")
        return not self.count["FAIL"]


class Suite(Runner):
    """All cases of all programs that touch tcp, compiled here."""

    def __init__(self, tree, directory, host="127.0.0.1", **words):
        super().__init__(directory, **words)
        self.tree = Tree(tree)
        self.ours = Workshop(self.tree, os.path.join(self.directory, "rdma"), "rdma", host)
        self.theirs = Workshop(self.tree, os.path.join(self.directory, "tcp"), "tcp", host)

    def programs(self, patterns):
        for name in self.tree.programs():
            if not patterns or any(fnmatch.fnmatchcase(name, one.split("/")[0]) for one in patterns):
                yield name, cases.names(self.ours.program(name))

    def over_tcp(self, program, case):
        """Good enough if one of several runs is."""
        self.theirs.program(program)
        for _ in range(TRIES):
            outcome = self._once("tcp", program, case)
            if outcome.word == "pass":
                break
        return outcome

    def build(self, patterns):
        """Compile what the patterns name, for a `Built` to run."""
        with open(os.path.join(self.directory, LIST), "w", encoding="utf-8") as out:
            json.dump(dict(self.programs(patterns)), out)


class Built(Runner):
    """What a `Suite` has built: runs where nothing can be compiled."""

    def programs(self, patterns):
        with open(os.path.join(self.directory, LIST), encoding="utf-8") as built:
            return json.load(built).items()

    def listed(self, patterns):
        """Names of the cases that the patterns name and that can pass."""
        for name, found in self.select(patterns):
            yield from (f"{name}/{case}" for case in found if not self.skips.reason(name, case))

    def over_tcp(self, program, case):
        """As known from where it was built: there each case passes, or is skipped."""
        return cases.Outcome("pass")
