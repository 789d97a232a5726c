# SPDX-License-Identifier: MPL-2.0
# shellcheck shell=bash
#
# What tests in the lab's VM have at hand. Devices stay up between the tests of a
# boot; each function does nothing when its work is done already.
#
#   lab_rxe      rxe0 on v0 (10.77.0.1, fd77::1) and rxe1 on v1 (10.77.0.2, fd77::2): a veth
#                pair, its traffic really crosses, so that netem and link down act on it
#   lab_siw      siw0 on w0 (10.78.0.1, fd78::1): one host; traffic goes by lo
#   lab_siw_variant NAME  the same with MPA revision 1 (mpa1), CRC demanded (crc), both
#                (mpa1crc), as one that knows revision 1 alone (only1), or plain
#   lab_host rxe|siw  xrxe or xsiw on x0 (10.76.0.1, fd76::1), in each other's place
#   lab_siw_two  namespaces left and right: siwl on l0 (10.79.0.1), siwr on r0 (10.79.0.2)
#   lab_say      a line for the run's summary

lab_say() { echo "lab: $*"; }

# Wait for a condition to become true: `lab_until SECONDS COMMAND...`.
lab_until() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || { echo "not within the time allowed: $*"; return 1; }
        sleep 0.1
    done
}

lab_modules() {
    local name
    for name in ib_uverbs rdma_ucm "$@"; do
        [ -e "/sys/module/$name" ] || modprobe "$name"
    done
    lab_until 10 test -e /dev/infiniband/rdma_cm
}

# Everybody may use the devices, as udev has it where it runs.
lab_permit() {
    lab_until 10 test -e /dev/infiniband/uverbs0
    chmod 666 /dev/infiniband/rdma_cm /dev/infiniband/uverbs*
}

# Run as an unprivileged user who may lock so many bytes: `lab_unprivileged BYTES COMMAND...`.
lab_unprivileged() {
    local bytes=$1
    shift
    prlimit --memlock="$bytes:$bytes" setpriv --reuid=65534 --regid=65534 --clear-groups \
        --inh-caps=-all --bounding-set=-all "$@"
}

# A veth pair with addresses of hosts 1 and 2: `lab_pair NAME1 NAME2 NET4 NET6`.
lab_pair() {
    modprobe -q veth || :
    ip link add "$1" mtu 9000 type veth peer name "$2" mtu 9000
    # The addresses are usable at once: nobody else can have them.
    sysctl -q -w "net.ipv6.conf.$1.accept_dad=0" "net.ipv6.conf.$2.accept_dad=0"
    ip addr add "$3.1/24" dev "$1"
    ip addr add "$3.2/24" dev "$2"
    ip -6 addr add "$4::1/64" dev "$1" nodad
    ip -6 addr add "$4::2/64" dev "$2" nodad
    ip link set "$1" up
    ip link set "$2" up
}

# Traffic between the two ends of a veth pair crosses it, though both are ours.
lab_send_to_self() { # name1 name2 net4 net6 table
    local name
    for name in "$1" "$2"; do
        sysctl -q -w "net.ipv4.conf.$name.accept_local=1" "net.ipv4.conf.$name.rp_filter=0" \
            "net.ipv4.conf.$name.arp_ignore=1" "net.ipv4.conf.$name.arp_announce=2"
    done
    sysctl -q -w net.ipv4.conf.all.rp_filter=0
    if ip rule list | grep -q '^0:.*lookup local'; then
        ip rule add preference 200 lookup local
        ip rule del preference 0
    fi
    lab_routes "$@"
    ip rule add preference 100 iif lo from "$3.1" to "$3.2" lookup "$5"
    ip rule add preference 100 iif lo from "$3.2" to "$3.1" lookup "$(($5 + 1))"
}

# Routes go when a link goes down: put them back.
lab_routes() { # name1 name2 net4 net6 table
    ip route replace "$3.2/32" dev "$1" table "$5"
    ip route replace "$3.1/32" dev "$2" table "$(($5 + 1))"
}

lab_rxe() {
    [ -e /sys/class/infiniband/rxe0 ] && return
    lab_modules rdma_rxe
    lab_pair v0 v1 10.77.0 fd77
    lab_send_to_self v0 v1 10.77.0 fd77 100
    rdma link add rxe0 type rxe netdev v0
    rdma link add rxe1 type rxe netdev v1
    lab_permit
}

lab_siw() {
    [ -e /sys/class/infiniband/siw0 ] && return
    lab_modules siw
    lab_pair w0 w1 10.78.0 fd78
    rdma link add siw0 type siw netdev w0
    lab_permit
}

# siw with others of its constants: `lab_siw_variant plain|mpa1|crc|mpa1crc|only1`.
lab_siw_variant() {
    [ "$(cat /run/siw-variant 2>/dev/null || echo plain)" != "$1" ] || { lab_siw; return; }
    lab_siw
    rdma link delete siw0
    rmmod siw
    insmod "$LAB_DIR/../../build-vm/kernel/siw/$1/siw.ko"
    echo "$1" >/run/siw-variant
    rdma link add siw0 type siw netdev w0
    lab_permit
}

# One host whose address stays the same while its device changes: x0 (10.76.0.1 and .11,
# fd76::1, named lab-x0), for programs that have the address built in. `lab_host rxe|siw`.
lab_host() {
    local other=siw
    [ "$1" = rxe ] || other=rxe
    [ ! -e /sys/class/infiniband/x$1 ] || return 0
    lab_modules "$([ "$1" = rxe ] && echo rdma_rxe || echo siw)"
    if [ ! -e /sys/class/net/x0 ]; then
        lab_pair x0 x1 10.76.0 fd76
        ip addr add 10.76.0.11/24 dev x0
        printf '10.76.0.1 lab-x0\n' >>/etc/hosts
    fi
    [ ! -e /sys/class/infiniband/x$other ] || rdma link delete x$other
    rdma link add "x$1" type "$1" netdev x0
    lab_permit
}

lab_siw_two() {
    [ -e /sys/class/infiniband/siwl ] && return
    lab_modules siw
    rdma system set netns shared 2>/dev/null || :
    ip netns add left
    ip netns add right
    # Moved there, not made there: so each has a number of its own. siw tells devices apart by
    # that alone where it listens on a wildcard, wherever they are.
    ip link add l0 mtu 9000 type veth peer name r0 mtu 9000
    ip link set l0 netns left
    ip link set r0 netns right
    lab_siw_host left l0 1 siwl
    lab_siw_host right r0 2 siwr
    lab_permit
}

lab_siw_host() { # namespace netdev host device
    ip -n "$1" link set lo up
    ip -n "$1" addr add "10.79.0.$3/24" dev "$2"
    ip -n "$1" link set "$2" up
    ip netns exec "$1" rdma link add "$4" type siw netdev "$2"
}

# Where a server with this port listens in the RDMA CM's table: `lab_listens PORT`.
lab_listens() { rdma resource show cm_id 2>/dev/null | grep -q "state LISTEN.*:$1 "; }
