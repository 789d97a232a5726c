# SPDX-License-Identifier: MPL-2.0
"""The manual's table of options is whole, and each of its rows is tested."""

import ast
import glob
import os
import re

import zt
from zt import test

HERE = os.path.dirname(os.path.abspath(__file__))

#: Options that are not about a transport: who talks to whom and in which
#: pattern, security, threads, and what getsockopt alone knows.
ELSEWHERE = set(
    """
    ROUTING_ID SUBSCRIBE UNSUBSCRIBE RCVMORE FD EVENTS TYPE SNDHWM RCVHWM RCVTIMEO SNDTIMEO LAST_ENDPOINT
    ROUTER_MANDATORY ROUTER_RAW ROUTER_HANDOVER ROUTER_NOTIFY PROBE_ROUTER REQ_CORRELATE REQ_RELAXED
    CONNECT_ROUTING_ID STREAM_NOTIFY MECHANISM BLOCKY THREAD_SAFE IPV4ONLY
    PLAIN_SERVER PLAIN_USERNAME PLAIN_PASSWORD CURVE_SERVER CURVE_PUBLICKEY CURVE_SECRETKEY CURVE_SERVERKEY
    GSSAPI_SERVER GSSAPI_PRINCIPAL GSSAPI_SERVICE_PRINCIPAL GSSAPI_PLAINTEXT
    GSSAPI_PRINCIPAL_NAMETYPE GSSAPI_SERVICE_PRINCIPAL_NAMETYPE
    WSS_KEY_PEM WSS_CERT_PEM WSS_TRUST_PEM WSS_HOSTNAME WSS_TRUST_SYSTEM
    NORM_MODE NORM_UNICAST_NACK NORM_BUFFER_SIZE NORM_SEGMENT_SIZE NORM_BLOCK_SIZE NORM_NUM_PARITY
    NORM_NUM_AUTOPARITY NORM_PUSH
    """.split()
)


def _table():
    """Options in the manual's table."""
    with open(os.path.join(zt.ROOT, "docs", "zmq_rdma.adoc"), encoding="utf-8") as page:
        text = page.read()
    section = text[text.index("SOCKET OPTIONS\n"):text.index("ENVIRONMENT\n")]
    rows = re.findall(r"^\|(\*ZMQ_.*?) \|(.+)$", section, re.M)
    return [name for names, _ in rows for name in re.findall(r"\*(ZMQ_\w+)\*", names)]


def _tested():
    """Options that tests here are marked with."""
    found = set()
    for path in glob.glob(os.path.join(HERE, "*.py")):
        with open(path, encoding="utf-8") as source:
            tree = ast.parse(source.read())
        for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
            marks = {mark.func.id: mark for mark in function.decorator_list if isinstance(mark, ast.Call)}
            if "test" in marks and "covers" in marks:
                found.update(ast.literal_eval(word) for word in marks["covers"].args)
    return found


def _known():
    """The socket options of zmq.h."""
    with open(os.path.join(zt.prefix(), "include", "zmq.h"), encoding="utf-8") as header:
        text = header.read()
    stable = text[text.index("#define ZMQ_AFFINITY "):text.index("Message options")]
    later = text[text.index("#define ZMQ_TCP_ACCEPT_FILTER "):text.index("#define ZMQ_SRCFD ")]
    # Values of an option, and context options, follow under other headings.
    draft = text[text.index("DRAFT Socket options"):].split("/*  DRAFT ", 1)[0]
    return set(re.findall(r"#define (ZMQ_\w+) \d+$", stable + later + draft, re.M))


@test()
def every_row_is_tested():
    """A row without a test, or a test of what is no row."""
    table, tested = _table(), _tested()
    assert len(table) > 50, table
    assert len(set(table)) == len(table), sorted(name for name in table if table.count(name) > 1)
    assert set(table) == tested, (sorted(set(table) - tested), sorted(tested - set(table)))


@test()
def every_option_is_placed():
    """An option of this libzmq that neither the table nor ELSEWHERE knows."""
    elsewhere = {"ZMQ_" + name for name in ELSEWHERE}
    table = set(_table())
    assert not elsewhere & table, sorted(elsewhere & table)
    lost = _known() - table - elsewhere
    assert not lost, sorted(lost)
