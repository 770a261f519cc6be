# SPDX-License-Identifier: GPL-3.0-or-later
"""`check` of captured nodes: its forms, exit codes and files; hosts and this machine are tests/integration/test_check.py's."""

import ast
import json
import zipfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests.lib.node_trees import NODES

from railwright.check import hosts_of, one_file
from railwright.cli.main import run
from railwright.exitcodes import InputError


def check(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    code = run(["check", *argv])
    out, err = capsys.readouterr()
    assert err == ""
    return code, out


@pytest.mark.parametrize(("tree", "code"), [("doca8", 1), ("ib8", 0), ("nohca", 0), ("port-polling", 1)])
def test_exit_codes_of_captured_nodes(tree: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, "--sysroot", str(NODES / tree))[0] == code


def test_every_form_has_the_same_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    tree = str(NODES / "hgx-skew")
    code, text = check(capsys, "--sysroot", tree)
    document = json.loads(check(capsys, "--sysroot", tree, "--format", "json")[1])
    junit = ET.fromstring(check(capsys, "--sysroot", tree, "-f", "junit")[1])
    metrics = check(capsys, "--sysroot", tree, "-f", "prometheus")[1]
    failed = {item["check"] for item in document["verdicts"] if item["status"] == "fail"}
    assert (code, failed) == (1, {"gpu.driver_loaded", "gpu.fabricmanager", "gpu.nvlink"})
    assert all(name in text for name in failed)
    assert int(junit.get("failures", "0")) == document["summary"]["verdicts"]["fail"] == 3
    cases = [case for case in junit.iter("testcase") if case.find("failure") is not None]
    assert {str(case.get("classname")).removeprefix(f"{next(iter(document['nodes']))}.") for case in cases} == failed
    (name,) = document["nodes"]
    assert f'railwright_check_verdicts{{node="{name}",check="gpu.fabricmanager",status="fail"}} 1\n' in metrics
    assert f'railwright_check_node_answered{{node="{name}",status="ok"}} 1\n' in metrics
    assert all(item["next"] for item in document["verdicts"])


def test_all_shows_what_a_screen_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    tree = str(NODES / "doca8")
    short, whole = check(capsys, "--sysroot", tree)[1], check(capsys, "--sysroot", tree, "--all")[1]
    assert "pci.numa" not in short
    assert "pci.numa" in whole
    assert "..." not in whole


def test_a_result_is_written_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, "--sysroot", str(NODES / "doca8"), "-f", "json", "-o", str(tmp_path / "x.json")) == (1, "")
    assert json.loads((tmp_path / "x.json").read_text())["summary"]["exit_code"] == 1
    assert run(["check", "--sysroot", str(NODES / "doca8"), "-o", str(tmp_path / "y")]) == 64


def test_the_one_file_is_the_same_each_time_and_of_python_36(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "check.pyz"
    assert check(capsys, "--emit", str(target)) == (0, f"{target}: copy it to a node, and there: python3 check.pyz\n")
    assert target.read_bytes() == one_file()
    assert target.stat().st_mode & 0o777 == 0o755
    with zipfile.ZipFile(target) as archive:
        names = set(archive.namelist())
        sources = {name: archive.read(name).decode() for name in names}
    for name, source in sources.items():
        ast.parse(source, filename=name, feature_version=(3, 6))
        assert "ansible" not in {alias.name.split(".")[0] for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import)
                                 for alias in node.names}
    assert "railwright_node/entry/alone.py" in names
    assert not [name for name in names if name.endswith(("apply/apply.py", "plan/plan.py", "host_spec.py"))]


@pytest.mark.parametrize("name", ["", "-oProxyCommand=x", "root@", "a b", "-l@host", "x\n", "\x1b[2J"])
def test_what_is_no_host(name: str) -> None:
    with pytest.raises(InputError, match="is no host; allowed"):
        hosts_of([name])


def test_hosts_as_they_were_given() -> None:
    assert [tuple(host) for host in hosts_of(["gpu1", "root@gpu2", "gpu1", "fe80::1"])] == [
        ("gpu1", None, "gpu1"), ("root@gpu2", "root", "gpu2"), ("fe80::1", None, "fe80::1")]
