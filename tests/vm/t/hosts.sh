# SPDX-License-Identifier: MPL-2.0
# shellcheck shell=bash
# Two hosts and libzmq between them: what happens when something breaks. See tests/vm/hosts.
# lab-hosts: 2
# lab-timeout: 300

# `two_hosts rxe|siw TEST`
two_hosts() {
    "$LAB_DIR/hosts/net" 1
    export LD_LIBRARY_PATH=$ZMQ_RDMA_PREFIX/lib LAB_TEST=$1_$2
    /usr/bin/python3 "$LAB_DIR/hosts/hosts.py" "$1" "$2"
}

test_rxe_cut_under_way() { two_hosts rxe cut_under_way; }
test_rxe_cut_idle() { two_hosts rxe cut_idle; }
test_rxe_link_down() { two_hosts rxe link_down; }
test_rxe_address_removed() { two_hosts rxe address_removed; }
test_rxe_killed_idle() { two_hosts rxe killed_idle; }
test_rxe_killed_under_way() { two_hosts rxe killed_under_way; }
test_rxe_stopped_idle() { two_hosts rxe stopped_idle; }
test_rxe_stopped_under_way() { two_hosts rxe stopped_under_way; }
test_rxe_device_removed_here() { two_hosts rxe device_removed_here; }
test_rxe_device_removed_there() { two_hosts rxe device_removed_there; }
test_rxe_lossy() { two_hosts rxe lossy; }
test_rxe_narrow() { two_hosts rxe narrow; }
test_rxe_memlock() { two_hosts rxe memlock; }
test_rxe_unreachable() { two_hosts rxe unreachable; }
test_rxe_cycles() { two_hosts rxe cycles; }
test_siw_cut_under_way() { two_hosts siw cut_under_way; }
test_siw_cut_idle() { two_hosts siw cut_idle; }
test_siw_link_down() { two_hosts siw link_down; }
test_siw_address_removed() { two_hosts siw address_removed; }
test_siw_killed_idle() { two_hosts siw killed_idle; }
test_siw_killed_under_way() { two_hosts siw killed_under_way; }
test_siw_stopped_idle() { two_hosts siw stopped_idle; }
test_siw_stopped_under_way() { two_hosts siw stopped_under_way; }
test_siw_device_removed_here() { two_hosts siw device_removed_here; }
test_siw_device_removed_there() { two_hosts siw device_removed_there; }
test_siw_lossy() { two_hosts siw lossy; }
test_siw_narrow() { two_hosts siw narrow; }
test_siw_memlock() { two_hosts siw memlock; }
test_siw_unreachable() { two_hosts siw unreachable; }
test_siw_cycles() { two_hosts siw cycles; }
