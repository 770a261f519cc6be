# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of perftest over our own ssh: servers on both nodes of each pair, clients forth and then back, rail by rail.

Between the steps stands a barrier, as in validate: no client starts before the servers listen, and only one way is measured at a time.
Servers end by themselves after a bounded time, whatever becomes of the controller. Counters are read before and after, and judged.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import one_line
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import Measurement, plan_tests
from ansible_collections.railwright.rdma.plugins.module_utils.types import as_dicts
from ansible_collections.railwright.rdma.plugins.plugin_utils.perftest_round import lossless_of, ports_of, profile_of, sizes_of
from railwright.isolate.launching import Answers, PairLauncher, Site
from railwright.isolate.model import Result, Trial
from railwright.scan.questions import Question, module_step

MESSAGE_BYTES = 65536  # at most: perftest's own, which fills any link, and many of which go through a slow one in a second
SECONDS = 1  # a sample; their median counts, and five short ones see an odd moment that a long one averages in
TASKS = {"start": "Start the servers", "sample": "Run the clients", "stop": "Stop the servers and read the counters"}


class Leg(NamedTuple):
    """One question of a trial: the same test so many times, each on a TCP port of its own."""

    trial: int
    ask: int
    server: str
    client: str
    serving: tuple[Measurement, ...]
    asking: tuple[Measurement, ...]


class PerftestLauncher(PairLauncher):
    def __init__(self, sites: Mapping[str, Site], at_once: int, tell: Callable[[str], None]) -> None:
        super().__init__(sites, at_once, tell)
        self._running: set[str] = set()

    def stop(self) -> None:
        nodes, self._running = self._running, set()
        answers = self._ask("stop", {node: self._about(node) for node in sorted(nodes)})
        self.grown.add(item for found in answers.values() for item in found["verdicts"])

    def together(self, trials: Sequence[Trial]) -> list[Result]:
        legs = [leg for number, trial in enumerate(trials) if self._sites.keys() >= set(trial.nodes) for leg in self._legs(number, trial)]
        everybody = {node for trial in trials for node in trial.nodes}
        self._running = everybody & self._sites.keys()
        requests = {}
        for node in sorted(self._running):
            serving = [test for leg in legs if leg.server == node for test in leg.serving]
            requests[node] = {**self._about(node), "serve": bool(serving), "tests": as_dicts(serving)}
        started = self._ask("start", requests)
        figures: dict[tuple[int, int], tuple[float, ...]] = {}
        for way in ("forth", "back"):
            able = (leg for leg in legs if trials[leg.trial].asks[leg.ask].way == way and {leg.server, leg.client} <= started.keys())
            figures.update(self._sampled(grouped((leg.client, leg) for leg in able), started))
        away = everybody - started.keys()
        self.stop()
        return [self._result(trial, number, figures, away) for number, trial in enumerate(trials)]

    def _sampled(self, clients: Mapping[str, Sequence[Leg]], started: Answers) -> dict[tuple[int, int], tuple[float, ...]]:
        requests = {}
        for client, legs in clients.items():
            server = legs[0].server
            requests[client] = {
                "peer": server, "tests": as_dicts([test for leg in legs for test in leg.asking]),
                "open_ports": started[server]["open_ports"], "options": self._sizes(server),
            }
        found = {}
        for client, answer in self._ask("sample", requests).items():
            samples = list(answer["samples"])
            if len(samples) != len(requests[client]["tests"]):
                self._why.setdefault(client, "its answer is not one to what it was asked")
                continue
            for leg in clients[client]:
                own, samples = samples[: len(leg.asking)], samples[len(leg.asking) :]
                if why := next((item["why"] for item in own if item["figure"] is None), None):
                    self._why.setdefault(client, f"{leg.asking[0].rail} to {leg.server}: {one_line(why)}")
                found[leg.trial, leg.ask] = tuple(float(item["figure"] or 0) for item in own if item["figure"] or item["hung"])
        return found

    def _result(self, trial: Trial, number: int, found: Mapping[tuple[int, int], tuple[float, ...]], away: set[str]) -> Result:
        if gone := [node for node in trial.nodes if node in away]:
            return Result((), "unreachable", gone[0])
        figures = tuple(found.get((number, ask), ()) for ask in range(len(trial.asks)))
        moved = any(figure for samples in figures for figure in samples)
        hung = any(figures) and not moved
        return Result(figures, "hang" if hung else "" if moved else "launch")

    def _legs(self, number: int, trial: Trial) -> list[Leg]:
        """The tests that both nodes can run; a rail that one of them cannot has none, and so no figure."""
        legs = []
        ports = {node: int(self._sites[node].node.spec["validate_port"]) for node in trial.nodes}
        for place, ask in enumerate(trial.asks):
            server, client = trial.nodes[::-1] if ask.way == "forth" else trial.nodes
            own, theirs = ([rail for rail in self._sites[node].view["rails"] if rail["name"] == ask.rails[0]] for node in (client, server))
            serving, asking, left = plan_tests(own, theirs, ports[server])
            if not serving:
                self._why.setdefault(client, f"{ask.rails[0]} to {server}: {left[0][1] if left else 'it has no such rail'}")
                continue
            profile, _why_not = profile_of(self._sites[server].node.spec)
            tclass = profile.tc if profile else None
            places = range(ports[server], ports[server] + trial.samples)
            ports[server] = places.stop
            serve, request = (tuple(test._replace(tcp_port=port, tclass=tclass) for port in places) for test in (serving[0], asking[0]))
            legs.append(Leg(number, place, server, client, serve, request))
        return legs

    def _about(self, node: str) -> dict[str, Any]:
        site = self._sites[node]
        rails = [rail for rail in site.view["rails"] if rail["hca"] is not None and rail["port"] is not None]
        tests = [Measurement("write_bw", rail["label"], rail["hca"], rail["port"], None, 0, "") for rail in rails]
        ports = ports_of(dict(site.view), tests)
        return {"peer": "its partners", "ports": ports, "options": self._sizes(node), **lossless_of(site.node.spec)}

    def _sizes(self, node: str) -> dict[str, Any]:
        sizes = sizes_of(self._sites[node].node.spec)
        return {**sizes, "seconds": SECONDS, "message_bytes": min(MESSAGE_BYTES, sizes["message_bytes"])}

    def _ask(self, mode: str, requests: Mapping[str, dict[str, Any]]) -> Answers:
        question = Question("rdma_measure", TASKS[mode], lambda node, _spec: {"mode": mode, "node": node, **requests[node]}, module_step)
        return self.ask(question, list(requests))
