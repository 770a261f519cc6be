# SPDX-License-Identifier: GPL-3.0-or-later
"""An environment on this machine: its own Python, pip, find and ln; wheels are stand-ins (tests/lib/torch_files.py), GPUs are said."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.python_env.install import Environment
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.python_env.wanted import (
    ControllerFiles,
    Wanted,
    environment_place,
    wanted,
)
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Gpu
from ansible_collections.railwright.rdma.plugins.plugin_utils.controller_files import bill_of
from field_specs import build_spec

H100 = Gpu("0000:1b:00.0", "0x2330", -1)
B200 = Gpu("0000:1b:00.0", "0x2901", -1)
OWN = f"3.{sys.version_info.minor}"


class ThisHost(Host):
    """This machine with the Python that runs the tests, and a driver that is said to be loaded. Its disk is said to be large: torch
    wants more room than a machine that runs tests need have."""

    def __init__(self, driver: str = "", pythons: Sequence[str] = ("python3", f"python{OWN}"), free: int = 1 << 40) -> None:
        self.driver, self.pythons, self.free = driver, pythons, free

    def which(self, tool: str) -> str | None:
        if tool.startswith("python"):
            return sys.executable if tool in self.pythons else None
        return super().which(tool)

    def read(self, path: str, limit: int = 4 * 1024 * 1024) -> str | None:
        if path == "/proc/driver/nvidia/version":
            return f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {self.driver}  Release Build\n" if self.driver else None
        return super().read(path, limit)

    def free_bytes(self, path: str) -> int | None:
        return self.free


class Site:
    """One inventory on this machine; the environments lie below ``path``."""

    def __init__(self, root: Path, host: ThisHost, gpus: Sequence[Gpu], values: dict[str, Any]) -> None:
        self.host, self.path = host, root / "ai"
        given = {"fabric": "roce", "mtu": 9000, "rdma_stack": "inbox", "rails": [], "ai_environment_kind": "venv",
                 "ai_environment_path": str(self.path), **values}
        spec, findings = build_spec(given, "gpu1")
        assert spec is not None, findings
        self.spec: Spec = spec
        self.identity = observe_identity(host)._replace(gpus=tuple(gpus), arch="x86_64")

    def wish(self) -> Wanted:
        found = self.maybe()
        assert found is not None
        return found

    def maybe(self) -> Wanted | None:
        return wanted(self.host, self.spec, self.identity, ControllerFiles(**bill_of(self.spec)))

    def look(self) -> dict[str, Any]:
        return self.environment().inspect()

    def environment(self) -> Environment:
        return Environment(self.host, self.wish(), bill_of(self.spec)["wheels"])

    def bring(self) -> None:
        """What the controller copies."""
        wish = self.wish()
        self.environment().prepare()
        place = environment_place(self.host, wish)
        pairs = [(Path(self.spec["ai_environment_wheels"] or "/") / name, Path(place.files, "wheels", name)) for name in wish.wheels]
        if wish.kind == "conda":
            pairs += [(Path(self.spec["ai_environment_conda_installer"]), Path(place.files, "installer.sh")),
                      (Path(self.spec["ai_environment_conda_explicit"]), Path(place.files, "explicit.txt"))]
        for source, target in pairs:
            target.write_bytes(source.read_bytes())

    def make(self) -> dict[str, Any]:
        """All steps; what an inspection says then."""
        if self.look()["release"]["missing"]:
            self.bring()
        self.environment().install()
        return self.look()


MakeSite = Callable[..., Site]
