# SPDX-License-Identifier: GPL-3.0-or-later
"""`make site`: every page stands in it, and a link that leads nowhere fails it. Sphinx is the real one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import repo

HERE = repo.ROOT / "tools/site"


def site(source: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run((sys.executable, HERE, "--source", source), capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_every_page_stands_in_the_site_and_no_link_is_broken(tmp_path: Path) -> None:
    for name in ("README.md", "README.zh-CN.md", "CHANGELOG.md", "SECURITY.md", "LICENSE", "docs", "inventories", "roles", "tests"):
        (tmp_path / name).symlink_to(repo.ROOT / name)
    done = site(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "build/site/index.html").is_file()
    page = (tmp_path / "build/site/README.html").read_text(encoding="utf-8")
    assert page.count('class="reference internal" href="docs/') > 50, "what the README leads to is one click away"


@pytest.mark.slow
def test_a_broken_link_a_lost_heading_and_a_lost_page_fail_it(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    links = "[gone](docs/gone.md) [heading](docs/guide.md#gone) [good](docs/guide.md#here)"
    (tmp_path / "README.md").write_text(f"# a\n\n{links}\n", encoding="utf-8")
    (tmp_path / "docs/guide.md").write_text("# b\n\n## Here\n\n![picture](img/gone.png)\n", encoding="utf-8")
    (tmp_path / "docs/alone.md").write_text("# c\n", encoding="utf-8")
    done = site(tmp_path)
    told = [line for line in done.stderr.split("\n") if "WARNING" in line and "pages.yml" not in line and "toctree contains" not in line
            and "glob pattern" not in line]  # fmt: skip
    assert done.returncode == 1
    assert [any(word in line for line in told) for word in ("docs/gone.md", "'gone'", "img/gone.png", "alone.md")] == [True] * 4, told
    assert len(told) == 4, told
