# SPDX-License-Identifier: GPL-3.0-or-later
"""Area containers: nothing unless it is asked for, the toolkit, a CDI specification that follows the driver, docker's daemon.json.

What runtimes and nvidia-ctk answer is written from their documented forms; the units and files are the area's own.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.gpu import containers
from ansible_collections.railwright.rdma.plugins.module_utils.areas.gpu.docker import DAEMON_JSON
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.repositories import repositories_of
from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import AREAS
from ansible_collections.railwright.rdma.plugins.module_utils.plan.package_steps import package_steps
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Identity
from packages_nodes import NOBLE, ROCKY, SLES, whats

from .conftest import Captured

DRIVER = "580.126.20"
PACKAGES = ["nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1"]
CTK = ("nvidia-ctk", "cdi", "generate", "--output=/var/run/cdi/nvidia.yaml")
Build = Callable[..., Any]


class Case:
    """The area's answers on one node."""

    def __init__(self, node: Captured, spec: Spec, identity: Identity) -> None:
        self.wanted = containers.desired(spec, identity)
        self.seen = containers.observe(node, self.wanted)
        self.changes: list[Change] = containers.plan(self.wanted, self.seen)
        problems = containers.problems(spec, identity, self.wanted) + containers.conflicts(self.wanted, self.seen)
        self.problems = [f"{item.subject}: {item.message}" for item in problems]
        self.notes = containers.notes(self.wanted, self.seen)
        self.whats = whats(self.changes)

    def ops(self, what: str) -> list[tuple[str, ...]]:
        (change,) = (change for change in self.changes if change.what == what)
        return [op.argv if op.kind == "run" else (op.kind, op.path) for op in change.ops]

    def written(self, what: str) -> str:
        (change,) = (change for change in self.changes if change.what == what)
        return next(op.content for op in change.ops if op.kind == "write")


@pytest.fixture
def case(with_gpus: Captured, spec: Build, identity: Build) -> Callable[..., Case]:
    def build(platform: Any = NOBLE, gpus: int = 2, capabilities: tuple[str, ...] = (), **values: Any) -> Case:
        return Case(with_gpus, spec(**values), identity(platform, *capabilities, gpus=gpus))

    return build


@pytest.mark.parametrize("values", [
    {}, {"containers_gpu": "none"}, {"containers_runtime": "none"}, {"containers_gpu": "none", "containers_image": "x"},
])
def test_nothing_unless_it_is_asked_for(with_gpus: Captured, case: Callable[..., Case], values: dict[str, Any]) -> None:
    with_gpus.docker("24.0.7")
    with_gpus.toolkit("1.17.8")
    found = case(**values)
    assert (found.changes, found.problems, found.notes) == ([], [], [])


def test_a_node_without_a_gpu_or_a_runtime_is_left_alone_and_told(with_gpus: Captured, case: Callable[..., Case]) -> None:
    bare = case(containers_toolkit_install=True)
    assert (bare.changes, bare.problems, bare.notes) == ([], [], ["containers: no container runtime on this node, so nothing is set up"])
    with_gpus.podman()
    other = case(containers_gpu="cdi", containers_runtime="docker")
    assert other.notes == ["containers: no docker on this node, so nothing is set up"]
    none = case(gpus=0, containers_gpu="cdi")
    assert none.changes == []
    assert none.notes == ["containers: no NVIDIA GPU on the PCI bus of this node, so containers need no set-up"]


@pytest.mark.parametrize(("platform", "manager", "joint"), [(NOBLE, "apt", "="), (ROCKY, "dnf", "-")])
def test_the_toolkit_comes_from_the_cuda_repository_in_one_version(
    with_gpus: Captured, case: Callable[..., Case], spec: Build, identity: Build, platform: Any, manager: str, joint: str
) -> None:
    with_gpus.podman()
    with_gpus.dpkg(("bash", "5.2-1"))
    with_gpus.put("/cmd/rpm_-qa_--qf_%{NAME} %{VERSION}-%{RELEASE}\\n", "bash 5.2-1\n")
    found = case(platform, containers_toolkit_install=True)
    assert found.problems == []
    (step,) = package_steps(found.changes, manager)["steps"]
    assert (step["area"], step["names"]) == ("containers", [f"{name}{joint}1.19.1-*" for name in PACKAGES])
    wanted = spec(containers_toolkit_install=True)
    assert [row.name for row in repositories_of(wanted, identity(platform, gpus=1))] == ["cuda"]
    assert repositories_of(wanted, identity(platform)) == ()
    assert repositories_of(spec(), identity(platform, gpus=1)) == ()


