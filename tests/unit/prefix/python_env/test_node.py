# SPDX-License-Identifier: GPL-3.0-or-later
"""An environment from a wheel directory, on this machine: made, found again, broken, made anew, never touched. venv and pip are real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import torch_files
from ai_site import OWN, MakeSite, Site, ThisHost
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, Result
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nccl_libraries import Places, site_packages
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.python_env import install as node
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.python_env.manifest import current, steady
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.python_env.wanted import environment_place

NO_DEVICE = "ai_environment: torch found no CUDA device when the environment was made, and this node has GPUs: was the driver loaded?"


def wheels(directory: Path, version: str = "2.9.1+cu128") -> Path:
    torch_files.torch_wheel(directory, version, "12.8", requires=("tiny==1.0",))
    torch_files.wheel(directory, "tiny", "1.0", {"tiny.py": "ANSWER = 42\n"})
    return directory


@pytest.fixture
def made(site: MakeSite, tmp_path: Path) -> Site:
    own = wheels(tmp_path / "w")
    there = site(ai_environment_torch="2.9.1+cu128", ai_environment_wheels=str(own), ai_environment_packages=["tiny==1.0"])
    before = os.umask(0o077)  # root's, on some sites
    try:
        there.make()
    finally:
        os.umask(before)
    return there


def test_its_whole_life(made: Site, site: MakeSite, tmp_path: Path) -> None:
    """One story, since a venv with pip takes seconds: the second look, bytecode, a lost file, and what is made anew for it."""
    seen = made.look()
    row = seen["release"]
    assert (row["missing"], row["needed"], row["broken"], seen["plan"], seen["notes"]) == (False, False, [], [], [NO_DEVICE])
    assert row["torch"]["torch"] == "2.9.1+cu128"
    assert (row["torch"]["cuda"], row["torch"]["nccl"], row["torch"]["distributed"]) == ("12.8", "2.27.5", True)
    assert row["torch"]["packages"] == {"tiny": "1.0"}
    assert seen["drivers"]["torch"] == "2.9.1+cu128, CUDA 12.8, no CUDA device when it was made"
    first = Path(row["directory"])
    assert (made.path / "current").readlink() == Path(first.name)
    assert sorted(item.name for item in made.path.iterdir()) == sorted(["current", first.name]), "nothing it was made from is left"
    assert first.stat().st_mode & 0o777 == 0o755
    assert (first / "lib" / f"python{OWN}" / "site-packages" / "tiny.py").stat().st_mode & 0o777 == 0o644
    assert current(made.host, str(made.path)) == str(first)
    assert steady(made.host, f"{made.path}/current/bin/python") == f"{first}/bin/python"
    assert str(first / "lib" / f"python{OWN}" / "site-packages") in site_packages(Host(), Places(environment=str(made.path)))

    subprocess.run((row["python"], "-c", "import tiny, torch"), check=True)  # bytecode is nobody's change
    assert made.look()["plan"] == []

    lost = first / "lib" / f"python{OWN}" / "site-packages" / "tiny.py"
    lost.unlink()
    kept = {path: path.lstat().st_mtime_ns for path in first.rglob("*") if "__pycache__" not in str(path)}
    broken = made.look()
    said = f"{first.name}: lib/python{OWN}/site-packages/tiny.py is gone"
    assert broken["release"]["broken"] == [said]
    assert [(item["before"], item["after"], item["why"]) for item in broken["plan"]] == [(first.name, first.name + "-2", said)]
    again = made.make()
    assert again["plan"] == []
    assert again["notes"] == [f"ai_environment: broken and left to what runs in it: {said}",
                              f"ai_environment: kept beside it: {first.name}; remove what no job uses any more", NO_DEVICE]
    assert current(made.host, str(made.path)) == f"{first}-2"
    assert {path: path.lstat().st_mtime_ns for path in first.rglob("*") if "__pycache__" not in str(path)} == kept, "it was not touched"


def test_an_interrupted_run_leaves_what_the_next_one_clears_away(site: MakeSite, tmp_path: Path) -> None:
    there = site(ai_environment_torch="2.9.1+cu128", ai_environment_wheels=str(wheels(tmp_path / "w")))
    there.bring()
    directory = Path(environment_place(there.host, there.wish()).directory)
    (directory / "lib").mkdir(parents=True)
    (directory / "lib" / "half").write_text("")
    place = environment_place(there.host, there.wish())
    assert place.state == "begun"
    there.environment().prepare()
    assert not directory.exists()
    there.environment().clean()
    assert not there.path.exists(), "nothing is left of it, and no directory that was made for it"


def test_another_node_that_makes_it_on_a_shared_file_system_is_waited_for(site: MakeSite, tmp_path: Path) -> None:
    there = site(ai_environment_torch="2.9.1+cu128", ai_environment_wheels=str(wheels(tmp_path / "w")))
    there.bring()
    place = environment_place(there.host, there.wish())
    Path(place.files, "railwright-begun").write_text("gpu9\n")
    with pytest.raises(RailwrightError) as caught:
        there.look()
    assert str(caught.value) == f"{place.directory} is being made by gpu9, or was left by it; wait for it, or remove {place.files}"


@pytest.mark.parametrize("kind", ["directory", "current"])
def test_what_is_somebody_elses_stops_it(site: MakeSite, tmp_path: Path, kind: str) -> None:
    there = site(ai_environment_torch="2.9.1+cu128", ai_environment_wheels=str(wheels(tmp_path / "w")))
    path = Path(environment_place(there.host, there.wish()).directory) if kind == "directory" else there.path / "current"
    path.mkdir(parents=True)
    (path / "theirs").write_text("")
    with pytest.raises(RailwrightError, match=r"is no link|no environment of railwright's"):
        there.look()
    assert (path / "theirs").exists()


def test_a_wheel_that_changed_on_the_way_is_not_used(site: MakeSite, tmp_path: Path) -> None:
    there = site(ai_environment_torch="2.9.1+cu128", ai_environment_wheels=str(wheels(tmp_path / "w")))
    there.bring()
    place = environment_place(there.host, there.wish())
    file = Path(place.files, "wheels", "tiny-1.0-py3-none-any.whl")
    environment = there.environment()
    assert environment.sums == {path.name: torch_files.sha256(path) for path in (tmp_path / "w").iterdir()}
    environment.verify(place)
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(RailwrightError) as caught:
        environment.verify(place)
    assert str(caught.value) == f"{file.name} did not arrive as it is on the controller; nothing is made of it"


def test_pip_itself_refuses_a_wheel_without_the_locks_checksum(site: MakeSite, tmp_path: Path) -> None:
    """Whatever verify says: the lock travels with the checksums, and pip, here the tests' own, holds the wheels to it."""
    there = site(ai_environment_torch="2.9.1+cu128", ai_environment_wheels=str(wheels(tmp_path / "w")))
    there.bring()
    place = environment_place(there.host, there.wish())
    argv = [sys.executable, *node.pip_argv(there.wish(), place)[1:], "--target", str(tmp_path / "there")]
    assert subprocess.run(argv, check=False, capture_output=True).returncode == 0
    file = Path(place.files, "wheels", "tiny-1.0-py3-none-any.whl")
    file.write_bytes(torch_files.wheel(tmp_path / "x", "tiny", "1.0", {"tiny.py": "ANSWER = 0\n"}).read_bytes())
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


