# SPDX-License-Identifier: GPL-3.0-or-later
"""One shell round trip to a node that may not have Python, and what is read from its answer.

The script is fixed text; the only thing that is put into it is the inventory's own
ansible_python_interpreter, as a quoted argument. The operating system's text comes
last, so that nothing a node says about itself can pass for another section.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import is_digits, whole
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import platform_of
from ansible_collections.railwright.rdma.plugins.module_utils.plan.preflight import MOUNTS, Evidence
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity

MARK = "#railwright:"
LIMIT = 64 * 1024  # characters of an answer; a login may print some before it
SECTIONS = ("uid", "kernel", "arch", "clock", "synchronised", "init", "free", "python", "os")
# Where ansible-core itself looks (INTERPRETER_PYTHON_FALLBACK), and EL 8's own.
INTERPRETERS = "python3 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 python3.7 python3.6 /usr/libexec/platform-python"
SCRIPT = f"""
LC_ALL=C; PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin; export LC_ALL PATH
echo '{MARK}uid'; id -u
echo '{MARK}kernel'; uname -r
echo '{MARK}arch'; uname -m
echo '{MARK}clock'; date +%s
echo '{MARK}synchronised'; timedatectl show -p NTPSynchronized --value 2>/dev/null
echo '{MARK}init'; cat /proc/1/comm 2>/dev/null
echo '{MARK}free'; df -Pk {" ".join(MOUNTS)} 2>/dev/null
echo '{MARK}python'
for name in "$@" {INTERPRETERS}; do
  full=$(command -v "$name" 2>/dev/null) || continue
  version=$("$full" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) && echo "$version $full"
done
echo '{MARK}os'; cat /etc/os-release 2>/dev/null || cat /usr/lib/os-release 2>/dev/null
echo '{MARK}end'
""".strip()


class ProbeError(Exception):
    """The node's answer is not one."""


@dataclass(frozen=True)
class Python:
    """One interpreter of a node."""

    path: str
    version: tuple[int, ...]

    def __str__(self) -> str:
        return f"Python {'.'.join(map(str, self.version))} ({self.path})"


@dataclass(frozen=True)
class Probe:
    """What a node said, one text for each section."""

    sections: dict[str, str]

    def line(self, name: str) -> str:
        return self.sections.get(name, "").strip().partition("\n")[0].strip()

    def number(self, name: str) -> int | None:
        return whole(self.line(name), 0)

    @property
    def pythons(self) -> list[Python]:
        """Interpreters that run, the one that the inventory names first."""
        found = []
        for row in self.sections.get("python", "").splitlines():
            version, _blank, path = row.partition(" ")
            if path and all(map(is_digits, version.split("."))):
                found.append(Python(path, tuple(map(int, version.split(".")))))
        return found

    @property
    def free_mb(self) -> dict[str, int]:
        """MiB by mount point, from the lines that `df -Pk / /var` prints in that order after its header."""
        rows = [row.split() for row in self.sections.get("free", "").splitlines()[1:]]
        return {mount: int(row[3]) // 1024 for mount, row in zip(MOUNTS, rows, strict=False) if len(row) >= 6 and is_digits(row[3])}


def probe_command(interpreter: str | None) -> str:
    """The command line for a login shell of any kind: sh runs the fixed text."""
    arguments = ["/bin/sh", "-c", SCRIPT, "railwright-probe"]
    return shlex.join(arguments + ([interpreter] if interpreter else []))


def parse_probe(text: str) -> Probe:
    """Take an answer apart. What a login prints before the first mark is ignored."""
    if len(text) > LIMIT:
        raise ProbeError(f"the node answered {len(text)} characters; the probe prints at most {LIMIT}")
    sections: dict[str, str] = {}
    current = ""
    expected = list(SECTIONS)
    for row in text.replace("\r", "").splitlines():
        if expected and row == MARK + expected[0]:
            current = expected.pop(0)
            sections[current] = ""
        elif row == MARK + "end" and not expected:
            return Probe(sections)
        elif current:
            sections[current] += row + "\n"
    raise ProbeError(f"the node answered nothing that the probe prints: {text.strip()[:200]!r}")


def identity_of(probe: Probe, hostname: str, python: Python | None) -> Identity:
    """As much of an identity as a preflight judges; interfaces and HCAs are looked for later, by Python."""
    return Identity(
        hostname=hostname,
        platform=platform_of(probe.sections["os"]),
        kernel=probe.line("kernel"),
        arch=probe.line("arch"),
        python=".".join(map(str, python.version)) if python else "",
        virtual=None,
        nics=(),
        hcas=(),
        capabilities=("systemd",) if probe.line("init") == "systemd" else (),
    )


def evidence_of(probe: Probe, sent: float, received: float) -> Evidence:
    synchronised = {"yes": True, "no": False}.get(probe.line("synchronised"))
    return Evidence(probe.number("uid"), probe.free_mb, probe.number("clock"), sent, received, synchronised)
