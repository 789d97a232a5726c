# SPDX-License-Identifier: MPL-2.0
"""The Debian packages, installed in a system of their own."""

import glob
import os
import re
import shutil
import tempfile

from zt import ROOT, test
from zt.link import call, need

HERE = os.path.dirname(os.path.abspath(__file__))
PLAIN = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "DEBIAN_FRONTEND": "noninteractive",
    "LC_ALL": "C",
}
INSTALL = ("apt-get", "install", "-q", "-y", "--no-install-recommends")


def _mirror():
    """Where this machine's packages come from, and of which release they are."""
    said = call(["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)", "Created-By: Packages"])
    with open("/etc/os-release", encoding="utf-8") as text:
        release = re.search(r"^VERSION_CODENAME=(\w+)", text.read(), re.MULTILINE).group(1)
    uri = next(line.split()[0] for line in said.splitlines() if line.endswith(" " + release))
    return uri, release


def _inside(root, *words):
    return call(["chroot", root, *words], env=PLAIN)


def _state(root, package):
    """What dpkg says of a package there."""
    said = _inside(root, "dpkg-query", "-W", "-f", "${Package} ${Status}\n", "*")
    states = dict(line.split(" ", 1) for line in said.splitlines())
    return states.get(package, "unknown")


@test(bound=1200, alone=True)
def take_the_place():
    """They take the place of libzmq5 and libzmq3-dev; python3-zmq stays, and speaks rdma://."""
    assert os.geteuid() == 0, "needs root, to make a system of its own"
    call([os.path.join(ROOT, "scripts", "package")])
    work = os.environ.get("ZMQ_RDMA_WORK", os.path.join(ROOT, "build"))
    packages = glob.glob(os.path.join(work, "deb", "*.deb"))
    assert sorted(os.path.basename(path).split("_")[0] for path in packages) == ["libzmq3-rdma-dev", "libzmq5-rdma", "zmq-rdma"]

    need("debootstrap", "debootstrap")
    uri, release = _mirror()
    root = tempfile.mkdtemp(prefix="root-", dir=work)
    os.chmod(root, 0o755)  # not all in it run as root
    try:
        call(["debootstrap", "--variant=minbase", release, root, uri], env=PLAIN)
        for path in ("/etc/resolv.conf", "/etc/hosts"):
            shutil.copy(path, root + path)
        _inside(root, "apt-get", "update", "-q")
        _inside(root, *INSTALL, "python3-zmq", "libzmq3-dev")
        assert _state(root, "libzmq5") == "install ok installed"
        for path in packages + [os.path.join(HERE, "talk.py")]:
            shutil.copy(path, os.path.join(root, "opt"))
        names = ["./opt/" + os.path.basename(path) for path in packages]
        _inside(root, *INSTALL, *names)

        for gone in ("libzmq5", "libzmq3-dev"):
            assert not _state(root, gone).endswith(" installed"), gone
        for there in ("libzmq5-rdma", "libzmq3-rdma-dev", "zmq-rdma", "python3-zmq"):
            assert _state(root, there) == "install ok installed", there
        _inside(root, "apt-get", "check")
        print("SHOW:", _inside(root, "python3", "/opt/talk.py").strip())

        # And back.
        _inside(root, *INSTALL, "libzmq5")
        assert _state(root, "python3-zmq") == "install ok installed"
        assert not _state(root, "libzmq5-rdma").endswith(" installed")
    finally:
        shutil.rmtree(root, ignore_errors=True)
