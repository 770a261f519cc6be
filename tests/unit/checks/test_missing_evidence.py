# SPDX-License-Identifier: GPL-3.0-or-later
"""No verdict passes without its evidence: where a wrong value of a fact keeps a verdict from passing, so does a value that was not read.

Trees that were written from documented formats. Of each, every fact is put wrong and taken away, one at a time; of one, every file and
every answer of a command too.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.checks.node import judge_node
from ansible_collections.railwright.rdma.plugins.module_utils.entry.check import check_node
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from node_trees import NODES
from tree_sites import SITES, spec_of

# Facts that another one stands in for: only without both has nothing been read.
ALSO_TOLD_BY = {"modules.erdma.parameters.compat_mode": "hcas", "gpu_driver.disk_version": "gpu_driver.version"}
# The device's own net directory tells its netdev too.
FILES_ALSO_TOLD = {"sys/devices/virtual/infiniband/rxe0/ports/1/gid_attrs/ndevs/0"}
# Passes by other evidence, which was looked at.
LOOKED_AT = {
    ("gpu_driver.disk_version", "gpudirect.peermem"),  # no driver known, so no module wanted; the one that is loaded is registered
    ("gpu_driver.version", "gpudirect.peermem"),
    ("stack.name", "gpudirect.path"),  # the HCAs and CUDA were asked themselves, and said yes
    ("stack.name", "gpudirect.dmabuf"),
    ("hcas.0.link.virtual_function", "pci.sriov"),  # how many functions there are was read
    ("hcas.1.link.virtual_function", "pci.sriov"),
}
Where = tuple[str | int, ...]
ALIKE = 2  # of a list that many are looked at; the others are like them


@pytest.mark.parametrize("tree", sorted(SITES))
def test_what_was_not_read_passes_nothing(tree: str) -> None:
    judge = Judge(tree)
    facts = judge.facts
    healthy = judge()
    assert healthy
    wrong, matters = [], 0
    for where in places(facts):
        before = at(facts, where)
        needs = set()
        for value in bad(before):
            put(facts, where, value)
            needs |= {verdict for verdict in healthy - judge() if verdict in judge.given}
        if needs and before is not None:
            name = ".".join(map(str, where))
            other = tuple(ALSO_TOLD_BY[name].split(".")) if name in ALSO_TOLD_BY else where
            kept = at(facts, other)
            put(facts, other, None)
            put(facts, where, None)
            matters += 1
            wrong += [(name, *verdict) for verdict in sorted(needs & judge(), key=str) if (name, verdict[0]) not in LOOKED_AT]
            put(facts, other, kept)
        put(facts, where, before)
    assert matters
    assert not wrong, "\n".join(map(str, wrong))


def test_a_file_or_an_answer_that_is_not_there_passes_nothing(tmp_path: Path) -> None:
    """The answers of commands lie in files of the tree too."""
    tree = tmp_path / "rxe"
    shutil.copytree(NODES / "rxe", tree, symlinks=True)
    spec = spec_of("rxe")

    def passing() -> set[tuple[Any, ...]]:
        verdicts = check_node(TreeHost(str(tree)), "node", spec, None, 1.0)["verdicts"]
        return {(item["check"], item["hca"], item["port"], item["subject"]) for item in verdicts if item["status"] == "pass"}

    healthy, wrong, matters = passing(), [], 0
    for path in sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink()):
        name, before, needs = path.relative_to(tree).as_posix(), path.read_bytes(), set()
        for value in (b"wrong\n", b"0\n", b"[]\n"):
            path.write_bytes(value)
            needs |= healthy - passing()
        path.unlink()
        matters += bool(needs)
        wrong += [(name, *verdict) for verdict in sorted(needs & passing(), key=str) if name not in FILES_ALSO_TOLD]
        path.write_bytes(before)
    assert matters > 10
    assert not wrong, "\n".join(map(str, wrong))


class Judge:
    """Says which verdicts pass on the facts as they are now. ``given``: those that there were the last time, whatever they said."""

    def __init__(self, tree: str) -> None:
        host = TreeHost(str(NODES / tree))
        self.spec, self.identity = spec_of(tree), observe_identity(host)
        self.facts: Any = observe_facts(host, self.identity)
        self.given: set[tuple[Any, ...]] = set()

    def __call__(self) -> set[tuple[Any, ...]]:
        seen = inspection_of("node", self.spec, self.identity, self.facts)
        try:
            verdicts = [item for _area, item in judge_node(seen)]
        except (AttributeError, KeyError, TypeError, ValueError):  # no observer gives this value: the node would be failed
            verdicts = []
        self.given = {(item.check, item.hca, item.port, item.subject) for item in verdicts}
        return {(item.check, item.hca, item.port, item.subject) for item in verdicts if item.status == "pass"}


def places(value: Any, above: Where = ()) -> Iterator[Where]:
    """Of every named value, the deepest last."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:ALIKE]) if isinstance(value, list) else ()
    for key, item in list(items):
        if isinstance(key, str):
            yield (*above, key)
        yield from places(item, (*above, key))


def bad(value: Any) -> list[Any]:
    """Values of the same form that say something else."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [0, 1, value + 1, 10**9]
    if isinstance(value, str):
        return ["", "wrong", "0"]
    if isinstance(value, list):
        return [[], value[:1]]
    return []


def at(value: Any, where: Where) -> Any:
    for key in where:
        value = value[key]
    return value


def put(facts: Any, where: Where, value: Any) -> None:
    at(facts, where[:-1])[where[-1]] = value
