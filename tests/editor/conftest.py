# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory as `railwright init` writes it, and the real tools beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from editor_tools import Tools, installed
from language_server import LanguageServer
from railwright.init import files, write_inventory


@pytest.fixture(scope="session")
def tools(repository: Path) -> Tools:
    return installed(Path(__file__).parent, repository / "build")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `railwright init` writes."""
    directory = tmp_path_factory.mktemp("editor") / "site"
    write_inventory(directory, files("roce"))
    return directory


@pytest.fixture(scope="session")
def server(tools: Tools, site: Path) -> Iterator[LanguageServer]:
    with LanguageServer(tools.server, site) as found:
        yield found
