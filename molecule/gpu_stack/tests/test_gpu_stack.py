# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver stack on nodes with captured GPUs: install, nothing on the second run, upgrade, downgrade with consent, and who is left alone.

Real apt and dnf (on a Debian that says it is Rocky Linux 9) from a signed repository that holds two releases at once, and real systemd;
packages are stand-ins.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from playbook import Host
from story import State, Step, Story

OLD, NEW = "580.95.05", "580.105.08"
NODES = ("gpu1", "el1")
# Every package of the driver, with the version that stands for OLD or NEW there.
DRIVER = {
    "gpu1": dict.fromkeys(
        ("nvidia-open", "nvidia-kernel-open-dkms", "nvidia-driver-cuda", "nvidia-persistenced", "libnvidia-ml1", "nvidia-modprobe",
         "nvidia-fabricmanager"), "{}-1"),
    "el1": {
        **dict.fromkeys(
            ("nvidia-open", "kmod-nvidia-open-dkms", "nvidia-driver", "nvidia-driver-cuda", "nvidia-persistenced", "nvidia-kmod-common",
             "nvidia-modprobe"), "3:{}-1.el9"),
        "nvidia-fabricmanager": "{}-1",
    },
}
CUDNN = {"gpu1": ("libcudnn9-cuda-13", "libcudnn9-headers-cuda-13", "libcudnn9-dev-cuda-13"),
         "el1": ("libcudnn9-cuda-13", "libcudnn9-headers-cuda-13", "libcudnn9-devel-cuda-13")}
NCCL = {"gpu1": ("libnccl2", "libnccl-dev"), "el1": ("libnccl", "libnccl-devel")}
# With the older driver an older NCCL, by its release alone; with the newer one the catalogue's. Beside both are builds for another CUDA.
NCCL_OF = {OLD: ("2.29.7", "2.29.7-1+cuda13.1"), NEW: (None, "2.30.7-1+cuda13.3")}
UNITS = ("nvidia-persistenced.service", "nvidia-fabricmanager.service")
VARIABLES = ("/etc/nccl.conf", "/etc/profile.d/railwright-nccl.sh")  # of role nccl, on any node: scenario nccl_env
BLACKLIST = "/etc/modprobe.d/railwright-nouveau.conf"
REPOSITORY = {"cuda_repository_url": "file:///srv/standin/cuda", "cuda_repository_key_url": "file:///srv/standin/right.asc"}


class Told(NamedTuple):
    """What happened, in order: the steps of the story, then one run for the node whose driver is too old."""

    story: Story
    steps: dict[str, Step]
    too_old: Host


@pytest.fixture(scope="session")
def told(scenario: str) -> Told:
    story = Story(scenario, {})
    story.common |= {
        "rdma_stack": "inbox", "gpu_driver_branch": "580", "cuda_version": "13.0", "cuda_cudnn_version": "9.13", **REPOSITORY,
        "cuda_repository_fingerprint": story.fingerprint(), "nccl_install": "repository",
    }

    def step(version: str, *consent: str) -> Step:
        return story.step({"gpu_driver_version": version, "nccl_version": NCCL_OF[version][0], "rdma_consent": list(consent)}, {})

    steps = {
        "install": step(OLD),
        "upgrade without consent": step(NEW),
        "upgrade": step(NEW, "restart"),
        "downgrade without consent": step(OLD, "restart"),
        "downgrade": step(OLD, "restart", "downgrade"),
    }
    story.say({}, {"old1": {"cuda_version": "13.0"}})
    return Told(story, steps, story.playbook.run(limit="old1")["old1"])


@pytest.fixture(scope="session")
def steps(told: Told) -> dict[str, Step]:
    return told.steps


def failures(step: Step, node: str) -> list[str]:
    return [": ".join(item) for item in step.apply[node].failed]


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize(("name", "version"), [("install", OLD), ("upgrade", NEW), ("downgrade", OLD)])
def test_the_whole_driver_is_of_one_version(steps: dict[str, Step], node: str, name: str, version: str) -> None:
    assert failures(steps[name], node) == []
    found = steps[name].after[node].installed
    assert {package: found.get(package) for package in DRIVER[node]} == {
        package: form.format(version) for package, form in DRIVER[node].items()}


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("name", ["install", "upgrade", "downgrade"])
def test_the_plan_came_first_and_nothing_changed_in_it(steps: dict[str, Step], node: str, name: str) -> None:
    step = steps[name]
    assert step.before[node] == step.between[node]
    planned = [change["what"] for answer in step.check[node].of("rdma_state")[:1] for change in answer["plan"]]
    assert planned == [change["what"] for change in step.apply[node].plan]
    assert "package nvidia-open" in planned


@pytest.mark.parametrize("name", ["install", "upgrade", "downgrade"])
def test_the_second_run_changes_nothing(steps: dict[str, Step], name: str) -> None:
    for node, host in steps[name].again.items():
        assert host.changed == [], node
        assert [answer["plan"] for answer in host.of("rdma_state")] == [[]] * 3, node
    assert set(steps[name].again) == {"gpu1", "el1", "old1", "b200", "gb200", "cpu1"}


@pytest.mark.parametrize("node", NODES)
def test_one_version_of_cudnn_though_a_newer_one_is_there(steps: dict[str, Step], node: str) -> None:
    found = steps["install"].after[node].installed
    assert {name: found.get(name) for name in CUDNN[node]} == dict.fromkeys(CUDNN[node], "9.13.1.26-1")
    assert found["cuda-toolkit-13-0"] == "13.0.2-1"
    assert "mft" not in found


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize(("name", "version"), [("install", OLD), ("upgrade", NEW), ("downgrade", OLD)])
def test_nccl_of_one_release_for_this_cuda(steps: dict[str, Step], node: str, name: str, version: str) -> None:
    found = steps[name].after[node].installed
    assert {package: found.get(package) for package in NCCL[node]} == dict.fromkeys(NCCL[node], NCCL_OF[version][1])


