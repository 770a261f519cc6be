# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook apply around a reboot: the collection's own playbook and tasks, ansible's own reboot, a node that is this machine.

A connection plugin plays the machine's part: ``shutdown`` gives it another boot id and nothing else. What the plans say is canned:
the stand-in of rdma_state answers from a list and writes down how it was asked.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = "ansible_collections/railwright/rdma"
KEY = "stack: kernel modules of doca in use"
LATER = "pci_tuning: MaxReadReq of rail0"

STATE = """#!/usr/bin/python
import json, os
from ansible.module_utils.basic import AnsibleModule
options = dict(mode=dict(), areas=dict(type="list"), expected=dict(type="list"), run_id=dict())
module = AnsibleModule(argument_spec=options, supports_check_mode=True)
with open(os.environ["CANNED"]) as stream:
    answers = json.load(stream)
with open(os.environ["CALLS"], "a") as stream:
    stream.write(json.dumps({key: module.params[key] for key in ("mode", "areas", "expected")}) + "\\n")
answer = answers.pop(0)
with open(os.environ["CANNED"], "w") as stream:
    json.dump(answers, stream)
module.exit_json(**answer)
"""
SIMPLE = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec=dict(plan=dict(type="dict"), registered=dict(type="str")), supports_check_mode=True)
module.exit_json(changed=False, python_missing=False)
"""
MACHINE = '''
import os, uuid
from ansible.plugins.connection.local import Connection as Local
DOCUMENTATION = """
name: machine
short_description: this machine, whose shutdown only changes its boot id
description: for a test
options: {}
"""
class Connection(Local):
    transport = "machine"
    def exec_command(self, cmd, in_data=None, sudoable=True):
        boot = os.environ["BOOT_ID"]
        if "shutdown" in cmd and "AnsiballZ" not in cmd:
            if os.environ.get("STUBBORN") != "1":
                with open(boot, "w") as stream:
                    stream.write(str(uuid.uuid4()))
            with open(os.environ["SHUTDOWNS"], "a") as stream:
                stream.write(cmd)
            return 0, b"", b""
        if "is-active multi-user.target" in cmd:
            return 0, b"active", b""
        return super().exec_command(cmd.replace("/proc/sys/kernel/random/boot_id", boot), in_data, sudoable)
'''


Done = subprocess.CompletedProcess[str]


def plan(*keys: str, reboot: tuple[str, ...] = ()) -> dict[str, Any]:
    changes = [
        {"key": key, "area": key.partition(": ")[0], "what": key.partition(": ")[2], "disruption": "reboot" if key in reboot else "none",
         "subject": {"kind": "setting", "name": ""}}
        for key in keys
    ]
    return {"plan": changes, "problems": [], "packages": {"steps": [], "needed": False}, "reboot_needed": list(reboot)}


class Run:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        target = directory / COLLECTION
        for name in ("rdma_preflight", "rdma_consent", "rdma_state"):
            path = target / "plugins" / "modules" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(STATE if name == "rdma_state" else SIMPLE)
        (target / "plugins" / "action").mkdir()
        real = [f"{kind}/{name}.py" for kind in ("action", "modules") for name in ("rdma_upgrade", "rdma_guarded")]
        for name in ("module_utils", "plugin_utils", *real):
            (target / "plugins" / name).symlink_to(ROOT / "plugins" / name)
        shutil.copytree(ROOT / "roles", target / "roles")
        (target / "playbooks").mkdir()
        shutil.copy(ROOT / "playbooks" / "apply.yml", target / "playbooks")
        (directory / "connection").mkdir()
        (directory / "connection" / "machine.py").write_text(MACHINE)
        (directory / "boot_id").write_text("first")

    def play(
        self, answers: list[dict[str, Any]], consent: list[str], *options: str, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        variables = {
            "ansible_connection": "machine",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            "rdma_consent": consent,
            "rdma_reboot_timeout_s": 30,
        }
        inventory = {"all": {"children": {"rdma": {"hosts": {"n1": variables}}}}}
        (self.directory / "hosts.yml").write_text(json.dumps(inventory))
        (self.directory / "canned").write_text(json.dumps(answers))
        (self.directory / "calls").write_text("")
        ansible = Path(sys.executable).parent / "ansible-playbook"
        names = {"CANNED": "canned", "CALLS": "calls", "BOOT_ID": "boot_id", "SHUTDOWNS": "shutdowns"}
        # The command is looked for on disk before the connection plugin answers in its place; this machine may have none.
        (self.directory / "sbin").mkdir(exist_ok=True)
        (self.directory / "sbin" / "shutdown").write_text("#!/bin/false\n")
        (self.directory / "sbin" / "shutdown").chmod(0o755)
        extra = json.dumps({"__rdma_stack_boot_id": f"{self.directory}/boot_id", "__rdma_stack_shutdown_paths": [f"{self.directory}/sbin"]})
        return subprocess.run(
            [str(ansible), "-i", "hosts.yml", "-e", extra, *options, "railwright.rdma.apply"],
            cwd=self.directory,
            env={"PATH": os.environ["PATH"], "HOME": str(self.directory), "ANSIBLE_COLLECTIONS_PATH": str(self.directory)}
            | {"ANSIBLE_CONNECTION_PLUGINS": str(self.directory / "connection"), "LANG": "C.UTF-8", "ANSIBLE_NOCOLOR": "1"}
            | {name: str(self.directory / file) for name, file in names.items()}
            | environment,
            text=True,
            capture_output=True,
            timeout=600,
            check=False,
        )

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.directory / "calls").read_text().splitlines()]

    @property
    def rebooted(self) -> bool:
        return (self.directory / "shutdowns").exists()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def said(done: Done) -> str:
    return " ".join((done.stdout + done.stderr).split())


def test_no_reboot_where_nothing_waits_for_one(run: Run) -> None:
    done = run.play([plan(LATER), plan(LATER)], ["reboot"])
    assert done.returncode == 0, done.stdout
    assert not run.rebooted
    assert [call["mode"] for call in run.calls] == ["plan", "apply"]


def test_without_consent_the_node_is_left_running_and_named(run: Run) -> None:
    done = run.play([plan(LATER), plan(LATER, reboot=(KEY,))], [])
    assert done.returncode == 0, done.stdout
    assert not run.rebooted
    assert f"n1 waits for a reboot ({KEY})" in said(done)


def test_after_the_reboot_the_rest_is_applied_and_nothing_else(run: Run) -> None:
    """What came to light has a plan and an apply of its own, which may do no more than that plan."""
    done = run.play([plan(KEY, reboot=(KEY,)), plan(KEY, reboot=(KEY,)), plan(LATER), plan(LATER)], ["reboot"])
    assert done.returncode == 0, done.stdout
    assert run.rebooted
    assert KEY in (run.directory / "shutdowns").read_text()
    assert [(call["mode"], call["expected"]) for call in run.calls] == [
        ("plan", None),
        ("apply", [KEY]),
        ("plan", None),
        ("apply", [LATER]),
    ]


def test_a_reboot_that_changed_nothing_fails_and_says_what_still_stands(run: Run) -> None:
    again = plan(KEY, reboot=(KEY,))
    done = run.play([again] * 4, ["reboot"])
    assert done.returncode == 2
    assert f"n1 has rebooted, and still not in effect is: {KEY}" in said(done)


def test_a_machine_that_did_not_go_down_is_not_taken_for_rebooted(run: Run) -> None:
    done = run.play([plan(KEY, reboot=(KEY,))] * 2, ["reboot"], STUBBORN="1")
    assert done.returncode == 2
    assert "Timed out waiting for last boot time check" in said(done)
    assert [call["mode"] for call in run.calls] == ["plan", "apply"]


def test_check_mode_reboots_nothing(run: Run) -> None:
    done = run.play([plan(KEY, reboot=(KEY,))] * 2, ["reboot"], "--check")
    assert done.returncode == 0, done.stdout
    assert not run.rebooted
