# SPDX-License-Identifier: GPL-3.0-or-later
"""Every mistake of bad_inventories*.yml gives exactly its one line, with both ends of the supported ansible-core."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from railwright.exitcodes import ExitCode, InputError
from railwright.lint import lint

FILES = sorted(Path(__file__).parent.glob("bad_inventories*.yml"))
CASES: list[dict[str, Any]] = [case for file in FILES for case in yaml.safe_load(file.read_text(encoding="utf-8"))]


@pytest.mark.core
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_one_clear_line(case: dict[str, Any], make: Callable[[Mapping[str, object]], Path], capfd: pytest.CaptureFixture[str]) -> None:
    directory = make(case)
    try:
        lines = [str(finding) for finding in lint(directory) if finding.severity == "error"]
    except InputError as error:
        lines = [str(error)]
    assert lines == [case["line"]]
    assert "\n" not in lines[0]
    assert capfd.readouterr() == ("", ""), "Ansible talks on the terminal"


@pytest.mark.parametrize("verb", ["lint", "plan"])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_command_line_ends_64(
    case: dict[str, Any],
    verb: str,
    make: Callable[[Mapping[str, object]], Path],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And no playbook is started, so no node is contacted."""
    from railwright import run as runner
    from railwright.cli import console
    from railwright.cli.main import run

    console.out.cache_clear()  # they hold the streams of the test before
    console.err.cache_clear()

    def started(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("a playbook was started")

    monkeypatch.setattr(runner, "run_playbook", started)
    code = run([verb, "-i", str(make(case))])
    console.out.cache_clear()
    console.err.cache_clear()
    assert code == ExitCode.USAGE
    output = capfd.readouterr()
    said = output.out + output.err
    assert case["line"] in said
    assert "Traceback" not in said


def test_an_inventory_that_cannot_be_read_is_bad_input() -> None:
    assert InputError.code == ExitCode.USAGE == 64


def test_there_are_enough_and_all_different() -> None:
    assert len({case["name"] for case in CASES}) == len(CASES) >= 25
    assert len({case["line"] for case in CASES}) > len(CASES) - 3
