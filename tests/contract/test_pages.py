# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages for users: a table cell can be read at a glance, and a source has a title or a link, no code of our own notes."""

import re
from collections.abc import Iterator

import pytest

import repo
from page_links import dead_links, linked

CELL = 200  # characters that a reader sees
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
CODES = {
    "a line of a document, like S4:94": re.compile(r"\bS[0-9]:[0-9]|\bS[0-4]\b"),
    "a chapter of our notes, like domain B2": re.compile(r"\bdomain [A-G][0-9]|\bdomain\.md"),
    "how well it is known, like [V]": re.compile(r"\[[VSIK]\]"),
    "a chapter, like B1": re.compile(r"(?<![\w.-])[A-G][0-9](?![\w.-])"),
}
READMES = ["README.md", "README.zh-CN.md"]
PAGES = ["README.md", *(name for name in repo.matching("docs/", suffix=".md") if not name.startswith("docs/seeds/"))]


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Every line outside of blocks of code, with its number; spans of code are left in."""
    code = False
    for number, line in enumerate(text.split("\n"), 1):
        code ^= line.lstrip().startswith("```")
        if not code:
            yield number, line


def long_cells(text: str) -> list[tuple[int, int]]:
    """(line, length) of each cell that is too long. A link counts as its text."""
    found = []
    for number, line in prose(text):
        if line.startswith("|"):
            cells = [re.sub(r"\\(.)", r"\1", LINK.sub(r"\1", cell.strip())) for cell in re.split(r"(?<!\\)\|", line)]
            found += [(number, len(cell)) for cell in cells if len(cell) > CELL]
    return found


def codes(text: str) -> list[tuple[int, str]]:
    """(line, what) of each bare code; what is set as code or in a link's target is none."""
    bare = ((number, re.sub(r"`[^`]*`", "", LINK.sub(r"\1", line))) for number, line in prose(text))
    return [(number, what) for number, line in bare for what, pattern in CODES.items() if pattern.search(line)]


@pytest.mark.parametrize("name", PAGES)
def test_no_table_cell_is_longer_than_200_characters(name: str) -> None:
    assert long_cells(repo.text(name)) == []


@pytest.mark.parametrize("name", PAGES)
def test_sources_are_titles_or_links(name: str) -> None:
    assert codes(repo.text(name)) == []


@pytest.mark.parametrize("what", [name for name in CODES if "B1" not in name])
def test_sources_in_the_code_are_titles_too(what: str) -> None:
    """`plan`, `explain` and `lint` show them as they stand."""
    files = [name for top in ("plugins/", "src/") for name in repo.matching(top, suffix=".py")]
    assert [name for name in files if CODES[what].search(repo.text(name))] == []


def test_a_long_cell_is_found_and_a_long_link_is_none() -> None:
    assert long_cells(f"| a | {'x' * 201} |\n") == [(1, 201)]
    assert long_cells(f"| a | [x]({'y' * 300}) |\n```\n| {'x' * 201} |\n```\n") == []


@pytest.mark.parametrize("text", ["read in S4:94", "S4 has both", "as in B1", "domain B2 says so", "OCI sets 22 [V]"])
def test_a_bare_code_is_found(text: str) -> None:
    assert codes(text)


def test_what_only_looks_like_a_code_is_none() -> None:
    assert codes("BM.GPU.B4.8, RoCE v2, Rocky 9, E810, 2026-B2b, [a link](x.md#S4:94), and `S4:94` as code") == []


def test_the_picture_of_the_readme_is_at_most_900_pixels_high() -> None:
    height = re.search(r'<svg [^>]*\bheight="([0-9]+)"', repo.text("docs/img/demo.svg"))
    assert height is not None
    assert int(height[1]) <= 900
    assert "](docs/img/demo.svg)" in repo.text("README.md")


def test_the_first_screen_of_the_readme_shows_the_commands() -> None:
    """Before the picture and within 24 lines: install, and the verbs of every day."""
    first = repo.text("README.md").split("\n")[:24]
    shown = [line.split()[2] for line in first if line.startswith("$ railwright ")]
    assert {"init", "plan", "apply", "validate", "bench", "drift", "remediate", "upgrade", "rollback", "report"} <= set(shown)
    assert any(line.startswith("$ pip install railwright") for line in first)


@pytest.mark.parametrize("name", [*READMES, *repo.matching("docs/", suffix=".md")])
def test_every_link_leads_somewhere(name: str) -> None:
    assert list(dead_links(name, repo.text(name))) == []


@pytest.mark.parametrize("readme", READMES)
def test_every_page_is_two_clicks_from_the_readme(readme: str) -> None:
    first = {page for page in linked(readme, repo.text(readme)) if page.endswith(".md")}
    second = {page for name in first for page in linked(name, repo.text(name))}
    assert set(repo.matching("docs/", suffix=".md")) - first - second == set()


def test_a_link_to_nothing_is_found() -> None:
    page = "# One\n[a](#one) [b](bench.md#floors) [c](../roles/network) [no heading](#two) [no page](nothing.md) [none](bench.md#no)\n"
    assert list(dead_links("docs/guide.md", page)) == ["#two", "nothing.md#", "bench.md#no"]


@pytest.mark.parametrize("name", repo.matching("docs/img/concept-", suffix=".svg"))
def test_a_picture_of_a_concept_is_small_and_says_what_it_shows(name: str) -> None:
    text = repo.text(name)
    assert len(text.encode()) < 12_000
    assert all(f"<{part}" in text and f"</{part}>" in text for part in ("title", "desc"))
    assert [font for font in re.findall(r"font-family:\s*([^;]+)", text) if font != "sans-serif"] == []
    page = name.replace("img/concept-", "concepts/").replace(".svg", ".md")
    assert f"](../img/{name.rpartition('/')[2]})" in repo.text(page)
