# SPDX-License-Identifier: GPL-3.0-or-later
"""KVM or plain emulation. A /dev/kvm that exists may hang the guest without a word, so only a guest that speaks counts."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from pathlib import Path

from railwright.lab import tools
from railwright.lab.image import Image, Progress
from railwright.lab.paths import cache_root, write_atomic

PROBE_SECONDS = 10.0
ARGV = {
    "kvm": ["-accel", "kvm", "-cpu", "host"],
    "tcg": ["-accel", "tcg,thread=multi", "-cpu", "max"],
}


def choose(image: Image, progress: Progress, device: Path = Path("/dev/kvm")) -> str:
    """Return "kvm" or "tcg". The answer is kept until the next boot of the controller."""
    if not os.access(device, os.R_OK | os.W_OK):
        return "tcg"
    known = cache_root() / "accel.json"
    boot = _boot_id()
    try:
        answer = json.loads(known.read_text(encoding="utf-8"))
        if answer["boot"] == boot and answer["accel"] in ARGV:
            return str(answer["accel"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # Never asked, or not readable: ask.
    progress("probing /dev/kvm (up to 10 s)")
    accel = "kvm" if speaks(_probe_argv(image)) else "tcg"
    progress(f"  using {'KVM' if accel == 'kvm' else 'plain emulation (TCG): correct, but slow'}")
    write_atomic(known, json.dumps({"boot": boot, "accel": accel}) + "\n")
    return accel


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _probe_argv(image: Image) -> list[str]:
    return [
        tools.tool("qemu-system-x86_64"), *ARGV["kvm"], "-m", "256", "-nodefaults", "-display", "none", "-no-reboot",
        "-kernel", str(image.kernel), "-append", "console=ttyS0 panic=-1", "-serial", "stdio",
    ]  # fmt: skip


def speaks(argv: list[str], seconds: float = PROBE_SECONDS) -> bool:
    """True when the command prints anything on its console within the time."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    console = process.stdout
    if console is None:  # Never with PIPE; said for the type checker.
        return False
    deadline = time.monotonic() + seconds
    try:
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([console], [], [], left)[0]:
                return False
            data = os.read(console.fileno(), 4096)
            if data.strip():
                return True
            if not data:
                return False  # It ended without a word.
        return False
    finally:
        process.kill()
        process.wait()
        console.close()
