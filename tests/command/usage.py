# SPDX-License-Identifier: MPL-2.0
"""What all of the command has in common; and `info`."""

import os
import re
import subprocess

import tool

from zt import ROOT, test


@test(needs="ZMQ_RDMA_PREFIX")
def exit_codes():
    """Help and version are no fault; what is not understood is 2, and not on standard output."""
    code, said, _ = tool.run("--version")
    assert code == 0 and re.fullmatch(r"zmq-rdma \d+\.\d+\.\d+\n", said), said
    assert tool.run("--help")[0] == 0
    for words in ((), ("doctors",), ("top", "x"), ("perf", "--sizes", "0"), ("doctor", "--timeout", "0")):
        code, said, error = tool.run(*words)
        assert code == 2 and said == "" and error, (words, code, said)


@test(needs="ZMQ_RDMA_PREFIX")
def the_manual_knows_every_word():
    """Each command and each option is in zmq-rdma(1), and nothing else is."""
    with open(os.path.join(ROOT, "docs", "zmq-rdma.adoc"), encoding="utf-8") as text:
        manual = text.read()
    told = set(re.findall(r"--[a-z]+", manual))
    commands = re.findall(r"^  ([a-z]+) ", tool.run("--help")[1], re.MULTILINE)
    assert {"doctor", "info", "perf", "top"} <= set(commands), commands
    known = set()
    for command in set(commands) - {"help"}:
        assert f"*zmq-rdma {command}" in manual, command
        known |= set(re.findall(r"--[a-z]+", tool.run(command, "--help")[1]))
    assert told == known - {"--help", "--version"}, (told ^ known)


@test(needs="ZMQ_RDMA_PREFIX")
def a_closed_pipe_is_no_fault():
    """Who reads the first line and goes ends it in silence."""
    for words in (("info",), ("doctor",), ("--help",), ("--json", "info")):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([tool.path(), *words], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
        os.close(write)
        assert done.returncode == 0 and done.stderr == "", (words, done.returncode, done.stderr)


@test(needs="ZMQ_RDMA_PREFIX")
def info():
    """Versions, the library beside it, the variables with their values."""
    code, report = tool.value("info", env={"ZMQ_RDMA_CRC": "0", "ZMQ_RDMA_LOG": "loud"})
    assert code == 0
    assert report["library"]["rdma"] and report["library"]["path"].startswith(
        os.path.realpath(os.environ["ZMQ_RDMA_PREFIX"]) + "/"
    ), report["library"]
    options = {option["name"]: option for option in report["options"]}
    assert options["ZMQ_RDMA_CRC"]["value"] == "off"
    assert options["ZMQ_RDMA_LOG"]["value"] is None and "trace" in options["ZMQ_RDMA_LOG"]["error"]
    assert options["ZMQ_RDMA_DEVICE"]["socket_option"] == 21060 and options["ZMQ_RDMA_LOG"]["socket_option"] is None
    assert options["ZMQ_RDMA_DEVICE"]["value"] == options["ZMQ_RDMA_DEVICE"]["default"] == "auto"
    words = tool.run("info")[1]
    assert all(name in words for name in options), words


@test(needs="ZMQ_RDMA_PREFIX")
def info_of_an_address():
    """Which device would serve; loopback is soft's."""
    for address in ("127.0.0.1", "rdma://127.0.0.1:5555", "::1", "[::1]:5"):
        code, report = tool.value("info", address)
        assert code == 0 and report["serving"] == "soft", (address, report["serving"])
    assert tool.run("info", "no address")[0] == 1
    assert tool.run("info", "127.0.0.1", env={"ZMQ_RDMA_DEVICE": "verbs"})[0] == 1
