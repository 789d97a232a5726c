# SPDX-License-Identifier: MPL-2.0
"""What a case of the property test is: drawn from its number alone."""

import random

#: Socket types of A (the test) and B (the peer), and whether each direction carries a stream.
KINDS = {
    "push-pull": ("PUSH", "PULL", True, False),
    "pull-push": ("PULL", "PUSH", False, True),
    "pair": ("PAIR", "PAIR", True, True),
    "dealers": ("DEALER", "DEALER", True, True),
    "router-dealer": ("ROUTER", "DEALER", True, True),
    "dealer-router": ("DEALER", "ROUTER", True, True),
    "xpub-sub": ("XPUB", "SUB", True, False),
    "sub-xpub": ("SUB", "XPUB", False, True),
}
#: How a case ends: in good order; B is stopped now and then; B is killed and comes back; B closes with
#: all sent and not all read; B closes without linger; A closes in the middle.
FATES = ("close", "stop", "kill", "abandon", "drop", "leave")
EDGES = tuple(edge + delta for edge in (64, 255, 4096, 8192, 16384, 65536) for delta in (-10, -9, -1, 0, 1))


def draw(number):
    """The case of this number, as JSON can carry it."""
    dice = random.Random(f"rdma property {number}")
    kind = dice.choice(list(KINDS))
    fate = dice.choice(FATES)
    a_kind, b_kind, forth, back = KINDS[kind]
    # A router learns of its peers by what they send: it binds. The publisher too, to be subscribed to by all.
    binder = {"ROUTER": "A", "XPUB": "A"}.get(a_kind) or {"ROUTER": "B", "XPUB": "B"}.get(b_kind) or dice.choice("AB")
    scale = dice.choice(("small", "mixed", "edges", "large"))
    count = {"small": 800, "mixed": 200, "edges": 150, "large": 25}[scale]
    # The narrowest windows move little at a time: not the large messages.
    buffers = {"small": (-1, 1, 4096), "large": (-1, 100000)}.get(scale, (-1, 4096, 100000))
    marks = (0, 1, 2, 10, 1000)
    options = [
        {
            "SNDHWM": dice.choice(marks),
            "RCVHWM": dice.choice(marks),
            "SNDBUF": dice.choice(buffers),
            "RCVBUF": dice.choice(buffers),
        }
        for _ in "AB"
    ]
    return {
        "number": number,
        "kind": kind,
        "fate": fate,
        "binder": binder,
        "links": 1 if kind == "pair" else dice.choice((1, 1, 2, 4)),
        "scale": scale,
        "forth": dice.randint(1, count) if forth else 0,
        "back": dice.randint(1, count) if back else 0,
        "options": options,
        "at": dice.random(),
        "burst": dice.choice((1, 3, 50)),
    }


def kind_of(case, side):
    """The socket type of a side."""
    return KINDS[case["kind"]]["AB".index(side)]


def sizes(case, stream):
    """Endless sizes of messages, as lists of the sizes of their parts."""
    dice = random.Random(f"{case['number']} {stream}")
    while True:
        parts = dice.choice((1, 1, 1, 2, 3, 7))
        yield [_size(dice, case["scale"]) for _ in range(parts)]


def _size(dice, scale):
    if scale == "small":
        return dice.randrange(0, 40)
    if scale == "mixed":
        return int(2 ** dice.uniform(0, 16)) - 1
    if scale == "edges":
        return dice.choice(EDGES)
    return dice.choice((0, 300, 100000, 1000000))
