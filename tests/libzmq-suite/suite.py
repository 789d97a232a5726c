# SPDX-License-Identifier: MPL-2.0
"""libzmq's own tests, unmodified: our build passes exactly what stock passes.

The test programs of both build trees (what `make check` builds) are run by
hand, several at a time; what fails is run again alone, up to twice, since a
few of them depend on time. The outcomes are compared by name.
"""

import concurrent.futures
import os
import subprocess

import zt
from zt import Missing, test
from zt.link import call, scratch

WORKERS = 4
OUTCOMES = {0: "pass", 77: "skip"}


def tree(variable, guess=None):
    """The libzmq build tree that an environment variable leads to."""
    top = os.environ.get(variable) or guess
    if not top:
        raise Missing(f"{variable} is not set: it names the build directory")
    for path in (os.path.join(top, "libzmq"), top):
        if os.path.exists(os.path.join(path, "tests", "testutil.cpp")) or os.path.exists(
            os.path.join(path, "src", "libzmq.la")
        ):
            return path
    raise Missing(f"{variable}: no built libzmq in {top}")


def programs(path):
    """Build the test programs of a tree; their names, as its Makefile lists them."""
    call(["make", "-s", "-C", path, "-j2", "check", "TESTS="])
    printer = os.path.join(os.environ["ZT_LOGS"], "print.mk")
    with open(printer, "w", encoding="ascii") as rule:
        rule.write("print-%:\n\t@echo $($*)\n")
    words = ["make", "-s", "-C", path, "--no-print-directory", "-f", "Makefile", "-f", printer]
    return sorted(call(words + ["print-TESTS"]).split()), set(call(words + ["print-XFAIL_TESTS"]).split())


def once(path, program, log):
    """One run of one program."""
    with open(log, "ab") as output:
        try:
            code = subprocess.run(
                [os.path.join(path, program)],
                cwd=path,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"},
                timeout=90 * zt.SLOW,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return "hang"
    return OUTCOMES.get(code, "fail")


def outcomes(path, name):
    """The outcome of every program of a tree."""
    listed, expected_to_fail = programs(path)
    logs = os.path.join(os.environ["ZT_LOGS"], name)
    os.makedirs(logs)

    def log_of(program):
        return os.path.join(logs, os.path.basename(program) + ".log")

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        first = pool.map(lambda program: once(path, program, log_of(program)), listed)
        outcome = dict(zip(listed, first))
    for program in listed:
        for again in range(2):
            if outcome[program] in ("fail", "hang") and program not in expected_to_fail:
                print(f"{name}: {program}: {outcome[program]}, once more", flush=True)
                outcome[program] = once(path, program, log_of(program))
    print(f"-- {name} ({path})")
    for program in listed:
        print(f"{outcome[program]:5} {program}")
    return outcome


@test(bound=900, alone=True)
def same_as_stock():
    """The lists of passes are equal."""
    scratch()
    stock_guess = os.path.join(os.path.dirname(os.environ.get("ZMQ_STOCK_PREFIX", "/")), "stock-build")
    stock = outcomes(tree("ZMQ_STOCK_BUILD", os.path.isdir(stock_guess) and stock_guess), "stock")
    passed = [program for program in stock if stock[program] == "pass"]
    assert len(passed) > 80, f"only {len(passed)} of stock's own tests pass: is its build whole?"
    if zt.SCHEME == "tcp":
        return
    ours = outcomes(tree("ZMQ_RDMA_BUILD"), "ours")
    different = [
        f"{program}: {ours.get(program, 'missing')}, stock {stock.get(program, 'missing')}"
        for program in sorted(set(stock) | set(ours))
        if ours.get(program) != stock.get(program)
    ]
    assert not different, "; ".join(different)
    counts = {what: sum(1 for one in ours.values() if one == what) for what in sorted(set(ours.values()))}
    print(f"SHOW: ours and stock alike: {counts}")
