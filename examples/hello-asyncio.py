# SPDX-License-Identifier: MPL-2.0
"""hello-asyncio.py [ENDPOINT]: pyzmq's asyncio sockets over rdma://."""

import asyncio
import sys

import zmq
import zmq.asyncio


async def answer_one(server):
    """Send back what comes."""
    await server.send(await server.recv())


async def main(endpoint):
    """Ask, while the other task answers."""
    with zmq.asyncio.Context() as context, context.socket(zmq.REP) as server, context.socket(zmq.REQ) as client:
        server.bind(endpoint)
        endpoint = server.getsockopt_string(zmq.LAST_ENDPOINT)
        client.connect(endpoint)
        answering = asyncio.create_task(answer_one(server))
        await client.send(b"hello")
        answer = await client.recv(copy=False)
        await answering
        try:
            device = answer["Rdma-Device"]
        except zmq.ZMQError:
            device = "no RDMA device"
        print(f"{answer.bytes.decode()} over {endpoint} by {device}")


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "rdma://127.0.0.1:*"))
