# SPDX-License-Identifier: GPL-3.0-or-later
"""Applies of the area for real, below a directory: made once, nothing the second time, reverted byte for byte.

docker, systemctl and nvidia-ctk are stand-ins with the few answers that the area asks for, in their documented forms. docker reads
daemon.json when it is restarted, and does not start with one that it does not like.
"""

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.apply.apply import apply_plan
from ansible_collections.railwright.rdma.plugins.module_utils.apply.transaction import roll_back
from ansible_collections.railwright.rdma.plugins.module_utils.errors import ApplyError, RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.write import Result
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import Plan, make_plan
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from rooted import RootedHost

from .conftest import CDI, NVRM

DAEMON = {"log-driver": "local", "runtimes": {"crun": {"path": "/usr/bin/crun"}}}
SYSTEMCTL = """#!/bin/sh
unit=$2; [ "$2" != --now ] || unit=$3
wants=$ROOT/etc/systemd/system/multi-user.target.wants
case $1 in
is-active) cat "$ROOT/run/active/$unit" 2>/dev/null || { echo inactive; exit 3; } ;;
restart)
    echo "$unit" >> "$ROOT/run/restarts"
    rm -f "$ROOT/run/active/$unit" "$ROOT/run/loaded.json"
    if grep -q refused "$ROOT/etc/docker/daemon.json" && grep -q '"nvidia"' "$ROOT/etc/docker/daemon.json"; then exit 1; fi
    cp "$ROOT/etc/docker/daemon.json" "$ROOT/run/loaded.json"; echo active > "$ROOT/run/active/$unit" ;;
enable) mkdir -p "$wants"; ln -s "/etc/systemd/system/$unit" "$wants/$unit" ;;
disable) rm -f "$wants/$unit" "$ROOT/run/active/$unit" ;;
start) echo active > "$ROOT/run/active/$unit" ;;
stop) rm "$ROOT/run/active/$unit" ;;
daemon-reload) ;;
*) exit 9 ;;
esac
"""
DOCKER = """#!/bin/sh
case $1 in
--version) echo 'Docker version 24.0.7, build afdd53b' ;;
info) [ -e "$ROOT/run/loaded.json" ] || exit 1
    runtimes=$(tr -d '\\n' < "$ROOT/run/loaded.json" | sed 's/.*"runtimes": *//; s/}$//')
    printf '{"ServerVersion": "24.0.7", "Runtimes": %s}\\n' "$runtimes" ;;
esac
"""
CTK = """#!/bin/sh
case $1 in
--version) echo 'NVIDIA Container Toolkit CLI version 1.17.8' ;;
cdi) file=$ROOT${3#--output=}; mkdir -p "${file%/*}"
    sed "s/{0}/$(sed 's/.*x86_64  \\([0-9.]*\\).*/\\1/' "$ROOT/proc/driver/nvidia/version")/" "$ROOT/run/template" > "$file" ;;
esac
"""


class Stage(RootedHost):
    """Commands are those below the root; what is not there is not on this machine either."""

    def which(self, tool: str) -> str | None:
        return f"/usr/bin/{tool}" if Path(self.root, "usr/bin", tool).exists() else None

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        program = Path(self.root, "usr/bin", argv[0])
        argv = [*(["rm", argv[1], *(self.path(name) for name in argv[2:])] if argv[0] == "rm" else [str(program), *argv[1:]])]
        if argv[0] != "rm" and not program.exists():
            return Result(127, "", "not found")
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False, input=stdin,
                              env={"ROOT": self.root, "PATH": "/usr/bin:/bin"})  # fmt: skip
        return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    host = Stage(tmp_path)

    def put(path: str, text: str, mode: int = 0o644) -> None:
        full = Path(host.path(path))
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text, encoding="utf-8")
        full.chmod(mode)

    for name, text in (("systemctl", SYSTEMCTL), ("docker", DOCKER), ("nvidia-ctk", CTK), ("true", "#!/bin/sh\n"),
                       ("nvidia-container-runtime", "#!/bin/sh\n"), ("nvidia-container-runtime-hook", "#!/bin/sh\n")):
        put(f"/usr/bin/{name}", text, 0o755)
    put("/proc/1/comm", "systemd\n")
    put("/etc/os-release", 'ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n')
    put("/proc/sys/kernel/osrelease", "6.1.0-26-amd64\n")
    put("/proc/driver/nvidia/version", NVRM.format("580.126.20"))
    for name, value in (("vendor", "0x10de"), ("device", "0x2330"), ("class", "0x030200"), ("numa_node", "0")):
        put(f"/sys/bus/pci/devices/0000:1a:00.0/{name}", value + "\n")
    put("/run/active/docker.service", "active\n")
    put("/run/template", CDI)
    put("/etc/docker/daemon.json", json.dumps(DAEMON) + "\n", 0o600)
    put("/run/loaded.json", json.dumps(DAEMON) + "\n")
    return host


