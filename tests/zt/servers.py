# SPDX-License-Identifier: MPL-2.0
"""Servers that several tests start as peers."""

import zmq

from zt.proc import ask, say
from zt.sock import any_port, bound, context, sock


def echo_once(scheme):
    """Sends back one message, then does nothing more: to be stopped, or left idle."""
    with context() as ctx:
        dealer = sock(ctx, zmq.DEALER)
        say(bound(dealer, any_port(scheme)))
        dealer.send(dealer.recv())
        ask()
