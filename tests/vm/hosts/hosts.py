# SPDX-License-Identifier: MPL-2.0
"""What a libzmq connection between two hosts does when something breaks.

`hosts.py rxe|siw TEST`, on the first host; see two.py, peer.py. A sender on this
host is connected to a receiver on the other, unless the test says otherwise.
"""

import os
import signal
import sys
import time

import resources
import two
from two import FAR, NEAR, Peer, both, heal, netem, run, say

PORT = 6100
#: What the manual promises: a peer that is gone is noticed so soon, in seconds.
NOTICED = 10
#: How much later than that, on this slow machine, is no fault of the transport.
SLACK = 5


def endpoint(host=FAR, port=PORT):
    """Where a socket on that host is reached."""
    return f"rdma://{host}:{port}"


def pair(kind, device=None, prefix=()):
    """A sender here (started by `prefix`) and a receiver there, with a connection that has carried messages."""
    env = {"ZMQ_RDMA_DEVICE": device or "verbs"}
    pull = Peer("far", "pull", "bind", endpoint(), env=env)
    push = Peer("near", "push", "connect", endpoint(), env=env, prefix=prefix)
    push.wait_event("HANDSHAKE_SUCCEEDED")
    word = settle(push, pull, 30)
    assert word["first"] == word["missed"] == 0 and word["device"] == f"verbs:{kind}h", word
    return push, pull


def settle(push, pull, more):
    """Let `more` messages arrive after those there are now, then hold."""
    now = pull.ask("got", until=0)["got"]
    push.tell(flow=0.005)
    pull.ask("got", until=now + more)
    sent = push.ask("sent", hold=0)["sent"]
    return pull.ask("got", until=sent)


def noticed(peer, since, what):
    """Wait for DISCONNECTED, and tell how long it took."""
    after = peer.wait_event("DISCONNECTED")["at"] - since
    say(f"{what}: {peer.host} is told after {after:.1f} s")
    assert after < NOTICED + SLACK, f"{peer.host} was told after {after:.1f} s"


def again(push, pull):
    """The link is back: so are both ends, by themselves, and nothing is torn, twice or out of order."""
    since = time.monotonic()
    push.wait_event("HANDSHAKE_SUCCEEDED")
    say(f"connected again {time.monotonic() - since:.1f} s after the link was back")
    sent = push.ask("sent", hold=0)["sent"]
    push.tell(flow=0.005)
    word = pull.ask("got", until=sent + 30)
    sent = push.ask("sent", hold=0)["sent"]
    word = pull.ask("got", until=sent)
    if word["first"] == 0:
        say(f"of {sent} messages {word['missed']} went with the old connection")
        assert word["missed"] <= 300, word


def finish(push, pull):
    """Both end in good order: whatever is under way still arrives."""
    sent = push.ask("sent", hold=0)["sent"]
    push.quit()
    pull.ask("got", until=sent)
    pull.quit()


def cut_under_way(kind):
    """All packets vanish, data under way."""
    push, pull = pair(kind)
    push.tell(flow=0.005)
    pull.ask("got", until=100)
    netem("loss", "100%")
    since = time.monotonic()
    noticed(push, since, "packets lost, data under way")
    noticed(pull, since, "packets lost, data under way")
    # Nobody can be reached, and says so again and again.
    push.wait_event("CONNECT_RETRIED")
    push.wait_event("CONNECT_RETRIED")
    heal()
    again(push, pull)
    finish(push, pull)


def cut_idle(kind):
    """All packets vanish, and nobody had anything to say."""
    push, pull = pair(kind)
    netem("loss", "100%")
    since = time.monotonic()
    noticed(push, since, "packets lost, idle")
    noticed(pull, since, "packets lost, idle")
    heal()
    again(push, pull)
    finish(push, pull)


def link_down(kind):
    """This host's card goes down, data under way."""
    push, pull = pair(kind)
    push.tell(flow=0.005)
    pull.ask("got", until=100)
    run("near", "ip", "link", "set", "data", "down")
    since = time.monotonic()
    noticed(push, since, "link down")
    noticed(pull, since, "link down there")
    told = words(push)
    # A connection of siw's ends by its TCP, which knows nothing of ports.
    assert kind == "siw" or any(f"port 1 of {kind}h is down" in line for line in told), told
    run("near", "ip", "link", "set", "data", "up")
    renew(kind)
    again(push, pull)
    finish(push, pull)


