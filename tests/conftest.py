# SPDX-License-Identifier: GPL-3.0-or-later
"""What every test of the repository shares: the checkout's root, and shards of the long suites."""

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shard", default="1/1", metavar="I/N", help="run the I-th of N parts of the tests (whole files, by name)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one shard. By file: its fixtures (a booted lab) are what costs, not its tests.

    In turn, so that no shard is empty while another has two.
    """
    index, _slash, count = str(config.getoption("--shard")).partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise pytest.UsageError(f"--shard {index}/{count}: expected I/N with 1 <= I <= N, say 2/4")
    files = sorted({item.path for item in items})[int(index) - 1 :: int(count)]
    kept = [item for item in items if item.path in files]
    if len(kept) != len(items):
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return Path(__file__).resolve().parents[1]
