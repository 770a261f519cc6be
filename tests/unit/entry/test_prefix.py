# SPDX-License-Identifier: GPL-3.0-or-later
"""The body of the modules that put a release below a prefix: what is done in which step, and what a failure says."""

from typing import Any

import pytest
from tests.lib.module_double import Module

from ansible_collections.railwright.rdma.plugins.module_utils.entry.prefix import ARGUMENTS, Below, run_below
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.modules import rdma_hpcx, rdma_nccl_library
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec

STEPS = ("unpack", "place", "link", "clean")


class Site:
    """One release, or none, and which steps were done with it."""

    def __init__(self, release: str | None = "1.0", *, needed: bool = True, error: Exception | None = None) -> None:
        self.release, self.needed, self.error = release, needed, error
        self.done: list[str] = []

    def step(self, name: str) -> Any:
        def work(_host: Host, release: str) -> None:
            self.done.append(f"{name} {release}")
            if self.error is not None:
                raise self.error
        return work

    def look(self, _host: Host, spec: Spec, release: str | None) -> dict[str, Any]:
        return {"found": {"version": release, "needed": self.needed} if release else None, "notes": [str(spec["mpi_install"])]}

    def run(self, mode: str, *, check: bool = False) -> dict[str, Any]:
        spec, _findings = build_spec({"fabric": "roce", "mtu": 9000, "mpi_install": "hpcx"}, "n1")
        assert spec is not None
        steps = {name: self.step(name) for name in STEPS}
        below = Below("rdma_thing", "thing", lambda _host, _spec: self.release, "found", self.look, steps)
        return Module({"mode": mode, "spec": spec.as_dict()}, check_mode=check).call(run_below, below)


@pytest.mark.parametrize(("check", "needed", "changed"), [(False, True, False), (True, True, True), (True, False, False)])
def test_a_look_does_nothing_and_is_a_change_only_in_check_mode(*, check: bool, needed: bool, changed: bool) -> None:
    site = Site(needed=needed)
    assert site.run("look", check=check) == {"changed": changed, "found": {"version": "1.0", "needed": needed}, "notes": ["hpcx"]}
    assert site.done == []


@pytest.mark.parametrize("mode", STEPS)
def test_a_step_is_done_with_the_release_and_not_in_check_mode(mode: str) -> None:
    for check, done in ((False, [f"{mode} 1.0"]), (True, [])):
        site = Site()
        assert site.run(mode, check=check) == {"changed": mode != "clean"}
        assert site.done == done


@pytest.mark.parametrize("mode", STEPS)
def test_nothing_wanted_is_nothing_done(mode: str) -> None:
    site = Site(None)
    assert site.run(mode) == {"changed": False}
    assert site.run("look", check=True) == {"changed": False, "found": None, "notes": ["hpcx"]}
    assert site.done == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RailwrightError("/opt/thing/1.0 is not there"), "thing: /opt/thing/1.0 is not there"),
        (PermissionError(13, "Permission denied", "/opt/thing"), "thing: /opt/thing: Permission denied"),
    ],
)
def test_a_failure_names_the_role(error: Exception, said: str) -> None:
    assert Site(error=error).run("place") == {"failed": True, "msg": said}


@pytest.mark.parametrize("kind", [rdma_hpcx, rdma_nccl_library], ids=["hpcx", "nccl_library"])
def test_both_modules_have_every_step_and_name_a_missing_action_plugin(kind: Any) -> None:
    assert {"look", "bring", "build", *kind.BELOW.steps} == set(ARGUMENTS["mode"]["choices"])
    name = kind.__name__.rpartition(".")[2]
    result = Module({"mode": "look", "spec": None}).call(run_below, kind.BELOW)
    assert result["msg"] == f"{name} got no spec: its action plugin did not run; call it as railwright.rdma.{name}"
