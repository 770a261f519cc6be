# SPDX-License-Identifier: GPL-3.0-or-later
"""What every file owes its reader, and what must agree between files."""

import ast
import re
import tomllib
from importlib import metadata

from packaging.specifiers import SpecifierSet

import railwright
import repo
from ansible_collections.railwright.rdma.plugins.module_utils.types import DISRUPTIONS

SPDX = "SPDX-License-Identifier: GPL-3.0-or-later"
# Formats without comments, empty markers, and prose, which LICENSE covers; and what `railwright init` writes, which is the operator's.
OPERATORS = ("inventories/", "src/railwright/init/templates/", "src/railwright/lab/site.yml")  # what is written for the operator is theirs
NO_COMMENT = re.compile(r"^(LICENSE|inventories/.*|src/railwright/(init/templates/.*|lab/site\.yml)|.*\.(md|json|typed|svg|png|cast))$")


def test_spdx_line_first() -> None:
    """First, or just below a line that must be first (#!, ---)."""
    files = [name for name in repo.files() if not NO_COMMENT.search(name) and not name.startswith(OPERATORS) and repo.text(name)]
    assert not [name for name in files if not any(SPDX in line for line in repo.text(name).split("\n", 3)[:3])]


def test_python_says_what_it_is() -> None:
    """A docstring."""
    trees = {name: repo.tree(name) for name in repo.python()}
    assert not [name for name, tree in trees.items() if tree.body and not ast.get_docstring(tree)]


def test_one_version() -> None:
    assert repo.read_yaml("galaxy.yml")["version"] == railwright.__version__


def test_one_range_of_ansible_core() -> None:
    project = tomllib.loads(repo.text("pyproject.toml"))["project"]
    wanted = next(item for item in project["dependencies"] if item.startswith("ansible-core")).removeprefix("ansible-core")
    meta = repo.read_yaml("meta/runtime.yml")["requires_ansible"]
    assert [part.removesuffix(".0") for part in meta.split(",")] == wanted.split(",")


def test_what_make_setup_pins_goes_on_the_python_of_debian_12() -> None:
    """3.11.2: a pin that wants 3.11.5 lets `make setup` fail there, and nowhere that is newer."""
    wanted = {found.metadata["Name"]: found.metadata["Requires-Python"] for found in metadata.distributions()}
    assert wanted["railwright"] == ">=3.11"
    assert {name: python for name, python in wanted.items() if python and not SpecifierSet(python).contains("3.11.2")} == {}


def test_changelog_speaks_of_this_version() -> None:
    """Keep a Changelog: a section for what is not released, or for the version that is."""
    sections = re.findall(r"^## \[([^\]]+)\]", repo.text("CHANGELOG.md"), re.MULTILINE)
    assert {"Unreleased", railwright.__version__} & set(sections)
    released = [name for name in sections if name != "Unreleased"]
    dated = re.findall(r"^## \[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}$", repo.text("CHANGELOG.md"), re.MULTILINE)
    assert len(dated) == len(released), "a released section carries its date"


def test_the_build_server_runs_make_test() -> None:
    assert "make test" in repo.text(".ci/run")
    assert (repo.ROOT / ".ci/run").stat().st_mode & 0o111


def test_make_help_names_every_target() -> None:
    targets = re.findall(r"^([a-z][a-z0-9-]*):(.*)$", repo.text("Makefile"), re.MULTILINE)
    silent = [name for name, rest in targets if "##" not in rest and name != "docs"]
    assert targets
    assert not silent


def test_every_change_carries_a_known_disruption() -> None:
    """What can cut traffic is planned as that: the fifth field of a Change is a class, never free text."""
    calls = []
    for name in repo.python("plugins/module_utils/"):
        nodes = [node for node in ast.walk(repo.tree(name)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        calls += [(f"{name}:{node.lineno}", node) for node in nodes if node.func.id == "Change"]
    assert calls
    for place, call in calls:
        given = [*call.args[4:5], *(key.value for key in call.keywords if key.arg == "disruption")]
        assert len(given) == 1, f"{place}: no disruption"
        assert not isinstance(given[0], ast.Constant) or given[0].value in DISRUPTIONS, f"{place}: no disruption class"