STAND_IN = """#!/bin/bash
test "$1 $2" = "-b -p" && mkdir -p "$3/bin" && cat > "$3/bin/conda" <<'END'
#!/bin/bash
test "$1 $2 $3 $4 $5 $7" = "create --yes --quiet --no-default-packages --prefix --file" || exit 2
grep -q '^@EXPLICIT$' "$8" && test -d "$CONDA_PKGS_DIRS" && PYTHON -m venv --without-pip "$6" && cd "$6"/lib/python3*/site-packages \\
&& PYTHON -m zipfile -e TORCH .
END
chmod 755 "$3/bin/conda"
"""


def conda(tmp_path: Path, version: str = "2.9.1", **more: str) -> dict[str, str]:
    """Inventory values. No conda was to be had here: the options are those of its documentation, and a venv stands in for what it makes."""
    torch = torch_files.torch_wheel(tmp_path / "w", f"{version}+cu128", "12.8")
    installer, explicit = tmp_path / f"installer-{version}.sh", tmp_path / f"explicit-{version}.txt"
    installer.write_text(STAND_IN.replace("PYTHON", sys.executable).replace("TORCH", str(torch)))
    packages = [f"https://h/linux-64/{name}-h0_0.conda#" + "a" * 64 for name in (f"python-{OWN}.9", f"pytorch-{version}")]
    explicit.write_text("\n".join(["@EXPLICIT", *packages]) + "\n")
    return {
        "ai_environment_kind": "conda", "ai_environment_torch": f"{version}+cu128", "ai_environment_conda_installer": str(installer),
        "ai_environment_conda_installer_sha256": torch_files.sha256(installer), "ai_environment_conda_explicit": str(explicit), **more}


