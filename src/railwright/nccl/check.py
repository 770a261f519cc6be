# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with NCCL settings: names that nothing reads, values that are read as something else, files that contradict each other.

NCCL is silent about all of it. Rules on single names and values are the inventory's own (spec/nccl_overrides.py).
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import QosProfile
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.variables import VARIABLES
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec import nccl_overrides
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.findings import Findings
from railwright.nccl.settings import NAME, Grammar, Setting, judge_option

SEVERITIES = ("error", "warning", "info")
_OVER_IPOIB = "is NCCL's bootstrap interface; over IPoIB it makes nothing faster, and a container or a node without this name finds none"
# name -> (value, severity, message, replacement): values that NCCL takes and that do not do what people expect
HABITS = {
    "NCCL_DEBUG": (r"(?i)TRACE", "info", "TRACE lines are compiled out of the NCCL that everybody ships: this prints what INFO prints",
                   "NCCL_DEBUG=INFO with NCCL_DEBUG_SUBSYS"),
    **{name: (values, "warning", nccl_overrides.TURNS_OFF, allowed) for name, (values, allowed) in nccl_overrides.RDMA_OFF.items()},
    "NCCL_SOCKET_IFNAME": (r"\^?=?ib\d*", "info", _OVER_IPOIB, "an interface that all nodes have, such as the management NIC"),
}
_HCA = re.compile(r"\^?=?[A-Za-z][\w.-]*(:\d+){0,3}(,[A-Za-z][\w.-]*(:\d+){0,3})*,?\Z")
_SKIP = ("NCCL_HOME",)  # nccl-tests' Makefile takes it; it is no setting of a run


class NcclFinding(NamedTuple):
    file: str
    line: int
    variable: str
    severity: str
    message: str
    replacement: str

    def __str__(self) -> str:
        hint = f"; write: {self.replacement}" if self.replacement else ""
        return f"{self.file}:{self.line}: {self.severity}: {self.variable}: {self.message}{hint}"


class Source(NamedTuple):
    """A text with NCCL settings: a file, or the environment."""

    file: str
    grammar: Grammar
    settings: tuple[Setting, ...]


def check_source(source: Source, qos: QosProfile | None = None, nccl: str | None = None) -> list[NcclFinding]:
    """Return the findings of one text, compared with a QoS profile (NCCL_IB_TC) and a release of NCCL, where they are known."""
    found: list[NcclFinding] = []
    for setting in source.settings:
        found += [NcclFinding(source.file, setting.line, setting.name, *slip) for slip in setting.slips]
        option = judge_option(setting.name, setting.value) if source.grammar is Grammar.SHELL and setting.value else None
        found += [NcclFinding(source.file, setting.line, setting.name, *option)] if option else []
        if setting.name in _SKIP or not re.match(NAME, setting.name):  # nccl.conf may set anything
            continue
        if not setting.slips:
            found += [NcclFinding(source.file, setting.line, setting.name, *rest) for rest in _judge(setting, source.grammar, qos, nccl)]
    return found + list(_repeated(source))


def _judge(setting: Setting, grammar: Grammar, qos: QosProfile | None, nccl: str | None) -> Iterator[tuple[str, str, str]]:
    """(severity, message, replacement) of a setting as such."""
    if setting.name == "LD_LIBRARY_PATH":
        if setting.value is not None and "" in setting.value.split(":"):
            yield "warning", "an empty element is the current directory, and the path to NCCL is not in it", "$LD_LIBRARY_PATH:/path"
        return
    findings = Findings(None)
    row = nccl_overrides.check_name(setting.name, setting.name, findings, nccl)
    from_environment = grammar is Grammar.SHELL and setting.name in nccl_overrides.NOT_FROM_FILE
    if row is not None and setting.value is not None and not from_environment:
        nccl_overrides.check_value(row, setting.value, qos, setting.name, findings)
    owned = row is None and nccl_overrides.owner_of(setting.name) is not None
    for item in findings.items:
        yield ("warning" if owned else item.severity), item.message, item.allowed
    if setting.value is None or any(item.severity == "error" for item in findings.items):
        return
    if setting.name == "NCCL_IB_HCA" and not _HCA.match(setting.value):
        yield "error", f"{setting.value!r} names no device: the form is [^][=]device[:port],...", "=mlx5_0:1, or a prefix such as mlx5"
    habit = HABITS.get(setting.name)
    if habit is not None and re.fullmatch(habit[0], setting.value):
        yield habit[1], habit[2], habit[3]


def _repeated(source: Source) -> Iterator[NcclFinding]:
    """The same variable twice with different values: nccl.conf keeps the first, a shell the last."""
    first: dict[str, Setting] = {}
    for setting in source.settings:
        if setting.name not in VARIABLES or setting.value is None:
            continue
        before = first.setdefault(setting.name, setting)
        if before is not setting and before.value != setting.value and source.grammar is Grammar.CONF:
            yield NcclFinding(source.file, setting.line, setting.name, "warning",
                              f"is set in line {before.line} already: NCCL keeps the first value, {before.value}", "one line")


def check_together(sources: Sequence[Source]) -> list[NcclFinding]:
    """Variables that several texts set differently, and which one NCCL takes: environment, ~/.nccl.conf, /etc/nccl.conf."""
    found: list[NcclFinding] = []
    ranked = sorted(sources, key=_rank)
    winner: dict[str, tuple[Source, Setting]] = {}
    for source in ranked:
        for name, setting in _effective(source).items():
            if name not in winner:
                winner[name] = (source, setting)
                continue
            other, stronger = winner[name]
            if stronger.value != setting.value and _rank(other) < _rank(source):  # two job scripts do not meet
                found.append(NcclFinding(source.file, setting.line, name, "info",
                                         f"has no effect where {other.file}:{stronger.line} sets {stronger.value}: "
                                         "the environment comes first, then ~/.nccl.conf, then /etc/nccl.conf", ""))
    return found


def _rank(source: Source) -> int:
    if source.grammar is Grammar.SHELL:
        return 0
    return 1 if source.file.rpartition("/")[2].startswith(".") else 2


def _effective(source: Source) -> dict[str, Setting]:
    """Per variable the setting that counts within its text."""
    kept: dict[str, Setting] = {}
    for setting in source.settings:
        if setting.value is not None and setting.name in VARIABLES and (source.grammar is Grammar.SHELL or setting.name not in kept):
            kept[setting.name] = setting
    return kept


def check_prefixes(source: Source) -> list[NcclFinding]:
    """Device names of NCCL_IB_HCA that also stand for others (mlx5_1 is mlx5_10 too). For texts that belong to a known inventory."""
    found = []
    for setting in source.settings:
        value = setting.value or ""
        if setting.name == "NCCL_IB_HCA" and not value.lstrip("^").startswith("="):
            loose = [word.partition(":")[0] for word in value.lstrip("^").split(",") if re.match(r"mlx\d+(_\d+)?(:|\Z)", word)]
            if loose:
                more = f"{loose[0]}0 too" if "_" in loose[0] else "storage and management NICs too"
                found.append(NcclFinding(source.file, setting.line, setting.name, "warning",
                                         f"{loose[0]} is a prefix: it stands for every device whose name begins so ({more})",
                                         "an exact list such as NCCL_IB_HCA==mlx5_0,mlx5_1"))
    return found
