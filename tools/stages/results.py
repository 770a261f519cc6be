# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests said: counts, and every skip with its reason, read from JUnit XML."""

import xml.etree.ElementTree as ET  # our own tools wrote the files
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Tally(NamedTuple):
    """Counts of one step or stage. ``skips`` holds (test, reason)."""

    passed: int = 0
    failed: int = 0
    skips: tuple[tuple[str, str], ...] = ()
    failures: tuple[str, ...] = ()

    @property
    def skipped(self) -> int:
        return len(self.skips)

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.skipped


def add(tallies: Iterable[Tally]) -> Tally:
    """The sum of tallies."""
    items = list(tallies)
    return Tally(
        sum(item.passed for item in items),
        sum(item.failed for item in items),
        tuple(skip for item in items for skip in item.skips),
        tuple(failure for item in items for failure in item.failures),
    )


def from_junit(path: Path) -> Tally:
    """Counts of one JUnit file; an absent file holds no test, a broken one is a failure."""
    if not path.exists():
        return Tally()
    try:
        root = ET.parse(path).getroot()
    except ET.ParseError as error:
        return Tally(failed=1, failures=(f"{path.name}: not XML: {error}",))
    return add(_case(case) for case in root.iter("testcase"))


def _case(case: ET.Element) -> Tally:
    name = "::".join(part for part in (case.get("classname"), case.get("name")) if part)
    if case.find("failure") is not None or case.find("error") is not None:
        return Tally(failed=1, failures=(name,))
    skip = case.find("skipped")
    if skip is not None:
        return Tally(skips=((name, skip.get("message") or "no reason given"),))
    return Tally(passed=1)


def judge(name: str, status: int, junit: Path | None) -> Tally:
    """The tally of a step: its exit status and its JUnit file must tell the same story."""
    if junit is None:
        return Tally(passed=1) if status == 0 else Tally(failed=1, failures=(f"{name}: exit status {status}",))
    tally = from_junit(junit)
    if status != 0 and not tally.failed:
        return add((tally, Tally(failed=1, failures=(f"{name}: exit status {status} with no failed test",))))
    if tally.passed + tally.failed == 0:
        return add((tally, Tally(failed=1, failures=(f"{name}: ran no test",))))
    return tally
