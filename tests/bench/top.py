# SPDX-License-Identifier: GPL-3.0-or-later
"""What `railwright top` costs the controller a second, with 200 nodes of eight rails and eight GPUs that are not there.

    python -m tests.bench.top [--nodes 200] [--seconds 30] [--output build/bench/top.json]

One process of its own is the sshd of all nodes: it takes the key, lets the question be sent, and says a line a second to each, as the
node's half does. Keys, ciphers, login, forms, rates, marks and the drawing are the product's. The CPU time is that of the command alone;
of a short run and of a longer one, so that start and logins are taken off. Once onto a terminal of 24 lines, once as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import platform
import pty
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncssh
from tests.bench.loopback import FIRST_RAIL
from tests.bench.meter import ROOT, spent
from tests.lib.ssh_world import address

SHARE = 0.30  # of a core, at most
SHORT = 10  # seconds of the run that is taken off
RAILS = GPUS = 8
WORD = re.compile(r"railwright ([0-9a-f]{32})")


def line(number: int, tick: int, at: float) -> bytes:
    """What node ``number`` says at its second ``tick``. Of node 7 the fourth rail is slow; node 11 has GPUs that are held back."""
    ports = []
    for rail in range(RAILS):
        gigabits = (40 if (number, rail) == (7, 3) else 361 + (number * 7 + rail * 3 + tick) % 19) * tick
        counted = {"out_bytes": gigabits * 125_000_000, "in_bytes": gigabits * 124_000_000, "out_packets": gigabits * 30_000,
                   "in_packets": gigabits * 30_000, "pauses_out": 0, "pauses_in": 12 * tick * (rail == 5), "waits": None,
                   "retransmissions": 40 * tick * ((number, rail) == (7, 3)), "out_of_sequence": 0, "cnp_out": 0, "cnp_in": 0}
        ports.append({"rail": None, "hca": f"mlx5_{rail}", "port": 1, "netdev": f"ens{rail}np0", "state": "ACTIVE", "rate": 400, **counted})
    gpus = [{"index": gpu, "pci": f"0000:{0x1a + gpu:02x}:00.0", "use": 97 + (tick + gpu) % 4, "memory_used": 70 << 30,
             "memory_total": 80 << 30, "watts": 612.5 + gpu, "limit_watts": 700.0, "mhz": 1200 if number == 11 else 1755, "max_mhz": 1980,
             "celsius": 61 + gpu % 4, "held_back": ["hw_thermal_slowdown"] if (number, gpu) == (11, 2) else ["sw_power_cap"],
             "lost": False, "nvlink_out": tick * 201_000_000_000, "nvlink_in": tick * 199_000_000_000} for gpu in range(GPUS)]
    said = {"gpus": gpus, "gpus_at": at, "gpus_unknown": None, "at": at, "ports": ports}
    return json.dumps(said, separators=(",", ":")).encode("ascii") + b"\n"


async def serve(directory: Path) -> None:
    """Until it is ended."""
    numbers = itertools.count()

    async def node(process: asyncssh.SSHServerProcess[bytes]) -> None:
        number, word = next(numbers), WORD.search(process.command or "")
        assert word is not None
        with suppress(asyncssh.Error, OSError, asyncio.IncompleteReadError):
            process.stdout.write(f"\n#railwright {word[1]} send\n".encode())
            await process.stdin.readexactly(sum(map(int, (await process.stdin.readline()).split())))
            for tick in itertools.count(1):
                process.stdout.write(line(number, tick, 1000.0 + tick))
                await asyncio.sleep(1)

    server = await asyncssh.listen("", 0, family=socket.AF_INET, server_host_keys=[str(directory / "host")], process_factory=node,
                                   authorized_client_keys=str(directory / "client.pub"), encoding=None)  # fmt: skip
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.wait_closed()


def inventory(directory: Path, count: int, port: int) -> Path:
    key = (directory / "host.pub").read_text(encoding="ascii")
    (directory / "known_hosts").write_text("".join(f"[{address(number + 1)}]:{port} {key}" for number in range(count)), encoding="ascii")
    options = f"-F none -o UserKnownHostsFile={directory}/known_hosts -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes"
    common = {
        "rdma_fabric": "roce", "rdma_mtu": 9000, "ansible_port": port, "ansible_user": "root",
        "ansible_ssh_private_key_file": str(directory / "client"), "ansible_ssh_common_args": options,
    }
    hosts = {f"node{number:05d}": {"ansible_host": address(number + 1), "rdma_rails": [
        {"name": f"rail{rail}", "match": {"pci": f"0000:{0x13 + 0x18 * rail:02x}:00.0"},
         "address": f"{FIRST_RAIL + (rail << 14) + number + 1}/18"} for rail in range(RAILS)]} for number in range(count)}  # fmt: skip
    path = directory / "site.json"
    path.write_text(json.dumps({"all": {"vars": common, "children": {"rdma": {"hosts": hosts}}}}), encoding="utf-8")
    return path


def run(site: Path, seconds: int, *, screen: bool) -> tuple[float, bytes]:
    """CPU time of one `top`, and what it showed."""
    argv = [sys.executable, "-m", "railwright", "top", "-i", str(site), "--for", str(seconds)]
    before = spent()
    if not screen:
        done = subprocess.run([*argv, "--format", "json"], stdout=subprocess.PIPE, check=True)
        return spent() - before, done.stdout
    master, slave = pty.openpty()
    shown = bytearray()

    def read() -> None:
        with suppress(OSError):
            while data := os.read(master, 65536):
                shown.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        subprocess.run(argv, stdin=slave, stdout=slave, check=True)
    finally:
        os.close(slave)
        reader.join()
        os.close(master)
    return spent() - before, bytes(shown)


def bench(count: int, seconds: int, directory: Path) -> dict[str, Any]:
    for name in ("host", "client"):
        subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)), check=True)
    argv = [sys.executable, "-m", "tests.bench.top", "--serve", str(directory)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            site = inventory(directory, count, int(server.stdout.readline()))
            found: dict[str, Any] = {"nodes": count, "seconds": seconds}
            for screen in (True, False):
                short, _shown = run(site, SHORT, screen=screen)
                long, shown = run(site, SHORT + seconds, screen=screen)
                way = "screen" if screen else "json"
                share = (long - short) / seconds
                found |= {f"{way}_share": round(share, 3), f"{way}_ms_a_sample": round(1000 * share / count, 3),
                          f"{way}_start_s": round(short, 1)}
                if not screen:
                    states = [node["status"] for node in json.loads(shown.splitlines()[-1])["nodes"].values()]
                    found["ok"] = states.count("ok")
        finally:
            server.terminate()
    return {**found, "python": platform.python_version(), "cores": len(os.sched_getaffinity(0)),
            "load": [round(each, 1) for each in os.getloadavg()]}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.top")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench" / "top.json")
    options = parser.parse_args()
    if options.serve is not None:
        asyncio.run(serve(options.serve))
        return 0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rw-bench-") as name:
        document = bench(options.nodes, options.seconds, Path(name))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"{options.output}: {document} in {time.monotonic() - begin:.0f} s")
    worst = max(document["screen_share"], document["json_share"])
    if document["ok"] != options.nodes or worst > SHARE:
        print(f"bench: {document['ok']} nodes answered, {worst} of a core; claimed: all, at most {SHARE}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
