# SPDX-License-Identifier: GPL-3.0-or-later
"""One table of codes: what the product says of a node, whoever asks, is in tables/checks.yml, and nothing of that table is unused."""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import repo
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.needed import NEEDED
from ansible_collections.railwright.rdma.plugins.module_utils.checks.wishless import NEEDS_WISH, judge_without_wish
from ansible_collections.railwright.rdma.plugins.module_utils.entry.check import of_verdicts
from ansible_collections.railwright.rdma.plugins.module_utils.host.inspected import InspectedHost
from ansible_collections.railwright.rdma.plugins.module_utils.measure import counter_verdicts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import AREAS
from ansible_collections.railwright.rdma.plugins.module_utils.types import as_dicts
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nobody import nobodys_spec as wish
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import KEYS
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.checks import AGAINST, BY_CODE, FAMILIES, SECTIONS
from profile_trees import Tree
from railwright.drift import verdicts_as_prometheus

HEALTH = "plugins/module_utils/catalogue/health.py"
OF_AREA = "config."
# A family's name and a dot, and no check.
OTHER = {"opensm.service", "pci.bus_id", "nccl.conf", *(f"ddp.{mode}" for mode in ("inspect", "start", "poll", "stop", "collect"))}
CODE = re.compile(rf"(?:{'|'.join(sorted({code.partition('.')[0] for code in BY_CODE}))})\.[a-z_0-9]+")


def literals() -> Iterator[tuple[str, str]]:
    """(place, text) of every string of the product that has the form of a code."""
    for name in repo.python("plugins/", "src/"):
        if name != HEALTH:
            for node in ast.walk(repo.tree(name)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
                    yield f"{name}:{node.lineno}", node.value


def known(code: str) -> bool:
    return code in BY_CODE or code.removeprefix(OF_AREA) in {area.name for area in AREAS} | {"preflight"}


def test_the_code_knows_no_check_that_the_table_does_not() -> None:
    assert [(place, text) for place, text in literals() if text not in BY_CODE and text not in OTHER] == []


def test_every_row_is_somebodys_verdict() -> None:
    said = {text for _place, text in literals()} | {"config.<area>"}
    assert set(BY_CODE) - said == set()
    assert {text for _place, text in literals()} & OTHER == OTHER, "what is no check is named only while it is there"


def test_a_code_is_in_one_row() -> None:
    assert len(BY_CODE) == sum(map(len, SECTIONS.values()))
    assert [row.check for row in BY_CODE.values() if not row.what or not row.source] == []
    assert set(BY_CODE) >= NEEDS_WISH


def test_each_row_says_what_it_holds_a_value_against() -> None:
    """A row whose source is a key is the inventory's; the lists name no check that is not in a row."""
    keys = {key.name for key in KEYS if "_" in key.name}
    named = {code for code, row in BY_CODE.items() if keys & set(re.findall(r"[a-z_]+", row.source))}
    assert [code for code in sorted(named) if "inventory" not in BY_CODE[code].against] == []
    assert [name for names in AGAINST.values() for name in names if not fnmatch.filter(BY_CODE, name)] == []
    assert {row.against for row in SECTIONS["rails"]} >= {("inventory", "peers"), ("peers",)}


def test_needed_checks_are_checks() -> None:
    assert set(NEEDED) <= set(BY_CODE)
    assert {code for code, row in BY_CODE.items() if row.needed} == NEEDED & set(BY_CODE)


def test_each_family_that_has_a_command_has_checks() -> None:
    assert [family for family in FAMILIES if not any(code.startswith(family + ".") for code in BY_CODE)] == []


@pytest.mark.parametrize("name", ["broken", "doca8", "erdma-gpu", "hgx-skew", "ib8"])
def test_whoever_asks_gets_codes_of_the_table(name: str, tmp_path: Path) -> None:
    """check's verdicts, drift's findings of them, and the metrics."""
    tree = Tree(name, tmp_path / "tree")
    host = InspectedHost(tree.host)
    identity = observe_identity(host)
    verdicts = judge_without_wish("n1", wish().as_dict(), identity, observe_facts(host, identity))
    assert [item.check for item in verdicts if not known(item.check)] == []
    findings = of_verdicts([("hca", item) for item in verdicts], (), ())
    assert [finding.key for finding in findings if not known(finding.key.partition(":")[0])] == []
    labels = re.findall(r'check="([^"]+)"', verdicts_as_prometheus({"n1": {"status": "ok"}}, as_dicts(verdicts), 0.0))
    assert {item.check for item in verdicts} == set(labels)


def test_every_judged_counter_is_documented() -> None:
    page = repo.text("docs/reference/checks.md")
    assert [name for name in counter_verdicts.FAULTS + counter_verdicts.SUSPECT if f"`{name}`" not in page] == []
