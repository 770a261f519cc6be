# SPDX-License-Identifier: GPL-3.0-or-later
"""A check that fails on much of the fleet is one finding and drains nobody; a simulated year of 2,000 nodes with three upgrades."""

import random
from collections.abc import Iterator
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.agent.findings import Acting, refused
from ansible_collections.railwright.rdma.plugins.module_utils.rules.check_modes import CheckModes
from railwright.agent.decide import Decision, Limits, Node, decide
from railwright.agent.mass import masses
from railwright.cli.agent_hold import change, fleet_codes, wanted

HOUR, DAY = 3600.0, 86400.0
H200, GB300 = "NVIDIA H200, MT4129", "NVIDIA GB300, MT4131"
HEALTHY = {"mode": "drain", "word": "ok", "age": 10.0, "reason": "", "downs": [], "observed": "", "findings": []}
ENFORCED = ("gpu.xid", "gpu.nvlink", "hca.device", "node.memory")


class Machine:
    """A node of the simulation. What its agent says is made by the agent's own rules (findings.refused)."""

    def __init__(self, name: str, model: str) -> None:
        self.name, self.model, self.held = name, model, ()
        self.versions: dict[str, tuple[str, float | None]] = {"driver": ("580.159", None), "firmware": ("28.47", None)}
        self.failed: dict[str, float] = {}  # code -> since
        self.reason: str | None = None  # of a drain

    def said(self, now: float) -> dict[str, Any]:
        if not self.failed:
            return {**HEALTHY, "held": list(self.held), "model": self.model, "versions": self.told(now)}
        times = [at for _value, at in self.versions.values() if at is not None and now - at < HOUR]
        acting = Acting(CheckModes(ENFORCED), self.held, max(times) if times else None)
        rows = {code: {"id": code, "check": code, "subject": "GPU 0", "part": "", "status": "fail", "text": "it is faulty", "first": at,
                       "cured": None, "known": None} for code, at in self.failed.items()}  # fmt: skip
        word, reason = refused(rows, acting)
        return {"mode": "drain", "word": word, "age": 10.0, "reason": reason, "downs": [], "held": list(self.held), "model": self.model,
                "observed": "", "versions": self.told(now),
                "findings": [{**row, "mode": acting.mode(row), "fresh": acting.is_fresh(row), "ago": now - row["first"]}
                             for row in rows.values()]}  # fmt: skip

    def told(self, now: float) -> list[dict[str, Any]]:
        return [{"name": name, "value": value, "ago": None if at is None else now - at} for name, (value, at) in self.versions.items()]


class Fleet:
    """The controller's side: what it keeps from one minute to the next, and what it does."""

    def __init__(self, machines: list[Machine], limits: Limits) -> None:
        self.machines, self.limits, self.kept = machines, limits, dict[str, Any]()
        self.lines: list[str] = []
        self._names = {machine.name: machine for machine in machines}

    def named(self, name: str) -> Machine:
        return self._names[name]

    def minute(self, now: float) -> Decision:
        drains = [{"closed": machine.reason is not None, "reason": machine.reason} for machine in self.machines]
        nodes = [Node(machine.name, "drain", machine.said(now), drain, placed=True)
                 for machine, drain in zip(self.machines, drains, strict=True)]
        found = decide(nodes, {}, self.limits, "", (), fleet_codes(self.kept))
        fleet = self.kept.setdefault("fleet", {})
        for item in (item for item in found.mass if item.acts and item.code not in fleet):
            fleet[item.code] = {"model": item.model, "text": item.text}
            self.lines.append(item.text)
        goal = wanted(self.kept, nodes)
        for machine in self.machines:
            machine.held = tuple(goal[machine.name])
            machine.reason = found.drain.get(machine.name, machine.reason)
        return found


def machines(number: int, model: str = H200) -> list[Machine]:
    return [Machine(f"gpu{place:04d}", model) for place in range(number)]


