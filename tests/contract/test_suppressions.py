# SPDX-License-Identifier: GPL-3.0-or-later
"""Silenced checkers: at most ten in the whole repository, each with its reason on the same line; no skip lists."""

import re

import pytest

import repo

BUDGET = 10
MARK = re.compile(
    r"#\s*(noqa\b|type:\s*ignore|pylint:\s*disable|mypy:\s|nosec|yamllint\s+disable|ruff:\s)(?P<rest>.*)|@pytest\.mark\.(skip|xfail)\b(?P<mark>.*)"
)
REASON = re.compile(r"[A-Za-z][^\n]{11,}")  # a few words, not one code


def found() -> list[tuple[str, str]]:
    """(place, what follows the mark) of every suppression; the tests of this directory name marks, so strings do not count."""
    result = []
    for name in repo.files():
        if name.endswith((".py", ".yml", ".yaml", ".toml")) and name != "tests/contract/test_suppressions.py":
            for number, line in enumerate(repo.text(name).splitlines(), 1):
                match = MARK.search(line)
                if match:
                    result.append((f"{name}:{number}: {line.strip()}", match["rest"] or match["mark"] or ""))
    return result


def test_at_most_ten() -> None:
    places = [place for place, _rest in found()]
    assert len(places) <= BUDGET, "\n".join(places)


def test_each_with_its_reason() -> None:
    bare = [
        place
        for place, rest in found()
        if not REASON.search(re.sub(r"^[:\s]*(\[[\w, -]+\]|[A-Z]+\d+(, ?[A-Z]+\d+)*|[\w-]+\[[\w-]+\])", "", rest))
    ]
    assert not bare


def test_ansible_lint_has_no_skip_list() -> None:
    config = repo.read_yaml(".ansible-lint")
    assert config["profile"] == "production"
    assert not {"skip_list", "warn_list", "mock_modules", "mock_roles"} & set(config)


def test_sanity_has_no_ignore_file() -> None:
    assert not repo.matching("tests/sanity/ignore")


@pytest.mark.parametrize(
    ("line", "has_reason"), [("x = 1  # noqa: E501", False), ("x = 1  # noqa: S506 - a SafeLoader with more tags", True)]
)
def test_the_pattern_tells_a_reason_from_a_code(line: str, *, has_reason: bool) -> None:
    match = MARK.search(line)
    assert match
    assert bool(REASON.search(re.sub(r"^[:\s]*[A-Z]+\d+", "", match["rest"]))) is has_reason