def address_removed(kind):
    """This host's address goes, data under way."""
    push, pull = pair(kind)
    push.tell(flow=0.005)
    pull.ask("got", until=100)
    run("near", "ip", "addr", "del", NEAR + "/24", "dev", "data")
    since = time.monotonic()
    noticed(push, since, "address removed")
    noticed(pull, since, "address removed there")
    words(push)
    run("near", "ip", "addr", "add", NEAR + "/24", "dev", "data")
    renew(kind)
    again(push, pull)
    finish(push, pull)


def renew(kind):
    """6.1's rxe loses its queue pair 1, and with it the connection manager, when that finds no
    route for what it sends (a disconnect, say): nobody connects until the device is made anew."""
    if kind == "rxe":
        run("near", "timeout", "60", "rdma", "link", "delete", "rxeh")
        run("near", "rdma", "link", "add", "rxeh", "type", "rxe", "netdev", "data")
        run("near", "chmod", "666", "/dev/infiniband/uverbs0")


def words(peer):
    """What its log said of failures, for the record; returns that."""
    told = list(dict.fromkeys(peer.log_lines("error", "warn", "lost", "gone")))
    for line in told:
        say("log:", line[:300])
    return told


def killed(kind, under_way):
    """kill -9 of the receiver; another takes its place."""
    push, pull = pair(kind)
    if under_way:
        push.tell(flow=0)
        pull.ask("got", until=100)
    since = time.monotonic()
    pull.kill()
    noticed(push, since, "kill -9, " + ("data under way" if under_way else "idle"))
    pull = Peer("far", "pull", "bind", endpoint())
    again(push, pull)
    finish(push, pull)


def killed_idle(kind):
    """As it says."""
    killed(kind, False)


def killed_under_way(kind):
    """As it says."""
    killed(kind, True)


def stopped(kind, under_way):
    """The receiver is stopped for 30 s: the connection lives, and nothing is lost."""
    push, pull = pair(kind)
    if under_way:
        push.tell(flow=0)
        pull.ask("got", until=100)
    pull.signal(signal.SIGSTOP)
    # The time itself is the test: nothing may be told during it.
    time.sleep(30)
    push.quiet()
    assert "DISCONNECTED" not in push.told(), push.told()
    pull.signal(signal.SIGCONT)
    sent = push.ask("sent", hold=0)["sent"]
    word = settle(push, pull, 50)
    say(f"{sent} messages were sent by the end of the stop, {word['missed']} of {word['got']} are missing")
    assert word["missed"] == 0, word
    for peer in (push, pull):
        assert "DISCONNECTED" not in peer.told(), f"{peer.host}: {peer.told()}"
    finish(push, pull)


def stopped_idle(kind):
    """As it says."""
    stopped(kind, False)


def stopped_under_way(kind):
    """As it says."""
    stopped(kind, True)


def device_removed(kind, host):
    """`rdma link delete` under load; later the device comes back."""
    push, pull = pair(kind)
    push.tell(flow=0.002)
    pull.ask("got", until=100)
    since = time.monotonic()
    run(host, "timeout", "60", "rdma", "link", "delete", kind + "h")
    say(f"deleted after {time.monotonic() - since:.1f} s")
    noticed(push, since, f"device removed on the {host} host")
    noticed(pull, since, f"device removed on the {host} host")
    words(push)
    two.device_up(kind)
    again(push, pull)
    finish(push, pull)


def device_removed_here(kind):
    """The sender's device."""
    device_removed(kind, "near")


def device_removed_there(kind):
    """The receiver's device, which listens."""
    device_removed(kind, "far")


