# SPDX-License-Identifier: GPL-3.0-or-later
"""No text of others makes a pattern of the product slow: twice the text takes at most three times the time.

A pattern whose time grows with the square took 10 to 40 s for 100 kB, and the text is a node's, a job's or a mirror's. ``find``,
``partition``, ``strip`` and ``split`` are better than a pattern; ``[ \\t]*`` is better than ``\\s*``, which crosses lines.
"""

import re
import time

import pytest

import patterns
from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack import dkms
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.kernel_log import RULES
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.transport import NETWORKS
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers import forms
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import Text
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.variables import OWNED_BY_OTHERS
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.check_drivers import RELEASES
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.check_entries import PATTERNS as ENTRIES
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.check_jobs import VERSIONS
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.hurtful import HURTFUL
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nccl_overrides import RDMA_OFF
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import KEYS
from railwright.cli.container import PATTERNS
from railwright.nccl.line_table import table as line_table

# Texts from which the source makes patterns by a name that is not the module's own.
OF_TABLES: dict[str, list[str]] = {
    "plugins/module_utils/catalogue/kernel_log.py: pattern": [row.pattern.pattern for row in RULES],
    "plugins/module_utils/measure/nccl_tests/transport.py: row.pattern": [row.pattern for row in NETWORKS],
    "plugins/plugin_utils/spec/check_drivers.py: pattern": [pattern for pattern, _allowed in RELEASES.values()],
    "plugins/plugin_utils/spec/check_entries.py: pattern": list(ENTRIES),
    "plugins/plugin_utils/spec/check_jobs.py: VERSIONS[install][0]": [pattern for pattern, _allowed in VERSIONS.values()],
    "plugins/plugin_utils/spec/nccl_overrides.py: other.name.replace('*', '.*')": [row.name.replace("*", ".*") for row in OWNED_BY_OTHERS],
    "plugins/plugin_utils/spec/hurtful.py: row.refused": [row.refused for row in HURTFUL if row.refused],
    "plugins/plugin_utils/spec/nccl_overrides.py: RDMA_OFF[name][0]": [pattern for pattern, _allowed in RDMA_OFF.values()],
    "plugins/plugin_utils/spec/values.py: key.pattern": [key.pattern for key in KEYS if key.pattern is not None],
    "src/railwright/cli/container.py: pattern": [pattern for pattern, _allowed in PATTERNS.values()],
    "src/railwright/nccl/line_table.py: row.pattern": [row.pattern for row, _pattern in (*line_table().nccl, *line_table().text)],
    "src/railwright/run.py: pattern": [r"^SSH password: $", r"^BECOME password(\[defaults to SSH password\])?: $"],
    "plugins/module_utils/formats/program_output.py: pattern": [],  # a row of _TELLING, which is found in the module
    "plugins/plugin_utils/answers/form.py: form.pattern": [
        value.pattern for value in vars(forms).values() if isinstance(value, Text)],
    "plugins/module_utils/areas/stack/dkms.py: pattern": [],  # a package's own: test_a_pattern_of_a_package_is_bounded
}
# Digits without an end that no ``int`` is made of, and why.
ENDLESS_DIGITS = {
    "plugins/module_utils/formats/sysfs_values.py _DIGITS": "is_digits stands before int",
    "plugins/module_utils/observe/stack.py _OFED_INFO": "a version, compared by formats/versions.py",
    "plugins/plugin_utils/spec/nccl_overrides.py:": "the inventory's; a text has at most values.LONGEST letters",
    "plugins/plugin_utils/spec/values.py:": "the inventory's; at most LONGEST letters",
    "src/railwright/inventory_index.py RANGE": "_place reads at most 18",
    "src/railwright/nccl/check.py": "is matched, not read",
}
SCREEN = (24, 200, 1000, 4000)  # letters; a text that is slow at one of them is measured in full
LONG_BODY, LONG_SCREEN = 8, 16_000  # what seldom begins anew shows later
SLOW_S = 0.0006
HALF, WHOLE = 50_000, 100_000
UNMEASURED_S, ENDLESS_S = 0.005, 0.2
FOUND, UNREAD = patterns.found()
GROUPS = 4


def everything() -> list[patterns.Found]:
    rows = [
        patterns.Found(place, re.compile(text), ("fullmatch",))
        for place, texts in OF_TABLES.items()
        for text in texts
    ]
    return [*FOUND, *rows]


