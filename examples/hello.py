# SPDX-License-Identifier: MPL-2.0
"""hello.py [ENDPOINT]: pyzmq over rdma://."""

import sys

import zmq

with zmq.Context() as context, context.socket(zmq.REP) as server, context.socket(zmq.REQ) as client:
    server.bind(sys.argv[1] if len(sys.argv) > 1 else "rdma://127.0.0.1:*")
    endpoint = server.getsockopt_string(zmq.LAST_ENDPOINT)
    client.connect(endpoint)

    client.send(b"hello")
    server.send(server.recv())
    answer = client.recv(copy=False)  # a Frame, which knows its connection
    try:
        device = answer["Rdma-Device"]
    except zmq.ZMQError:  # over another transport
        device = "no RDMA device"
    print(f"{answer.bytes.decode()} over {endpoint} by {device}")
