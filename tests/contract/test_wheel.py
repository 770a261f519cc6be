# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheel: what is in it, what is not, and that it alone is enough in an empty environment."""

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import railwright
import repo

COLLECTION = "ansible_collections/railwright/rdma/"
MANUAL = f"railwright-{railwright.__version__}.data/data/share/man/man1/railwright.1"


def run(*argv: str, cwd: Path, **env: str) -> str:
    """Run a command that must succeed; its output."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "ANSIBLE_", "VIRTUAL_ENV"))}
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, env=dict(clean, **env), check=False)
    assert done.returncode == 0, f"{argv}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), ".", cwd=repo.ROOT)
    (found,) = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin directory of an empty environment with nothing but the wheel and what it asks for."""
    directory = tmp_path_factory.mktemp("empty")
    venv.create(directory, with_pip=True)
    run(str(directory / "bin" / "pip"), "install", "-q", "-c", str(repo.ROOT / "constraints" / "dev.txt"), str(wheel), cwd=directory)
    return directory / "bin"


@pytest.mark.xdist_group("wheel")
def test_content(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    kept = ("meta/", "playbooks/", "plugins/", "roles/")
    wanted = {COLLECTION + name for name in repo.matching(*kept)} | {COLLECTION + name for name in ("galaxy.yml", "LICENSE", "README.md")}
    wanted |= {name.removeprefix("src/") for name in repo.matching("src/railwright/")}
    inside = {name for name in names if ".dist-info/" not in name} - {MANUAL}
    assert zipfile.ZipFile(wheel).read(MANUAL) == (repo.ROOT / "docs/man/railwright.1").read_bytes()
    assert wanted - inside == set(), "in the tree, but not in the wheel"
    assert inside - wanted - {COLLECTION + "CHANGELOG.md"} == set(), "in the wheel, but not the product's"


@pytest.mark.xdist_group("wheel")
def test_namespace_stays_open(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert not {"ansible_collections/__init__.py", "ansible_collections/railwright/__init__.py", COLLECTION + "__init__.py"} & names


@pytest.mark.slow
@pytest.mark.xdist_group("wheel")
def test_collection_as_python(installed: Path, tmp_path: Path) -> None:
    code = "import ansible_collections.railwright.rdma.plugins.module_utils.types as t; print(t.__file__)"
    where = run(str(installed / "python"), "-c", code, cwd=tmp_path)
    assert f"site-packages/{COLLECTION}plugins/module_utils/types.py" in where


@pytest.mark.slow
@pytest.mark.xdist_group("wheel")
def test_ansible_doc(installed: Path, tmp_path: Path) -> None:
    out = run(str(installed / "ansible-doc"), "-t", "module", "--json", "railwright.rdma.rdma_facts", cwd=tmp_path, HOME=str(tmp_path))
    document = json.loads(out)["railwright.rdma.rdma_facts"]["doc"]
    assert f"site-packages/{COLLECTION}" in document["filename"]


@pytest.mark.slow
@pytest.mark.xdist_group("wheel")
def test_playbook_by_its_full_name(installed: Path, tmp_path: Path) -> None:
    argv = (str(installed / "ansible-playbook"), "--syntax-check", "-i", "localhost,", "railwright.rdma.site")
    assert "playbook: " in run(*argv, cwd=tmp_path, HOME=str(tmp_path))


@pytest.mark.slow
@pytest.mark.xdist_group("wheel")
def test_command(installed: Path, tmp_path: Path) -> None:
    """Both ways to start it, and every verb answers for itself."""
    assert (installed.parent / "share/man/man1/railwright.1").is_file()  # where man looks, for a program in this bin
    assert "init" in run(str(installed / "railwright"), "--help", cwd=tmp_path)
    assert "init" in run(str(installed / "python"), "-m", "railwright", "--help", cwd=tmp_path)
    for verb in ("init", "lint", "facts", "plan", "apply", "validate", "report", "lab"):
        assert verb in run(str(installed / "railwright"), verb, "--help", cwd=tmp_path)


@pytest.mark.xdist_group("galaxy")
def test_galaxy_tarball_is_the_collection_alone(tmp_path: Path) -> None:
    """The link in .dev points at the root: followed, it would pack the repository into itself."""
    galaxy = str(Path(sys.executable).parent / "ansible-galaxy")
    run(galaxy, "collection", "build", "--output-path", str(tmp_path), ".", cwd=repo.ROOT, HOME=str(tmp_path))
    (tarball,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(tarball) as archive:
        tops = {name.split("/")[0] for name in archive.getnames()}
    assert tops <= {"CHANGELOG.md", "FILES.json", "LICENSE", "MANIFEST.json", "README.md", "README.zh-CN.md", "SECURITY.md", "docs", "meta",
                    "playbooks", "plugins", "roles"}
    assert {"plugins", "meta", "playbooks"} <= tops