def test_a_check_on_a_quarter_of_a_model_is_the_fleets() -> None:
    fleet = Fleet(machines(12) + [Machine(f"gb{place}", GB300) for place in range(8)], Limits(8, 1.0, 8))
    for machine in fleet.machines[:4]:
        machine.failed["gpu.nvlink"] = 0.0
    fleet.machines[11].failed["gpu.xid"] = 0.0
    found = fleet.minute(60.0)
    assert [item.text for item in found.mass] == [f"gpu.nvlink fails on 4 of 12 nodes with {H200}"]
    assert list(found.drain) == ["gpu0011"], "a fault of another check is drained as before"
    assert [machine.held for machine in fleet.machines[:12]] == [("gpu.nvlink",)] * 12
    assert fleet.minute(2 * DAY).drain == {}, "the hold stays when the window has passed"


def test_two_nodes_are_no_mass_and_three_of_thirteen_are_none_either() -> None:
    said = [machine.said(60.0) for machine in machines(4)]
    assert masses(said, 0.25, HOUR) == []
    fleet = machines(13)
    for machine in fleet[:3]:
        machine.failed["gpu.xid"] = 0.0
    assert masses([machine.said(60.0) for machine in fleet], 0.25, HOUR) == []


def test_slow_failures_over_weeks_are_no_mass() -> None:
    fleet = machines(12)
    for number, machine in enumerate(fleet):
        machine.failed["gpu.xid"] = number * DAY
    assert masses([machine.said(13 * DAY) for machine in fleet], 0.25, HOUR) == []


def test_a_canary_waits_until_three_nodes_have_the_version_or_a_day() -> None:
    """Of one node nobody can tell whether it is faulty or its new driver is."""
    fleet = Fleet(machines(100), Limits(8, 1.0, 8))
    fleet.machines[0].versions["driver"] = ("595.45", 0.0)
    fleet.machines[0].failed["gpu.nvlink"] = 120.0
    assert fleet.machines[0].said(180.0)["word"] == "shared", "its prolog refuses nothing"
    assert "it acts once 1 h have passed" in fleet.minute(180.0).waiting["gpu0000"]
    assert "fails on all 1 nodes that have driver 595.45" in fleet.minute(2 * HOUR).waiting["gpu0000"]
    assert list(fleet.minute(DAY + 60).drain) == ["gpu0000"]


def test_a_real_fault_after_an_upgrade_of_many_is_drained_an_hour_later() -> None:
    fleet = Fleet(machines(100), Limits(8, 1.0, 8))
    for machine in fleet.machines[:50]:
        machine.versions["driver"] = ("595.45", 0.0)
    fleet.machines[7].failed["gpu.xid"] = 120.0
    assert fleet.minute(180.0).drain == {}
    assert list(fleet.minute(HOUR + 60).drain) == ["gpu0007"]


def test_all_is_held() -> None:
    kept: dict[str, Any] = {}
    change(kept, [], "case 12", end=False)
    machine = machines(1)[0]
    machine.failed["gpu.xid"] = 0.0
    node = Node(machine.name, "drain", machine.said(60.0), {"closed": False, "reason": None}, placed=True)
    assert decide([node], {}, Limits(8, 1.0, 8), "", kept["hold"]["codes"]).drain == {}
    assert wanted(kept, [node]) == {"gpu0000": ["all"]}
    change(kept, [], "", end=True)
    assert (kept["hold"], wanted(kept, [node])) == ({}, {"gpu0000": []})


