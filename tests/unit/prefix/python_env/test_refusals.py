# SPDX-License-Identifier: GPL-3.0-or-later
"""What cannot be had is one line, and the node is as it was. Drivers, GPUs and free space are said; everything else is this machine's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import torch_files
from ai_site import B200, H100, OWN, MakeSite, Site, ThisHost
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.python_env import install

OTHER = f"cp3{int(OWN.partition('.')[2]) + 1}"


def refusal(there: Site) -> str:
    with pytest.raises(RailwrightError) as caught:
        there.look()
    assert not there.path.exists()
    return str(caught.value)


def locked(root: Path, version: str, cuda: str | None, **more: Any) -> dict[str, Any]:
    """Inventory values of a wheel directory with torch and one more."""
    torch_files.torch_wheel(root / "w", version, cuda, **more)
    torch_files.wheel(root / "w", "tiny", "1.0", {"tiny.py": ""})
    return {"ai_environment_torch": version, "ai_environment_wheels": str(root / "w")}


def says(monkeypatch: pytest.MonkeyPatch, before: str, after: str) -> None:
    """What this machine's Python says of itself is changed on the way."""
    run = ThisHost.run

    def changed(self: ThisHost, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        found = run(self, argv, timeout, stdin)
        return found._replace(out=found.out.replace(before, after))

    monkeypatch.setattr(ThisHost, "run", changed)


@pytest.mark.parametrize(("version", "driver", "cuda", "minimum"), [
    ("2.9.1+cu130", "570.86.15", "13.0", "580"), ("2.9.1", "470.256.02", "12.8", "525"),
])
def test_a_driver_that_is_too_old_for_the_wheels_cuda(
    site: MakeSite, tmp_path: Path, version: str, driver: str, cuda: str, minimum: str,
) -> None:
    assert refusal(site(ThisHost(driver=driver), **locked(tmp_path, version, cuda))) == (
        f"torch {version} is for CUDA {cuda}, which needs driver {minimum} or newer; this node has {driver}. Set gpu_driver_branch "
        "to a newer one, or take a build for an older CUDA")


def test_the_same_with_a_driver_that_runs_it(site: MakeSite, tmp_path: Path) -> None:
    assert site(ThisHost(driver="580.82.07"), **locked(tmp_path, "2.9.1+cu130", "13.0")).look()["release"]["missing"]


def test_a_gpu_that_the_build_has_no_kernels_for(site: MakeSite, tmp_path: Path) -> None:
    values = locked(tmp_path, "2.7.1+cu126", "12.6")
    assert refusal(site(gpus=(B200,), **values)) == (
        "torch 2.7.1+cu126 is for CUDA 12.6 and has no kernels for this node's GPUs (Blackwell); allowed: a build for CUDA 12.8 or newer")
    assert site(gpus=(H100,), **values).look()["release"]["missing"]


def test_pypis_arm_wheel_without_cuda_is_refused_for_a_node_with_gpus(site: MakeSite, tmp_path: Path) -> None:
    """Its nvidia-* are asked for on x86_64 alone, until 2.11."""
    torch_files.torch_wheel(tmp_path / "w", "2.9.1", None)
    there = site(ai_environment_torch="2.9.1", ai_environment_wheels=str(tmp_path / "w"))
    there.identity = there.identity._replace(arch="aarch64")
    assert refusal(there) == ("torch 2.9.1 of PyPI has no CUDA for aarch64, and this node has GPUs; allowed: the build with its CUDA, like "
                              "2.9.1+cu128, or 2.9.1+cpu if that is meant")


def test_space_is_asked_for_the_wheels_that_fit(site: MakeSite, tmp_path: Path) -> None:
    values = locked(tmp_path, "2.9.1+cpu", None)
    fitting = sum(path.stat().st_size for path in (tmp_path / "w").iterdir())
    (tmp_path / "w" / f"torch-2.9.1+cpu-{OTHER}-{OTHER}-linux_x86_64.whl").write_bytes(bytes(1 << 20))
    assert site(ThisHost(free=4 * fitting), **values).look()["release"]["missing"]
    assert "MiB free, and torch 2.9.1+cpu needs" in refusal(site(ThisHost(free=4 * fitting - 1), **values))


def test_a_node_without_gpus_gets_one_only_where_it_is_asked_for(site: MakeSite, tmp_path: Path) -> None:
    assert site(gpus=(), **locked(tmp_path, "2.9.1+cu128", "12.8")).maybe() is None
    assert site(gpus=(), **locked(tmp_path / "cpu", "2.9.1+cpu", None)).look()["release"]["missing"]


def test_a_python_that_the_node_lacks(site: MakeSite, tmp_path: Path) -> None:
    values = locked(tmp_path, "2.9.1+cpu", None)
    assert refusal(site(ai_environment_python="3.14", **values)) == (
        "this node has no python3.14; allowed: a Python that it has, or rdma_stack_extra_packages with the package that brings it, and "
        "railwright apply")


def test_a_python_without_ensurepip_as_debian_ships_it(site: MakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says of itself is changed on the way: this machine's has it."""
    says(monkeypatch, '"venv": true', '"venv": false')
    minor = OWN.partition(".")[2]
    assert refusal(site(**locked(tmp_path, "2.9.1+cpu", None))).endswith(
        f"has no venv and ensurepip; on Debian and Ubuntu they are in python3-venv (python3.{minor}-venv): name it in "
        "rdma_stack_extra_packages and apply")


def test_a_torch_that_has_no_wheel_for_the_nodes_python(site: MakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer of this machine's Python is changed to that of EL 9's."""
    says(monkeypatch, f'"version": [3, {OWN.partition(".")[2]},', '"version": [3, 9,')
    assert refusal(site(**locked(tmp_path, "2.9.1", "12.8"))) == (
        "torch 2.9.1 has no wheel for Python 3.9, which this node's is; allowed as ai_environment_python: 3.10 to 3.14")


def test_no_space(site: MakeSite, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_text(torch_files.lock(torch_files.torch_wheel(tmp_path / "w", "2.9.1+cu128", "12.8")))
    values = {"ai_environment_requirements": str(lock), "ai_environment_index_url": "https://index.example.com/simple",
              "ai_environment_torch": "2.9.1+cu128"}
    there = site(ThisHost(free=3 << 30), **values)
    assert refusal(there) == f"{there.path} has 3072 MiB free, and torch 2.9.1+cu128 needs 12288"
    assert site(ThisHost(free=13 << 30), **values).look()["release"]["missing"]


def test_wheels_for_another_python_or_machine(site: MakeSite, tmp_path: Path) -> None:
    values = locked(tmp_path, "2.9.1+cu128", "12.8", tag=f"{OTHER}-{OTHER}-linux_x86_64")
    said = refusal(site(**values))
    assert said.startswith(f"{tmp_path}/w has no torch that fits CPython {OWN} on x86_64 with glibc ")
    assert said.endswith(f"; ai_environment_torch is 2.9.1+cu128; there: torch-2.9.1+cu128-{OTHER}-{OTHER}-linux_x86_64.whl")
    (tmp_path / "lock").write_text(torch_files.lock(*(tmp_path / "w").iterdir()))
    said = refusal(site(**values, ai_environment_requirements=str(tmp_path / "lock")))
    assert said.startswith(f"{tmp_path}/w has no wheel of torch 2.9.1+cu128 that fits CPython {OWN} on x86_64")
    assert said.endswith(f"there: torch-2.9.1+cu128-{OTHER}-{OTHER}-linux_x86_64.whl")


def test_inventory_and_lock_say_the_same(site: MakeSite, tmp_path: Path) -> None:
    values = {**locked(tmp_path, "2.9.1+cu128", "12.8"), "ai_environment_torch": "2.9.0+cu128"}
    assert refusal(site(**values)).endswith("; ai_environment_torch is 2.9.0+cu128: both must say the same")
    values["ai_environment_torch"] = "2.9.1+cu128"
    assert refusal(site(**values, ai_environment_packages=["numpy"])).startswith(
        f"ai_environment_packages: numpy: {tmp_path}/w has no numpy")
    assert refusal(site(**values, ai_environment_packages=["tiny==2.0"])).startswith(
        f"ai_environment_packages: tiny==2.0: {tmp_path}/w has tiny 1.0")


def test_an_owner_that_the_node_lacks(site: MakeSite, tmp_path: Path) -> None:
    assert refusal(site(**locked(tmp_path, "2.9.1+cpu", None), ai_environment_owner="nosuchuser")) == (
        "ai_environment_owner: nosuchuser: this node has no such user; allowed: one who exists on every node")


@pytest.mark.parametrize(("break_it", "said"), [
    (lambda root: (root / "w").mkdir(), "holds no wheel; allowed: a directory of *.whl, as pip download makes it"),
    (lambda root: None, "cannot be read on the controller: No such file or directory"),
    (lambda root: [(root / "w").mkdir(), (root / "w" / "torch.whl").write_text("")], "torch.whl is not the name of a wheel"),
])
def test_a_wheel_directory_that_is_none(site: MakeSite, tmp_path: Path, break_it: Callable[[Path], Any], said: str) -> None:
    break_it(tmp_path)
    assert refusal(site(ai_environment_torch="2.9.1", ai_environment_wheels=str(tmp_path / "w"))).endswith(said)


def proven(site: MakeSite, tmp_path: Path, version: str, said: dict[str, Any], **values: Any) -> str:
    whole = {"torch": version, "cuda": "12.8", "distributed": True, "nccl": "2.27.5", "packages": {}} | said
    wish = site(**locked(tmp_path, version, "12.8"), **values).wish()
    with pytest.raises(RailwrightError) as caught:
        install.judge(wish, whole)
    return str(caught.value)


@pytest.mark.parametrize(("version", "said", "words"), [
    ("2.9.1+cu128", {"torch": "2.9.1+cpu"}, "what was installed says that it is torch 2.9.1+cpu and not 2.9.1+cu128"),
    ("2.9.1", {"torch": "2.9.0+cu128"}, "what was installed says that it is torch 2.9.0+cu128 and not 2.9.1"),
    ("2.9.1", {"torch": "2.9.1", "cuda": None}, "torch 2.9.1 says that it is built for no CUDA and not for CUDA 12.8"),
    ("2.9.1+cu126", {"cuda": "12.8"}, "torch 2.9.1+cu126 says that it is built for CUDA 12.8 and not for CUDA 12.6"),
    ("2.9.1+cu128", {"distributed": False},
     "torch 2.9.1+cu128 was built without torch.distributed: no job over several nodes runs with it"),
])
def test_what_torch_says_of_itself_is_judged(site: MakeSite, tmp_path: Path, version: str, said: dict[str, Any], words: str) -> None:
    assert proven(site, tmp_path, version, said) == words


def test_pypis_own_version_is_that_of_the_wheel(site: MakeSite, tmp_path: Path) -> None:
    """The wheel is 2.9.1, and torch.__version__ in it 2.9.1+cu128."""
    wish = site(**locked(tmp_path, "2.9.1", "12.8")).wish()
    install.judge(wish, {"torch": "2.9.1+cu128", "cuda": "12.8", "distributed": True, "packages": {}})


def test_nccl_against_the_profile(site: MakeSite, tmp_path: Path) -> None:
    aiacc = {"fabric": "erdma", "mtu": 8500, "nccl_profile": "erdma-aiacc", "aiacc_install": False}
    assert proven(site, tmp_path, "2.9.1+cu128", {}, **aiacc) == (
        "torch 2.9.1+cu128 brings NCCL 2.27.5, and AIACC's plugin (rdma_nccl_profile erdma-aiacc) is for NCCL 2.8 to 2.16")
    wish = site(**locked(tmp_path, "2.9.1+cu128", "12.8"), **aiacc).wish()
    for fitting in ("2.8.3", "2.14.3", "2.16.5"):
        install.judge(wish, {"torch": "2.9.1+cu128", "cuda": "12.8", "distributed": True, "packages": {}, "nccl": fitting})
