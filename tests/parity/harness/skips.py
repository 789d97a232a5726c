# SPDX-License-Identifier: MPL-2.0
"""The cases that cannot run over rdma://, as docs/parity.md lists them."""

import fnmatch
import os
import re

from . import Trouble

PAGE = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))), "docs", "parity.md"
)
ROW = re.compile(r"^\| `(test_\w+)` \| (.+?) \| (.+?) \|$")


class Skips:
    """Which cases are skipped, and why."""

    def __init__(self, page=PAGE):
        self.rows = []
        with open(page, encoding="utf-8") as text:
            for line in text:
                match = ROW.match(line.strip())
                if match:
                    names = re.findall(r"`([\w*]+)`", match[2])
                    self.rows.append((match[1], names, match[3]))
        if not self.rows:
            raise Trouble(f"no table of skips in {page}")

    def reason(self, program, case):
        """Why a case is skipped, or None."""
        for where, names, why in self.rows:
            if where == program and any(fnmatch.fnmatchcase(case, name) for name in names):
                return why
        return None

    def stale(self, program, cases):
        """Listed names that match no case of a program."""
        return [
            name
            for where, names, _ in self.rows
            if where == program
            for name in names
            if not fnmatch.filter(cases, name)
        ]
