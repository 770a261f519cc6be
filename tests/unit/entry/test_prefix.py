# SPDX-License-Identifier: GPL-3.0-or-later
"""The body of rdma_prefix: what is done in which step, and what a failure says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.lib.module_double import Module
from tests.lib.rooted import RootedHost

from ansible_collections.railwright.rdma.plugins.module_utils.entry import prefix, response
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import PREFIX
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from field_specs import build_spec

STEPS = ("prepare", "install", "clean")


class Site:
    """One release, or none, and which steps were done with it. Its methods are those of an installer."""

    def __init__(self, patch: pytest.MonkeyPatch, root: Path, *, wanted: bool = True, error: Exception | None = None) -> None:
        self.error = error
        self.needed, self.whole = True, True
        self.done: list[str] = []
        patch.setattr(response, "Host", lambda: RootedHost(root))
        patch.setitem(prefix.PRODUCTS, "thing", prefix.Product(
            "role", lambda *_given: self if wanted else None, lambda spec: str(spec["mpi_install"])))
        (root / "run").mkdir()

    def _do(self, step: str) -> None:
        self.done.append(step)
        if self.error is not None:
            raise self.error

    def inspect(self) -> dict[str, Any]:
        return {"release": {"directory": "/opt/thing/1.0", "needed": self.needed}, "notes": ["kept"]}

    def prepare(self) -> None:
        self._do("prepare")

    def install(self) -> None:
        self._do("install")
        self.needed = not self.whole

    def clean(self) -> None:
        self._do("clean")

    def run(self, step: str, *, check: bool = False) -> dict[str, Any]:
        spec, _findings = build_spec({"fabric": "roce", "mtu": 9000, "mpi_install": "hpcx"}, "n1")
        assert spec is not None
        given = {"product": "thing", "step": step, "spec": spec.as_dict()}
        return Module(given, check_mode=check).call(prefix.answer)


MakeSite = Callable[..., Site]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MakeSite:
    return lambda **values: Site(monkeypatch, tmp_path, **values)


def test_an_inspection_does_nothing(site: MakeSite) -> None:
    there = site()
    answer = {"changed": False, "release": {"directory": "/opt/thing/1.0", "needed": True}, "notes": ["kept"], "plan": [], "drivers": {}}
    assert there.run("inspect") == answer
    assert there.done == []


def test_a_step_is_done_and_the_release_is_there(site: MakeSite) -> None:
    there = site()
    assert there.run("prepare") == {"changed": True}
    result = there.run("install")
    assert (result["changed"], result["release"]["needed"]) == (True, False)
    assert there.run("clean") == {"changed": False}
    assert there.done == list(STEPS)


@pytest.mark.parametrize("step", STEPS)
def test_check_mode_does_no_step(site: MakeSite, step: str) -> None:
    there = site()
    assert there.run(step, check=True)["changed"] is False
    assert there.done == []


@pytest.mark.parametrize("step", ["inspect", *STEPS])
def test_nothing_wanted_is_nothing_done(site: MakeSite, step: str) -> None:
    assert site(wanted=False).run(step) == {"changed": False, "release": None, "notes": ["hpcx"], "plan": [], "drivers": {}}


def test_what_is_not_whole_afterwards_fails(site: MakeSite) -> None:
    there = site()
    there.whole = False
    assert there.run("install") == {"failed": True, "msg": "role: /opt/thing/1.0 was made, and is not found whole now"}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RailwrightError("/opt/thing/1.0 is not there"), "role: /opt/thing/1.0 is not there"),
        (PermissionError(13, "Permission denied", "/opt/thing"), "role: /opt/thing: Permission denied"),
    ],
)
def test_a_failure_names_the_role(site: MakeSite, error: Exception, said: str) -> None:
    assert site(error=error).run("install") == {"failed": True, "msg": said}


def test_a_second_run_at_the_same_time_is_refused(site: MakeSite, tmp_path: Path) -> None:
    there = site()
    lock = RootedHost(tmp_path).lock(prefix.LOCK % "thing")
    assert lock is not None
    said = "role: another run is at work on thing of this node (lock /run/railwright-thing.lock is held)"
    assert there.run("install") == {"failed": True, "msg": said}
    assert (there.run("inspect").get("failed"), there.done) == (None, [])
    RootedHost(tmp_path).unlock(lock)
    assert there.run("install")["changed"] is True


def test_every_product_has_an_installer() -> None:
    assert {*prefix.PRODUCTS, "nccl_tests"} == set(PREFIX["product"]["choices"])
