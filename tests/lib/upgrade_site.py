# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks of an upgrade over nodes that are all this machine: the collection's own plays, role, action plugins, lease and drain.

Stood in for are the modules that would inspect or change a node: rdma_state answers from a list for each node and writes down how it
was asked; the others always find everything well. A connection plugin plays the machine's part: ``shutdown`` gives a node another boot
id, or swallows it. The lease lies in a directory of the test.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = "ansible_collections/railwright/rdma"
Done = subprocess.CompletedProcess[str]

STATE = """#!/usr/bin/python
import json, os
from ansible.module_utils.basic import AnsibleModule
options = dict(mode=dict(), areas=dict(type="list"), expected=dict(type="list"), run_id=dict(), only=dict(type="list"))
module = AnsibleModule(argument_spec=options, supports_check_mode=True)
own = os.path.join(os.environ["NODES"], os.environ["NODE"])
with open(own + ".calls", "a") as stream:
    stream.write(json.dumps({key: module.params[key] for key in ("mode", "areas", "expected", "run_id")}) + "\\n")
with open(own + ".answers") as stream:
    answers = json.load(stream)
answer = answers.pop(0)
with open(own + ".answers", "w") as stream:
    json.dump(answers, stream)
module.exit_json(**answer)
"""
PREFLIGHT = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
AnsibleModule(argument_spec={}, supports_check_mode=True).exit_json(changed=False, python_missing=False)
"""
PACKAGES = """#!/usr/bin/python
import os
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec=dict(plan=dict(type="dict"), download=dict(type="bool")), supports_check_mode=True)
with open(os.path.join(os.environ["NODES"], os.environ["NODE"]) + ".proofs", "a") as stream:
    stream.write("%s\\n" % ("downloaded" if module.params["download"] else "looked"))
row = {"name": "rdma-core", "from": "52.0-1", "to": "53.0-1", "origin": "test"}
module.exit_json(changed=False, steps=[], later=False, resolved=[row])
"""
# The real body, with its files below the test's directory, and with nobody else on this machine's package manager.
UPGRADE = """#!/usr/bin/python
import os
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railwright.rdma.plugins.module_utils.entry import upgrade as upgrade_module
from ansible_collections.railwright.rdma.plugins.module_utils.entry.response import respond
own = os.path.join(os.environ["NODES"], os.environ["NODE"])
upgrade_module.PATH = own + ".lease"
upgrade_module.LOCK = own + ".lock"
upgrade_module.lock_holder = lambda host, manager: None
options = dict(mode=dict(), run=dict(), take_over=dict(type="bool"), step=dict(), filled=dict(type="dict"))
respond(AnsibleModule(argument_spec=options, supports_check_mode=True), upgrade_module.answer)
"""
MACHINE = '''
import os, uuid
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection as Local
DOCUMENTATION = """
name: machine
short_description: this machine, as one of several nodes
description: for a test
options: {}
"""
class Connection(Local):
    transport = "machine"
    def reset(self):
        pass
    def exec_command(self, cmd, in_data=None, sudoable=True):
        node = self._play_context.remote_addr
        own = os.path.join(os.environ["NODES"], node)
        if os.path.exists(own + ".away"):
            raise AnsibleConnectionFailure("Failed to connect to the host via ssh: No route to host")
        if "shutdown" in cmd and "AnsiballZ" not in cmd:
            if node in os.environ["SWALLOWED"].split(","):
                open(own + ".away", "w").close()
            with open(own + ".boot", "w") as stream:
                stream.write(str(uuid.uuid4()))
            with open(own + ".shutdowns", "a") as stream:
                stream.write(cmd + "\\n")
            return 0, b"", b""
        if "is-active multi-user.target" in cmd:
            return 0, b"active", b""
        cmd = cmd.replace("/proc/sys/kernel/random/boot_id", own + ".boot")
        return super().exec_command("NODE=%s %s" % (node, cmd), in_data, sudoable)
'''
# What the role validate does at its end: it fails the nodes that did not pass.
VALIDATE = """
- name: Judge
  ansible.builtin.assert:
    that: not sick | default(false)
    fail_msg: "{{ inventory_hostname }}: 1 verdict of {{ __upgrade_together | default(ansible_play_hosts_all) | join('+') }} failed"
