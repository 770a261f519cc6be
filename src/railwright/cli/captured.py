# SPDX-License-Identifier: GPL-3.0-or-later
"""What --sysroot may name: a captured tree, told by what docs/reference/facts.md says that one holds."""

from pathlib import Path

from railwright.exitcodes import InputError

PARTS = ("sys", "proc", "etc", "var", "lib", "usr", "boot", "cmd")


def captured_tree(sysroot: Path) -> str:
    """The path of a tree; any other directory would be shown as a node without RDMA devices and GPUs, which it is not."""
    if not sysroot.is_dir():
        raise InputError(f"--sysroot {sysroot}: {'not a directory' if sysroot.exists() else 'does not exist'}")
    if not any((sysroot / part).is_dir() for part in PARTS):
        raise InputError(f"--sysroot {sysroot}: is no captured tree; allowed: a directory that holds any of {', '.join(PARTS)}")
    return str(sysroot)
