# SPDX-License-Identifier: MPL-2.0
"""Copies libzmq's tests, and moves them from tcp:// to another scheme."""

import glob
import os
import re

from . import Trouble

#: What tells that a test has to do with tcp, itself or by its utilities.
TOUCHES_TCP = re.compile(
    r"tcp://|\bENDPOINT_[0-3]\b|\bbind_loopback(_ipv[46])?\b|\bconnect_socket \(my|\bbind_socket_resolve_port\b"
    r"|\bsetup_context_and_server_side\b|\bbind_function_t\b"
)

#: (file, text, what stands in its place), each found exactly once. Mostly
#: buffers that have no room for the one letter more of "rdma".
SPECIAL = (
    ("testutil.cpp", '? "tcp"', '? "rdma"'),
    ("testutil.cpp", "6 + strlen (address_) + 7", "7 + strlen (address_) + 7"),
    ("test_reqrep_tcp.cpp", "30 * sizeof (char)", "31 * sizeof (char)"),
    ("test_reqrep_tcp.cpp", "38 * sizeof (char)", "39 * sizeof (char)"),
)

#: Where a test would open a BSD socket to (or for) an endpoint.
BRIDGE_DIAL = """
    if (strncmp (endpoint_, "rdma://", 7) == 0)
        return parity_dial (endpoint_);
"""
BRIDGE_LISTEN = """
    if ((af_ == AF_INET || af_ == AF_INET6) && protocol_ == IPPROTO_TCP)
        return parity_listen (address_, port_, my_endpoint_);
"""
#: A case runs only if the environment asks for it (cases.cpp).
FILTER = """
#include "bridge.hpp"
#undef RUN_TEST
#define RUN_TEST(case_) \\
    (parity_wanted (#case_) ? UnityDefaultTestRun (case_, #case_, __LINE__) \\
                            : (void) 0)
"""


def touches_tcp(path):
    """Whether the test at `path` has anything to do with tcp."""
    with open(path, encoding="utf-8") as source:
        return bool(TOUCHES_TCP.search(source.read()))


def once(text, anchor, replacement, name):
    """`text` with its one `anchor` replaced."""
    count = text.count(anchor)
    if count != 1:
        raise Trouble(f"{name} has {anchor!r} {count} times, not once: tests/parity/harness/rewrite.py must follow")
    return text.replace(anchor, replacement)


def after_opening(text, function, addition, name):
    """`text` with `addition` at the start of the body of `function`."""
    match = re.search(r"^fd_t " + function + r" \([^)]*\)\n\{", text, re.M)
    if not match:
        raise Trouble(f"{name} has no function {function}: tests/parity/harness/rewrite.py must follow")
    return text[: match.end()] + addition + text[match.end():]


def rewritten(name, text, scheme, host):
    """A file of libzmq's tests, for `scheme` and `host`."""
    if name == "testutil_unity.hpp":
        text += FILTER
    if scheme == "tcp":
        return text
    for where, anchor, replacement in SPECIAL:
        if name == where:
            text = once(text, anchor, replacement, name)
    if name == "testutil.cpp":
        text = '#include "bridge.hpp"\n' + text
        text = after_opening(text, "connect_socket", BRIDGE_DIAL, name)
        text = after_opening(text, "bind_socket_resolve_port", BRIDGE_LISTEN, name)
    text = text.replace("tcp://", scheme + "://")
    if host != "127.0.0.1":
        text = text.replace("127.0.0.1", host).replace("://localhost", f"://{host}")
        text = text.replace("://[::1]", f"://[{os.environ.get('ZT_HOST6', '::1')}]")
        # Room for two of them in an endpoint.
        text = text.replace("31 * sizeof (char)", "63 * sizeof (char)")
    return text


def copy(tree, target, scheme, host):
    """Copy the tests of `tree` to `target`/tests, rewritten. What is not new keeps its date."""
    here = os.path.join(target, "tests")
    os.makedirs(here, exist_ok=True)
    for beside in ("src", "include", "external"):
        link = os.path.join(target, beside)
        if not os.path.islink(link):
            os.symlink(os.path.join(tree, beside), link)
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for path in glob.glob(os.path.join(tree, "tests", "*.[ch]pp")) + glob.glob(os.path.join(own, "*.[ch]pp")):
        name = os.path.basename(path)
        with open(path, encoding="utf-8") as source:
            text = source.read()
        if not path.startswith(own):
            text = rewritten(name, text, scheme, host)
        keep(os.path.join(here, name), text)
    return here


def keep(path, text):
    """Write `text` to `path` unless it is there."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as old:
            if old.read() == text:
                return
    with open(path, "w", encoding="utf-8") as new:
        new.write(text)
