# SPDX-License-Identifier: GPL-3.0-or-later
"""What dnf did, by rpm's own database: installed, reverted, upgraded; and nothing where a signature, the index or a version is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

BUILD = Path(__file__).parents[3] / "build/molecule/rdma_stack_dnf"
FRESH = ("infiniband-diags", "libibverbs", "libibverbs-utils", "librdmacm", "mstflint", "rdma-core")
PROOF = "Prove that every package step can be made"
OLD, NEW = "1.0-1.el9", "2.0-1.el9"
REFUSED = ("node2", "node3", "node4")


def installed(host: Any) -> dict[str, str]:
    lines = host.check_output(r"rpm -qa --qf '%{NAME} %{VERSION}-%{RELEASE}\n'").splitlines()
    found = dict(line.split() for line in lines if not line.startswith("gpg-pubkey"))
    assert found.pop("rocky-release") == "9.6-1.el9"
    return found


def planned(run: Any, node: str) -> dict[str, tuple[Any, Any]]:
    plan = run.of("rdma_state", node)[0]["answer"]["plan"]
    return {item["what"].removeprefix("package "): (item["before"], item["after"]) for item in plan if item["area"] == "packages"}


def test_the_runs_were_check_apply_apply(runs: list[Any]) -> None:
    assert [run.kind for run in runs] == ["check", "apply", "apply"]


def test_packages_are_as_planned(host: Any, node: str) -> None:
    if node == "node1":
        assert installed(host) == {**dict.fromkeys((*FRESH, "pciutils"), NEW), "perftest": OLD, "librdmacm-utils": OLD}
    else:
        assert installed(host) == {}, "a refused transaction installs nothing at all"


def test_check_mode_named_every_package_and_changed_none(runs: list[Any]) -> None:
    wanted = {
        **dict.fromkeys(FRESH, (None, "present")), "pciutils": (OLD, NEW), "perftest": (NEW, OLD), "librdmacm-utils": (None, OLD),
    }
    assert planned(runs[0], "node1") == wanted
    assert planned(runs[1], "node1") == wanted, "the apply after it found the same"


def test_a_second_run_finds_nothing_to_do(runs: list[Any]) -> None:
    (planned,) = runs[2].of("rdma_state", "node1")  # and no apply: there is nothing to carry out
    assert (planned["answer"]["plan"], planned["answer"]["changed"]) == ([], False)


@pytest.mark.parametrize(("name", "word"), [
    ("node2", "mstflint"), ("node3", "repository stand-in: its index is not signed"),
    ("node4", "perftest-9.9-1.el9 is in no repository of this node"),
])  # fmt: skip
def test_the_dry_run_refused_and_said_what(name: str, word: str) -> None:
    kept = json.loads((BUILD / f"refused-{name}.json").read_text(encoding="utf-8"))
    assert kept["task"] == PROOF
    assert word in kept["message"]
    assert "\n" not in kept["message"].strip()


def test_nobody_else_was_refused() -> None:
    assert sorted(path.name for path in BUILD.glob("refused-*")) == [f"refused-{name}.json" for name in REFUSED]


def test_a_refused_node_gets_no_module_file(host: Any, node: str) -> None:
    assert host.file("/etc/modules-load.d/railwright.conf").exists == (node not in REFUSED)
