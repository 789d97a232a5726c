# SPDX-License-Identifier: MPL-2.0
# shellcheck shell=bash
# rdma-core's own rping over each driver: whether the lab itself stands.
# lab-timeout: 60

ping_pong() { # server client
    rping -s -a "$1" -C 20 -v >server.out 2>&1 &
    local server=$!
    lab_until 20 lab_listens 7174
    rping -c -a "$1" ${2:+-I "$2"} -C 20 -v
    wait $server
    [ "$(grep -c 'ping data' server.out)" = 20 ]
}

test_rxe() {
    cd "$(mktemp -d)"
    lab_rxe
    before=$(cat /sys/class/net/v0/statistics/tx_packets)
    ping_pong 10.77.0.2 10.77.0.1
    # It crossed the veth pair and did not take a short way.
    [ "$(cat /sys/class/net/v0/statistics/tx_packets)" -gt $((before + 40)) ]
}

test_siw() {
    cd "$(mktemp -d)"
    lab_siw
    ping_pong 10.78.0.1
}

test_siw_two() {
    cd "$(mktemp -d)"
    lab_siw_two
    ip netns exec right rping -s -a 10.79.0.2 -C 20 -v >server.out 2>&1 &
    lab_until 20 lab_listens 7174
    ip netns exec left rping -c -a 10.79.0.2 -C 20 -v
    wait $!
    [ "$(grep -c 'ping data' server.out)" = 20 ]
}
