# SPDX-License-Identifier: MPL-2.0
# shellcheck shell=bash
# The bytes of siw's connections, as tests/vectors/siw.txt keeps them: one rping (or, where that
# cannot READ, in MPA revision 1, two SENDs each way of ucmatose) between two
# ends on siw, and one rping between siw and the built-in device. They lie in build-vm/last/siw.txt.
# lab-timeout: 120

at=10.78.0.1
port=7174

captured() { # name variant command-of-server command-of-client
    lab_siw_variant "$2"
    cd "$(mktemp -d)"
    python3 "$LAB_DIR/guest/capture.py" lo $port "$1" "$LAB_RESULTS/siw.txt" >capture.out 2>&1 &
    local capture=$! server
    lab_until 20 grep -q ready capture.out
    $3 >server.out 2>&1 &
    server=$!
    lab_until 20 listens
    $4
    wait $server || { cat server.out; return 1; }
    # Ended by FIN or reset, seen by the capture as well.
    lab_until 10 test ! -e /proc/$capture || kill $capture
    wait $capture
    [ "$(grep -c 4d504120494420526571204672616d65 "$LAB_RESULTS/siw.txt")" -ge 1 ]
    [ "$(sed -n "/^\[$1 responder\]/,/^$/p" "$LAB_RESULTS/siw.txt" | wc -l)" -gt 5 ]
}

listens() { lab_listens $port || grep -q listening server.out; }

siw_server() { rping -s -a $at -C 1 -S 32; }
siw_client() { rping -c -a $at -C 1 -S 32; }
ucm_server() { ucmatose -b $at -C 2 -S 32; }
ucm_client() { ucmatose -s $at -C 2 -S 32; }
soft_server() { EP_ADDR=$at $VM_ENDPOINT rping_server 1; }
soft_client() { EP_ADDR=$at $VM_ENDPOINT rping_client 1 32; }

test_mpa2() { captured "mpa2" plain siw_server siw_client; }
test_mpa2_crc() { captured "mpa2 crc" crc siw_server siw_client; }
test_mpa1() { port=7471 captured "mpa1" mpa1 ucm_server ucm_client; }
test_mpa1_crc() { port=7471 captured "mpa1 crc" mpa1crc ucm_server ucm_client; }
test_soft_client() { captured "soft client" plain siw_server soft_client; }
test_soft_server() { captured "soft server" plain soft_server siw_client; }
test_soft_server_mpa1() { captured "soft server mpa1" mpa1crc soft_server siw_client; }
