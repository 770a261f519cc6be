# SPDX-License-Identifier: GPL-3.0-or-later
"""Name and addresses of the project: one setting in pyproject.toml, from which every place that says them comes."""

import ast
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from hatchling.builders.wheel import WheelBuilder

import repo
from railwright import lint_forms

sys.path.insert(0, str(repo.ROOT / "tools" / "generate"))
import project

SHIPPED = ("galaxy.yml", "pyproject.toml", "README", "CHANGELOG.md", "docs/", "meta/", "playbooks/", "plugins/", "roles/", "src/")
URLS = {"Homepage": "https://forge.example.net/r", "Repository": "https://forge.example.net/r.git",
        "Documentation": "https://docs.example.net/", "Issues": "https://forge.example.net/r/issues"}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkout with another name and with addresses."""
    for name in [*repo.matching("README", "galaxy.yml", "pyproject.toml", "LICENSE", "hatch_build.py", "src/railwright/__init__.py"),
                 *repo.matching("docs/", suffix=".md")]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repo.ROOT / name, tmp_path / name)
    text = re.sub(r'(?m)^name = "railwright"$', 'name = "other-name"', repo.text("pyproject.toml"))
    said = "".join(f'{label} = "{url}"\n' for label, url in URLS.items())
    (tmp_path / "pyproject.toml").write_text(text.replace("[project.urls]\n", f"[project.urls]\n{said}"), encoding="utf-8")
    return tmp_path


def test_every_generated_place_follows_the_setting(copy: Path) -> None:
    found = project.files(copy)
    galaxy = yaml.safe_load(found["galaxy.yml"])
    assert {label: galaxy[key] for label, key in project.KEYS.items()} == URLS
    assert {key: value for key, value in galaxy.items() if key not in project.KEYS.values()} == {
        key: value for key, value in repo.read_yaml("galaxy.yml").items() if key not in project.KEYS.values()}
    constants = [ast.literal_eval(node.value) for node in ast.parse(found["src/railwright/project.py"]).body[1:] if hasattr(node, "value")]
    assert constants == ["other-name", URLS]
    for page in ("README.md", "README.zh-CN.md", "docs/install.md", "docs/scheduling.md"):
        assert re.search(r"pip install other-name\b", found[page]), page
    assert "pipx install other-name`" in found["docs/install.md"]
    assert "dist/other_name-*.whl" in found["docs/install.md"]
    assert not [name for name, text in found.items() if re.search(r"pipx? install (--\S+ )*railwright\b|dist/railwright-\*", text)]


def test_the_wheel_carries_the_addresses(copy: Path) -> None:
    core = WheelBuilder(str(copy)).metadata.core
    assert (core.raw_name, core.urls) == ("other-name", URLS)


def test_sarif_and_sbom_name_them_only_where_they_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = repo.tool("release")
    for urls in (URLS, {}):
        monkeypatch.setattr(lint_forms, "ADDRESSES", urls)
        monkeypatch.setitem(tool.PROJECT, "urls", urls)
        assert lint_forms.sarif([])["runs"][0]["tool"]["driver"].get("informationUri") == urls.get("Homepage")
        said = {item["type"]: item["url"] for item in tool.references().get("externalReferences", [])}
        assert said == {tool.REFERENCES[label]: url for label, url in urls.items()}
    assert "externalReferences" not in tool.references()


def test_an_address_with_an_unknown_label_is_refused(copy: Path) -> None:
    path = copy / "pyproject.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("Issues = ", "Bugs = "), encoding="utf-8")
    with pytest.raises(ValueError, match=r"Bugs: unknown; allowed: Repository, Documentation, Homepage, Issues"):
        project.files(copy)


@pytest.mark.parametrize(("line", "expected"), [
    ("`pip install railwright`, or", "`pip install x`, or"), ("$ /opt/bin/pip install railwright  # it", "$ /opt/bin/pip install x  # it"),
    ("$ pip install --force-reinstall railwright", "$ pip install --force-reinstall x"), ("$ pip install ansible-pylibssh", None),
    ("what pip install does", None), ("$ pip install ./here", None), ("$ pip install -r list.txt", None)])
def test_only_what_installs_the_package_is_renamed(line: str, expected: str | None) -> None:
    assert project.installing(line, "x") == (expected or line)


def test_no_address_of_the_project_is_one_that_cannot_exist() -> None:
    """`.invalid` (RFC 2606) is for a host that must not be found, never for ours."""
    bad = re.compile(r"://[^\s/\"'`]*\.invalid\b")
    assert bad.search("repository: https://railwright.invalid/railwright")
    names = [name for name in repo.matching(*SHIPPED) if name.endswith((".yml", ".toml", ".py", ".md", ".j2", ".1"))]
    assert [name for name in names if not name.startswith("docs/seeds/") and bad.search(repo.text(name))] == []
