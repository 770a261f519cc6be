# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages in English and Chinese are in step: the same sections, commands, rows of tables, code and links, and what they name exists."""

import posixpath
import re
from itertools import zip_longest
from typing import NamedTuple

import pytest

import repo
import seed_pages
from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import AREAS
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.checks import BY_CODE
from page_links import dead_links, linked, place

IN_BOTH = re.compile(r"docs/(zh/)?(start|troubleshooting|tasks/[^/]+)\.md")  # what a reader of Chinese has; all others are in English alone


def chinese_of(name: str) -> str:
    """Where a page is in Chinese, whether it is there or not."""
    return "README.zh-CN.md" if name == "README.md" else name.replace("docs/", "docs/zh/", 1)


def pairs_of(files: list[str]) -> list[tuple[str, str]]:
    """Each page that is in both languages, or should be: one that is there in one language has its pair, too."""
    found = {name.replace("docs/zh/", "docs/") for name in files if IN_BOTH.fullmatch(name)}
    return [(name, chinese_of(name)) for name in ("README.md", *sorted(found))]


PAIRS = pairs_of(repo.matching("docs/", suffix=".md"))
PAGES = [name for pair in PAIRS for name in pair if (repo.ROOT / name).exists()]
ENGLISH = {chinese: english for english, chinese in PAIRS}
SYMPTOMS = ("docs/troubleshooting.md", "docs/zh/troubleshooting.md")
SPAN = re.compile(r"`([^`]+)`")
TARGET = re.compile(r"\]\(([^)]+)\)")
OF_NODES = {f"config.{area.name}" for area in AREAS} | {"config.preflight"}
FAMILIES = {code.partition(".")[0] for code in BY_CODE} | {"config"}


class Section(NamedTuple):
    """What a section has in any language."""

    level: int  # of its heading; 0 before the first one
    commands: list[str]  # lines of blocks, with what opens one, without comments
    rows: list[list[str]]  # of each row of a table its code, sorted: the order of words is the language's
    spans: list[str]  # code elsewhere, sorted
    links: list[str]  # where they go, sorted; a page that is in both languages is its English one


def target(name: str, link: str) -> str:
    """Where a link of the page leads, from the top of the repository."""
    path, mark, anchor = link.partition("#")
    there = place(name, path)
    if there in PAGES and anchor in (heads := seed_pages.anchors(repo.text(there))):
        anchor = f"heading {heads.index(anchor)}"  # which has another name in each language
    return link if ":" in path else f"{ENGLISH.get(there, there)}{mark}{anchor}"


def sections(page: str, name: str) -> list[Section]:
    """The page from top to bottom."""
    found, fenced = [Section(0, [], [], [], [])], False
    for line in page.splitlines():
        fence = line.startswith("```")
        fenced ^= fence
        heading = None if fenced else re.match(r"(#+) ", line)
        if heading:
            found.append(Section(len(heading[1]), [], [], [], []))
        if fence or fenced:
            found[-1].commands.append(line.partition("#")[0].rstrip())
        elif line.startswith("|"):
            found[-1].rows.append(sorted(SPAN.findall(line)))
        else:
            found[-1].spans.extend(SPAN.findall(line))
        if not (fence or fenced):
            found[-1].links.extend(target(name, link) for link in TARGET.findall(line))
    return [section._replace(spans=sorted(section.spans), links=sorted(section.links)) for section in found]


def faults(pair: tuple[str, str], english: str, chinese: str) -> list[str]:
    """Where two pages are out of step: of each kind of a section the first difference."""
    ours, theirs = sections(english, pair[0]), sections(chinese, pair[1])
    levels = [[section.level for section in page] for page in (ours, theirs)]
    if levels[0] != levels[1]:
        return [f"headings: {levels[0]}, {levels[1]}"]
    found = []
    for number, both in enumerate(zip(ours, theirs, strict=True)):
        for what in ("commands", "rows", "spans", "links"):
            one, other = (getattr(section, what) for section in both)
            unlike = [two for two in zip_longest(one, other) if two[0] != two[1]]
            found += [f"section {number}: {what}: {unlike[0]}"] if unlike else []
    return found


def unknown_codes(page: str) -> list[str]:
    """Code that has the form of a check's code and is none."""
    said = {span for span in SPAN.findall(page) if re.fullmatch(rf"({'|'.join(FAMILIES)})\.[a-z_0-9]+", span)}
    return sorted(said - set(BY_CODE) - OF_NODES)


