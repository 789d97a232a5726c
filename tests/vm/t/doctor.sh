# SPDX-License-Identifier: MPL-2.0
# shellcheck shell=bash
# The command zmq-rdma on real devices: in good order, a cable down, little memory to pin, no
# rights, no address; to a peer by rxe, siw and soft. ZMQ_RDMA_PREFIX is where it is installed.
# lab-timeout: 180

tool() { "$ZMQ_RDMA_PREFIX/bin/zmq-rdma" "$@"; }

# `says CODE TEXT COMMAND...`: it ends with CODE, and TEXT (a pattern) is in what it prints.
says() {
    local want=$1 text=$2 code=0
    shift 2
    "$@" >/tmp/said 2>&1 || code=$?
    cat /tmp/said
    [ "$code" = "$want" ] || { echo "exit code $code, not $want: $*"; return 1; }
    grep -Eq -- "$text" /tmp/said || { echo "does not say: $text"; return 1; }
}

# A listener at an endpoint, until the end of the test; the python is as for the other tests.
listener() {
    LD_LIBRARY_PATH=$ZMQ_RDMA_PREFIX/lib /usr/bin/python3 -c '
import sys, zmq
sock = zmq.Context().socket(zmq.REP)
sock.bind(sys.argv[1])
print("listening", flush=True)
while True:
    sock.send(sock.recv())
' "$1" >/tmp/listener 2>&1 &
    lab_until 60 grep -q listening /tmp/listener
}

# Those of other tests, if they are there, are hidden.
test_no_device() {
    local hidden=()
    [ ! -d /sys/class/infiniband ] ||
        hidden=(unshare -m sh -c 'mount -t tmpfs none /sys/class/infiniband && exec "$@"' sh)
    says 3 'no RDMA device' "${hidden[@]}" "$ZMQ_RDMA_PREFIX/bin/zmq-rdma" doctor
    says 0 'soft' "${hidden[@]}" "$ZMQ_RDMA_PREFIX/bin/zmq-rdma" info 127.0.0.1
}

test_rxe_in_order() {
    lab_rxe
    says 0 'rxe0 \(RoCE\): port 1 ACTIVE' tool doctor
    says 0 'rdma:// will use rxe0 and rxe1' tool doctor
    says 0 'rxe0/1 .*RoCE .*ACTIVE .*v0 .*10.77.0.1' tool info
    says 0 'rxe[01]$' tool info 10.77.0.2
}

test_siw_in_order() {
    lab_siw
    says 0 'siw0 \(iWARP\): port 1 ACTIVE' tool doctor
    says 0 'siw0/1 .*iWARP .*w0 .*10.78.0.1' tool info
    says 0 'siw0$' tool info 10.78.0.1
}

test_small_mtu() {
    lab_rxe
    ip link set v0 mtu 1500
    says 0 'MTU of v0 is 1500, so RoCE packets carry 1024' tool doctor
    ip link set v0 mtu 9000
}

test_cable_down() {
    lab_rxe
    lab_siw
    ip link set v0 down
    lab_until 10 grep -q DOWN /sys/class/infiniband/rxe0/ports/1/state
    says 0 'rxe0 port 1 is DOWN' tool doctor
    grep -q -- '-> ip link set v0 up' /tmp/said
    ip link set v0 up
    ip addr replace 10.77.0.1/24 dev v0
    ip -6 addr replace fd77::1/64 dev v0 nodad
    lab_routes v0 v1 10.77.0 fd77 100
    lab_until 10 grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state
}

test_small_memlock() {
    lab_rxe
    says 0 'Only 8.0 MiB of memory may be pinned' lab_unprivileged 8388608 "$ZMQ_RDMA_PREFIX/bin/zmq-rdma" doctor
    says 0 'Only 64 KiB of memory may be pinned' lab_unprivileged 65536 "$ZMQ_RDMA_PREFIX/bin/zmq-rdma" doctor
    grep -q -- 'LimitMEMLOCK=infinity' /tmp/said
}

test_no_rights() {
    lab_rxe
    chmod 600 /dev/infiniband/*
    says 3 'may not use .*permission denied' lab_unprivileged 8388608 "$ZMQ_RDMA_PREFIX/bin/zmq-rdma" doctor
    grep -q -- '-> chmod 666 /dev/infiniband/rdma_cm' /tmp/said
    lab_permit
}

test_no_address() {
    lab_rxe
    ip addr flush dev v0
    lab_until 10 sh -c '! grep -qs 0a4d:0001 /sys/class/infiniband/rxe0/ports/1/gids/*'
    says 0 'v0, the interface of rxe0, has no IP address' tool doctor
    ip addr replace 10.77.0.1/24 dev v0
    ip -6 addr replace fd77::1/64 dev v0 nodad
    lab_routes v0 v1 10.77.0 fd77 100
}

test_peer_by_rxe() {
    lab_rxe
    listener 'rdma://10.77.0.1:5601'
    says 0 'reached, by the RDMA device rxe' tool doctor 'rdma://10.77.0.1:5601'
    says 1 'stopped at connect' tool doctor 'rdma://10.77.0.1:5699'
}

test_peer_by_siw() {
    lab_siw
    listener 'rdma://10.78.0.1:5602'
    says 0 'reached, by the RDMA device siw0' tool doctor 'rdma://10.78.0.1:5602'
}

# The device is there, the peer listens by soft alone: as a program, it goes on by soft.
test_peer_by_soft_after_rxe() {
    lab_rxe
    ZMQ_RDMA_DEVICE=soft listener 'rdma://10.77.0.1:5603'
    says 3 'by soft instead' tool doctor 'rdma://10.77.0.1:5603'
}

test_perf_by_rxe() {
    lab_rxe
    tool --json perf --listen 10.77.0.1:5610 >/tmp/listening 2>&1 &
    lab_until 60 grep -q listening /tmp/listening
    says 0 'over device verbs:rxe' tool perf 10.77.0.1:5610 --sizes 64,8192 --time 200
}

test_top_by_siw() {
    lab_siw
    export ZMQ_RDMA_STATS=on
    listener 'rdma://10.78.0.1:5604'
    says 0 'siw0' tool doctor 'rdma://10.78.0.1:5604'
    says 0 'accepted 1' tool top --once
}