def test_an_update_of_the_system_leaves_nccl_where_it_is(told: Told) -> None:
    """The last step wanted the older one; apt and dnf themselves say what they would do now."""
    asked = {"gpu1": ("apt-get", "-s", "dist-upgrade"), "el1": ("dnf", "-q", "check-update", "libnccl", "libnccl-devel")}
    for node, argv in asked.items():
        assert "libnccl" not in told.story.cluster.container(node).run(*argv, check=False).stdout, node
    policy = told.story.cluster.container("gpu1").out("apt-cache", "policy", "libnccl2")
    assert "Candidate: 2.29.7-1+cuda13.1" in policy
    assert "2.31.2-1+cuda13.3" in policy, "there is a newer one that could have come"


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize(("name", "word"), [("upgrade without consent", "restart"), ("downgrade without consent", "downgrade")])
def test_without_consent_the_node_stays_as_it_is(steps: dict[str, Step], node: str, name: str, word: str) -> None:
    step = steps[name]
    (said,) = failures(step, node)
    assert f"add {word} to rdma_consent" in said
    assert step.before[node] == step.after[node]


@pytest.mark.parametrize("node", NODES)
def test_daemons_run_now_and_at_boot(told: Told, node: str) -> None:
    container = told.story.cluster.container(node)
    for unit in UNITS:
        assert container.out("systemctl", "is-active", unit).strip() == "active"
        assert container.out("systemctl", "is-enabled", unit).strip() == "enabled"
    assert container.out("cat", BLACKLIST).splitlines()[1:] == ["blacklist nouveau", "options nouveau modeset=0"]


@pytest.mark.parametrize(("name", "version"), [("install", OLD), ("upgrade", NEW), ("downgrade", OLD)])
def test_what_joins_gpus_of_nvlink_5_is_there_in_the_drivers_version(told: Told, name: str, version: str) -> None:
    step = told.steps[name]
    board, rack = step.after["b200"].installed, step.after["gb200"].installed
    assert failures(step, "b200") == failures(step, "gb200") == []
    assert (board["nvidia-open"], board["nvidia-fabricmanager"]) == (f"{version}-1", f"{version}-1")
    assert {"nvlsm", "infiniband-diags"} <= board.keys() and "nvidia-imex" not in board
    assert (rack["nvidia-open"], rack["nvidia-imex"]) == (f"3:{version}-1.el9", f"{version}-1")
    assert {"nvidia-fabricmanager", "nvlsm"}.isdisjoint(rack)


def test_a_node_of_a_rack_runs_imex_and_knows_the_others(told: Told) -> None:
    rack = told.story.cluster.container("gb200")
    assert rack.out("systemctl", "is-active", "nvidia-imex.service").strip() == "active"
    assert rack.out("systemctl", "is-enabled", "nvidia-imex.service").strip() == "enabled"
    assert rack.out("cat", "/etc/nvidia-imex/nodes_config.cfg").split() == ["192.0.2.11", "192.0.2.12"]
    assert "NVreg_CreateImexChannel0=1" in rack.out("cat", "/etc/modprobe.d/railwright-imex.conf")


@pytest.mark.parametrize("node", ["b200", "gb200"])
def test_dcgm_comes_for_the_drivers_cuda_and_runs(told: Told, node: str) -> None:
    assert "datacenter-gpu-manager-4-cuda13" in told.steps["install"].after[node].installed
    container = told.story.cluster.container(node)
    assert container.out("systemctl", "is-active", "nvidia-dcgm.service").strip() == "active"
    assert container.out("systemctl", "is-enabled", "nvidia-dcgm.service").strip() == "enabled"


def but_variables(state: State) -> State:
    return state._replace(files={path: digest for path, digest in state.files.items() if path not in VARIABLES})


def test_a_node_without_gpu_gets_variables_only_and_the_reason_is_told(steps: dict[str, Step]) -> None:
    for step in steps.values():
        assert failures(step, "cpu1") == []
        assert but_variables(step.before["cpu1"]) == but_variables(step.after["cpu1"])
    said = [note for answer in steps["install"].apply["cpu1"].of("rdma_state") for note in answer["notes"]]
    assert "gpu_driver: no NVIDIA GPU on the PCI bus of this node, so no driver is installed" in said
    assert "cuda: no NVIDIA GPU on the PCI bus of this node, so CUDA 13.0 is not installed" in said
    assert "nccl_library: no NVIDIA GPU on the PCI bus of this node, so NCCL is not installed" in said


def test_a_driver_that_nobody_named_is_left_as_it_is(steps: dict[str, Step]) -> None:
    for step in steps.values():
        assert failures(step, "old1") == []
        assert but_variables(step.before["old1"]) == but_variables(step.after["old1"])
    said = [note for answer in steps["install"].apply["old1"].of("rdma_state") for note in answer["notes"]]
    assert "gpu_driver: gpu_driver_branch is not set; the NVIDIA driver is left as it is" in said


def test_cuda_is_refused_where_the_driver_is_too_old(told: Told) -> None:
    ((_task, said),) = told.too_old.failed
    assert "CUDA 13.0 needs driver 580 or newer, this node has 570.86.15" in said
    assert "cuda-toolkit-13-0" not in told.story.states()["old1"].installed
