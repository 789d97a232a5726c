# SPDX-License-Identifier: MPL-2.0
# shellcheck shell=bash
# The verbs device at its own door: each test of tests/vm/endpoint over rxe and siw.
# VM_ENDPOINT is the program.
# lab-timeout: 120

on_rxe() {
    lab_rxe
    export EP_ADDR=10.77.0.2 EP_SOURCE=10.77.0.1
    $VM_ENDPOINT "$1"
}

on_siw() {
    lab_siw
    export EP_ADDR=10.78.0.1
    $VM_ENDPOINT "$1"
}

# The built-in iWARP against the kernel's: a soft client of a verbs server on siw, and back.
soft_to_siw() {
    lab_siw_variant "${2:-plain}"
    export EP_ADDR=10.78.0.1 EP_CLIENT=soft
    $VM_ENDPOINT "$1"
}

siw_to_soft() {
    lab_siw_variant "${2:-plain}"
    export EP_ADDR=10.78.0.1 EP_SERVER=soft
    $VM_ENDPOINT "$1"
}

# RoCE, iWARP and loopback on one machine.
on_all() {
    lab_rxe
    lab_siw_variant plain
    EP_ADDR=127.0.0.1 $VM_ENDPOINT "$1"
}

# Nothing of RoCE comes through: the peer does not answer.
without_roce() {
    lab_rxe
    iptables -A INPUT -p udp --dport 4791 -j DROP
    "$@"
    iptables -D INPUT -p udp --dport 4791 -j DROP
}

# `limited on_rxe BYTES [TEST]`: as a user who may pin no more.
limited() {
    local program=$VM_ENDPOINT
    VM_ENDPOINT="lab_unprivileged $2 $program"
    "lab_${1#on_}"
    $1 "${3:-memlock}"
}

# The same as root.
limited_root() {
    local program=$VM_ENDPOINT
    VM_ENDPOINT="prlimit --memlock=$2:$2 $program"
    "lab_${1#on_}"
    $1 "${3:-memlock}"
}

on_rxe_v6() {
    lab_rxe
    export EP_ADDR=fd77::1
    $VM_ENDPOINT "$1"
}

