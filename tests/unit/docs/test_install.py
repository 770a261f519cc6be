# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/install.md: three ways of few lines each, and an execution environment that ansible-builder takes.

That the lines work: tests/lab/test_three_ways.py.
"""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import install_page
import repo

BIN = Path(sys.executable).parent
FILE = "execution-environment.yml"
WAYS = install_page.ways()
MOST = 6  # lines that a new user types


def test_the_page_has_the_three_ways_and_ansible_runner() -> None:
    assert list(WAYS) == ["wheel", "collection", "execution environment", "ansible-runner"]


@pytest.mark.parametrize("way", ["wheel", "collection", "execution environment"])
def test_a_way_is_few_lines_from_a_checkout_to_site(way: str) -> None:
    lines = WAYS[way]
    assert len(lines) <= MOST
    assert lines[0] == "make release"
    assert sum(line.endswith("railwright lab up") for line in lines) == 1
    assert "railwright.rdma.site" in shlex.split(lines[-1])


def test_a_line_that_is_no_command_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    page = "<!-- way: x -->\n```console\n$ one \\\n    more\nsaid\n```\n"
    monkeypatch.setattr(repo, "text", lambda name: page)
    with pytest.raises(ValueError, match="no command"):
        install_page.ways()
    monkeypatch.setattr(repo, "text", lambda name: page.replace("said\n", ""))
    assert install_page.ways() == {"x": ["one     more"]}


def test_ansible_builder_takes_the_file(tmp_path: Path) -> None:
    """By its own check of the form; and what it makes of it has the wheel, apt, and the build argument for another base."""
    (tmp_path / FILE).write_text(repo.text(FILE), encoding="utf-8")
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/railwright-0.0.0-py3-none-any.whl").write_text("stand-in")
    done = subprocess.run([str(BIN / "ansible-builder"), "create"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    made = (tmp_path / "context/Containerfile").read_text(encoding="utf-8")
    base = repo.read_yaml(FILE)["images"]["base_image"]["name"]
    assert f'ARG EE_BASE_IMAGE="{base}"\n' in made
    assert "FROM $EE_BASE_IMAGE AS base\n" in made
    assert 'ARG PKGMGR="/usr/bin/apt-get"\n' in made
    assert "ensurepip" not in made
    assert "ansible-galaxy collection install" not in made
    assert [path.name for path in (tmp_path / "context/_build/wheel").iterdir()] == ["railwright-0.0.0-py3-none-any.whl"]
    assert f"`{base}`" in repo.text(install_page.PAGE)
    assert "--build-arg EE_BASE_IMAGE=" in repo.text(install_page.PAGE)
