# SPDX-License-Identifier: MPL-2.0
# shellcheck shell=bash
# Figures of rdma:// in the VM beside tcp:// and raw verbs; ZMQ_RDMA_BUILD says of which library.
# lab-timeout: 900

bench() { # server's address, client's, name
    ZMQ_RDMA_DEVICE=verbs python3 "$LAB_DIR/bench.py" "$@"
}

test_rxe() {
    lab_rxe
    bench 10.77.0.2 10.77.0.1 rxe
}

test_siw() {
    lab_siw
    bench 10.78.0.1 10.78.0.1 siw # one host
}
