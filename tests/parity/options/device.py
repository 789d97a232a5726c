# SPDX-License-Identifier: MPL-2.0
"""The one option that tcp does not have. What it does: python/devices."""

import errno

import zmq
from reach import covers

from zt import test
from zt.sock import context, sock

#: zmq_rdma.h's, which no binding knows.
OPTION, ENVIRONMENT, AUTO, VERBS, SOFT = 21060, -1, 0, 1, 2


def _refused(socket, value):
    """The errno of setting it, or None."""
    try:
        socket.setsockopt(OPTION, value)
    except zmq.ZMQError as error:
        return error.errno
    return None


@test()
@covers("ZMQ_RDMA_DEVICE")
def choice_of_device():
    """ZMQ_RDMA_DEVICE reads back, takes its four values and no other."""
    with context() as ctx:
        socket = sock(ctx, zmq.PULL)
        assert socket.getsockopt(OPTION) == ENVIRONMENT
        for value in (AUTO, VERBS, SOFT, ENVIRONMENT):
            assert _refused(socket, value) is None
            assert socket.getsockopt(OPTION) == value
        for value in (-2, 3, 1 << 30):
            assert _refused(socket, value) == errno.EINVAL
        assert socket.getsockopt(OPTION) == ENVIRONMENT
