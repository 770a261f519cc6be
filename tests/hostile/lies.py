# SPDX-License-Identifier: GPL-3.0-or-later
"""From an honest answer to answers that are none: what root on one node could make its Python say. A lie is text, as on the wire.

``named``: the lie cannot be taken for an answer, so that the run must fail that node, and say why.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from ansible.release import __version__ as core_version

from ansible_collections.railwright.rdma.plugins.plugin_utils.preflight import core_series

CANARY = "/operator_home/.ssh/id_ed25519"
PIPE = "{{ lookup('ansible.builtin.pipe', 'touch $HOSTILE/../executed') }}"
FILE = "{{ lookup('ansible.builtin.file', '" + CANARY + "') }}"
COMMAND = ["sh", "-c", "touch $HOSTILE/../executed", "{node}"]
# Keys of the inventory and of our own plays, as a node would send them as facts.
FACTS = {
    "upgrade_scheduler": "command", "upgrade_scheduler_host": "localhost", "upgrade_drained_command": COMMAND,
    "upgrade_drain_command": COMMAND, "upgrade_undrain_command": COMMAND, "aiacc_archive": CANARY, "nccl_archive": CANARY,
    "mpi_archive": CANARY, "nccl_tests_archive": CANARY, "ai_environment_wheels": "/operator_home/.ssh", "rdma_consent": ["reboot"],
    "rdma_run_id": "x", "rdma_plan": {"plan": []}, "__rdma_stack_carry_areas": ["network"], "ansible_become_exe": "/bin/false",
}
TEXTS = (
    "../../../../etc/shadow", "/etc/shadow", CANARY, PIPE, FILE, "{% for x in range(9) %}", "\x1b]0;owned\x07\x1b[2J",
    "<script>alert(1)</script>", "'; touch executed; '", "-oProxyCommand=touch executed", "a\nb: c\n", "\x00", "\ud800", "", "a" * 100_000,
    "127.0.0.1", "github.com", "localhost",
)
WRONG = (None, True, -1, 5, 1.5, [], {}, [[]], {"a": 1}, "x", 1 << 70)
# What json.loads of Python takes, or not, and no form does.
RAW = (
    "", "null", "[]", "[1]", '"text"', "5", "true", "{", '{"changed": fal', "NaN", "[" * 100_000, '{"a":' * 5_000,
    "Traceback (most recent call last):", "{'changed': False}", "<html><body>captive portal</body></html>", "\udcff\udcfe",
    '{"changed": 1e999}', '{"changed": ' + "9" * 5_000 + "}", '{"failed": "no"}', '{"changed": "{{ 1 }}"}', '{"skipped": true}',
    '{"msg": ["a"], "failed": true}',
)
DANGEROUS: tuple[dict[str, Any], ...] = (
    {"ansible_facts": FACTS}, {"ansible_facts": {name: FACTS[name] for name in ("aiacc_archive", "nccl_archive")}}, {"ansible_facts": [1]},
    {"ansible_stats": {"data": {"x": 1}, "per_host": True, "aggregate": True}},
    {"unreachable": True}, {"include": "/etc/passwd", "include_args": {}},
)
HARMLESS: tuple[dict[str, Any], ...] = (  # dropped without a word: Ansible takes them away, or nobody reads them
    {"add_host": {"host_name": "evil", "groups": ["rdma"], "host_vars": {"ansible_connection": "local"}}},
    {"add_group": "rdma", "parent_groups": ["all"]},
    {"_ansible_notify": ["x"], "_ansible_delegated_vars": {"ansible_host": "localhost"}}, {"invocation": {"module_args": FACTS}},
    {"exception": PIPE}, {"deprecations": [{"msg": PIPE}]}, {"warnings": [PIPE, 5, {}]}, {"stdout": PIPE, "stderr": "\x1b[2J", "rc": 0},
    {"results": [FACTS]},
    {"rdma_consent": ["reboot"]},
)


class Lie(NamedTuple):
    """``place``: where in ``answer``, a document, the value stands; a lie that is no document is ``answer`` itself."""

    label: str
    answer: Any
    named: bool
    place: tuple[Any, ...] = ()
    value: Any = None

    @property
    def text(self) -> str:
        """Written when it is told: thousands are thought of for each one that is."""
        if isinstance(self.answer, str):
            return self.answer
        return json.dumps(replaced(self.answer, self.place, self.value) if self.place else self.answer)


def lies(key: str, honest: str, *, builtin: bool) -> Iterator[Lie]:
    """Of one answer, the most dangerous first. ``builtin``: a module of Ansible's, of whose answer little is taken."""
    for extra in DANGEROUS:
        dropped = VALIDATED and extra == {"ansible_facts": [1]}
        yield from of_whole(key, honest, extra, named=key not in FREE and not dropped)
    for text in RAW:
        yield Lie(f"{key} {text[:30]!r}", text, named=not builtin and key not in ("shell:", "probe:") and not text.startswith('{"skipped'))
    for extra in HARMLESS:
        yield from of_whole(key, honest, extra, named=False)
    try:
        document = json.loads(honest)
    except ValueError:
        yield from (Lie(f"{key} text {text[:30]!r}", text, named=False) for text in TEXTS)
        return
    for path in paths(document):
        for value in (*WRONG, *TEXTS):
            yield Lie(f"{key} {path} {str(value)[:30]!r}", document, named=False, place=path, value=value)


VALIDATED = core_series(core_version) >= (2, 21)  # facts that are no mapping are gone before our gate
# Asked by an action of Ansible's own, which keeps the answer to itself.
FREE = ("setup:", "find:", "shell:", "probe:", "fetch:", "ping:", "stat:", "async_wrapper:", "copy:", "dnf:")


def of_whole(key: str, honest: str, extra: dict[str, Any], *, named: bool) -> Iterator[Lie]:
    try:
        document = json.loads(honest)
    except ValueError:
        return
    yield Lie(f"{key} {list(extra)}", {**document, **extra}, named)


def paths(document: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of every value, and of the first item of every list."""
    items: list[tuple[Any, Any]] = []
    if isinstance(document, dict):
        items = list(document.items())
    elif isinstance(document, list):
        items = list(enumerate(document[:1]))
    for name, value in items:
        yield (*before, name)
        yield from paths(value, (*before, name))


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    whole = copy.deepcopy(document)
    place = whole
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return whole


def chosen(found: list[Lie], number: int, seed: str) -> list[Lie]:
    """The dangerous ones always, and others by lot: the same in every run of one version."""
    first = len(DANGEROUS)
    rest = found[first:]
    mixed = sorted(rest, key=lambda lie: hashlib.sha256(f"{seed} {lie.label}".encode("utf-8", "replace")).digest())
    return found[:first][:number] + mixed[: max(0, number - first)]