def test_an_older_toolkit_becomes_the_pinned_one_and_a_newer_one_goes_back(with_gpus: Captured, case: Callable[..., Case]) -> None:
    with_gpus.podman()
    with_gpus.dpkg(*((name, "1.17.8-1") for name in PACKAGES))
    assert {change.before for change in case(containers_toolkit_install=True).changes if change.package} == {"1.17.8-1"}
    with_gpus.dpkg(*((name, "1.20.0-1") for name in PACKAGES))
    assert {change.disruption for change in case(containers_toolkit_install=True).changes if change.package} == {"downgrade"}
    with_gpus.dpkg(*((name, "1.19.1-1") for name in PACKAGES))
    assert not [change for change in case(containers_toolkit_install=True).changes if change.package]


def test_a_system_without_a_repository_is_refused(with_gpus: Captured, case: Callable[..., Case]) -> None:
    with_gpus.podman()
    (problem,) = [line for line in case(SLES, containers_toolkit_install=True).problems if line.startswith("containers_toolkit")]
    assert "SLES 15 SP6" in problem


def test_no_toolkit_and_none_to_come(with_gpus: Captured, case: Callable[..., Case]) -> None:
    with_gpus.docker()
    for way, tool in (("cdi", "nvidia-ctk"), ("nvidia", "nvidia-container-runtime")):
        found = case(containers_gpu=way)
        said = f"containers_gpu: {tool} of NVIDIA's container toolkit is not on this node; containers_toolkit_install: true installs it"
        assert found.problems == [said]
        assert found.changes == []


def test_a_specification_is_made_where_none_is(with_gpus: Captured, case: Callable[..., Case]) -> None:
    with_gpus.podman()
    with_gpus.toolkit("1.17.8")
    found = case(containers_gpu="cdi")
    assert found.whats[containers.WHAT_SPEC] == (None, {"/var/run/cdi/nvidia.yaml": DRIVER}, "none")
    assert found.ops(containers.WHAT_SPEC) == [CTK]
    (change,) = (change for change in found.changes if change.what == containers.WHAT_SPEC)
    assert change.ops[0].undo == (("rm", "-f", "/var/run/cdi/nvidia.yaml"),)


def test_a_specification_of_another_driver_is_drift(with_gpus: Captured, case: Callable[..., Case]) -> None:
    with_gpus.podman()
    with_gpus.toolkit("1.17.8")
    with_gpus.cdi("570.86.15")
    found = case(containers_gpu="cdi")
    assert found.whats[containers.WHAT_SPEC] == ({"/var/run/cdi/nvidia.yaml": "570.86.15"}, {"/var/run/cdi/nvidia.yaml": DRIVER}, "none")
    (change,) = (change for change in found.changes if change.what == containers.WHAT_SPEC)
    assert change.ops[0].undo == (), "the file was there before: nothing to remove, and the command may run again"
    with_gpus.cdi(DRIVER)
    assert containers.WHAT_SPEC not in case(containers_gpu="cdi").whats


def test_without_a_loaded_driver_the_specification_waits(with_gpus: Captured, case: Callable[..., Case]) -> None:
    with_gpus.podman()
    with_gpus.toolkit("1.17.8")
    with_gpus.put("/proc/driver/nvidia/version", "")
    found = case(containers_gpu="cdi")
    assert containers.WHAT_SPEC not in found.whats
    assert found.notes == ["containers: no NVIDIA driver is loaded; the CDI specification is made when one is"]


def test_our_units_refresh_for_an_older_toolkit(with_gpus: Captured, case: Callable[..., Case]) -> None:
    with_gpus.podman()
    with_gpus.toolkit("1.17.8")
    with_gpus.cdi(DRIVER)
    found = case(containers_gpu="cdi")
    assert list(found.whats) == [
        "file /etc/systemd/system/railwright-cdi.service", "unit railwright-cdi.service enabled",
        "file /etc/systemd/system/railwright-cdi.path", "unit railwright-cdi.path enabled", "unit railwright-cdi.path running"]
    for unit in containers.UNITS:
        with_gpus.put(f"/etc/systemd/system/{unit.name}", unit.content)
        link = with_gpus.root + f"/etc/systemd/system/multi-user.target.wants/{unit.name}"
        with_gpus.put("/etc/systemd/system/multi-user.target.wants/.keep", "")
        Path(link).symlink_to(f"/etc/systemd/system/{unit.name}")
    with_gpus.put("/cmd/systemctl_is-active_railwright-cdi.path", "active\n")
    assert [what for what in case(containers_gpu="cdi").whats if not what.startswith("file")] == []
    gone = case()
    assert list(gone.whats) == ["unit railwright-cdi.path removed", "unit railwright-cdi.service removed"]
    assert gone.ops("unit railwright-cdi.path removed")[0] == ("systemctl", "disable", "--now", "railwright-cdi.path")