def lossy(kind):
    """A minute in which one packet of a hundred is lost, each way: every message arrives."""
    push, pull = pair(kind)
    netem("loss", "1%")
    push.tell(flow=0)
    time.sleep(60)
    sent = push.ask("sent", hold=0)["sent"]
    word = pull.ask("got", until=sent, timeout=2 * two.WAIT)
    heal()
    say(f"{sent} messages in a minute of 1 % loss, {word['missed']} are missing")
    assert word["missed"] == 0, word
    for peer in (push, pull):
        assert "DISCONNECTED" not in peer.told(), f"{peer.host}: {peer.told()}"
    finish(push, pull)


def unprivileged(limit):
    """What makes a peer a user who may pin so many bytes."""
    return (
        "prlimit", f"--memlock={limit}:{limit}", "setpriv", "--reuid=65534", "--regid=65534",
        "--clear-groups", "--inh-caps=-all", "--bounding-set=-all",
    )  # fmt: skip


def narrow(kind):
    """A line so narrow that much waits in the sender's kernel, and a sender with few slots: what
    comes is what was sent, not what the slots held later."""
    push, pull = pair(kind, prefix=unprivileged(1 << 20))
    netem("rate", "40mbit")
    push.tell(flow=0)
    pull.ask("got", until=1000)
    sent = push.ask("sent", hold=0)["sent"]
    heal()
    word = pull.ask("got", until=sent)
    say(f"{word['got']} messages, {word['missed']} are missing")
    assert word["missed"] == 0, word
    finish(push, pull)


def memlock(kind):
    """Unprivileged users who may pin little: it works, or says why not."""
    for kib in (64, 1024, 8192):
        prefix = unprivileged(kib * 1024)
        pull = Peer("far", "pull", "bind", endpoint(port=PORT + kib), prefix=prefix)
        push = Peer("near", "push", "connect", endpoint(port=PORT + kib), prefix=prefix)
        push.tell(flow=0.005)
        verdict = push.wait_event("HANDSHAKE_SUCCEEDED", "CONNECT_RETRIED")["event"]
        if verdict == "HANDSHAKE_SUCCEEDED":
            word = pull.ask("got", until=200)
            assert word["missed"] == 0, word
            say(f"{kib} KiB: works on {word['device']}")
            finish(push, pull)
        else:
            told = push.log_lines("RLIMIT_MEMLOCK") + pull.log_lines("RLIMIT_MEMLOCK")
            say(f"{kib} KiB: {told[:1]}")
            assert told, f"{kib} KiB: no word of the limit; {push.last_words()}"
            push.kill()
            pull.kill()
    assert kind


def unreachable(kind):
    """Nobody listens; nobody answers at that address; no way there: each is told, and tried again."""
    cases = {
        "nobody listens": endpoint(FAR, PORT + 77),
        "nobody has the address": endpoint("10.80.0.77"),
        "no route": endpoint("192.0.2.1"),
    }
    for what, where in cases.items():
        push = Peer("near", "push", "connect", where, "CONNECT_TIMEOUT=20000")
        since = time.monotonic()
        closed = push.wait_event("CLOSED")
        retried = push.wait_event("CONNECT_RETRIED")
        say(f"{what}: {push.told()} after {retried['at'] - since:.1f} s")
        assert closed["endpoint"] == where and retried["endpoint"] == where, push.events
        lines = push.log_lines(where.split("//")[1].split(":")[0])
        assert lines, push.last_words()
        say("log:", lines[0][:300])
        push.kill()
    assert kind


def cycles(kind):
    """Connections made, used and closed: what they used is given back, on both hosts."""
    resources.cycles(kind)


TESTS = (
    cut_under_way, cut_idle, link_down, address_removed, killed_idle, killed_under_way, stopped_idle,
    stopped_under_way, device_removed_here, device_removed_there, lossy, narrow, memlock, unreachable, cycles,
)  # fmt: skip


def main(kind, name):
    """Run one test."""
    two.device_up(kind)
    try:
        {test.__name__: test for test in TESTS}[name](kind)
    finally:
        two.ask_far(sweep=0)
        both("tc", "qdisc", "del", "dev", "data", "root", may_fail=True)
    complaint = run("far", "sh", "-c", "dmesg | grep -E 'BUG:|Oops|general protection|kernel panic'", may_fail=True)
    assert not complaint, f"the other host's kernel: {complaint}"
    print("ok")


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)
