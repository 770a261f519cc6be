# SPDX-License-Identifier: GPL-3.0-or-later
"""How often a play asks a node: each command and each file over the node's connection, interpreter discovery included.

This machine is the node (tests/lib/quiet_machine.py); playbooks, action plugins and modules are real. Only the plan of rdma_state is the
test's: it is empty, as on a node that has everything.
"""

import json
import os
import shutil

import pytest
from ansible.release import __version__ as core_version

from quiet_machine import run_there
from repo import ROOT

from .test_plain_plays import PLAYBOOK

COLLECTION = "ansible_collections/railwright/rdma"
CONVERGED = """#!/usr/bin/python
from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import STATE
packages = {"manager": "apt", "steps": [], "needed": False, "downloads": []}
serve(STATE, lambda host, params, dry: {"plan": [], "problems": [], "before": {}, "after": {}, "notes": [], "packages": packages,
                                        "reboot_needed": [], "left": [], "remaining": [], "restore_point": "", "erdma": None})
"""
DISCOVERY = 2 if core_version.startswith("2.16.") else 1  # where no preflight has found the interpreter
# Trips of a play before an inspection was one (commit 79253836 with ansible-core 2.19: a home directory asked for, a directory made, the
# interpreter looked for, the module copied, made executable, run and removed), and now.
TRIPS = {"apply": (8, 2), "plan": (8, 2), "facts": (7, 1 + DISCOVERY), "drift": (1 + DISCOVERY, 1 + DISCOVERY)}
COUNTED = '''
import os
from ansible.plugins.connection.local import Connection as Local
DOCUMENTATION = """
name: counted
short_description: this machine, counting what it is asked
description: for a test
options: {}
extends_documentation_fragment: [connection_pipelining]
"""
class Connection(Local):
    transport = "counted"
    def note(self, what):
        with open(os.environ["ASKED"], "a") as stream:
            stream.write(what.replace("\\n", " ")[:200] + "\\n")
    def exec_command(self, cmd, in_data=None, sudoable=True):
        self.note("command " + cmd)
        return super().exec_command(cmd, in_data, sudoable)
    def put_file(self, in_path, out_path):
        self.note("file " + out_path)
        return super().put_file(in_path, out_path)
'''

pytestmark = [
    pytest.mark.core, pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces of its own"),
    pytest.mark.xdist_group("round trips"),  # one drift, plan and apply answer all of them
]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each playbook asked the node."""
    directory = tmp_path_factory.mktemp("trips")
    target = directory / COLLECTION
    shutil.copytree(ROOT / "plugins" / "modules", target / "plugins" / "modules")
    (target / "plugins" / "modules" / "rdma_state.py").write_text(CONVERGED)
    for name in ("action", "doc_fragments", "module_utils", "plugin_utils"):
        (target / "plugins" / name).symlink_to(ROOT / "plugins" / name)
    for name in ("playbooks", "roles", "meta"):
        (target / name).symlink_to(ROOT / name)
    (directory / "counted.py").write_text(COUNTED)
    node = {"ansible_connection": "counted", "ansible_become": False, "rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_rails": []}
    (directory / "hosts.yml").write_text(json.dumps({"all": {"children": {"rdma": {"hosts": {"n1": node}}}}}))
    plays = ("apply", "plan", "drift", "facts")
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(directory), "LANG": "C.UTF-8", "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_COLLECTIONS_PATH": str(directory), "ANSIBLE_CONNECTION_PLUGINS": str(directory),
    }  # fmt: skip
    commands = [{"argv": [PLAYBOOK, "-i", "hosts.yml", f"railwright.rdma.{play}"], "cwd": str(directory),
                 "env": {**environment, "ASKED": str(directory / play)}} for play in plays]
    ended = dict(zip(plays, run_there(directory, commands), strict=True))
    assert {play: said.code for play, said in ended.items()} == dict.fromkeys(plays, 0), "".join(said.output for said in ended.values())
    return {play: (directory / play).read_text().splitlines() for play in plays}


@pytest.mark.parametrize("play", sorted(TRIPS))
def test_a_play_asks_no_more_than_it_needs(asked: dict[str, list[str]], play: str) -> None:
    before, now = TRIPS[play]
    assert len(asked[play]) == now, "\n".join(asked[play])
    assert now <= before


def test_an_apply_that_has_nothing_to_do_makes_three_trips_at_most(asked: dict[str, list[str]]) -> None:
    assert len(asked["apply"]) <= 3
    assert "#railwright:uid" in asked["apply"][0], "the preflight, which finds the interpreter too"