def test_a_year_of_2000_nodes_with_three_upgrades() -> None:
    """Real faults, noise of observed checks, and three upgrades that each make one check wrong on every node: a new check of ours, which is
    observed because it is new; a driver in waves of 64, and firmware of ten nodes an hour, which both break an enforced check."""
    chance = random.Random(1)
    fleet = Fleet(machines(1500) + [Machine(f"gb{place:04d}", GB300) for place in range(500)], Limits(20, 0.05, 20))
    real: dict[str, tuple[str, float]] = {}  # node -> code and since when
    wrong, delays, refusals, seen = [], [], 0, set[str]()
    for now, event in sorted(year(chance, fleet), key=lambda row: row[0]):
        if event is not None:
            event(real)
        found = fleet.minute(now)
        seen |= {item.code for item in found.mass}
        wrong += [(name, reason) for name, reason in found.drain.items() if name not in real or real[name][0] not in reason]
        delays += [now - real[name][1] for name in found.drain if name in real]
        refusals += sum(machine.said(now)["word"] == "refuse" and machine.name not in real for machine in fleet.machines[:64])
        assert not found.tripped
    assert wrong == []
    assert refusals == 0, "no prolog refused a job for a check that an upgrade made wrong"
    assert len(fleet.lines) == 2, fleet.lines
    assert "gpu.nvlink fails on" in fleet.lines[0]
    assert "since driver 595.45" in fleet.lines[0]
    assert "since firmware 28.99" in fleet.lines[1]
    assert seen == {"node.new_check", "gpu.nvlink", "node.memory"}, "each wrong check is one finding of the fleet"
    assert len(delays) == len(real) == 100, "each real fault was drained"
    assert (sorted(delays)[50], max(delays)) <= (60.0, HOUR + 120)


Events = Iterator[tuple[float, Any]]  # (second of the year, what happens then); None: a minute in which the controller only looks


def year(chance: random.Random, fleet: Fleet) -> Events:
    names = [machine.name for machine in fleet.machines]
    order = chance.sample(names[:1500], 1500)
    yield from real_faults(chance, fleet, chance.sample(names, 100))
    yield from ((at, noise(fleet, chance.choice(names), at)) for at in (chance.uniform(0, 365 * DAY) for _number in range(30)))
    ours = [(60 * DAY + place * 60.0, names[place:place + 500]) for place in range(0, 2000, 500)]
    yield from upgrades(fleet, "railwright 0.2.0", "node.new_check", ours)
    waves = [order[:2], *(order[place:place + 64] for place in range(2, 770, 64))]
    yield from upgrades(fleet, "driver 595.45", "gpu.nvlink", [
        (150 * DAY + (6 * HOUR + number * 900 if number else 0), group) for number, group in enumerate(waves)])
    yield from upgrades(fleet, "firmware 28.99", "node.memory", [
        (250 * DAY + number * 360.0, order[number:number + 10]) for number in range(0, 100, 10)])


def real_faults(chance: random.Random, fleet: Fleet, faulty: list[str]) -> Events:
    """A fault of an enforced check on each of these nodes, repaired two days later."""
    for number, name in enumerate(faulty):
        at, code = chance.uniform(0, 365 * DAY), "gpu.xid" if number % 2 else "hca.device"

        def happens(real: dict[str, tuple[str, float]], name: str = name, code: str = code, at: float = at) -> None:
            fleet.named(name).failed[code] = at
            real[name] = (code, at)

        def repaired(_real: dict[str, tuple[str, float]], name: str = name, code: str = code) -> None:
            fleet.named(name).failed.pop(code)
            fleet.named(name).reason = None

        yield from ((at, happens), (at + 60, None), (at + HOUR + 120, None), (at + 2 * DAY, repaired))


def noise(fleet: Fleet, name: str, at: float) -> Any:
    """An observed check that fails for no reason."""
    return lambda _real: fleet.named(name).failed.update({"port.optics": at})


def upgrades(fleet: Fleet, version: str, code: str, waves: list[tuple[float, list[str]]]) -> Events:
    """Waves of an upgrade that makes a check wrong, 90 seconds after it; two days after the last wave the check is right again."""
    kind, value = version.split(" ")
    for at, group in waves:

        def happens(_real: dict[str, tuple[str, float]], group: list[str] = group, at: float = at) -> None:
            for name in group:
                fleet.named(name).versions[kind] = (value, at)
                fleet.named(name).failed.setdefault(code, at + 90.0)

        yield at, happens
        yield from ((at + later, None) for later in (120.0, 420.0, HOUR + 120))

    def mended(_real: dict[str, tuple[str, float]]) -> None:
        for machine in fleet.machines:
            machine.failed.pop(code, None)

    yield waves[-1][0] + 2 * DAY, mended
