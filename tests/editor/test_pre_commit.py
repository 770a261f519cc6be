# SPDX-License-Identifier: GPL-3.0-or-later
"""The hook for the repository of a site, by the real pre-commit and git: a commit with a broken key is stopped, a good one passes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from editor_tools import Tools
from railwright.init import files, write_inventory

CONFIG = "repos:\n  - repo: {hook}\n    rev: {rev}\n    hooks:\n      - id: railwright-lint\n"
SETTINGS = "clusters/big one/group_vars/all/site.yml"
ANOTHER = "all: {hosts: {node9: }}\n"


class Site:
    """A git repository with two inventories and the hook installed."""

    def __init__(self, directory: Path, tools: Tools, repository: Path) -> None:
        self.root, hook = directory / "a site", directory / "hook"
        path = os.pathsep.join((str(tools.bin), str(Path(sys.executable).parent), os.environ["PATH"]))
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | {
            "PATH": path, "PRE_COMMIT_HOME": str(directory / "cache"), "HOME": str(directory), "GIT_CONFIG_NOSYSTEM": "1"}
        for name in (".pre-commit-hooks.yaml", "tools/lint-changed"):
            (hook / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(repository / name, hook / name)
        self._commit(hook)
        for name in ("clusters/big one", "staging"):
            write_inventory(self.root / name, files("infiniband"))
        rev = self.run("git", "rev-parse", "HEAD", cwd=hook).stdout.strip()
        (self.root / ".pre-commit-config.yaml").write_text(CONFIG.format(hook=hook, rev=rev), encoding="utf-8")
        self._commit(self.root)
        assert self.run("pre-commit", "install").returncode == 0

    def run(self, *argv: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(argv, cwd=cwd or self.root, env=self._environment, capture_output=True, text=True, timeout=300, check=False)

    def _commit(self, directory: Path) -> None:
        self.run("git", "init", "--quiet", str(directory), cwd=directory)
        for key, value in (("user.name", "tests"), ("user.email", "tests@example.com")):
            self.run("git", "config", key, value, cwd=directory)
        self.run("git", "add", "--all", cwd=directory)
        assert self.run("git", "commit", "--quiet", "-m", "all", cwd=directory).returncode == 0

    def commit(self, **texts: str) -> subprocess.CompletedProcess[str]:
        """Of these files alone. OLD => NEW is a text of the file that was committed last."""
        self.run("git", "reset", "--quiet", "--hard")
        for name, text in texts.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            old, _arrow, new = text.rpartition(" => ")
            path.write_text(path.read_text(encoding="utf-8").replace(old, new) if old else new, encoding="utf-8")
        self.run("git", "add", "--all")
        return self.run("git", "commit", "-m", "a change")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, tools: Tools, repository: Path) -> Site:
    return Site(tmp_path_factory.mktemp("pre-commit"), tools, repository)


def test_a_broken_key_stops_the_commit(site: Site) -> None:
    done = site.commit(**{SETTINGS: "rdma_mtu: 4092 => rdma_mtu: many"})
    assert done.returncode == 1
    assert "rdma_mtu: many" in done.stderr + done.stdout
    assert "staging" not in done.stderr + done.stdout  # of which nothing changed
    assert site.run("git", "log", "--oneline").stdout.count("\n") == 1


def test_a_good_change_is_committed(site: Site) -> None:
    before = site.run("git", "rev-parse", "HEAD").stdout
    done = site.commit(**{SETTINGS: "rdma_mtu: 4092 => rdma_mtu: 2044", "staging/host_vars/node1.yml": "my_own: 1\n"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "railwright lint" in done.stderr + done.stdout
    assert site.run("git", "rev-parse", "HEAD").stdout != before


def test_a_file_of_no_inventory_is_let_be(site: Site) -> None:
    done = site.commit(**{"playbooks/group_vars/all.yml": "rdma_mtu: many\n", "notes.yml": "rdma_mtu: many\n"})
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_inventory_is_linted_once_and_one_that_fails_counts(repository: Path, tmp_path: Path) -> None:
    for name in ("bin", "one/group_vars/all", "two"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("one/hosts.yml", "two/hosts.yml"):
        (tmp_path / name).write_text(ANOTHER, encoding="utf-8")
    stand_in = tmp_path / "bin/railwright"
    stand_in.write_text('#!/bin/sh\necho "$@"\n[ "$3" != ./one ] || exit 64\n', encoding="utf-8")
    stand_in.chmod(0o755)
    argv = (str(repository / "tools/lint-changed"), "one/group_vars/all/a.yml", "one/hosts.yml", "two/hosts.yml")
    done = subprocess.run(argv, cwd=tmp_path, env={"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert done.stdout == "lint -i ./one\nlint -i ./two\n"
    assert done.returncode == 64
