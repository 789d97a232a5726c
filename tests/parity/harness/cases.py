# SPDX-License-Identifier: MPL-2.0
"""Runs one case of one program, with a bound."""

import os
import re
import signal
import subprocess
import time

from . import Trouble

#: A libzmq test ends itself by an alarm after 60 s; this is for those that do not.
BOUND = 90
#: A case that is skipped is tried all the same, briefly.
SKIP_BOUND = 15

VERDICT = re.compile(r":(PASS|FAIL|IGNORE)(?::|$)", re.M)


class Outcome:
    """What came of a run: `word` is pass, fail or ignore, `why` a line about it, `took` its seconds."""

    def __init__(self, word, why="", took=0.0):
        self.word = word
        self.why = why
        self.took = took


def environment(case, isolated):
    """What a program finds in its environment."""
    env = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "PARITY_NETNS")}
    env["PARITY_CASE"] = case
    if isolated:
        env["PARITY_NETNS"] = "1"
    return env


def can_isolate(program):
    """Whether a program can have a network of its own here."""
    env = environment("?", True)
    try:
        return subprocess.run([program], env=env, capture_output=True, check=False, timeout=20).returncode != 99
    except subprocess.TimeoutExpired:
        return True


def names(program):
    """The cases of a program. A few do more than name them: in a network that has the host, if
    that may be had, and with a bound."""
    process = subprocess.Popen(
        [program], env=environment("?", can_isolate(program)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace",
    )
    try:
        said = process.communicate(timeout=20)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        said = process.communicate()[0]
    found = [line[5:] for line in said.splitlines() if line.startswith("CASE ")]
    if not found:
        raise Trouble(f"{program} names no case: {said[-1000:]}")
    return list(dict.fromkeys(found))


def run(program, case, log, isolated, bound):
    """Run a case; its words are added to `log`."""
    with open(log, "ab") as output:
        output.write(f"-- {os.path.basename(program)} {case}\n".encode())
        output.flush()
        start = output.tell()
        began = time.monotonic()
        process = subprocess.Popen(
            [program],
            cwd=os.path.dirname(log),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment(case, isolated),
            start_new_session=True,
        )
        try:
            code = process.wait(bound)
        except subprocess.TimeoutExpired:
            code = None
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        took = time.monotonic() - began
    with open(log, "rb") as words:
        words.seek(start)
        said = words.read().decode(errors="replace")
    outcome = judge(code, said)
    outcome.took = took
    return outcome


def judge(code, said):
    """The outcome that an exit code and the words of a program tell."""
    verdicts = VERDICT.findall(said)
    lines = [line for line in said.splitlines() if line.strip()]
    failed = [line for line in lines if ":FAIL" in line]
    if code is None or code == -signal.SIGALRM:
        return Outcome("fail", "hang: its time is up")
    if code < 0:
        return Outcome("fail", f"killed by {signal.Signals(-code).name}; last word: {lines[-1][:200] if lines else 'none'}")
    if code == 0 and verdicts and "FAIL" not in verdicts:
        return Outcome("pass" if "PASS" in verdicts else "ignore")
    if code == 77:
        return Outcome("ignore")
    return Outcome("fail", (failed or lines or [f"exit code {code}"])[0][:300])
