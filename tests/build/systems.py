# SPDX-License-Identifier: MPL-2.0
"""What compiles for other systems, where Rust's library for them is (scripts/other-systems):
SoftRDMA and all above it on a Unix, the machines and wire formats on Windows."""

import os

import builds
from zt import ROOT, test


def _check(target, *features, fails=False):
    words = ["cargo", "check", "--locked", "--lib", "--no-default-features", "--target", target]
    said = builds.run(*words, *features, cwd=ROOT, env={"RUSTFLAGS": "-D warnings"}, check=not fails)
    assert ("Finished" in said) != fails, said
    return said


@test(bound=600, needs="ZMQ_OTHER_SYSTEMS")
def compile_there():
    """Without a warning; what cannot be had is refused in plain words."""
    targets = os.environ["ZMQ_OTHER_SYSTEMS"].split()
    for target in targets:
        if "windows" in target:
            _check(target, "--features", "machines-only")
            assert "there is no device for this system yet" in _check(target, fails=True)
        else:
            _check(target)
    print("SHOW: compiles for", ", ".join(targets))
