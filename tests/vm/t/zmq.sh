# SPDX-License-Identifier: MPL-2.0
# shellcheck shell=bash
#
# libzmq over the kernel's devices: the programs that tests/run starts outside, inside,
# with every connection forced on RoCE (rxe) or iWARP (siw). Same library, same tests.
# ZMQ_RDMA_PREFIX and ZMQ_RDMA_BUILD say what is tested.
# lab-timeout: 900

# Not for these devices: what wants a peer of plain TCP (on 6.1 siw brings the kernel
# down when a connection of TCP ends without a word), or proves nothing about a device.
not_here='perf/(bench|instructions)/|identity/(loaded|has)$|monitor/handshake_interval$|devices/|stress/leaks/idle$'

# Of them those that a usual run takes: on RoCE, and (with the code above the device proved
# there) on iWARP. LAB_ALL is set: all.
on_both='python/(patterns/|rendezvous/read_|security/(curve|plain_zap|null_zap)|big/(sizes|both_ways)|metadata/'\
'|linger/(under_pressure|read_after_exit|one_shots|reply|publisher|both_close|one_large)'\
'|monitor/(life|server_killed|nobody|unbind)|flow/(stalled_both|connect_before|fan_in))'\
'|stress/(leaks/connects|peers/connect_at_once)|perf/tools/'
on_rxe='python/(busy_poll/each_setting|rendezvous/(small_|a_sender_that_leaves)|pool/(one_|peers_|a_|at_|what_is_kept)|endpoints/(forms|malformed|not_local|source|given_back)|identity/fork|monitor/|security/|flow/proxied)'\
'|stress/peers/(stop_and_continue|server_restarts|kill_and_terminate)'

# siw holds root to the limit of locked memory.
on_siw='python/reads/next_to_nothing'

list_rxe() {
    "$LAB_DIR/../run" --list python stress perf | grep -vE "$not_here" | grep -E "${LAB_ALL:+.|}$on_both|$on_rxe"
}
list_siw() {
    "$LAB_DIR/../run" --list python stress perf | grep -vE "$not_here" | grep -E "${LAB_ALL:+.|}$on_both|$on_siw"
}

# Of libzmq's own tests: each pattern, options that reach the transport, and what ends badly.
# (check builds these.) And those of them that iWARP is tried with too.
parity_core='test_reqrep_tcp test_pair_tcp test_hwm* test_spec_* test_sub_forward test_monitor test_heartbeats
    test_connect_rid test_immediate test_last_endpoint test_security_curve test_security_null test_security_plain
    test_stream* test_router_* test_probe_router test_term_endpoint test_unbind_wildcard test_xpub_* test_conflate
    test_metadata test_issue_566 test_proxy* test_req_*'
parity_siw='test_reqrep_tcp test_pair_tcp test_hwm* test_spec_* test_monitor test_heartbeats test_security_curve'

# Not in a usual run: it wants five connections that are begun at once to be up in that order, which
# nobody promises: docs/design.md 4.
unordered='test_spec_req/test_round_robin_out_tcp'

list_parity() { # names of programs; all if LAB_ALL is set
    if [ -z "${LAB_PARITY:-}" ]; then
        echo "lab: without libzmq's own tests: tests/vm/check builds them and sets LAB_PARITY" >&2
        return
    fi
    # In what runs over ipc:// or inproc:// there is no device, nor on the way to 0.0.0.0.
    # shellcheck disable=SC2086 # a name a word
    (set -f && "$LAB_DIR/../parity/run" --built --work "$LAB_PARITY" --list $([ -n "${LAB_ALL:-}" ] || echo "$1")) | grep -v '_\(ipc\|inproc\)$\|^test_stream_disconnect/\|/test_address_wildcard_' | grep -v "^${LAB_ALL:+none of them/}$unordered\$"
}
list_parity_rxe() { list_parity "$parity_core"; }
list_parity_siw() { list_parity "$parity_siw"; }

# Every address is that of the one host, by the device.
environment() { # rxe or siw
    lab_host "$1"
    export ZT_HOST=10.76.0.1 ZT_HOST_SECOND=10.76.0.11 ZT_HOST6=fd76::1 ZT_HOST_NAME=lab-x0 ZT_HOST_INTERFACE=x0
    export ZT_SLOW=${ZT_SLOW:-8} ZT_SHORT=${ZT_SHORT:-10} ZT_PERF_ROUNDS=1 ZT_PERF_SIZES='64 8192 262144'
    export ZMQ_RDMA_DEVICE=verbs PARITY_SHARED_NETWORK=1
    export PYTHONDONTWRITEBYTECODE=1
}

own() { # rxe or siw: the tests of tests/run that $LAB_CASES names
    environment "$1"
    # shellcheck disable=SC2046 # a name a word
    "$LAB_DIR/../run" --twice --logs "$LAB_RESULTS/zmq-$1" $(cat "$LAB_CASES")
}

parity() { # likewise of tests/parity/run
    environment "$1"
    # libzmq's tests have a bound of their own, a minute. They run where they log, and bind
    # ipc:// there, which /results does not know.
    local status=0
    # shellcheck disable=SC2046 # a name a word
    ZT_SLOW=2 "$LAB_DIR/../parity/run" --built --work "$LAB_PARITY" --logs "/tmp/parity-$1" $(cat "$LAB_CASES") || status=$?
    cp -r "/tmp/parity-$1" "$LAB_RESULTS/"
    return $status
}

test_rxe() { own rxe; }
test_siw() { own siw; }
test_parity_rxe() { parity rxe; }
test_parity_siw() { parity siw; }
