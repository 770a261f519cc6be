# SPDX-License-Identifier: GPL-3.0-or-later
"""`railwright upgrade` over the real playbooks, run by the real ansible-playbook: the journal, a SIGKILL, and what resumes.

What the plans say is canned (tests/lib/upgrade_site.py); command line, engine, plays, role, lease and the drain without a scheduler are
the real ones.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from upgrade_site import Site, plan

pytestmark = pytest.mark.slow

PIN = "packages: package rdma-core"
STACK = "stack: kernel modules of doca in use"
RELEASE = 'name: "2026-11"\npins:\n  rdma_stack_pins: {rdma-core: "52.0-1"}\n'
NODES = ("n1", "n2", "n3")


class Upgrades:
    """The command line on a site of three nodes."""

    def __init__(self, directory: Path, **variables: Any) -> None:
        self.site = Site(directory, **{name: {} for name in NODES})
        self.directory = directory
        for number, name in enumerate(NODES, start=1):
            self.site.nodes[name] = {
                "ansible_connection": "machine",
                "ansible_become": False,
                "ansible_python_interpreter": sys.executable,
                "rdma_rails": [{"name": "rail0", "match": {"mac": f"52:54:00:aa:bb:0{number}"}, "address": f"198.51.100.{number}/24"}],
            }
        common = {"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_reboot_timeout_s": 30, "upgrade_gate": "none", **variables}
        rdma = {"hosts": self.site.nodes, "vars": common}
        (directory / "inv").mkdir()
        (directory / "inv" / "hosts.yml").write_text(json.dumps({"all": {"children": {"rdma": rdma}}}))
        (directory / "release.yml").write_text(RELEASE)
        inner = directory / "ansible_collections/railwright/rdma/roles/rdma_stack/vars/main.yml"
        lines = [
            line
            for line in inner.read_text().splitlines()
            if not line.startswith(("__rdma_stack_boot_id:", "__rdma_stack_shutdown_paths:"))
        ]
        lines.append(f'__rdma_stack_boot_id: "{directory}/nodes/{{{{ inventory_hostname }}}}.boot"')
        lines.append(f'__rdma_stack_shutdown_paths: ["{directory}/sbin"]')
        inner.write_text("\n".join(lines) + "\n")

    def start(self, *arguments: str, swallowed: str = "") -> subprocess.Popen[str]:
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.directory),
            "XDG_STATE_HOME": str(self.directory / "state"),
            "ANSIBLE_COLLECTIONS_PATH": str(self.directory),
            "ANSIBLE_CONNECTION_PLUGINS": str(self.directory / "connection"),
            "LANG": "C.UTF-8",
            "NODES": str(self.directory / "nodes"),
            "NODE": "controller",
            "SWALLOWED": swallowed,
        }
        return subprocess.Popen(
            [sys.executable, "-m", "railwright", "upgrade", "-i", "inv", "--yes", *arguments],
            cwd=self.directory,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, *arguments: str, swallowed: str = "") -> tuple[int, str, str]:
        process = self.start(*arguments, swallowed=swallowed)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def journal(self) -> list[dict[str, Any]]:
        found = sorted((self.directory / "state/railwright/upgrades").glob("*/journal.jsonl"))
        lines = found[-1].read_text().splitlines(keepends=True) if found else []
        return [json.loads(line) for line in lines if line.endswith("\n")]


def test_killed_while_a_node_changes_and_resumed(tmp_path: Path) -> None:
    """n1 has the set already. The controller dies when n2 has begun to change; n3 waits."""
    upgrades = Upgrades(tmp_path)
    upgrades.site.answer("n1", plan())
    upgrades.site.answer("n2", plan(PIN), plan(PIN), plan(PIN), plan(), plan())
    upgrades.site.answer("n3", plan(PIN), plan(PIN), plan(PIN), plan())
    process = upgrades.start("--to", "release.yml")
    begun = {"kind": "begin", "node": "n2", "step": "change"}
    for _second in range(600):
        if any(begun.items() <= record.items() for record in upgrades.journal()):
            break
        assert process.poll() is None, process.communicate()
        time.sleep(0.2)
    else:
        raise AssertionError(upgrades.journal())
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert upgrades.site.lease("n2") is not None

    code, out, err = upgrades.run("--status", "--format", "json")
    assert code == 0, err
    states = {name: node["state"] for name, node in json.loads(out)["nodes"].items()}
    assert states == {"n1": "done", "n2": "changing", "n3": "waiting"}

    calls = len(upgrades.site.calls("n2"))
    left = 5 - calls
    upgrades.site.answer("n2", *([plan(PIN), plan(PIN), plan()] if left > 3 else [plan()] * 3))
    code, out, err = upgrades.run("--resume", "--format", "json")
    assert code == 0, out + err
    found = json.loads(out)
    assert {name: node["state"] for name, node in found["nodes"].items()} == dict.fromkeys(NODES, "done")
    assert found["batches"] == [["n2"], ["n3"]]
    assert [upgrades.site.lease(name) for name in NODES] == [None, None, None]
    assert len(upgrades.site.calls("n1")) == 1, "n1 was inspected, and nothing else"
    drains = [record["node"] for record in upgrades.journal() if record["kind"] == "begin" and record["step"] == "drain"]
    assert drains == ["n2", "n3"]


def test_a_node_that_does_not_come_back_and_a_lease_of_another_controller(tmp_path: Path) -> None:
    upgrades = Upgrades(tmp_path, rdma_consent=["reboot"])
    upgrades.site.answer("n1", *[plan(STACK, reboot=(STACK,))] * 3)
    for name in ("n2", "n3"):
        upgrades.site.answer(name, plan(PIN))
    code, out, err = upgrades.run("--to", "release.yml", swallowed="n1")
    assert code == 3, out + err
    assert "n1 did not come back from its reboot within 30 s" in out
    assert "railwright upgrade -i " in out
    assert [len(upgrades.site.calls(name)) for name in ("n2", "n3")] == [1, 1], "nobody else was begun with"

    upgrades.site.own("n1", "away").unlink()
    upgrades.site.answer("n2", plan(PIN), plan(PIN), plan())
    upgrades.site.answer("n3")
    upgrades.site.answer("n1", plan(), plan())
    lease = json.loads(upgrades.site.own("n3", "lease").read_text())
    upgrades.site.own("n3", "lease").write_text(json.dumps({**lease, "run": "20261121T170000Z-upgrade", "controller": "head2"}))
    code, out, err = upgrades.run("--resume", "--format", "json")
    assert code == 1, out + err
    found = json.loads(out)
    assert {name: node["state"] for name, node in found["nodes"].items()} == {"n1": "done", "n2": "waiting", "n3": "waiting"}
    assert "nothing begins: n3: the node is being upgraded by run 20261121T170000Z-upgrade" in found["stopped"]
    assert [len(upgrades.site.calls(name)) for name in ("n2", "n3")] == [0, 0], "n1 came back to its jobs, and nobody was begun with"
