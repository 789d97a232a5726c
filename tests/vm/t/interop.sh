# SPDX-License-Identifier: MPL-2.0
# shellcheck shell=bash
# The built-in device against the kernel's siw: rdma-core's rping, and every pattern of
# libzmq between a process on one and a process on the other.
# VM_ENDPOINT is the program of endpoint.sh; ZMQ_RDMA_PREFIX and ZMQ_RDMA_BUILD say which
# library is tested.
# lab-timeout: 1200

at=10.78.0.1

# rping is the server, the soft device the client. (Not in MPA revision 1: siw's own rping cannot READ
# there, for nothing tells it how many READs it may have open.)
rping_serves() { # variant of siw, CRC, bytes
    lab_siw_variant "$1"
    cd "$(mktemp -d)"
    rping -s -a $at -C 20 -S "$3" -v >server.out 2>&1 &
    lab_until 20 lab_listens 7174
    EP_ADDR=$at EP_CRC=$2 $VM_ENDPOINT rping_client 20 "$3"
    wait $! || { cat server.out; return 1; }
    [ "$(grep -c 'ping data' server.out)" = 20 ]
}

rping_asks() { # variant of siw, CRC, bytes
    lab_siw_variant "$1"
    cd "$(mktemp -d)"
    EP_ADDR=$at EP_CRC=$2 $VM_ENDPOINT rping_server 20 >server.out 2>&1 &
    lab_until 20 grep -q listening server.out
    rping -c -a $at -C 20 -S "$3" -v -V >client.out 2>&1 || { cat client.out server.out; return 1; }
    wait $! || { cat server.out; return 1; }
    cat server.out
    [ "$(grep -c 'ping data' client.out)" = 20 ]
}

test_rping_serves() { rping_serves plain on 100; }
test_rping_serves_no_crc() { rping_serves plain off 100; }
test_rping_serves_64k() { rping_serves plain on 65535; }
test_rping_asks() { rping_asks plain on 100; }
test_rping_asks_no_crc() { rping_asks plain off 100; }
test_rping_asks_64k() { rping_asks plain on 65535; }
test_rping_asks_mpa1() { rping_asks mpa1 on 100; }

# Tests of tests/run, in which each connection is between two processes.
patterns="python/patterns python/big/sizes python/big/both_ways python/flow/fan_in python/devices/told"

zmq() { # device of the tests' own process, device of its peers, CRC, which tests if not all
    lab_siw_variant "${SIW:-plain}"
    local logs=$LAB_RESULTS/interop-$1-$2-$3-${SIW:-plain}
    export ZT_HOST=$at ZT_SLOW=6 ZT_SIZE_MAX=$((16 << 20))
    export ZMQ_RDMA_DEVICE=$1 ZT_PEER_DEVICE=$2 ZMQ_RDMA_CRC=$3 ZMQ_RDMA_LOG=info
    shift 3
    # shellcheck disable=SC2086 # a list of words
    "$LAB_DIR/../run" --jobs 2 --logs "$logs" ${*:-$patterns}
    # Every link was between the two.
    local log
    for log in $(grep -rl 'over device' "$logs"); do
        grep -q 'over device soft' "$log" && grep -q 'over device verbs:siw0' "$log" ||
            { echo "not both devices in $log"; return 1; }
    done
}

test_verbs_and_soft() { zmq verbs soft on; }
test_soft_and_verbs() { zmq soft verbs on; }
test_verbs_and_soft_no_crc() { zmq verbs soft off python/patterns/push_connects python/big/sizes; }
test_soft_and_verbs_no_crc() { zmq soft verbs off python/patterns/push_connects python/big/sizes; }
# The same, all of them: 100 s and 70 s, so not in a usual run.
test_verbs_and_soft_no_crc_whole() { zmq verbs soft off; }
test_soft_and_verbs_no_crc_whole() { zmq soft verbs off; }

# Between siw and the built-in device MPA revision 1 is spoken as soon as siw dials.
test_verbs_and_soft_mpa1() { SIW=mpa1 zmq verbs soft on; }
test_soft_and_verbs_mpa1() { SIW=mpa1 zmq soft verbs on; }
