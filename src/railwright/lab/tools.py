# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs the lab drives: where they are, which Debian package has them, how they are run; and the one error it raises on purpose."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in
from railwright.exitcodes import CommandError


class LabError(CommandError):
    """Something the operator can act on; the message says what and how."""


PACKAGE_OF = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "mkfs.ext4": "e2fsprogs",
    "debugfs": "e2fsprogs",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "tar": "tar",
    "ip": "iproute2",
    "unshare": "util-linux",
    "newuidmap": "uidmap",
}

# What every lab needs; wider labs and unprivileged builds ask for more when they get there.
ALWAYS = ("qemu-system-x86_64", "qemu-img", "mmdebstrap", "mkfs.ext4", "debugfs", "ssh", "ssh-keygen", "tar")

# mkfs and debugfs live in sbin, which is not on an ordinary user's PATH.
_SEARCH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def find_tool(name: str) -> str | None:
    return shutil.which(name, path=_SEARCH)


def missing_packages(names: Iterable[str] = ALWAYS) -> list[str]:
    return sorted({PACKAGE_OF[name] for name in names if find_tool(name) is None})


def require(names: Iterable[str] = ALWAYS) -> None:
    """Raise one LabError that names everything missing, so that nobody installs in rounds."""
    missing = [name for name in names if find_tool(name) is None]
    if missing:
        raise LabError(f"the lab needs {', '.join(missing)}; install with: apt-get install {' '.join(missing_packages(missing))}")


def tool(name: str) -> str:
    """Return the path of a program or raise a LabError that names its package."""
    require([name])
    return find_tool(name) or name


def run_tool(argv: Sequence[str], *, timeout: float = 120) -> str:
    """Run a command to its end and return stdout; a failure becomes a LabError with the last lines."""
    command = [tool(argv[0]) if argv[0] in PACKAGE_OF else argv[0], *argv[1:]]
    name = Path(argv[0]).name
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as exc:
        raise LabError(f"{name} did not end within {timeout:.0f} s: {' '.join(argv)}") from exc
    except OSError as exc:
        raise LabError(f"{name} could not be started: {exc.strerror}") from exc
    if done.returncode != 0:
        raise LabError(f"{name} failed (exit {done.returncode}): {tail(done.stderr or done.stdout)}")
    return done.stdout


def tail(text: str, lines: int = 5) -> str:
    """The last non-empty lines of some output, on one line, for an error message."""
    kept = [line.strip() for line in lines_in(text) if line.strip()]
    return " | ".join(kept[-lines:]) or "no output"
