# SPDX-License-Identifier: GPL-3.0-or-later
"""What every test of the repository shares: the checkout's root, and shards of the long suites."""

from pathlib import Path

import pytest

from shards import part


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shard", default="1/1", metavar="I/N", help="run the I-th of N parts of the tests (whole files, by name)")
    parser.addoption("--only", metavar="FILE", help="run the tests of the file with this name")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one shard. By file: its fixtures (a booted lab) are what costs, not its tests. Those of tests/hostile have none.

    Slow tests come first: the last one of a stage would keep one worker busy and the others idle.
    """
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    try:
        chosen = part(sorted({unit(item) for item in items}), str(config.getoption("--shard")))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    only = config.getoption("--only")
    kept = [item for item in items if unit(item) in chosen and only in (None, item.path.name)]
    if len(kept) != len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def unit(item: pytest.Item) -> str:
    return item.nodeid if "hostile" in item.path.parts else str(item.path)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return Path(__file__).resolve().parents[1]
