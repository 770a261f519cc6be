# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook remediate over nodes that are all this machine: the collection's own play, tasks and action plugins.

Stood in for are the modules that would inspect or change a node. A node is a file: its findings, what an apply there fails on or brings
to light, and whether it goes away after one. rdma_check says what is in it, rdma_state makes what it is asked for and nothing else.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from upgrade_site import COLLECTION, MACHINE, PREFLIGHT, ROOT, Done

BEGIN = """#!/usr/bin/python
import json, os
from ansible.module_utils.basic import AnsibleModule
own = os.path.join(os.environ["NODES"], os.environ["NODE"])
with open(own + ".json") as stream:
    node = json.load(stream)
def called(text):
    with open(own + ".calls", "a") as stream:
        stream.write(text + "\\n")
def keep():
    with open(own + ".json", "w") as stream:
        json.dump(node, stream)
"""
DRIFT = BEGIN + """
module = AnsibleModule(argument_spec=dict(mode=dict()), supports_check_mode=True)
called("inspect")
module.exit_json(changed=False, findings=node["findings"])
"""
STATE = BEGIN + """
options = dict(mode=dict(), areas=dict(type="list"), expected=dict(type="list"), run_id=dict(), only=dict(type="list"),
               consented_only=dict(type="bool"))
module = AnsibleModule(argument_spec=options, supports_check_mode=True)
mode, only = module.params["mode"], module.params["only"]
plan = [dict(item, subject=dict(kind="setting", name="")) for item in node["findings"] if item["kind"] == "setting" and item["key"] in only]
left = [dict(item, cause="needs", reason="needs x first") for item in plan if item["key"] in node.get("held", [])]
plan = [item for item in plan if item["key"] not in node.get("held", [])]
called("%s %s %s" % (mode, module.params["consented_only"], ",".join(item["key"] for item in plan)))
answer = dict(plan=plan, left=left, only=[item["key"] for item in plan], problems=[], packages=dict(needed=False, steps=[]))
if mode == "apply" and not module.check_mode:
    stuck = [item["key"] for item in plan if item["key"] in node.get("stuck", [])]
    if stuck:
        module.fail_json(msg="%s: write: Device or resource busy. Everything was rolled back; the node is as it was." % stuck[0])
    keys = [item["key"] for item in plan]
    new = [item for key in keys for item in node.get("brings", {}).get(key, [])]
    node["findings"] = [item for item in node["findings"] if item["key"] not in keys] + new
    keep()
    if node.get("dies"):
        open(own + ".away", "w").close()
module.exit_json(changed=mode == "apply" and bool(plan), confirm={}, **answer)
"""


class Site:
    """Nodes by name, each with what its file says."""

    def __init__(self, directory: Path, **nodes: dict[str, Any]) -> None:
        self.directory, self.nodes = directory, nodes
        target = directory / COLLECTION
        for name in ("plugins/modules", "plugins/action", "playbooks"):
            (target / name).mkdir(parents=True)
        for name in ("module_utils", "plugin_utils"):
            (target / "plugins" / name).symlink_to(ROOT / "plugins" / name)
        for name in ("rdma_consent", "rdma_guarded"):
            shutil.copy(ROOT / "plugins" / "action" / f"{name}.py", target / "plugins" / "action")
        stand_ins = {"rdma_state": STATE, "rdma_check": DRIFT, "rdma_preflight": PREFLIGHT}
        for module in (ROOT / "plugins" / "modules").glob("rdma_*.py"):
            (target / "plugins" / "modules" / module.name).write_text(stand_ins.get(module.stem, module.read_text()))
        shutil.copytree(ROOT / "roles" / "rdma_stack", target / "roles" / "rdma_stack")
        shutil.copy(ROOT / "playbooks" / "remediate.yml", target / "playbooks")
        (directory / "connection").mkdir()
        (directory / "connection" / "machine.py").write_text(MACHINE)
        (directory / "nodes").mkdir()
        for name, node in nodes.items():
            (directory / "nodes" / f"{name}.json").write_text(json.dumps({"findings": [], **node}))

    def play(self, *options: str, consent: tuple[str, ...] = (), **extra: Any) -> Done:
        common = {"ansible_connection": "machine", "ansible_become": False, "ansible_python_interpreter": sys.executable,
                  "rdma_consent": list(consent)}
        inventory = {"all": {"children": {"rdma": {"hosts": dict.fromkeys(self.nodes, common)}}}}
        (self.directory / "hosts.yml").write_text(json.dumps(inventory))
        ansible = Path(sys.executable).parent / "ansible-playbook"
        return subprocess.run(
            [str(ansible), "-i", "hosts.yml", "-e", json.dumps(extra), *options, "railwright.rdma.remediate"],
            cwd=self.directory,
            env={
                "PATH": os.environ["PATH"], "HOME": str(self.directory), "ANSIBLE_COLLECTIONS_PATH": str(self.directory), "LANG": "C.UTF-8",
                "ANSIBLE_CONNECTION_PLUGINS": str(self.directory / "connection"), "ANSIBLE_NOCOLOR": "1", "SWALLOWED": "",
                "NODES": str(self.directory / "nodes"), "NODE": "controller", "COLUMNS": "1000",
            },
            text=True, capture_output=True, timeout=600, check=False,
        )

    def calls(self, node: str) -> list[str]:
        place = self.directory / "nodes" / f"{node}.calls"
        return place.read_text().splitlines() if place.exists() else []

    def left(self, node: str) -> list[str]:
        """The keys of what is still there."""
        return [item["key"] for item in json.loads((self.directory / "nodes" / f"{node}.json").read_text())["findings"]]