"""


class Site:
    """Its nodes n1, n2 … and what they answer."""

    def __init__(self, directory: Path, **nodes: dict[str, Any]) -> None:
        self.directory = directory
        self.nodes = nodes
        target = directory / COLLECTION
        (target / "plugins" / "modules").mkdir(parents=True)
        (target / "plugins" / "action").mkdir()
        (target / "playbooks").mkdir()
        for name in ("module_utils", "plugin_utils"):
            (target / "plugins" / name).symlink_to(ROOT / "plugins" / name)
        for name in ("rdma_upgrade", "rdma_consent", "rdma_drain", "rdma_guarded"):
            shutil.copy(ROOT / "plugins" / "action" / f"{name}.py", target / "plugins" / "action")
        stand_ins = {"rdma_state": STATE, "rdma_preflight": PREFLIGHT, "rdma_upgrade": UPGRADE, "rdma_packages": PACKAGES}
        for module in (ROOT / "plugins" / "modules").glob("rdma_*.py"):
            text = stand_ins.get(module.stem, module.read_text())  # an include wants to find all that its file names
            (target / "plugins" / "modules" / module.name).write_text(text)
        for name in ("upgrade", "rdma_stack"):
            shutil.copytree(ROOT / "roles" / name, target / "roles" / name)
        (target / "roles" / "validate" / "tasks").mkdir(parents=True)
        (target / "roles" / "validate" / "tasks" / "main.yml").write_text(VALIDATE)
        for name in ("upgrade", "upgrade_preflight", "upgrade_step"):
            shutil.copy(ROOT / "playbooks" / f"{name}.yml", target / "playbooks")
        (directory / "connection").mkdir()
        (directory / "connection" / "machine.py").write_text(MACHINE)
        (directory / "nodes").mkdir()
        # The command is looked for on disk before the connection plugin answers in its place; this machine may have none.
        (directory / "sbin").mkdir()
        (directory / "sbin" / "shutdown").write_text("#!/bin/false\n")
        (directory / "sbin" / "shutdown").chmod(0o755)
        for name in nodes:
            self.own(name, "boot").write_text("first")

    def own(self, node: str, kind: str) -> Path:
        return self.directory / "nodes" / f"{node}.{kind}"

    def answer(self, node: str, *answers: dict[str, Any]) -> None:
        """What rdma_state says next on a node, call by call."""
        self.own(node, "answers").write_text(json.dumps(answers))
        self.own(node, "calls").write_text("")

    def play(self, playbook: str, *options: str, swallowed: str = "", **extra: Any) -> Done:
        common = {"ansible_connection": "machine", "ansible_become": False, "ansible_python_interpreter": sys.executable}
        hosts = {name: {**common, "rdma_reboot_timeout_s": 30, **variables} for name, variables in self.nodes.items()}
        (self.directory / "hosts.yml").write_text(json.dumps({"all": {"children": {"rdma": {"hosts": hosts}}}}))
        boot = f"{self.directory}/nodes/{{{{ inventory_hostname }}}}.boot"
        inner = {"__rdma_stack_boot_id": boot, "__rdma_stack_shutdown_paths": [f"{self.directory}/sbin"]}
        ansible = Path(sys.executable).parent / "ansible-playbook"
        return subprocess.run(
            [str(ansible), "-i", "hosts.yml", "-e", json.dumps({**inner, **extra}), *options, f"railwright.rdma.{playbook}"],
            cwd=self.directory,
            env={
                "PATH": os.environ["PATH"], "HOME": str(self.directory), "ANSIBLE_COLLECTIONS_PATH": str(self.directory), "LANG": "C.UTF-8",
                "ANSIBLE_CONNECTION_PLUGINS": str(self.directory / "connection"), "ANSIBLE_NOCOLOR": "1", "SWALLOWED": swallowed,
                "NODES": str(self.directory / "nodes"), "NODE": "controller",
            },
            text=True, capture_output=True, timeout=600, check=False,
        )

    def calls(self, node: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.own(node, "calls").read_text().splitlines()]

    def lease(self, node: str) -> dict[str, Any] | None:
        place = self.own(node, "lease")
        return json.loads(place.read_text()) if place.exists() else None

    def proofs(self, node: str) -> list[str]:
        place = self.own(node, "proofs")
        return place.read_text().split() if place.exists() else []

    def reboots(self, node: str) -> int:
        place = self.own(node, "shutdowns")
        return len(place.read_text().splitlines()) if place.exists() else 0


def plan(
    *keys: str, reboot: tuple[str, ...] = (), problems: tuple[str, ...] = (), packages: bool = False, brought: tuple[str, ...] = ()
) -> dict[str, Any]:
    """What rdma_state answers, as far as the plays read it. ``packages``: some change; ``brought``: what a proof must download."""
    rows = [{"url": url, "dest": "/var/cache/railwright/keys/doca", "checksum": ""} for url in brought]
    changes = [
        {"key": key, "area": key.partition(": ")[0], "what": key.partition(": ")[2], "disruption": "reboot" if key in reboot else "none",
         "before": "old", "after": "new", "subject": {"kind": "setting", "name": ""}}
        for key in keys
    ]  # fmt: skip
    return {
        "plan": changes, "reboot_needed": list(reboot),
        "packages": {"manager": "apt", "steps": [], "needed": packages, "downloads": rows},
        "problems": [{"area": "stack", "subject": "kernel", "message": text} for text in problems], "drivers": {"kernel": "6.1"},
    }


def said(done: Done) -> str:
    return " ".join((done.stdout + done.stderr).split())
