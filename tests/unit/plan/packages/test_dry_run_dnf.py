# SPDX-License-Identifier: GPL-3.0-or-later
"""The package steps against a dnf whose answers are written down: what it is asked, in which order, and what is made of its table.

Real ones are in the scenario rdma_stack_dnf.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.write import Result
from ansible_collections.railwright.rdma.plugins.module_utils.plan.packages.dry_run import Case, own_package
from ansible_collections.railwright.rdma.plugins.module_utils.plan.packages.dry_run_dnf import DnfProver
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity
from packages_nodes import KERNELS, ROCKY
from rooted import RootedHost

IDENTITY = Identity("node1", ROCKY, KERNELS["redhat"], "x86_64", "3.9.18", None, (), (), ())
REMOVED = "Removing:\n old-stack x86_64 1.0-1 @mlnx 0\n"
TABLE = """Installing:
 rdma-core x86_64 51.0-1.el9 baseos 58 k
Upgrading:
 libibverbs x86_64 51.0-1.el9 baseos 400 k
     replacing  libibverbs-old.x86_64 48.0-1

Total download size: 458 k
Installed size: 1.2 M
"""


class Dnf(RootedHost):
    """Answers by the first word that is in the command line."""

    def __init__(self, root: Path, answers: dict[str, str]) -> None:
        super().__init__(root)
        self.answers = answers
        self.asked: list[str] = []

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None, limit: int = 0) -> Result:
        line = " ".join(word for word in argv if not word.startswith("--setopt"))
        self.asked.append(line)
        return Result(0, next((out for word, out in self.answers.items() if word in line), ""), "")

    def free_bytes(self, path: str) -> int:
        return 1 << 40


def prover(root: Path, steps: Sequence[tuple[str, list[str]]], answers: dict[str, str]) -> DnfProver:
    case = Case(IDENTITY, tuple({"area": "stack", "state": state, "names": names} for state, names in steps), (), (), {},
                ("libibverbs-old",))
    return DnfProver(Dnf(root, answers), case, "/overlay")


STEPS = (("absent", ["old-stack"]), ("replaced", ["libibverbs"]), ("present", ["rdma-core"]))
ANSWERS = {
    "--assumeno remove": REMOVED, "repoquery --available": "libibverbs 51.0-1.el9\n", "--assumeno shell": TABLE,
    "rpm -q --qf": "old-stack 1.0-1\nlibibverbs 48.0-1\n"}


def test_steps_and_what_changes(tmp_path: Path) -> None:
    made = prover(tmp_path, STEPS, ANSWERS)
    assert isinstance(made.host, Dnf)
    dry_run = made.dry_run()
    assert [(step["state"], step["names"]) for step in dry_run.steps] == [
        ("absent", ["old-stack"]), ("present", ["libibverbs-51.0-1.el9"]), ("present", ["rdma-core"])]
    assert list(dry_run.resolved) == [
        {"name": "rdma-core", "from": None, "to": "51.0-1.el9", "origin": "baseos"},
        {"name": "libibverbs", "from": "48.0-1", "to": "51.0-1.el9", "origin": "baseos"},
        {"name": "libibverbs-old", "from": "48.0-1", "to": None, "origin": ""},
        {"name": "old-stack", "from": "1.0-1", "to": None, "origin": ""}]
    assert (tmp_path / "overlay/transaction").read_text() == "remove old-stack-1.0-1\ninstall rdma-core libibverbs-51.0-1.el9\nrun\n"
    asked = [line for line in made.host.asked if line.startswith("dnf")]
    assert [line.split()[1:4] for line in asked] == [
        ["-y", "makecache"], ["--assumeno", "remove", "old-stack"], ["-q", "repoquery", "--available"],
        ["--assumeno", "shell", "/overlay/transaction"], ["-y", "--downloadonly", "shell"]]


def test_what_goes_beside_the_plan_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    made = prover(tmp_path, STEPS, {**ANSWERS, "--assumeno shell": TABLE + "Removing:\n site-tool x86_64 1-1 @site 0\n"})
    assert isinstance(made.host, Dnf)
    with pytest.raises(RailwrightError, match=r"would also remove .*site-tool 1-1"):
        made.dry_run()
    assert not [line for line in made.host.asked if "--downloadonly" in line]


def test_a_package_without_a_signature_comes_after_what_it_needs(tmp_path: Path) -> None:
    made = prover(tmp_path, [("unsigned", ["/a.rpm"])], {
        "--assumeno install /a.rpm": "Installing:\n a x86_64 1-1 @commandline 1 k\n b x86_64 2-1 baseos 1 k\n"})
    assert [(step["state"], step["names"]) for step in made.dry_run().steps] == [("present", ["b-2-1"]), ("unsigned", ["/a.rpm"])]


def test_a_rollback_asks_for_exactly_what_comes_and_goes(tmp_path: Path) -> None:
    made = prover(tmp_path, [], {"--assumeno remove": REMOVED})
    made.prepare()
    assert made.replace((), ("old-stack-1.0-1",)).lost == {"old-stack": "1.0-1"}
    with pytest.raises(RailwrightError, match="dnf cannot do the package step"):
        made.replace(("rdma-core-51.0-1.el9.x86_64",), ())


@pytest.mark.parametrize(("area", "own"), [("gpu_driver", True), ("cuda", True), ("stack", False)])
def test_packages_of_the_gpu_driver_are_ours_where_it_changes(area: str, own: bool) -> None:
    case = Case(IDENTITY, ({"area": area, "state": "present", "names": ["x"]},), (), (), {}, ())
    assert own_package(case, "nvidia-kmod-common", "570.1-1.el9") is own
    assert own_package(case, "site-tool", "1-1") is False