def seconds(item: patterns.Found, parts: tuple[str, str, str], size: int) -> float:
    """CPU time of one trial."""
    text, trial = patterns.attack(item.pattern, parts, size), patterns.trial(item)
    start = time.process_time()
    trial(text)
    return time.process_time() - start


def suspect(item: patterns.Found, parts: tuple[str, str, str]) -> bool:
    """Small texts first: a bad pattern must not cost its full time."""
    if any(seconds(item, parts, size) > SLOW_S for size in SCREEN):
        return True
    return len(parts[1]) >= LONG_BODY and seconds(item, parts, LONG_SCREEN) > 4 * SLOW_S


def slow(item: patterns.Found, parts: tuple[str, str, str]) -> str | None:
    """What is wrong with the pattern on this text; None: nothing."""
    size = SCREEN[0]
    while size < HALF:
        if min(seconds(item, parts, size) for _again in range(2)) > ENDLESS_S:
            return f"more than {ENDLESS_S} s for {size} letters"
        size *= 2
    for _again in range(3):  # a machine that was busy elsewhere is asked anew
        half, whole = (min(seconds(item, parts, size) for _again in range(2)) for size in (HALF, WHOLE))
        if whole < UNMEASURED_S or whole <= 3 * half:
            return None
    return f"{half:.3f} s for {HALF} letters, {whole:.3f} s for {WHOLE}"


def complaint(item: patterns.Found) -> str | None:
    for parts in patterns.attacks(item.pattern):
        found = slow(item, parts) if suspect(item, parts) else None
        if found is not None:
            return f"{item.place} {item.pattern.pattern!r}, {'/'.join(item.methods) or 'finditer'} of {parts!r}: {found}"
    return None


def test_every_pattern_is_known() -> None:
    """A text that becomes a pattern where only running the code would tell it is named above, with its table."""
    assert set(UNREAD) == set(OF_TABLES)
    assert len(FOUND) > 350


@pytest.mark.parametrize("group", range(GROUPS))
def test_no_pattern_grows_with_the_square(group: int) -> None:
    complaints = [found for item in everything()[group::GROUPS] if (found := complaint(item)) is not None]
    assert not complaints, "\n".join(complaints)


def test_no_group_holds_more_digits_than_int_takes() -> None:
    """int() raises beyond 4,300 digits, which a node may well send."""
    endless = [item for item in FOUND if patterns.endless_digits(item.pattern)]
    unlisted = [f"{item.place}: {item.pattern.pattern!r}" for item in endless if not item.place.startswith(tuple(ENDLESS_DIGITS))]
    assert not unlisted, "\n".join(unlisted)
    assert [start for start in ENDLESS_DIGITS if not any(item.place.startswith(start) for item in endless)] == []


@pytest.mark.parametrize(("pattern", "endless"), [
    (r"a ([0-9]+) b", True), (r"(?P<x>any|\d+)", True), (r"([0-9]+(?:\.[0-9]+)*)", True), (r"x([0-9]{1,18})", False),
    (r"[0-9]+ (x)", False), (r"([0-9a-f]+)", False), (r"((?:[0-9]{2})+)", True),
])  # fmt: skip
def test_digits_without_an_end_are_seen(pattern: str, endless: bool) -> None:
    assert patterns.endless_digits(re.compile(pattern)) is endless


@pytest.mark.parametrize("pattern", [r"^\s*a\s*$", r"\d+x", r"a[^\n]*?\s*\Z", r"key=(.*?)end", r"(.+?)\. \1\Z"])
def test_a_bad_one_is_seen(pattern: str) -> None:
    assert complaint(patterns.Found("here", re.compile(pattern, re.MULTILINE), ("search",))) is not None


@pytest.mark.parametrize(("pattern", "taken"), [
    (r"^(5\.[0-9]+|6\.[0-6]\.).*el9", True), (r"^.*(amd64|arm64).*$", True), (r"(a+)+$", False), (r"a?a?a?a?aaaa", False),
    ("(a|a)" * 20 + "x", False), (r".*.*.*.*x", False),
])  # fmt: skip
def test_a_pattern_of_a_package_is_bounded(pattern: str, taken: bool) -> None:
    """BUILD_EXCLUSIVE_KERNEL of dkms.conf is the one pattern that comes from outside."""
    assert dkms._is_plain(pattern) is taken