def tree(host: Stage) -> dict[str, tuple[str, int]]:
    """Everything below /etc and where CDI specifications are, links by their target."""
    found = {}
    for place in ("etc", "run/cdi", "var/run/cdi"):
        for path in sorted(Path(host.root, place).rglob("*")):
            if path.is_symlink() or path.is_file():
                text = str(path.readlink()) if path.is_symlink() else path.read_text(encoding="utf-8")
                found[str(path.relative_to(host.root))] = (text, 0 if path.is_symlink() else path.stat().st_mode & 0o777)
    return found


def planned(host: Stage, spec: Spec) -> Plan:
    return make_plan(host, spec, ["containers"])


def applied(host: Stage, spec: Spec) -> str:
    plan = planned(host, spec)
    assert plan.problems == (), plan.problems
    return str(apply_plan(host, spec, plan, "r1", ["containers"]).restore_point)


def reverted(host: Stage, point: str) -> list[str]:
    document = json.loads(Path(host.path(point)).read_text(encoding="utf-8"))
    return roll_back(host, document["entries"])


CASES: list[dict[str, Any]] = [
    {"containers_gpu": "cdi", "containers_runtime": "docker"}, {"containers_gpu": "nvidia", "consent": ["restart"]},
]


@pytest.mark.parametrize("values", CASES, ids=["cdi", "nvidia"])
def test_once_and_then_nothing_and_back_byte_for_byte(stage: Stage, spec: Callable[..., Spec], values: dict[str, Any]) -> None:
    wishes = spec(**values)
    before = tree(stage)
    assert planned(stage, wishes).changes
    assert tree(stage) == before, "a plan only inspects"
    point = applied(stage, wishes)
    assert planned(stage, wishes).changes == ()
    assert tree(stage) != before
    assert reverted(stage, point) == []
    assert tree(stage) == before


def test_a_specification_follows_the_driver(stage: Stage, spec: Callable[..., Spec]) -> None:
    wishes = spec(containers_gpu="cdi")
    applied(stage, wishes)
    Path(stage.path("/proc/driver/nvidia/version")).write_text(NVRM.format("595.58.03"), encoding="utf-8")
    (change,) = planned(stage, wishes).changes
    assert (change.before, change.after) == ({"/var/run/cdi/nvidia.yaml": "580.126.20"}, {"/var/run/cdi/nvidia.yaml": "595.58.03"})
    applied(stage, wishes)
    assert "libcuda.so.595.58.03" in Path(stage.path("/var/run/cdi/nvidia.yaml")).read_text(encoding="utf-8")
    assert planned(stage, wishes).changes == ()


def test_the_runtime_needs_consent_for_dockers_restart(stage: Stage, spec: Callable[..., Spec]) -> None:
    before = tree(stage)
    with pytest.raises(RailwrightError, match="restart"):
        applied(stage, spec(containers_gpu="nvidia"))
    assert tree(stage) == before
    assert not Path(stage.path("/run/restarts")).exists()


def test_the_sites_settings_and_their_mode_stay(stage: Stage, spec: Callable[..., Spec]) -> None:
    applied(stage, spec(containers_gpu="nvidia", consent=["restart"]))
    text, mode = tree(stage)["etc/docker/daemon.json"]
    assert json.loads(text) == {"log-driver": "local", "runtimes": {"crun": {"path": "/usr/bin/crun"},
                                "nvidia": {"path": "nvidia-container-runtime", "args": []}}}  # fmt: skip
    assert mode == 0o600
    assert Path(stage.path("/run/restarts")).read_text(encoding="utf-8") == "docker.service\n", "once"


def test_a_docker_that_does_not_start_with_it_has_its_old_file_and_runs(stage: Stage, spec: Callable[..., Spec]) -> None:
    Path(stage.path("/etc/docker/daemon.json")).write_text('{"log-driver": "refused", "runtimes": {}}', encoding="utf-8")
    before = tree(stage)
    with pytest.raises(ApplyError) as caught:
        applied(stage, spec(containers_gpu="nvidia", consent=["restart"]))
    assert caught.value.rolled_back
    assert tree(stage) == before
    assert stage.run(("systemctl", "is-active", "docker.service")).out == "active\n"
