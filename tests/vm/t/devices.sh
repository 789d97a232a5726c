# SPDX-License-Identifier: MPL-2.0
# shellcheck shell=bash
# Names of RDMA devices in endpoints, and the choice of device, at libzmq's level.
# ZMQ_RDMA_PREFIX says which library is tested.
# lab-timeout: 900

devices() { # device, its address
    export ZT_RDMA_DEVICE=$1 ZT_RDMA_HOST=$2 ZT_HOST=$2 ZT_SLOW=6
    "$LAB_DIR/../run" --jobs 2 --logs "$LAB_RESULTS/devices-$1" \
        python/devices/device_name python/devices/an_endpoint_at_a_time
}

test_rxe() {
    lab_rxe
    devices rxe0 10.77.0.1
}

test_siw() {
    lab_siw_variant plain
    devices siw0 10.78.0.1
}

# A wild-card that was bound beside an iWARP device serves an interface that comes later.
test_later_interface() {
    lab_siw_variant plain
    cd "$(mktemp -d)"
    export LD_LIBRARY_PATH=$ZMQ_RDMA_PREFIX/lib
    /usr/bin/python3 - >server.out 2>&1 <<'PYTHON' &
import zmq
rep = zmq.Context().socket(zmq.REP)
rep.bind("rdma://*:7777")
print("bound", flush=True)
rep.send_string(rep.recv(copy=False).get("Rdma-Device"))
rep.recv()
PYTHON
    lab_until 60 grep -q bound server.out
    ip netns add far
    ip link add later0 type veth peer name far0 netns far
    ip addr add 10.81.0.1/24 dev later0
    ip link set later0 up
    ip -n far addr add 10.81.0.2/24 dev far0
    ip -n far link set far0 up
    ZMQ_RDMA_DEVICE=soft ip netns exec far /usr/bin/python3 - <<'PYTHON'
import zmq
req = zmq.Context().socket(zmq.REQ)
req.setsockopt(zmq.RCVTIMEO, 60000)
req.connect("rdma://10.81.0.1:7777")
req.send(b"hello")
answer = req.recv()
print("lab: served by", answer.decode())
assert answer == b"soft"
req.send(b"bye")
PYTHON
    ip link delete later0
    ip netns delete far
}
