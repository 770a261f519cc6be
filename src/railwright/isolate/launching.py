# SPDX-License-Identifier: GPL-3.0-or-later
"""What both launchers of pairs do: so many at once, a question to many nodes over our own ssh, and why a node gave no figure."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import one_line
from railwright.isolate.model import Result, Round, Trial
from railwright.scan.questions import Question
from railwright.scan.scan import Node, scan

AT_ONCE = 1024  # pairs; while they measure, their connections only wait
SHOWN = 3  # reasons of a round
Answers = dict[str, dict[str, Any]]


class Site(NamedTuple):
    """A node, and what ``rdma_check`` said of it: its rails and facts."""

    node: Node
    view: Mapping[str, Any]


class Grown:
    """Verdicts of counters that grew while it was measured: those that did not pass, the first of each port."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, ...], dict[str, Any]] = {}

    def add(self, verdicts: Iterable[dict[str, Any]]) -> None:
        for verdict in verdicts:
            if verdict["status"] not in ("pass", "skipped"):
                self._found.setdefault(tuple(str(verdict[key]) for key in ("check", "node", "hca", "port")), verdict)

    def verdicts(self) -> list[dict[str, Any]]:
        return list(self._found.values())


class PairLauncher:
    def __init__(self, sites: Mapping[str, Site], at_once: int, tell: Callable[[str], None]) -> None:
        self._sites, self._at_once, self._tell = sites, at_once, tell
        self.grown = Grown()
        self._away: set[str] = set()  # nodes that are not there in this round
        self._why: dict[str, str] = {}  # node -> why it gave no figure in this round

    @property
    def nodes(self) -> list[str]:
        """Those that it can measure."""
        return list(self._sites)

    @abstractmethod
    def together(self, trials: Sequence[Trial]) -> list[Result]:
        """Measures these pairs side by side."""

    def run(self, round_: Round) -> list[Result]:
        self._why, results = {}, list[Result]()
        for begin in range(0, len(round_.trials), self._at_once):
            results += self.together(round_.trials[begin : begin + self._at_once])
        reasons = [f"{node}: {why}" for node, why in self._why.items()]
        for text in reasons[:SHOWN] + ([f"and {len(reasons) - SHOWN} more nodes without a figure"] if len(reasons) > SHOWN else []):
            self._tell(f"round {round_.number}: {text}")
        return results

    def ask(self, question: Question, nodes: Sequence[str]) -> Answers:
        """Answers of the nodes that gave one."""
        answers: Answers = {}
        if not nodes:
            return answers
        found = scan(question, [self._sites[node].node for node in nodes], None, None, answers.__setitem__,
                     at_once=min(len(nodes), 2 * AT_ONCE))
        for node in [node for node in nodes if node not in answers]:
            host = found.outcome.hosts.get(node)
            self._why.setdefault(node, one_line(found.by_ansible.get(node) or (host.message if host else "") or "no answer"))
            if host is None or host.status == "unreachable":
                self._away.add(node)
        return answers