def strangers(name: str, page: str) -> list[str]:
    """Links of a Chinese page, its first one to the other language apart, to English pages that are there in Chinese."""
    return [link for link in linked(name, page) if link in ENGLISH.values() and link != ENGLISH[name]]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
def test_both_languages_are_in_step(pair: tuple[str, str]) -> None:
    assert faults(pair, *map(repo.text, pair)) == []


@pytest.mark.parametrize("name", ENGLISH)
def test_a_chinese_page_leads_on_in_chinese(name: str) -> None:
    assert strangers(name, repo.text(name)) == []


def test_a_page_that_is_missing_in_one_language_is_one_of_a_pair() -> None:
    files = ["docs/start.md", "docs/zh/start.md", "docs/tasks/prove.md", "docs/zh/tasks/keep.md", "docs/bench.md", "docs/concepts/plan.md"]
    expected = {"README.md": "README.zh-CN.md", "docs/start.md": "docs/zh/start.md", "docs/tasks/prove.md": "docs/zh/tasks/prove.md",
                "docs/tasks/keep.md": "docs/zh/tasks/keep.md"}  # fmt: skip
    assert dict(pairs_of(files)) == expected
    assert {"docs/start.md", "docs/troubleshooting.md", "docs/tasks/provision.md"} < {english for english, _chinese in PAIRS}
    assert [name for pair in PAIRS for name in pair if not (repo.ROOT / name).exists()] == []


@pytest.mark.parametrize(("english", "chinese"), PAIRS)
def test_each_language_links_the_other_at_its_top(english: str, chinese: str) -> None:
    for name, other in ((english, chinese), (chinese, english)):
        assert f"]({posixpath.relpath(other, posixpath.dirname(name) or '.')})" in "\n".join(repo.text(name).splitlines()[:6])


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_names_is_there(name: str) -> None:
    assert list(dead_links(name, repo.text(name))) == []
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
    (r"\]\(\.\./drivers\.md#secure-boot\)", "](../drivers.md)", "section 2: links: "),
    (r"（\[步骤\]\([^)]*\)）", "", "section 2: links: "),
    (r"https://github.com/NVIDIA/nccl/issues/426", "https://github.com/NVIDIA/nccl/issues/425", "section 12: links: "),
]


@pytest.mark.parametrize(("pattern", "by", "said"), DAMAGE)
def test_one_damage_to_a_page_is_found(pattern: str, by: str, said: str) -> None:
    english, chinese = map(repo.text, SYMPTOMS)
    damaged = re.sub(pattern, by, chinese, count=1, flags=re.MULTILINE | re.DOTALL if "[^#]" in pattern else re.MULTILINE)
    assert damaged != chinese
    found = faults(SYMPTOMS, english, damaged)
    assert len(found) == 1
    assert found[0].startswith(said)


def test_a_comment_may_say_it_in_its_own_words() -> None:
    english, chinese = map(repo.text, SYMPTOMS)
    changed = re.sub(r"^(\$ .*#).*$", r"\1 …", chinese, flags=re.MULTILINE)
    assert changed != chinese
    assert faults(SYMPTOMS, english, changed) == []


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
def test_sections_of_any_page_in_another_order_are_found(pair: tuple[str, str]) -> None:
    english, chinese = map(repo.text, pair)
    head, one, other, *rest = re.split(r"^(?=## )", chinese, flags=re.MULTILINE)
    assert faults(pair, english, head + other + one + "".join(rest))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
def test_each_command_of_any_page_counts(pair: tuple[str, str]) -> None:
    english, chinese = map(repo.text, pair)
    commands = re.findall(r"^\$ .*\n", chinese, flags=re.MULTILINE)
    assert commands
    assert all(faults(pair, english, chinese.replace(command, "", 1)) for command in commands)


def test_a_link_to_the_english_page_is_found() -> None:
    page = "[English](../start.md) [one](tasks/prove.md) [other](../tasks/prove.md#more) [none](../check.md)"
    assert strangers("docs/zh/start.md", page) == ["docs/tasks/prove.md"]


def test_a_code_that_is_none_is_found() -> None:
    assert unknown_codes("`port.flaps`, `config.nccl`, `nccl.conf`, `port.flap`, `config.ncl`") == ["config.ncl", "nccl.conf", "port.flap"]