def test_conda_by_a_stand_in_that_knows_its_command_line(site: MakeSite, tmp_path: Path) -> None:
    values = conda(tmp_path)
    with pytest.raises(RailwrightError, match="ai_environment_conda_installer_sha256"):
        site(**{**values, "ai_environment_conda_installer_sha256": "0" * 64}).look()
    right = site(**values)
    seen = right.make()
    assert (seen["plan"], seen["release"]["torch"]["torch"]) == ([], "2.9.1+cu128")
    left = sorted(item.name for item in right.path.iterdir())
    assert left == sorted(["current", seen["release"]["name"]]), "conda itself is gone again"
    assert json.loads(Path(seen["release"]["directory"], "railwright.json").read_text())["kind"] == "conda"


def test_another_release_comes_beside_and_the_link_goes_over_and_back(site: MakeSite, tmp_path: Path) -> None:
    """With the stand-in for conda, which is quicker than pip."""
    first, other = site(**conda(tmp_path)), site(**conda(tmp_path, "2.8.0"))
    before = first.make()["release"]["name"]
    assert other.make()["release"]["name"].startswith(f"torch-2.8.0+cu128-py{OWN}-")
    back = first.look()
    assert (back["release"]["missing"], back["release"]["needed"]) == (False, True)
    assert first.make()["plan"] == []
    assert (first.path / "current").readlink() == Path(before)


class AsRoot(ThisHost):
    """Notes who a command is to be run as, and runs it as ourselves: this machine's Python is open to nobody else."""

    def __init__(self) -> None:
        super().__init__()
        self.users: list[str] = []
        self.given: list[Sequence[str]] = []

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        if any(word.endswith("/bin/python") and "/ai/" in word for word in argv):
            self.users.append(argv[2] if argv[0] == "runuser" else "root")
        self.given += [argv] if "chown" in argv else []
        return super().run(argv[4:] if argv[0] == "runuser" else argv, timeout, stdin)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_an_owner_has_what_is_in_it_and_nothing_of_it_ever_runs_as_root(site: MakeSite, tmp_path: Path) -> None:
    host = AsRoot()
    there = site(host, **conda(tmp_path), ai_environment_owner="daemon")
    directory = Path(there.make()["release"]["directory"])
    assert {path.owner() for path in directory.iterdir() if not path.name.startswith("railwright.")} == {"daemon"}
    assert {path.owner() for path in (directory, directory / "railwright.files", directory / "railwright.json")} == {"root"}
    assert len(host.users) > 1, "torch was imported, and Python asked for its version"
    assert set(host.users) == {"daemon"}
    [argv] = host.given
    assert list(argv[:6]) == ["chown", "-R", "-h", "-P", "daemon:", "--"]
    assert {Path(path).parent for path in argv[6:]} == {directory}, "a path through what is the owner's by then may lead elsewhere"


def test_pip_takes_nothing_from_the_directory_that_root_stands_in(site: MakeSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = site(ai_environment_torch="2.9.1+cu128", ai_environment_wheels=str(wheels(tmp_path / "w")))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "pip.py").write_text("raise SystemExit('taken from here')\n")
    monkeypatch.chdir(tmp_path / "home")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "home"))
    place = environment_place(there.host, there.wish())
    argv = node.pip_argv(there.wish(), place)
    done = subprocess.run((sys.executable, *argv[1:argv.index("install")], "--version"), capture_output=True, text=True, check=False)
    assert (done.returncode, "taken from here" in done.stderr) == (0, False)
