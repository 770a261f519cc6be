# SPDX-License-Identifier: GPL-3.0-or-later
"""Root is no job user: the number decides on the node, whatever the name is; every step asks before it starts anything."""

from __future__ import annotations

import pwd
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.entry import bench, ssh_mesh
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.observe.accounts import UNSET, job_account
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.nccl_tests import install
from ansible_collections.railwright.rdma.plugins.module_utils.ssh_mesh import apply
from ansible_collections.railwright.rdma.plugins.module_utils.ssh_mesh import node as mesh
from field_specs import build_spec

REAL = pwd.getpwnam
TOOR = pwd.struct_passwd(("toor", "*", 0, 0, "", "/root", "/bin/sh"))
SHARE = {"user": "toor", "run": "ddp-r1"}
ALL_STEPS = [(name, mode) for name, modes in bench.STEPS.items() for mode in modes if mode != "inspect"]


class Untouched(Host):
    """A node on which nothing may happen."""

    def run(self, *_arguments: Any, **_named: Any) -> Any:
        raise AssertionError("a program was started")

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, "run" if name in ("spawn", "make_directory", "write", "remove") else name)

    @staticmethod
    def login() -> str:
        return "root"


class ByPerson(Untouched):
    @staticmethod
    def login() -> str:
        return "nobody"


@pytest.fixture(autouse=True)
def toor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node has a second name for uid 0."""
    monkeypatch.setattr(pwd, "getpwnam", lambda name: TOOR if name == "toor" else REAL(name))


def asked_of(benchmark: str, mode: str, user: str) -> dict[str, Any]:
    return {"benchmark": benchmark, "mode": mode, "node": "n1", "run": "r1", "user": user, "share": {**SHARE, "user": user}, "root": False}


@pytest.mark.parametrize("user", ["root", "toor"])
@pytest.mark.parametrize(("benchmark", "mode"), ALL_STEPS)
def test_no_step_of_a_benchmark_runs_as_root(benchmark: str, mode: str, user: str) -> None:
    with pytest.raises(RailwrightError, match=rf"{bench.USERS[benchmark]} .*: {user} has uid 0 on this node; allowed: "):
        bench.answer(Untouched(), asked_of(benchmark, mode, user), dry=False)


@pytest.mark.parametrize("benchmark", ["nccl_tests", "ddp"])
@pytest.mark.parametrize("keys", [{}, {"job_user": "toor"}, {"ssh_mesh_user": "toor"}])
def test_an_inspection_refuses_root_first(benchmark: str, keys: dict[str, str]) -> None:
    spec, _findings = build_spec({"fabric": "roce", "mtu": 9000, **keys}, "n1")
    assert spec is not None
    asked = {"benchmark": benchmark, "mode": "inspect", "node": "n1", "spec": spec.as_dict(), "directory": "/opt", "libraries": []}
    with pytest.raises(RailwrightError, match="toor has uid 0" if keys else UNSET):
        bench.answer(Untouched(), asked, dry=False)


@pytest.mark.parametrize("mode", ["observe", "generate", "read", "key", "apply", "prove"])
@pytest.mark.parametrize(("user", "why"), [(None, UNSET), ("root", "root has uid 0"), ("toor", "toor has uid 0")])
def test_no_mesh_is_roots(mode: str, user: str | None, why: str) -> None:
    with pytest.raises(RailwrightError, match=why):
        ssh_mesh.answer(Untouched(), {"mode": mode, "user": user, "state": "present", "root": False}, dry=False)


def test_a_mesh_that_is_roots_already_is_no_good_one_and_can_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    header = "# Managed by railwright (railwright.rdma): the next apply overwrites changes made here.\n"
    monkeypatch.setattr(Untouched, "read", lambda _self, _path, *_limit: header)
    found = ssh_mesh.answer(Untouched(), {"mode": "login", "user": None, "state": "present", "root": False, "peers": ["n2"]}, dry=False)
    assert found["login"] == {"configured": True, "user": "root", "logins": {"n2": UNSET}}
    assert mesh.job_account(Untouched(), None, True).uid == 0
    monkeypatch.setattr(apply, "leave", lambda _host, who, _dry: [apply.Step(f"removed of {who.name}", None, None)])
    removed = ssh_mesh.answer(Untouched(), {"mode": "apply", "user": None, "state": "absent", "root": False}, dry=False)
    assert removed["changes"] == ["removed of root"]


def test_nothing_is_built_for_root() -> None:
    with pytest.raises(RailwrightError, match=UNSET):
        install.run_step(Untouched(), "inspect", {"user": None, "root": False}, dry=False)


def test_who_is_allowed() -> None:
    host = Untouched()
    assert job_account(host, "nobody", "nccl_tests_user", False).name == "nobody"
    assert job_account(host, "toor", "nccl_tests_user", True).uid == 0, "rdma_job_user_root: accept"
    assert job_account(host, None, "nccl_tests_user", True).name == "root"
    assert job_account(ByPerson(), None, "nccl_tests_user", False).name == "nobody", "an ordinary login is a job user, as before"
