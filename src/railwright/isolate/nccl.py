# SPDX-License-Identifier: GPL-3.0-or-later
"""Rounds of nccl-tests: each pair is a launch of its own, by mpirun on its first node or by srun, all of them side by side.

A launch asks one question. All rails at once: a rank for each GPU, in groups of one GPU of either node (NCCL_TESTS_SPLIT), which send to
each other at once (sendrecv_perf). One rail: one GPU of each node, the nearest to that rail's HCA (NCCL_IB_HCA). One way: a broadcast of
two ranks is a ring, in which the root sends and the other receives (NCCL 2.30.7, src/device/broadcast.h; src/graph/tuning.cc has no other
algorithm for it). A figure is what one node sends, in Gb/s: busbw of the slowest group times the groups.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import one_line
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import grouped
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.launch import hostfile
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.probe import no_device
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import NAMESPACE
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests import plan_jobs
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.groups import nearest_gpu, over_one_rail
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_tests.plan_jobs import Launcher
from railwright.isolate.launching import Answers, PairLauncher, Site
from railwright.isolate.model import Ask, Result, Trial
from railwright.scan.questions import Question, Step, answer_of

PROGRAMS = {"both": "sendrecv", "forth": "broadcast", "back": "broadcast"}
SECONDS = 120  # of one question; starting CUDA and NCCL takes ten or twenty of them
# Choice: large enough for NCCL's full speed; ten take 50 ms at 400 Gb/s and a second at 25. The rows of a table are the samples: each is a
# little larger, as -N, which repeats a size, came only in 2024 (nccl-tests d2d40cc).
SIZE, STEP, ITERATIONS, WARMUP = 256 << 20, 64 << 10, 10, 5
SLOWEST = "3"  # -a: the time of the slowest rank, since 2.10; the mean would hide one rail of eight
# What bench keeps of a run and a search does not.
DUMPS = ("NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS")


class Member(NamedTuple):
    site: Site
    plan: plan_jobs.Node


class Asked(NamedTuple):
    place: int  # which of its trial's questions
    ask: Ask
    groups: int
    item: dict[str, Any]  # what the node is told


class NcclLauncher(PairLauncher):
    """``run``: the name of the search on the nodes. ``resumed``: one of this name may have been cut off there."""

    def __init__(
        self, members: Mapping[str, Member], rails: Sequence[str], launcher: Launcher, run: str, at_once: int, tell: Callable[[str], None],
        *, resumed: bool = False,
    ) -> None:  # fmt: skip
        super().__init__({name: member.site for name, member in members.items()}, at_once, tell)
        self._members, self._rails, self._launcher, self._run = members, tuple(rails), launcher, run
        self._resumed = resumed
        self._cancel = f"railwright-{run}" if launcher.kind == "slurm" else None
        self._busy: set[str] = set()
        self._starting: set[str] = set()

    def stop(self) -> None:
        """On every node that takes part: launchers, ranks, jobs of Slurm, directories."""
        nodes, self._busy = self._busy, set()
        self._ask("stop", {node: {"cancel": self._cancel if node in self._starting else None} for node in nodes})
        collected = self._ask("collect", {node: {"names": [], "watch": self._watch(node)} for node in nodes})
        self.grown.add(item for found in collected.values() for item in found["counters"])

    def _watch(self, node: str) -> dict[str, Any]:
        """The ports of a node whose counters are taken; the one that only launches for others has none."""
        plan = self._members[node].plan
        return {"ports": plan.seen["ports"], "lossless": plan.wishes["lossless"], "why_not": plan.wishes["why_not"]}

    def together(self, trials: Sequence[Trial]) -> list[Result]:
        self._away = {node for trial in trials for node in trial.nodes if node not in self._members}
        able = {number: trial for number, trial in enumerate(trials) if not self._away & set(trial.nodes)}
        starts = {number: self._start(trial) for number, trial in able.items()}
        self._starting = set(starts.values())
        busy = self._busy = {node for trial in able.values() for node in trial.nodes} | self._starting
        if self._resumed:  # what was cut off goes first, and with it whoever still waits for it there
            self.stop()
            self._busy, self._resumed = busy, False
        hosts = {}
        for number, trial in able.items():
            pair = [self._members[node].plan for node in trial.nodes]
            job = plan_jobs.launch_job(pair, self._launcher, len(pair[0].gpus), {}, self._run)
            hosts[starts[number]] = hostfile(job, self._launcher.kind)
        ready = self._ask("prepare", {node: {"hosts": hosts.get(node, ""), "watch": self._watch(node)} for node in busy})
        asked = {number: self._questions(number, trial) for number, trial in able.items() if {*trial.nodes, starts[number]} <= ready.keys()}
        by_start = grouped((starts[number], number) for number in asked)
        answers = self._ask("pairs", {
            start: {"cancel": self._cancel, "pairs": [[one.item for one in asked[number]] for number in numbers]}
            for start, numbers in by_start.items()})
        self.stop()
        said = {number: found for start, answer in answers.items() for number, found in zip(by_start[start], answer["pairs"], strict=False)}
        return [self._result(trial, asked.get(number, ()), said.get(number)) for number, trial in enumerate(trials)]

    def _start(self, trial: Trial) -> str:
        """By Slurm the inventory's node, else one of the pair."""
        host = self._members[trial.nodes[0]].plan.wishes["nccl_tests_slurm_host"]
        return str(host) if host and self._cancel else trial.nodes[0]

    def _questions(self, number: int, trial: Trial) -> list[Asked]:
        found = []
        for place, ask in enumerate(trial.asks):
            asked = self._question(f"p{number}q{place}", trial, ask)
            if isinstance(asked, str):
                self._say(trial, ask, asked)
            else:
                found.append(Asked(place, ask, *asked))
        return found

    def _question(self, name: str, trial: Trial, ask: Ask) -> tuple[int, dict[str, Any]] | str:
        """(the groups, what is launched), or why it cannot be asked."""
        pair = [self._members[node].plan for node in trial.nodes]
        own, groups = dict[str, str](), len(pair[0].gpus)
        if set(ask.rails) != set(self._rails):
            ends = [node.seen["ends"].get(ask.rails[0]) for node in pair]
            if ends[0] is None or ends[0] != ends[1]:
                return f"one launch has one NCCL_IB_HCA, and the rail's RDMA devices are {' and '.join(str(end) for end in ends)}"
            groups, own = 1, over_one_rail(ends[0], nearest_gpu(pair[0], ends[0]))
        elif groups > 1:  # the first one is older, and knows powers of two alone
            own = {"NCCL_TESTS_SPLIT_MASK": f"{groups - 1:x}"} if groups & (groups - 1) == 0 else {"NCCL_TESTS_SPLIT": f"MOD {groups}"}
        options = ["-b", SIZE, "-e", SIZE + (trial.samples - 1) * STEP, "-i", STEP, "-n", ITERATIONS, "-w", WARMUP, "-c", 0, "-g", 1,
                   "-a", SLOWEST, "-r", 1 if ask.way == "back" else 0]  # fmt: skip
        program = plan_jobs.program_of(PROGRAMS[ask.way], pair[0], SECONDS, [str(word) for word in options])
        variables = plan_jobs.environment_of(PROGRAMS[ask.way], pair, self._launcher, self._run)
        variables = {key: value for key, value in variables.items() if key not in DUMPS} | {"NCCL_DEBUG": "WARN"} | own
        made = plan_jobs.launch_of(pair, self._launcher, groups, variables, program, self._run)
        environment = {self._start(trial): made.environment}
        return groups, {"name": name, "argv": made.argv, "environment": environment, "seconds": SECONDS, "groups": groups}

    def _result(self, trial: Trial, asked: Sequence[Asked], said: Sequence[Mapping[str, Any]] | None) -> Result:
        if said is None:
            where = next((node for node in trial.nodes if node in self._away), "")
            return Result((), "unreachable", where) if where else Result(
                (), "launch", next((node for node in trial.nodes if not asked and node in self._why), ""))
        figures: list[tuple[float, ...]] = [() for _ask in trial.asks]
        for one, answer in zip(asked, said, strict=False):
            place: int | None = one.place
            if answer["why"]:
                self._say(trial, one.ask, answer["why"])
            if one.ask.way != "both":
                place = self._place(trial, one, answer["first"])
            if place is not None:
                found = tuple(round(float(figure) * 8 * one.groups, 3) for figure in answer["figures"])
                figures[place] = (0.0,) if answer["hung"] else found[: trial.samples]
        moved = any(figure for samples in figures for figure in samples)
        return Result(tuple(figures), "" if moved else "hang" if any(figures) else "launch")

    def _place(self, trial: Trial, one: Asked, first: str | None) -> int | None:
        """Which question it answers: rank 0, the root of ``forth``, is on the first node, or Slurm has put it on the other one."""
        names = [str(self._members[node].plan.seen["hostname"]).partition(".")[0] for node in trial.nodes]
        found = (first or "").partition(".")[0]
        if found not in names or names[0] == names[1]:
            self._say(trial, one.ask, f"rank 0 ran on {first or 'an unknown host'}: which way it was is not known")
            return None
        other = one.ask._replace(way="forth" if one.ask.way == "back" else "back")
        return one.place if found == names[0] else trial.asks.index(other) if other in trial.asks else None

    def _say(self, trial: Trial, ask: Ask, why: str) -> None:
        self._why.setdefault(trial.nodes[0], f"{', '.join(ask.rails)} with {trial.nodes[1]}: {one_line(why)}")

    def _ask(self, mode: str, requests: Mapping[str, dict[str, Any]]) -> Answers:
        common = {"benchmark": "nccl_tests", "mode": mode, "run": self._run}
        question = Question(
            "rdma_bench", f"{mode.capitalize()} pairs of nodes",
            lambda node, _spec: {**common, "node": node, "user": self._members[node].plan.seen["user"],
                                 "root": self._members[node].plan.wishes["root"], **requests[node]},
            lambda question, asked: [
                Step(question.task, question.module, answer_of(NAMESPACE + question.module, f"nccl_tests.{mode}", asked.heard))])
        return self.ask(question, sorted(requests))


def nccl_launcher(nodes: Sequence[plan_jobs.Node]) -> Launcher | str:
    """How pairs of these nodes are launched, or why they cannot be."""
    problems = [f"{node.name}: {text}" for node in nodes for text in node.seen["problems"]]
    problems += [no_device(node.name, node.seen["cuda"].get("error")) for node in nodes if not node.gpus]
    problems += plan_jobs.disagreements(nodes) + plan_jobs.unequal({node.name: len(node.gpus) for node in nodes})
    launcher, more = plan_jobs.choose_launcher(nodes)
    if launcher is not None and launcher.kind == "local":
        more = ["nccl_tests_launcher: local runs each node by itself; allowed: mpi, slurm, auto"]
    return one_line("; ".join(problems + more), 400) if problems or more or launcher is None else launcher
