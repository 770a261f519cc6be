#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""In place of sendrecv_perf and broadcast_perf where there is no GPU: two ranks that Slurm started exchange bytes over TCP, at a pace.

Each iteration takes as long as the slower end wants, and that is measured and printed as nccl-tests prints it; the speed that comes of it
is a stand-in's. An end is slow where ``/var/lib/stand-in/slow`` on its node says so (0.5: half as fast), and silent where it says 0.
"""

import json
import os
import socket
import sys
import time
from pathlib import Path

USAGE = """USAGE: a stand-in for nccl-tests
\t[-b,--minbytes <min size in bytes>]
\t[-e,--maxbytes <max size in bytes>]
"""
FAULT = Path("/var/lib/stand-in/slow")
PACE = 0.04  # s; what Python and TCP take is within it
LUMP = 64 * 1024
MEET_SECONDS = 30


def meet():
    """A connection to the other rank: the one that is where srun was called listens."""
    place = (os.environ["SLURM_LAUNCH_NODE_IPADDR"], 20000 + int(os.environ["SLURM_JOB_ID"]) % 20000)
    try:
        with socket.create_server(place) as listener:
            listener.settimeout(MEET_SECONDS)
            return listener.accept()[0]
    except OSError as error:
        if error.errno != 99:  # EADDRNOTAVAIL: this is the other node
            raise
    deadline = time.monotonic() + MEET_SECONDS
    while True:
        try:
            return socket.create_connection(place, MEET_SECONDS)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def exchange(connection, data):
    connection.sendall(data)
    left = len(data)
    found = []
    while left:
        found.append(connection.recv(left))
        if not found[-1]:
            sys.exit("the other rank has gone")
        left -= len(found[-1])
    return b"".join(found)


def measure(connection, iterations, share):
    """Seconds of an iteration."""
    begun = time.monotonic()
    for number in range(iterations):
        exchange(connection, bytes(LUMP))
        time.sleep(max(0.0, begun + (number + 1) * PACE / share - time.monotonic()))
    exchange(connection, b"end.")
    return (time.monotonic() - begun) / iterations


def main():
    if sys.argv[1:] == ["-h"]:
        sys.stdout.write(USAGE)
        return
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    rank = int(os.environ["SLURM_PROCID"])
    share = float(FAULT.read_text()) if FAULT.exists() else 1.0
    connection = meet()
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    own = json.dumps([rank, os.getpid(), socket.gethostname()]).ljust(200).encode()
    ranks = sorted((json.loads(own), json.loads(exchange(connection, own))))
    say = sys.stdout.write if rank == 0 else lambda _text: None
    say("# stand-in for nccl-tests version 2.19.6\n# Using devices\n")
    for number, pid, host in ranks:
        say(f"#  Rank {number:2} Group  0 Pid {pid:6} on {host:>10} device  0 [0000:1b:00] stand-in\n")
    say("#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n")
    sys.stdout.flush()
    if not share:
        time.sleep(3600)
    for size in range(int(options["-b"]), int(options["-e"]) + 1, int(options["-i"])):
        seconds = measure(connection, int(options["-n"]), share)
        half = f"{seconds * 1e6:9.2f} {size / seconds / 1e9:7.2f} {size / seconds / 1e9:7.2f}     N/A"
        say(f"{size:12} {size // 4:12}     float    none {options['-r']:>6} {half} {half}\n")
        sys.stdout.flush()
    say("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1 \n#\n")


main()
