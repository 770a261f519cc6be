# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe: run by a real shell, taken apart, and matched against what ansible-core can use."""

import importlib
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ansible.release import __version__ as core_version

from ansible_collections.railwright.rdma.plugins.plugin_utils.preflight import (
    CORE_PYTHONS,
    MARK,
    SECTIONS,
    ProbeError,
    Python,
    bootstrap_argv,
    choose_python,
    command_line,
    core_series,
    evidence_of,
    fit,
    identity_of,
    parse_probe,
    probe_command,
    too_new,
)

OLD = Python("/usr/libexec/platform-python", (3, 6, 8))
NEW = Python("/usr/bin/python3.11", (3, 11, 2))


def answer(**sections: str) -> str:
    """A node's answer with these sections, the others empty."""
    return "".join(f"{MARK}{name}\n{sections.get(name, '')}" for name in SECTIONS) + f"{MARK}end\n"


def test_a_real_shell_answers_about_this_machine() -> None:
    before = time.time()
    out = subprocess.run(shlex.split(probe_command(sys.executable)), capture_output=True, text=True, check=True)
    probe = parse_probe(out.stdout)
    assert probe.number("uid") == os.geteuid()
    assert probe.line("kernel") == os.uname().release
    assert Python(sys.executable, sys.version_info[:3]) == probe.pythons[0]
    assert probe.free_mb["/"] > 0
    evidence = evidence_of(probe, before, time.time())
    assert evidence.clock is not None
    assert abs(evidence.clock - before) < 60
    assert identity_of(probe, "node1", probe.pythons[0]).platform.pretty in Path("/etc/os-release").read_text()


def test_the_inventory_s_interpreter_is_data_and_not_script(tmp_path: Path) -> None:
    owned = tmp_path / "owned"
    command = probe_command(f"/x; touch {owned}; $(touch {owned})'")
    out = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    parse_probe(out.stdout)
    assert not owned.exists()


def test_a_greeting_is_ignored_and_half_an_answer_is_refused() -> None:
    text = answer(uid="0\n", kernel="6.1.0\n")
    assert parse_probe("Welcome!\nLast login: today\n" + text.replace("\n", "\r\n")).line("kernel") == "6.1.0"
    for broken in ("", "sudo: a password is required\n", text.partition(f"{MARK}os")[0], text.removesuffix(f"{MARK}end\n")):
        with pytest.raises(ProbeError):
            parse_probe(broken)


def test_a_node_s_text_cannot_pass_for_another_section() -> None:
    hostile = f"ID=debian\n{MARK}uid\n0\n{MARK}python\n3.13.0 /usr/bin/python3\n"
    probe = parse_probe(answer(uid="1000\n", os=hostile))
    assert probe.number("uid") == 1000
    assert probe.pythons == []


def test_sections_are_read_with_care() -> None:
    probe = parse_probe(answer(
        uid="root\n", clock="soon\n", free="Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/a 9 9 2048000 1% /\n/dev/b x\n",
        python="3.11.2 /usr/bin/python3\nerror\n3.x.1 /bin/p\n", init="systemd\n", synchronised="no\n",
        os='NAME="CentOS Stream"\nID="centos"\nVERSION_ID="9"\n',
    ))  # fmt: skip
    assert (probe.number("uid"), probe.number("clock")) == (None, None)
    assert probe.free_mb == {"/": 2000}
    assert probe.pythons == [Python("/usr/bin/python3", (3, 11, 2))]
    assert identity_of(probe, "n", None).platform.id == "centos-stream"
    assert identity_of(probe, "n", None).has("systemd")
    assert evidence_of(probe, 1.0, 2.0).synchronised is False


@pytest.mark.parametrize(("version", "core", "good"), [
    ((3, 6, 8), "2.16.14", True), ((3, 6, 8), "2.17.0", False), ((3, 6, 8), "2.19.4", False), ((3, 7, 3), "2.17.1", True),
    ((3, 7, 3), "2.18.0", False), ((3, 8, 10), "2.19.0b2", True), ((2, 7, 5), "2.16.14", False), ((3, 8, 10), "2.20.1", False),
    ((3, 8, 10), "2.21.5", False), ((3, 9, 2), "2.21.5", True), ((3, 9, 2), "2.22.0rc1", True), ((3, 8, 10), "2.23.0", False),
])  # fmt: skip
def test_which_python_a_core_takes(version: tuple[int, ...], core: str, good: bool) -> None:
    assert (fit(Python("/usr/bin/python3", version), core) is None) is good


def test_the_core_that_would_fit_is_named() -> None:
    text = fit(OLD, "2.19.4") or ""
    assert "Python 3.6.8 (/usr/libexec/platform-python)" in text
    assert "ansible-core 2.19.4 needs 3.8 to 3.13" in text
    assert "ansible-core 2.16 works with it" in text
    assert "No supported" in (fit(Python("/usr/bin/python", (2, 7, 5)), "2.19.4") or "")
    assert too_new(Python("/usr/bin/python3", (3, 14, 0)), "2.19.4") is not None
    assert too_new(NEW, "2.19.4") is None
    assert "ansible-core 2.16 or 2.19 works with it" in (fit(Python("/usr/bin/python3", (3, 8, 10)), "2.21.5") or "")


@pytest.mark.core
def test_pythons_are_those_that_the_installed_core_supports() -> None:
    """A core without a row fails here."""
    theirs = importlib.import_module("ansible_test._util.target.common.constants")
    pythons = [tuple(map(int, text.split("."))) for text in (*theirs.REMOTE_ONLY_PYTHON_VERSIONS, *theirs.CONTROLLER_PYTHON_VERSIONS)]
    of_3 = sorted(version for version in pythons if version >= (3, 0))
    assert CORE_PYTHONS[core_series(core_version)] == (of_3[0], of_3[-1])


def test_a_fitting_interpreter_is_chosen_unless_the_inventory_names_one() -> None:
    assert choose_python([OLD, NEW], "2.19.4", None) == NEW
    assert choose_python([OLD, NEW], "2.16.1", None) == OLD
    assert choose_python([OLD], "2.19.4", None) == OLD
    assert choose_python([OLD, NEW], "2.19.4", OLD.path) == OLD
    assert choose_python([NEW], "2.19.4", "/opt/python/bin/python3") is None
    assert choose_python([], "2.19.4", None) is None


@pytest.mark.parametrize("manager", ["apt", "dnf", "yum", "zypper"])
def test_each_package_manager_installs_python_without_asking(manager: str) -> None:
    commands = bootstrap_argv(manager, "python3")
    assert commands[-1][-1] == "python3"
    assert {"-y", "--non-interactive"} & set(commands[-1])
    line = command_line(commands)
    assert [shlex.split(part) for part in line.split(" && ")] == commands
    assert bootstrap_argv(manager, "python3") == commands  # the table itself is not appended to


def test_an_unknown_package_manager_has_no_command() -> None:
    assert bootstrap_argv("unknown", "python3") == []
    assert command_line([]) == ""
