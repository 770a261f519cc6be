# SPDX-License-Identifier: GPL-3.0-or-later
"""The document and the screen of a check: the worst first, nothing lost, and each with the next command."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.checks.check_report import COLUMNS, LINES, document, next_command, node_lines
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.checks import BY_CODE, COMMANDS, OTHERS
from railwright.exitcodes import ExitCode


def item(check: str, status: str, **more: Any) -> dict[str, Any]:
    return {"check": check, "node": "n1", "hca": None, "port": None, "subject": check, "status": status, "expected": None, "found": None,
            "message": "what is wrong, and why", **more}


def found(*verdicts: dict[str, Any], status: str = "ok", **overview: str) -> dict[str, Any]:
    return document({"n1": {"status": status, "message": "why", "overview": {"node": "Debian", **overview}}}, verdicts, COMMANDS)


def screen(said: dict[str, Any], *, every: bool = False) -> list[str]:
    return [text for _kind, text in node_lines(said, "n1", every)]


def test_the_worst_comes_first_and_many_of_a_kind_are_one() -> None:
    verdicts = [item("pci.numa", "warn"), item("pci.acs", "pass"), *(item("gpu.driver", "fail", subject=f"GPU {at}") for at in range(8))]
    lines = screen(found(*verdicts))
    assert lines[0] == "n1: 8 fail, 1 warn, 1 pass"
    assert [line for line in lines if line.startswith(("FAIL", "WARN"))] == [
        "FAIL    gpu.driver GPU 0 and 7 more: what is wrong, and why", "WARN    pci.numa pci.numa: what is wrong, and why"]
    assert len([line for line in screen(found(*verdicts), every=True) if line.startswith("FAIL")]) == 8


def test_more_than_a_screen_holds_is_counted_and_named() -> None:
    long = "a message that goes on and on " * 20
    overview = dict.fromkeys(("HCAs", "ports", "GIDs", "GPUs", "PCIe", "stack", "NCCL"), "x" * 200)
    verdicts = [item(f"gpu.fault{at:02}", "fail", message=long) for at in range(30)]
    verdicts += [item("pci.acs", "unknown")]
    lines = screen(found(*verdicts, rights="not root", **overview))
    assert len(lines) < LINES
    shown = [line for line in lines if line.startswith("FAIL")]
    (rest,) = [line for line in lines if line.startswith("... and ")]
    assert rest.startswith(f"... and {30 - len(shown)} more, with --all: gpu.fault")
    assert lines[-2].startswith("unknown: pci.acs")
    assert "sudo" in lines[-1]
    assert all(check["check"] in "\n".join(screen(found(*verdicts), every=True)) for check in verdicts)


@pytest.mark.parametrize(("verdicts", "status", "code"), [
    ([], "ok", ExitCode.OK), ([item("a.b", "warn"), item("a.c", "unknown")], "ok", ExitCode.OK),
    ([item("a.b", "fail")], "ok", ExitCode.FAILED), ([item("a.b", "of a newer version")], "ok", ExitCode.FAILED),
    ([], "failed", ExitCode.FAILED), ([item("a.b", "fail")], "unreachable", ExitCode.UNREACHABLE),
    ([item("gpu.answers", "unknown")], "ok", ExitCode.UNJUDGED),
    ([item("gpu.answers", "unknown"), item("a.b", "fail")], "ok", ExitCode.FAILED),
    ([item("gpu.answers", "unproven"), item("node.kernel_log", "unknown")], "ok", ExitCode.OK),
])
def test_exit_codes(verdicts: list[dict[str, Any]], status: str, code: ExitCode) -> None:
    assert found(*verdicts, status=status)["summary"]["exit_code"] == code


@pytest.mark.parametrize("status", ["failed", "unreachable"])
def test_a_node_that_was_not_judged_says_so_in_its_word(status: str) -> None:
    assert screen(found(status=status)) == [f"n1: {status}: why"]


def test_the_next_command_names_what_it_is_about() -> None:
    assert next_command(item("port.state", "fail", hca="mlx5_0", port=1), COMMANDS) == "rdma link show mlx5_0/1; ibstat mlx5_0"
    assert next_command(item("pci.link_speed", "fail", subject="GPU 0000:3b:00.0"), COMMANDS) == "sudo lspci -vv -s 0000:3b:00.0"
    assert next_command(item("gpu.ecc", "fail", subject="GPU 0000:3b:00.0"), COMMANDS) == "nvidia-smi -q -i 0000:3b:00.0"
    assert next_command(item("gpu.count", "fail", subject="GPUs"), COMMANDS) == "nvidia-smi -q"
    assert next_command(item("quite.new", "fail"), COMMANDS) == OTHERS


@pytest.mark.parametrize("hca", ["mlx5_0; rm -rf /", "$(reboot)", "-x y", "a" * 100, "\x1b[2J"])
def test_a_device_with_a_strange_name_is_in_no_command(hca: str) -> None:
    command = next_command(item("port.state", "fail", hca=hca, port=1, subject=hca), COMMANDS)
    assert hca not in command
    assert command.startswith("rdma link show")


def test_no_command_has_a_blank_left_over() -> None:
    for code in (*BY_CODE, "x.y"):
        command = next_command(item(code, "fail"), COMMANDS)
        assert "{" not in command.replace("{print", "")
        assert "  " not in command
        assert not command.endswith(("-d", "-i", "-s", " "))


def test_a_node_is_one_screen_whatever_it_says() -> None:
    """Labels of its own are not shown, and no text makes a line longer or moves a cursor."""
    strange = "\x1b[2J\n\u202e" * 100
    verdicts = [item(f"gpu.x{at}", "fail", subject=strange, message=strange, hca=strange) for at in range(50)]
    verdicts += [item(f"pci.x{at}{strange}", "unknown") for at in range(50)]
    said = found(*verdicts, **{f"label {at}": strange for at in range(100)}, HCAs=strange, rights=strange)
    lines = screen(said)
    assert len(lines) < LINES
    assert max(map(len, lines)) < COLUMNS
    assert all(line.isprintable() for line in [*lines, *screen(said, every=True)])
    assert not any("label" in line for line in screen(said, every=True))