test_rxe_handshake() { on_rxe handshake; }
test_rxe_reject() { on_rxe reject; }
test_rxe_refused() { on_rxe refused; }
test_rxe_in_use() { on_rxe in_use; }
test_rxe_sizes() { on_rxe sizes; }
test_rxe_stream() { on_rxe stream; }
test_rxe_window() { on_rxe window; }
test_rxe_read_among_sends() { on_rxe read_among_sends; }
test_rxe_looked_at() { on_rxe looked_at; }
test_rxe_read() { on_rxe read; }
test_rxe_hidden() { on_rxe hidden; }
test_rxe_part() { on_rxe part; }
test_rxe_dropped() { on_rxe dropped; }
test_rxe_attributes() { on_rxe attributes; }
test_rxe_wildcard() { on_rxe wildcard; }
test_rxe_v6_handshake() { on_rxe_v6 handshake; }
test_rxe_v6_stream() { on_rxe_v6 stream; }
test_rxe_cycles() { on_rxe cycles; }
test_rxe_crowd() { on_rxe crowd; }
test_rxe_fork() { on_rxe fork; }
test_rxe_killed() { on_rxe killed; }
test_rxe_stopped() { on_rxe stopped; }
test_rxe_blip() { on_rxe blip; }
test_rxe_gone_unseen() { on_rxe gone_unseen; }
test_rxe_memlock_64k() { limited on_rxe 65536; }
test_rxe_memlock_1m() { limited on_rxe 1048576; }
test_rxe_memlock_8m() { limited on_rxe 8388608; }
test_rxe_memlock_lowered() { limited on_rxe 67108864 memlock_lowered; }
test_rxe_lean() { limited on_rxe 16777216 lean; }
test_siw_handshake() { on_siw handshake; }
test_siw_reject() { on_siw reject; }
test_siw_refused() { on_siw refused; }
test_siw_in_use() { on_siw in_use; }
test_siw_sizes() { on_siw sizes; }
test_siw_stream() { on_siw stream; }
test_siw_window() { on_siw window; }
test_siw_read_among_sends() { on_siw read_among_sends; }
test_siw_looked_at() { on_siw looked_at; }
test_siw_read() { on_siw read; }
test_siw_hidden() { on_siw hidden; }
test_siw_part() { on_siw part; }
test_siw_dropped() { on_siw dropped; }
test_siw_wildcard() { on_siw wildcard; }
test_siw_cycles() { on_siw cycles; }
test_siw_crowd() { on_siw crowd; }
test_siw_fork() { on_siw fork; }
test_siw_killed() { on_siw killed; }
test_siw_stopped() { on_siw stopped; }
test_siw_memlock_64k() { limited on_siw 65536; }
test_siw_memlock_8m() { limited on_siw 8388608; }
test_siw_memlock_lowered() { limited on_siw 67108864 memlock_lowered; }
# siw holds root to the limit as well.
test_siw_memlock_root_64k() { limited_root on_siw 65536; }
test_siw_memlock_root_8m() { limited_root on_siw 8388608; }
test_soft_to_siw_handshake() { soft_to_siw handshake; }
test_soft_to_siw_reject() { soft_to_siw reject; }
test_soft_to_siw_refused() { soft_to_siw refused; }
test_soft_to_siw_sizes() { soft_to_siw sizes; }
test_soft_to_siw_stream() { soft_to_siw stream; }
test_soft_to_siw_window() { soft_to_siw window; }
test_soft_to_siw_read() { soft_to_siw read; }
test_soft_to_siw_hidden() { soft_to_siw hidden; }
test_soft_to_siw_part() { soft_to_siw part; }
test_soft_to_siw_dropped() { soft_to_siw dropped; }
test_soft_to_siw_cycles() { soft_to_siw cycles; }
test_soft_to_siw_crowd() { soft_to_siw crowd; }
test_soft_to_siw_killed() { soft_to_siw killed; }
test_siw_to_soft_handshake() { siw_to_soft handshake; }
test_siw_to_soft_reject() { siw_to_soft reject; }
test_siw_to_soft_refused() { siw_to_soft refused; }
test_siw_to_soft_sizes() { siw_to_soft sizes; }
test_siw_to_soft_stream() { siw_to_soft stream; }
test_siw_to_soft_window() { siw_to_soft window; }
test_siw_to_soft_read() { siw_to_soft read; }
test_siw_to_soft_hidden() { siw_to_soft hidden; }
test_siw_to_soft_part() { siw_to_soft part; }
test_siw_to_soft_dropped() { siw_to_soft dropped; }
test_siw_to_soft_cycles() { siw_to_soft cycles; }
test_siw_to_soft_crowd() { siw_to_soft crowd; }
test_siw_to_soft_killed() { siw_to_soft killed; }
test_soft_to_siw_no_crc_sizes() { EP_CRC=off soft_to_siw sizes; }
test_siw_to_soft_no_crc_sizes() { EP_CRC=off siw_to_soft sizes; }
test_soft_to_siw_no_crc_read() { EP_CRC=off soft_to_siw read; }
test_siw_to_soft_no_crc_read() { EP_CRC=off siw_to_soft read; }
test_soft_to_siw_no_crc_stream() { EP_CRC=off soft_to_siw stream; }
test_siw_to_soft_no_crc_stream() { EP_CRC=off siw_to_soft stream; }
test_soft_to_siw_mpa1_handshake() { soft_to_siw handshake mpa1; }
test_soft_to_siw_mpa1_reject() { soft_to_siw reject mpa1; }
test_soft_to_siw_mpa1_sizes() { soft_to_siw sizes mpa1; }
test_soft_to_siw_mpa1_read() { soft_to_siw read mpa1; }
test_siw_to_soft_mpa1_handshake() { siw_to_soft handshake mpa1; }
test_siw_to_soft_mpa1_reject() { siw_to_soft reject mpa1; }
test_siw_to_soft_mpa1_sizes() { siw_to_soft sizes mpa1; }
test_siw_to_soft_mpa1_read() { siw_to_soft read mpa1; }
test_soft_to_siw_crc_handshake() { EP_CRC=off soft_to_siw handshake crc; }
test_soft_to_siw_crc_reject() { EP_CRC=off soft_to_siw reject crc; }
test_soft_to_siw_crc_sizes() { EP_CRC=off soft_to_siw sizes crc; }
test_soft_to_siw_crc_read() { EP_CRC=off soft_to_siw read crc; }
test_siw_to_soft_crc_handshake() { EP_CRC=off siw_to_soft handshake crc; }
test_siw_to_soft_crc_reject() { EP_CRC=off siw_to_soft reject crc; }
test_siw_to_soft_crc_sizes() { EP_CRC=off siw_to_soft sizes crc; }
test_siw_to_soft_crc_read() { EP_CRC=off siw_to_soft read crc; }
test_soft_to_siw_mpa1_stream() { soft_to_siw stream mpa1; }
test_siw_to_soft_mpa1_stream() { siw_to_soft stream mpa1; }
test_soft_to_siw_mpa1_no_crc_stream() { EP_CRC=off soft_to_siw stream mpa1; }
test_siw_to_soft_mpa1_no_crc_stream() { EP_CRC=off siw_to_soft stream mpa1; }
test_soft_to_siw_crc_stream() { EP_CRC=off soft_to_siw stream crc; }
test_siw_to_soft_crc_stream() { EP_CRC=off siw_to_soft stream crc; }
test_soft_to_siw_only1_handshake() { soft_to_siw handshake only1; }
test_soft_to_siw_only1_stream() { soft_to_siw stream only1; }
test_siw_plain_again() { lab_siw_variant plain; }
test_auto_wildcard() { on_all auto_wildcard; }
test_auto_one_address() { on_all auto_one_address; }
test_auto_fallback() { on_all auto_fallback; }
test_auto_silent() { without_roce on_all auto_silent; }
# The last: they leave the devices changed.
test_rxe_cut() {
    on_rxe cut
    lab_routes v0 v1 10.77.0 fd77 100
}
test_rxe_removed() { on_rxe removed; }
test_siw_removed() { on_siw removed; }
