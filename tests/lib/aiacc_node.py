# SPDX-License-Identifier: GPL-3.0-or-later
"""A captured node on which ldconfig, the package managers' queries and grep answer as they do on a node."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.fixtures.node_text import OS_RELEASE, dpkg_status

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result, TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from field_specs import build_spec
from nccl_files import elf

PINS = {"aiacc_nccl_plugin_deb": "d" * 64, "aiacc_nccl_plugin_rpm": "e" * 64, "aiacc_nccl_plugin_rpm-1.1.0": "f" * 64}


def wishes(**values: Any) -> Spec:
    spec, findings = build_spec({"fabric": "erdma", "mtu": 1400, "rails": []}, "node1")
    assert spec is not None, findings
    chosen = {"nccl_profile": "erdma-aiacc", "aiacc_install": True, "artifact_pins": PINS}
    return Spec({**spec.as_dict(), **chosen, **values})


class AiaccNode(TreeHost):
    """``packages``: name to (version, files). The loader finds what lies in the directories that ld.so.conf names, in their order."""

    live = True  # its package manager can be asked
    SYSTEM = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64")

    def __init__(self, root: Path, os_name: str) -> None:
        super().__init__(str(root))
        self.packages: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.commands: list[tuple[str, ...]] = []
        self.cache: dict[str, list[str]] = {}
        self.rpm = os_name.startswith(("rocky", "alinux"))
        self.put("etc/os-release", OS_RELEASE[os_name])
        self.put("proc/sys/kernel/osrelease", "5.10.134-17\n")
        self.put("proc/sys/kernel/arch", "x86_64\n")
        self.put("etc/ld.so.conf", "include ld.so.conf.d/*.conf\n")
        if not self.rpm:
            self.put("etc/ld.so.conf.d/libc.conf", "# libc default configuration\n/usr/local/lib\n")
        self.install("bash", "5.2")
        self.ldconfig()

    def put(self, path: str, content: str | bytes) -> None:
        full = Path(self.root) / path.lstrip("/")
        full.parent.mkdir(parents=True, exist_ok=True)
        full.unlink(missing_ok=True)
        full.write_bytes(content.encode() if isinstance(content, str) else content)

    def nccl(self, path: str, version: str) -> None:
        self.put(path, elf(version, "11.8"))

    def install(self, name: str, version: str, *files: str) -> None:
        self.packages[name] = (version, files)
        for path in files:
            if not self.exists(path):
                self.put(path, b"\x7fELF")
        if not self.rpm:
            self.put("var/lib/dpkg/status", dpkg_status({name: row[0] for name, row in self.packages.items()}))

    def ldconfig(self) -> None:
        """The cache is made when ldconfig runs, not when a file comes."""
        directories = [line for path in self.configuration() for line in (self.read(path) or "").splitlines() if line.startswith("/")]
        self.cache = {}
        for directory in (*directories, *self.SYSTEM):
            for name in self.listdir(directory):
                if ".so" in name and not name.endswith(".bak"):
                    self.cache.setdefault(name, []).append(f"{directory}/{name}")

    def configuration(self) -> list[str]:
        return [f"/etc/ld.so.conf.d/{name}" for name in self.listdir("/etc/ld.so.conf.d")]

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        command = tuple(argv)
        self.commands.append(command)
        if command == ("ldconfig", "-p"):
            rows = [f"\t{name} (libc6,x86-64) => {path}\n" for name, paths in self.cache.items() for path in paths]
            return Result(0, f"{len(rows)} libs found in cache `/etc/ld.so.cache'\n" + "".join(rows), "")
        if command == ("ldconfig",):
            self.ldconfig()
            return Result(0, "", "")
        if command[0] == "grep":
            done = subprocess.run([*command[:-1], self.path(command[-1])], capture_output=True, text=True, check=False)
            return Result(done.returncode, done.stdout, done.stderr)
        if command[:2] == ("dpkg-query", "-S") and not self.rpm:
            found = self.owner(command[2])
            return Result(0, f"{found}: {command[2]}\n", "") if found else Result(1, "", f"no path found matching pattern {command[2]}\n")
        if command[0] == "rpm" and self.rpm:
            return self.ask_rpm(command)
        return super().run(argv, timeout, stdin)

    def owner(self, path: str) -> str | None:
        return next((name for name, row in self.packages.items() if path in row[1]), None)

    def ask_rpm(self, command: tuple[str, ...]) -> Result:
        if command[1] == "-qf":
            found = self.owner(command[-1])
            return Result(0, found + "\n", "") if found else Result(1, f"file {command[-1]} is not owned by any package\n", "")
        names = list(self.packages) if command[1] == "-qa" else [name for name in command[4:] if name in self.packages]
        return Result(0, "".join(f"{name} {self.packages[name][0]}\n" for name in names), "")
