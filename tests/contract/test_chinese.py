# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages in English and Chinese are in step: the same sections, commands, rows of tables and code, and what they name exists."""

import posixpath
import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

import pytest

import repo
import seed_pages
from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import AREAS
from ansible_collections.railwright.rdma.plugins.plugin_utils.check_table import BY_CODE

PAIRS = (("README.md", "README.zh-CN.md"), ("docs/troubleshooting.md", "docs/zh/troubleshooting.md"))
PAGES = [name for pair in PAIRS for name in pair]
SPAN = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)")
OF_NODES = {f"config.{area.name}" for area in AREAS} | {"config.preflight"}
FAMILIES = {code.partition(".")[0] for code in BY_CODE} | {"config"}


class Section(NamedTuple):
    """What a section has in any language."""

    level: int  # of its heading; 0 before the first one
    commands: list[str]  # lines of blocks, with what opens one, without comments
    rows: list[list[str]]  # of each row of a table its code, sorted: the order of words is the language's
    spans: list[str]  # code elsewhere, sorted


def sections(page: str) -> list[Section]:
    """The page from top to bottom."""
    found, fenced = [Section(0, [], [], [])], False
    for line in page.splitlines():
        fence = line.startswith("```")
        fenced ^= fence
        heading = None if fenced else re.match(r"(#+) ", line)
        if heading:
            found.append(Section(len(heading[1]), [], [], []))
        if fence or fenced:
            found[-1].commands.append(line.partition("#")[0].rstrip())
        elif line.startswith("|"):
            found[-1].rows.append(sorted(SPAN.findall(line)))
        else:
            found[-1].spans.extend(SPAN.findall(line))
    return [section._replace(spans=sorted(section.spans)) for section in found]


def faults(english: str, chinese: str) -> list[str]:
    """Where two pages are out of step: of each kind of a section the first difference."""
    ours, theirs = sections(english), sections(chinese)
    levels = [[section.level for section in page] for page in (ours, theirs)]
    if levels[0] != levels[1]:
        return [f"headings: {levels[0]}, {levels[1]}"]
    found = []
    for number, pair in enumerate(zip(ours, theirs, strict=True)):
        for what in ("commands", "rows", "spans"):
            one, other = (getattr(section, what) for section in pair)
            unlike = [both for both in zip_longest(one, other) if both[0] != both[1]]
            found += [f"section {number}: {what}: {unlike[0]}"] if unlike else []
    return found


def dead_links(name: str) -> Iterator[str]:
    """Links of a page to files and headings that are not there."""
    for path, anchor in LINK.findall(repo.text(name)):
        there = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
        if not (repo.ROOT / there).exists() or (anchor and anchor not in seed_pages.anchors(repo.text(there))):
            yield f"{path}#{anchor}"


def unknown_codes(page: str) -> list[str]:
    """Code that has the form of a check's code and is none."""
    said = {span for span in SPAN.findall(page) if re.fullmatch(rf"({'|'.join(FAMILIES)})\.[a-z_0-9]+", span)}
    return sorted(said - set(BY_CODE) - OF_NODES)


@pytest.mark.parametrize(("english", "chinese"), PAIRS)
def test_both_languages_are_in_step(english: str, chinese: str) -> None:
    assert faults(repo.text(english), repo.text(chinese)) == []


@pytest.mark.parametrize(("english", "chinese"), PAIRS)
def test_each_language_links_the_other_at_its_top(english: str, chinese: str) -> None:
    for name, other in ((english, chinese), (chinese, english)):
        assert f"]({posixpath.relpath(other, posixpath.dirname(name) or '.')})" in "\n".join(repo.text(name).splitlines()[:6])


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_names_is_there(name: str) -> None:
    assert list(dead_links(name)) == []
    assert unknown_codes(repo.text(name)) == []
    assert list(seed_pages.command_faults(repo.text(name), seed_pages.world())) == []


# One damage to the Chinese page of symptoms each, and what is said of it.
DAMAGE = [
    (r"^## ", "### ", "headings: "),
    (r"^## [^#]+?(?=^## )", "", "headings: "),
    (r"validate -i mycluster ", "validate -i others ", "section 1: commands: "),
    (r"^```console", "```text", "section 1: commands: "),
    (r"`port\.flaps`", "`port.flap`", "section 1: spans: "),
    (r"`nccl\.transport`", "`nccl.transports`", "section 2: rows: "),
    (r"^\| NCCL：.*\n", "", "section 2: rows: "),
    (r"^(\| NCCL：.*\n)(\| NCCL：.*\n)", r"\2\1", "section 2: rows: "),
]


@pytest.mark.parametrize(("pattern", "by", "said"), DAMAGE)
def test_one_damage_to_a_page_is_found(pattern: str, by: str, said: str) -> None:
    english, chinese = (repo.text(name) for name in PAIRS[1])
    damaged = re.sub(pattern, by, chinese, count=1, flags=re.MULTILINE | re.DOTALL if "[^#]" in pattern else re.MULTILINE)
    assert damaged != chinese
    found = faults(english, damaged)
    assert len(found) == 1
    assert found[0].startswith(said)


def test_a_comment_may_say_it_in_its_own_words() -> None:
    english, chinese = (repo.text(name) for name in PAIRS[1])
    changed = re.sub(r"^(\$ .*#).*$", r"\1 …", chinese, flags=re.MULTILINE)
    assert changed != chinese
    assert faults(english, changed) == []


def test_a_code_that_is_none_is_found() -> None:
    assert unknown_codes("`port.flaps`, `config.nccl`, `nccl.conf`, `port.flap`, `config.ncl`") == ["config.ncl", "nccl.conf", "port.flap"]
