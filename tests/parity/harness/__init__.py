# SPDX-License-Identifier: MPL-2.0
"""libzmq's own tests over rdma://: copy, rewrite, compile, run, compare.

The tests come from the libzmq tree that the build under test used, and stay
in the directory of the run: none of their text is in this repository.
"""


class Trouble(Exception):
    """The harness cannot do its work; the message says why."""
