# SPDX-License-Identifier: GPL-3.0-or-later
"""The age of tables: each has its row in compared.yml, and tools/freshness prints what a package index has that is newer.

The index is a directory of wheels that the test writes; pip itself reads it.
"""

import datetime as dt
import os
import shutil
import subprocess
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import repo
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue import torch
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import find_artifact
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue import variables
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.ages import comparisons

TABLES = (("plugins/plugin_utils/tables/", ".yml"), ("plugins/module_utils/catalogue/", ".py"), ("constraints/", ".txt"))
SPEED = ("ceilings", "perftest_limits")
LIBRARY = """const char first[] = "first";
const char new_one[] = "NCCL_BRAND_NEW";
const char known[] = "NCCL_DEBUG";
const char message[] = "see NCCL_CONFIG";
"""


def test_every_table_has_its_row_and_no_row_is_left_over() -> None:
    found = {name for start, end in TABLES for name in repo.matching(start, suffix=end)} - {"plugins/plugin_utils/tables/compared.yml"}
    found = {name for name in found if not name.endswith("/__init__.py")} | {f"plugins/plugin_utils/speed/{name}.py" for name in SPEED}
    assert sorted(row.table for row in comparisons()) == sorted(found)


def test_every_row_has_a_day_that_was_and_a_source() -> None:
    today = dt.datetime.now(dt.UTC).date()
    assert [row.table for row in comparisons() if not row.against.strip() or not dt.date(2026, 11, 20) <= row.compared <= today] == []


def test_the_releases_that_were_compared_are_those_of_the_tables() -> None:
    said = {(row.table.rpartition("/")[2], name): version for row in comparisons() for name, version in row.packages}
    assert said["nccl_variables.yml", "nvidia-nccl-cu13"] == variables.VERSION
    assert said["torch.py", "torch"] == torch.NEWEST
    nccl_tests = find_artifact("nccl-tests")
    assert nccl_tests is not None
    assert said["artifacts.py", "nccl-tests"] == nccl_tests.version


def wheel(directory: Path, name: str, version: str, library: Path | None = None) -> None:
    """Write a wheel that pip takes for any platform; with NCCL's library where ``library`` is one."""
    title = name.replace("-", "_")
    with zipfile.ZipFile(directory / f"{title}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{title}-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{title}-{version}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{title}-{version}.dist-info/RECORD", "")
        if library is not None:
            archive.write(library, "nvidia/nccl/lib/libnccl.so.2")


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """tools/freshness, with an empty directory of wheels as its index."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    (tmp_path / "wheels").mkdir()
    for name, value in (("CONFIG_FILE", "/dev/null"), ("NO_INDEX", "1"), ("FIND_LINKS", str(tmp_path / "wheels"))):
        monkeypatch.setenv(f"PIP_{name}", value)
    module = repo.tool("freshness")
    monkeypatch.setattr(module, "PLACE", tmp_path / "place")
    monkeypatch.setattr(module, "PINS", {"dev.txt": ("torch",)})
    (tmp_path / "place").mkdir()
    return module


def lines(tool: ModuleType, *, download: bool = True) -> list[str]:
    return [line for line in tool.report(dt.date(2027, 1, 1), download=download) if " days: " not in line]


def test_what_the_index_has_that_is_newer(tool: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "nccl.c").write_text(LIBRARY)
    subprocess.run(("gcc", "-shared", "-o", tmp_path / "libnccl.so.2", tmp_path / "nccl.c"), check=True)
    wheel(tmp_path / "wheels", "torch", "99.1")
    wheel(tmp_path / "wheels", tool.NCCL, variables.VERSION)
    wheel(tmp_path / "wheels", tool.NCCL, "99.2", tmp_path / "libnccl.so.2")
    found = lines(tool)
    assert f"newer: torch 99.1 (compared {torch.NEWEST}): plugins/module_utils/catalogue/torch.py" in found
    assert len([line for line in found if line.startswith(f"newer: {tool.NCCL} 99.2 (compared {variables.VERSION}): ")]) == 3
    assert "NCCL 99.2, variables that the table lacks: NCCL_BRAND_NEW" in found
    gone = next(line for line in found if line.startswith("NCCL 99.2, variables of the table that the library lacks: "))
    assert gone.count("NCCL_") == len(variables.VARIABLES) - 1
    assert "NCCL_DEBUG," not in gone
    assert found[-1] == "newer than constraints/dev.txt: none"  # torch is no pin
    assert "nvidia-cuda-runtime" in next(line for line in found if line.startswith("not asked: pip finds no "))


def test_a_pin_that_make_constraints_would_raise(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel(tmp_path / "wheels", "PyYAML", "99.3")
    monkeypatch.setattr(tool, "PINS", {"dev.txt": ("pyyaml",)})
    assert tool.pin_line("dev.txt").endswith(": 99.3")
    assert tool.pin_line("dev.txt").startswith("newer than constraints/dev.txt: PyYAML 6.")


def test_without_an_index_it_says_what_it_could_not_ask(tool: ModuleType) -> None:
    found = lines(tool)
    assert [line.partition(":")[0] for line in found] == ["not asked"] * 3
    assert "torch" in found[0]
    assert found[1] == "not asked: NCCL's variables"
    assert found[2].startswith("not asked: pins of constraints/dev.txt: ERROR: ")


def test_no_index_is_named_in_the_tool() -> None:
    assert "://" not in repo.text("tools/freshness")


def test_a_comparison_is_recorded(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In both forms of a row; nothing else of the file changes."""
    copy = tmp_path / "compared.yml"
    shutil.copy(tool.REGISTRY, copy)
    before = copy.read_text().split("\n")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "REGISTRY", copy)
    assert tool.record([row.table for row in comparisons()], dt.date(2031, 2, 3)) == 0
    assert copy.read_text().count("2031-02-03") == len(comparisons())
    assert tool.record(["constraints/none.txt"], dt.date(2031, 2, 4)) == 64
    assert [new for old, new in zip(before, copy.read_text().split("\n"), strict=True) if old != new and "2031-02-03" not in new] == []
