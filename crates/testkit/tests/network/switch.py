"""A switch whose ways take as long as they are told to: frames of each port go to all others, each after its delay.

Called by network.rs inside a network namespace, where the kernel has no queue that delays. The arguments are the
file with the delays and the names of the ports. A line of the file is `port port milliseconds`, both ways; what is not
named takes no time. The file is read again whenever it changes.
"""

import heapq
import os
import select
import socket
import sys
import time

SOL_PACKET, PACKET_VNET_HDR = 263, 15
# What the kernel still has to do to a frame, such as its checksum, goes along in so many bytes before it.
HEAD = 10

path, ports = sys.argv[1], sys.argv[2:]
sockets = {}
for port in ports:
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    raw.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    raw.bind((port, 3))
    raw.setblocking(False)
    sockets[port] = raw
by_number = {raw.fileno(): port for port, raw in sockets.items()}
# Which port an address was last seen behind.
behind = {}
delays, read_at = {}, None
# Frames under way: when each is due, a number that keeps their order, whereto, and the frame.
waiting, count = [], 0


def delay(one, other):
    return delays.get((one, other), delays.get((other, one), 0.0))


while True:
    changed = os.stat(path).st_mtime_ns
    if changed != read_at:
        read_at = changed
        with open(path) as lines:
            words = [line.split() for line in lines if line.strip()]
        delays = {(one, other): float(ms) / 1000 for one, other, ms in words}
    now = time.monotonic()
    while waiting and waiting[0][0] <= now:
        _, _, port, frame = heapq.heappop(waiting)
        try:
            sockets[port].send(frame)
        except OSError:
            pass  # The port is down, or its queue is full: frames get lost, as in any switch.
    wait = min(0.2, waiting[0][0] - now) if waiting else 0.2
    readable, _, _ = select.select(list(by_number), [], [], max(wait, 0))
    for number in readable:
        port = by_number[number]
        for _ in range(64):
            try:
                frame, about = sockets[port].recvfrom(HEAD + 65536)
            except BlockingIOError:
                break
            if about[2] == socket.PACKET_OUTGOING:
                continue
            behind[frame[HEAD + 6 : HEAD + 12]] = port
            target = behind.get(frame[HEAD : HEAD + 6])
            targets = [target] if target else [other for other in ports if other != port]
            arrived = time.monotonic()
            for other in targets:
                if other != port:
                    count += 1
                    heapq.heappush(waiting, (arrived + delay(port, other), count, other, frame))
