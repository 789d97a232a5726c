# SPDX-License-Identifier: MPL-2.0
"""What the machine or its user gets wrong: addresses, environment, too few
descriptors, a configure without its tools. Each has a clear message."""

import errno
import os
import resource
import shutil
import subprocess

import zmq

import zt
from zt import test
from zt.link import call, need, scratch
from zt.proc import Peer, say
from zt.sock import Monitor, bound, context, sock


def _errno(kind, call, endpoint):
    """The name of the errno of a call on a socket of its own, or "ok"."""
    with context() as ctx:
        try:
            getattr(sock(ctx, kind), call)(endpoint)
        except zmq.ZMQError as error:
            return errno.errorcode[error.errno]
        return "ok"


def binder(endpoint):
    """The errno of a bind."""
    return _errno(zmq.PULL, "bind", endpoint)


def connecter(endpoint):
    """The errno of a connect."""
    return _errno(zmq.PUSH, "connect", endpoint)


def _bind(endpoint, who=binder, **environment):
    """What a process of its own says of a bind, and its log."""
    log = os.path.join(os.environ["ZT_LOGS"], "log")
    os.makedirs(os.environ["ZT_LOGS"], exist_ok=True)
    answer = Peer(who, endpoint, env=environment, stderr=log).result()
    with open(log, encoding="utf-8", errors="replace") as text:
        said = text.read()
    print(endpoint, environment, answer, said)
    return answer, said