def test_the_toolkits_own_units_where_it_has_them(with_gpus: Captured, case: Callable[..., Case]) -> None:
    with_gpus.podman()
    with_gpus.toolkit()
    with_gpus.cdi(DRIVER)
    for name in ("path", "service"):
        with_gpus.put(f"/usr/lib/systemd/system/nvidia-cdi-refresh.{name}", "[Unit]\n")
    found = case(containers_gpu="cdi")
    assert list(found.whats) == ["unit nvidia-cdi-refresh.service enabled", "unit nvidia-cdi-refresh.path enabled",
                                 "unit nvidia-cdi-refresh.path running"]  # fmt: skip


SITE: dict[str, Any] = {"log-driver": "local", "runtimes": {"crun": {"path": "/usr/bin/crun"}}, "live-restore": True}


def test_the_runtime_goes_into_what_the_site_has(with_gpus: Captured, case: Callable[..., Case]) -> None:
    with_gpus.docker("24.0.7")
    with_gpus.toolkit("1.17.8")
    with_gpus.put(DAEMON_JSON, json.dumps(SITE))
    found = case(containers_gpu="nvidia")
    what = "runtime nvidia of docker"
    assert found.whats == {what: (None, {"path": "nvidia-container-runtime", "args": []}, "restart")}
    assert found.ops(what)[1:] == [("write", DAEMON_JSON), ("systemctl", "restart", "docker.service")]
    merged = json.loads(found.written(what))
    assert list(merged) == list(SITE), "the site's order stays"
    assert merged == {**SITE, "runtimes": {"crun": {"path": "/usr/bin/crun"}, "nvidia": {"path": "nvidia-container-runtime", "args": []}}}
    with_gpus.put(DAEMON_JSON, found.written(what))
    waiting = case(containers_gpu="nvidia")
    assert waiting.whats == {what: ("not loaded", "loaded", "restart")}, "docker has not read it yet"
    with_gpus.docker("24.0.7", Runtimes={"runc": {}, "nvidia": {}})
    assert case(containers_gpu="nvidia").changes == []


def test_a_docker_that_does_not_run_is_not_started(with_gpus: Captured, case: Callable[..., Case]) -> None:
    with_gpus.docker("24.0.7")
    with_gpus.toolkit("1.17.8")
    with_gpus.put("/cmd/systemctl_is-active_docker.service", "inactive\n")
    found = case(containers_gpu="nvidia")
    assert found.whats["runtime nvidia of docker"][2] == "none"
    assert found.ops("runtime nvidia of docker") == [("write", DAEMON_JSON)]


@pytest.mark.parametrize("text", ["{", "[]", '"x"'])
def test_a_daemon_json_that_nothing_can_be_put_into(with_gpus: Captured, case: Callable[..., Case], text: str) -> None:
    with_gpus.docker("24.0.7")
    with_gpus.toolkit("1.17.8")
    with_gpus.put(DAEMON_JSON, text)
    found = case(containers_gpu="nvidia")
    assert found.changes == []
    assert found.problems == [f"{DAEMON_JSON}: is no JSON object, so nothing can be put into it; docker itself refuses such a file"]
    with_gpus.put(DAEMON_JSON, '{"runtimes": []}')
    assert case(containers_gpu="nvidia").problems == [f"{DAEMON_JSON}: runtimes is no JSON object, so nothing can be put into it"]


@pytest.mark.parametrize(("version", "info", "whats", "note"), [
    ("28.3.2", {"CDISpecDirs": ["/etc/cdi", "/var/run/cdi"]}, [], ""),
    ("27.5.1", {}, ["feature cdi of docker"], ""),
    ("27.5.1", {"CDISpecDirs": ["/etc/cdi"]}, [], ""),
    ("24.0.7", {}, [], "docker 24.0.7 knows no CDI"),
])
def test_docker_and_cdi_by_version(
    with_gpus: Captured, case: Callable[..., Case], version: str, info: dict[str, Any], whats: list[str], note: str
) -> None:
    with_gpus.docker(version, **info)
    with_gpus.toolkit()
    with_gpus.cdi(DRIVER)
    with_gpus.put(DAEMON_JSON, json.dumps({"features": {"containerd-snapshotter": True}}))
    found = case(containers_gpu="cdi")
    assert [what for what in found.whats if "docker" in what] == whats
    assert note in " ".join(found.notes)
    if whats:
        assert json.loads(found.written(whats[0])) == {"features": {"containerd-snapshotter": True, "cdi": True}}
        assert found.whats[whats[0]][2] == "restart"


def test_it_is_the_last_area_but_one() -> None:
    assert [area.name for area in AREAS][-2:] == ["containers", "opensm"]
