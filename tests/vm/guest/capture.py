# SPDX-License-Identifier: MPL-2.0
"""Writes what passes over TCP on an interface, for a port, as bytes of each direction.

usage: capture.py INTERFACE PORT NAME FILE

Says "ready" on standard output once it listens, and goes on until it is told to end
(SIGTERM) or both sides have closed. Two sections of tests/vectors' form come out:
[NAME initiator] and [NAME responder].
"""

import signal
import socket
import struct
import sys

SYN, FIN, RST = 2, 1, 4
PACKET_OUTGOING = 4


class Direction:
    """Segments of one direction, put in order."""

    def __init__(self):
        self.start = None
        self.bytes = {}
        self.ended = False

    def take(self, sequence, flags, data):
        """One segment."""
        if flags & SYN:
            self.start = sequence + 1
            return
        if self.start is None:
            return
        for at, byte in enumerate(data):
            self.bytes[(sequence - self.start + at) % (1 << 32)] = byte
        self.ended = self.ended or bool(flags & (FIN | RST))

    def text(self):
        """Hexadecimal, 16 bytes a line."""
        data = bytes(self.bytes[at] for at in range(len(self.bytes)))
        return "".join(data[at : at + 16].hex() + "\n" for at in range(0, len(data), 16))


def segments(packets, port):
    """(to the port?, sequence, flags, data) of each TCP segment over IPv4."""
    while True:
        frame, address = packets.recvfrom(1 << 18)
        # On a loopback each is seen twice.
        if address[1] != 0x0800 or (address[2] == PACKET_OUTGOING):
            continue
        packet = frame[14:]
        header = (packet[0] & 15) * 4
        length = struct.unpack_from("!H", packet, 2)[0] or len(packet)
        if packet[9] != socket.IPPROTO_TCP:
            continue
        tcp = packet[header:length]
        source, target, sequence = struct.unpack_from("!HHI", tcp)
        if port in (source, target):
            yield target == port, sequence, tcp[13], tcp[(tcp[12] >> 4) * 4 :]


def main(interface, port, name, path):
    """Capture one connection."""
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    packets.bind((interface, 0))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("ready", flush=True)
    both = {True: Direction(), False: Direction()}
    try:
        for forward, sequence, flags, data in segments(packets, int(port)):
            both[forward].take(sequence, flags, data)
            if all(direction.ended for direction in both.values()):
                break
    finally:
        with open(path, "a", encoding="ascii") as out:
            for forward, side in ((True, "initiator"), (False, "responder")):
                out.write(f"[{name} {side}]\n{both[forward].text()}\n")


main(*sys.argv[1:])
