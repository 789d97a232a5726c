# SPDX-License-Identifier: MPL-2.0
"""Run with the distribution's Python, where our package took libzmq5's place: two
processes exchange messages over rdma://."""

import subprocess
import sys

import zmq


def reply(endpoint):
    """The other process: answers each message with its length."""
    with zmq.Context() as ctx, ctx.socket(zmq.REP) as sock:
        sock.connect(endpoint)
        for _ in range(3):
            sock.send(b"%d" % len(sock.recv()))


def main():
    """Ask, and check the answers."""
    assert zmq.has("rdma"), "libzmq has no rdma"
    with zmq.Context() as ctx, ctx.socket(zmq.REQ) as sock:
        sock.rcvtimeo = 30000
        port = sock.bind_to_random_port("rdma://127.0.0.1")
        peer = subprocess.Popen([sys.executable, __file__, f"rdma://127.0.0.1:{port}"])
        for size in (0, 1000, 1000000):
            sock.send(bytes(size))
            assert sock.recv() == b"%d" % size
        assert peer.wait(30) == 0
    print("talked over rdma:// with libzmq", zmq.zmq_version())


if len(sys.argv) > 1:
    reply(sys.argv[1])
else:
    main()
