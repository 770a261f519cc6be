# SPDX-License-Identifier: GPL-3.0-or-later
"""The rdma_preflight action as ansible-core calls it, with a node's recorded answer in place of a connection."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.railwright.rdma.plugins.action import rdma_preflight
from ansible_collections.railwright.rdma.plugins.plugin_utils.preflight import MARK, SECTIONS

pytestmark = pytest.mark.core
DEBIAN = 'ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'
GOOD = {
    "uid": "0\n", "kernel": "6.1.0-26-amd64\n", "arch": "x86_64\n", "synchronised": "yes\n", "init": "systemd\n", "os": DEBIAN,
    "free": "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda 9 9 9000000 1% /\n/dev/vda 9 9 9000000 1% /\n",
    "python": "3.11.2 /usr/bin/python3\n", "disks": "",
}  # fmt: skip
SITE = {"inventory_hostname": "node1", "rdma_fabric": "roce", "rdma_mtu": 9000}


class Preflight(rdma_preflight.ActionModule):
    """The action, with the node's answer recorded and the commands that it got kept."""

    def __init__(self, text: str, variables: dict[str, Any]) -> None:
        task = SimpleNamespace(args={}, async_val=0, check_mode=True, diff=False, action="railwright.rdma.rdma_preflight", environment=None)
        loader = DataLoader()
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir="/none"))
        super().__init__(task, connection, SimpleNamespace(), loader, Templar(loader, variables), None)
        self.text = text
        self.commands: list[str] = []

    def _low_level_execute_command(self, cmd: str, *arguments: Any, **options: Any) -> dict[str, Any]:
        self.commands.append(cmd)
        return {"rc": 0, "stdout": self.text, "stdout_lines": [], "stderr": "sudo: no"}


def run(sections: dict[str, str] | str, **variables: Any) -> dict[str, Any]:
    text = sections
    if isinstance(sections, dict):
        said = {"clock": f"{int(time.time())}\n", **GOOD, **sections}
        text = "".join(f"{MARK}{name}\n{said[name]}" for name in SECTIONS) + f"{MARK}end\n"
    assert isinstance(text, str)
    action = Preflight(text, {**SITE, **variables})
    result: dict[str, Any] = action.run(task_vars={**SITE, **variables})
    assert len(action.commands) == 1
    return result


def test_a_good_node_passes_with_its_facts() -> None:
    result = run({})
    assert not result.get("failed")
    assert result["changed"] is False
    assert (result["python_missing"], result["bootstrap_argv"], result["problems"]) == (False, [], [])
    assert result["python"] == "Python 3.11.2 (/usr/bin/python3)"
    assert (result["platform"]["id"], result["kernel"]) == ("debian", "6.1.0-26-amd64")


@pytest.mark.parametrize(("told", "interpreter", "set_to"), [
    ("3.11.2 /usr/bin/python3\n", None, "/usr/bin/python3"), ("3.11.2 /usr/bin/python3\n", "auto_silent", "/usr/bin/python3"),
    ("3.11.2 /usr/bin/python3\n", "/usr/bin/python3", None), ("3.11.2 /usr/bin/python3; reboot\n", None, None), ("", None, None)])
def test_the_interpreter_is_known_to_ansible_from_then_on(told: str, interpreter: str | None, set_to: str | None) -> None:
    """Unless the inventory names one; a path that a shell would read as more is left to Ansible."""
    result = run({"python": told}, **({"ansible_python_interpreter": interpreter} if interpreter else {}))
    assert result.get("ansible_facts") == ({"discovered_interpreter_python": set_to} if set_to else None)


def test_a_node_without_python_passes_with_the_command_that_brings_it() -> None:
    result = run({"python": ""}, preflight_python_package="python3.11")
    assert not result.get("failed")
    assert result["python_missing"] is True
    assert result["bootstrap_command"].endswith("install python3.11")
    assert result["bootstrap_argv"][0][:2] == ["apt-get", "-q"]


def test_every_finding_is_in_one_message() -> None:
    result = run({"uid": "1000\n", "python": "2.7.5 /usr/bin/python\n", "os": "ID=slackware\n", "clock": "1\n", "init": "runit\n"})
    assert result["failed"]
    for subject in ("system: slackware", "Python: ", "root: ", "systemd: ", "clock: "):
        assert subject in result["msg"]


def test_an_interpreter_of_the_operator_s_own_is_not_bootstrapped() -> None:
    result = run({}, ansible_python_interpreter="/opt/venv/bin/python")
    assert result["failed"]
    assert "ansible_python_interpreter is /opt/venv/bin/python" in result["msg"]
    assert not run({}, ansible_python_interpreter="auto_silent").get("failed")


def test_no_package_manager_no_python() -> None:
    assert "package manager" in run({"python": "", "os": "ID=slackware\n"})["msg"]


def test_an_answer_that_is_none_shows_what_came_instead() -> None:
    result = run("sudo: a password is required\n")
    assert result["failed"]
    assert "a password is required" in result["msg"]


def test_warnings_do_not_fail() -> None:
    result = run({"synchronised": "no\n", "python": "3.19.0 /usr/bin/python3\n"})
    assert not result.get("failed")
    assert len(result["warnings"]) == 2


def test_a_wrong_inventory_fails_before_the_node_is_contacted() -> None:
    action = Preflight("", {})
    with pytest.raises(AnsibleActionFail) as caught:
        action.run(task_vars={**SITE, "rdma_mtu": "big", "nccl_overides": {}})
    assert "rdma_mtu" in str(caught.value)
    assert "nccl_overides" in str(caught.value)
    assert action.commands == []