@test()
def address_in_use():
    """The log names the endpoint and says that another socket listens there."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        endpoint = bound(pull)
        answer, said = _bind(endpoint, ZMQ_RDMA_LOG="warn")
        assert answer == "EADDRINUSE"
        assert zt.SCHEME == "tcp" or (endpoint in said and "in use" in said), said


@test()
def address_not_local():
    """The log names the endpoint and says that the address is not of this machine."""
    answer, said = _bind(f"{zt.SCHEME}://198.51.100.7:5555", ZMQ_RDMA_LOG="warn")
    assert answer in ("EADDRNOTAVAIL", "ENODEV")
    assert zt.SCHEME == "tcp" or ("198.51.100.7:5555" in said and "this machine" in said), said


@test(only="rdma")
def environment():
    """A value that does not exist is EINVAL and a list of those that do, for bind and connect; right ones work."""
    for name, choices in (
        ("ZMQ_RDMA_DEVICE", "auto, verbs"),
        ("ZMQ_RDMA_LOG", "debug"),
        ("ZMQ_RDMA_CRC", "off"),
        ("ZMQ_RDMA_STATS", "off or on"),
        ("ZMQ_RDMA_BUSY_POLL", "a number from 1"),
        ("ZMQ_RDMA_RENDEZVOUS", "a number from 1"),
        ("ZMQ_RDMA_POOL", "a number from 1"),
    ):
        for endpoint, who in (("rdma://127.0.0.1:*", binder), ("rdma://127.0.0.1:9", connecter)):
            answer, said = _bind(endpoint, who, **{name: "junk"})
            assert name in said and choices in said, said
            assert answer == "EINVAL", f"{name}=junk: {answer}"
    for name, values in (("ZMQ_RDMA_DEVICE", ("auto", "soft", "")), ("ZMQ_RDMA_LOG", ("off", "trace")), ("ZMQ_RDMA_CRC", ("on", "off")), ("ZMQ_RDMA_BUSY_POLL", ("adaptive", "never", "always", "-1", "0", "25"))):
        for value in values:
            answer, _ = _bind("rdma://127.0.0.1:*", **{name: value})
            assert answer == "ok", f"{name}={value}: {answer}"


@test()
def no_verbs_device():
    """`verbs` where there is no such device is an error that says so."""
    if zt.SCHEME == "tcp" or os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband"):
        return
    answer, said = _bind("rdma://127.0.0.1:*", ZMQ_RDMA_DEVICE="verbs", ZMQ_RDMA_LOG="error")
    assert answer != "ok" and "error:" in said, said


def poor_server(limit):
    """A server that may open few descriptors; says how many clients it has accepted, and its failures."""
    with context() as ctx:
        pull = sock(ctx, zmq.PULL)
        watch = Monitor(pull, zmq.EVENT_ACCEPT_FAILED)
        endpoint = bound(pull)
        in_use = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + limit, in_use + limit))
        say(endpoint)
        failed = watch.next()
        say(failed and failed[1])
        while True:
            message = pull.recv()
            if message == b"end":
                return
            say(message.decode())


@test(bound=90, only="rdma")
def row_33_out_of_descriptors():
    """A server without descriptors refuses what is too much, tells it, and serves again when it can."""
    log = os.path.join(os.environ["ZT_LOGS"], "log")
    os.makedirs(os.environ["ZT_LOGS"], exist_ok=True)
    server = Peer(poor_server, 8, stderr=log)
    endpoint = server.hear()
    with context() as ctx:
        first = sock(ctx, zmq.PUSH)
        first.connect(endpoint)
        crowd = [sock(ctx, zmq.PUSH) for _ in range(40)]
        for push in crowd:
            push.connect(endpoint)
        assert server.hear() == errno.EMFILE
        first.send(b"still here")
        assert server.hear() == "still here"
        for push in crowd:
            push.close(0)
        late = sock(ctx, zmq.PUSH)
        late.connect(endpoint)
        late.send(b"late")
        assert server.hear() == "late"
        late.send(b"end")
        server.result()
    with open(log, encoding="utf-8", errors="replace") as text:
        said = text.read()
    assert "ulimit -n" in said, said


def _configure(directory, without, **environment):
    """Run a copy of our configure where something is missing; what it printed."""
    source = os.path.join(directory, "source")
    shutil.copytree(
        zt.ROOT, source, symlinks=True, ignore=shutil.ignore_patterns(".git", "target", "build", "autom4te.cache")
    )
    need("autoreconf", "autoconf automake libtool")
    if not os.path.exists(os.path.join(source, "configure")):
        call(["./autogen.sh"], cwd=source)
    build = os.path.join(directory, "b")
    os.mkdir(build)
    done = subprocess.run(
        [os.path.join(source, "configure"), "--with-rdma"],
        cwd=build,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=zt.seconds_left(),
        check=False,
    )
    print(done.stdout[-6000:])
    assert done.returncode != 0, f"configure succeeded without {without}"
    return "\n".join(done.stdout.strip().splitlines()[-25:])


def _bin_without(directory, *names):
    """A directory of links to every program of the system but some."""
    path = os.path.join(directory, "bin")
    os.mkdir(path)
    for place in ("/usr/bin", "/bin", "/usr/sbin", "/sbin"):
        for name in os.listdir(place) if os.path.isdir(place) else ():
            if name not in names and not os.path.lexists(os.path.join(path, name)):
                os.symlink(os.path.join(place, name), os.path.join(path, name))
    return path


@test(bound=240)
def configure_without_cargo():
    """configure stops, names cargo, and says which package has it."""
    directory = scratch()
    path = _bin_without(directory, "cargo", "rustc")
    said = _configure(directory, "cargo", PATH=path, HOME=directory)
    assert "cargo" in said and "apt" in said or "package" in said, said


@test(bound=240)
def configure_without_librdmacm():
    """configure stops, names librdmacm, and says which package has it."""
    directory = scratch()
    shown = call([need("pkg-config", "pkg-config"), "--variable", "pc_path", "pkg-config"]).strip()
    library = os.path.join(directory, "pkgconfig")
    os.mkdir(library)
    for place in shown.split(":"):
        for name in os.listdir(place) if os.path.isdir(place) else ():
            if name != "librdmacm.pc" and not os.path.lexists(os.path.join(library, name)):
                os.symlink(os.path.join(place, name), os.path.join(library, name))
    cargo = os.path.dirname(need("cargo", "cargo"))
    environment_ = {name: os.environ[name] for name in ("HOME", "CARGO_HOME", "RUSTUP_HOME") if name in os.environ}
    said = _configure(
        directory, "librdmacm", PATH=f"{cargo}:/usr/bin:/bin:/usr/sbin:/sbin", PKG_CONFIG_LIBDIR=library, **environment_
    )
    assert "librdmacm" in said and "librdmacm-dev" in said, said
