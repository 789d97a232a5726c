# SPDX-License-Identifier: MPL-2.0
"""User instructions a message, sent and received, over SoftRDMA and over libzmq's tcp engine: counted, not timed.

A side runs under callgrind with two numbers of messages; the difference is what the messages take, all threads of
the process together. Busy polling is off, and each side has all its work before it (one_way.c), so the counts are
nearly the same each time. They are compared with those of instructions.json; `tests/run perf/instructions` with
ZT_KEEP_INSTRUCTIONS=1 writes that file anew.
"""

import concurrent.futures
import json
import os
import platform
import re
import signal
import subprocess

import zt
from zt import test
from zt.link import build, need

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "instructions.json")
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "one_way.c")
# bytes, and the two numbers of messages
SIZES = ((64, 7000, 17000), (4096, 400, 1400), (1 << 20, 8, 40))
#: More than this times what is kept fails.
GROWTH = 1.05
#: The same where compilers or processor differ.
GROWTH_ELSEWHERE = 1.25
TOOLS = (["cc", "-dumpversion"], ["rustc", "--version"], ["valgrind", "--version"])


def start(program, words, count_into=None):
    """A side, under callgrind or not."""
    command = [program, *words]
    if count_into:
        command = [need("valgrind", "valgrind"), "--tool=callgrind", f"--callgrind-out-file={count_into}"] + command
    # What malloc does with freed memory now and then is not ours: it shall keep it at hand.
    env = dict(
        os.environ,
        ZMQ_RDMA_BUSY_POLL="never",
        ZMQ_RDMA_DEVICE="soft",
        GLIBC_TUNABLES="glibc.malloc.tcache_count=65535",
    )
    log = open(f"{count_into}.log", "w", encoding="utf-8") if count_into else None
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=env
    )


def finish(process):
    """Its end, in good order."""
    process.stdin.close()
    code = process.wait(zt.WAIT)
    assert code == 0, f"{process.args} ended with {code}"


def total(program, scheme, side, size, count, directory):
    """Instructions of one side of so many messages."""
    into = os.path.join(directory, f"{scheme}-{side}-{size}-{count}")
    receiver = start(program, ["receive", f"{scheme}://{zt.HOST}:*", str(size), str(count)], side == "receive" and into)
    endpoint = receiver.stdout.readline().strip()
    if side == "send":
        receiver.stdin.write("go\n")
        receiver.stdin.flush()
        receiver.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, receiver.pid, os.WSTOPPED | os.WNOWAIT)
    sender = start(program, ["send", endpoint, str(size), str(count)], side == "send" and into)
    assert sender.stdout.readline() == "queued\n", "the sender has failed"
    receiver.send_signal(signal.SIGCONT)
    finish(sender)
    if side == "receive":
        receiver.stdin.write("go\n")
        receiver.stdin.flush()
    finish(receiver)
    with open(into, encoding="utf-8") as profile:
        return int(re.search(r"^(?:summary|totals): (\d+)", profile.read(), re.MULTILINE).group(1))


def each(program, scheme, side, size, few, many, directory):
    """Instructions a message."""
    counts = [total(program, scheme, side, size, count, directory) for count in (few, many)]
    return (counts[1] - counts[0]) / (many - few)


def measure():
    """Of each side, size and scheme."""
    program = build([need("cc", "gcc")], SOURCE, False, "-O2")
    directory = os.path.dirname(program)
    cells = [(side, size, scheme) for side in ("send", "receive") for size in SIZES for scheme in ("rdma", "tcp")]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        counts = pool.map(lambda cell: each(program, cell[2], cell[0], *cell[1], directory), cells)
        return {f"{side} {size[0]} {scheme}": count for (side, size, scheme), count in zip(cells, counts)}


def toolchain():
    """What the counts depend on beside our code."""
    said = [subprocess.run(words, capture_output=True, text=True, check=True).stdout.split() for words in TOOLS]
    with open("/proc/cpuinfo", encoding="ascii") as info:
        flags = re.search(r"^flags\s*: (.*)", info.read(), re.MULTILINE)
    flags = set(flags.group(1).split()) if flags else set()
    return {
        "cc": said[0][0].split(".")[0],
        "rustc": said[1][1],
        "valgrind": said[2][0],
        "processor": " ".join([platform.machine()] + [flag for flag in ("avx2", "pclmulqdq") if flag in flags]),
    }


def table(counts):
    """Lines to show."""
    for side in ("send", "receive"):
        for size, *_ in SIZES:
            ours, tcp = (counts[f"{side} {size} {scheme}"] for scheme in ("rdma", "tcp"))
            yield f"{side:>7} {size:>7} B: rdma {ours:>9,.0f}  tcp {tcp:>6,.0f}  ratio {ours / tcp:.3f}"


@test(bound=240, alone=True, needs="ZMQ_RDMA_PREFIX")
def a_message():
    """Of 64 B, 4 KiB and 1 MiB: no more than is kept, and a twentieth. By other tools than the kept ones, a quarter."""
    counts, here = measure(), toolchain()
    for line in table(counts):
        print("SHOW:", line)
    ours = {name: round(count) for name, count in counts.items() if name.endswith("rdma")}
    if os.environ.get("ZT_KEEP_INSTRUCTIONS"):
        with open(KEPT, "w", encoding="utf-8") as file:
            json.dump({"toolchain": here, "counts": ours}, file, indent=1)
            file.write("\n")
    with open(KEPT, encoding="utf-8") as file:
        kept = json.load(file)
    growth = GROWTH if kept["toolchain"] == here else GROWTH_ELSEWHERE
    if growth != GROWTH:
        print(f"SHOW: kept by {kept['toolchain']}, here {here}: may be {growth} times as much")
    assert kept["counts"].keys() == ours.keys(), "kept are others: ZT_KEEP_INSTRUCTIONS=1 keeps these"
    for name, count in ours.items():
        before = kept["counts"][name]
        assert count <= before * growth, f"{name}: {count} instructions a message, {count / before:.2f} times those kept"
        if count < before / GROWTH and growth == GROWTH:
            print(f"SHOW: {name}: {count}, was {before}: keep it (ZT_KEEP_INSTRUCTIONS=1)")
