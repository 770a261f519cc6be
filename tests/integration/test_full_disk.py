# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes whose disk takes nothing more: each is failed with that reason, and none is unreachable.

This machine is every node (tests/lib/quiet_machine.py); each command runs in a mount namespace with that node's own real file systems.
Playbooks, action plugins and modules are real.
"""

import json
import os
import re
import sys

import pytest

from quiet_machine import Said, run_there
from repo import ROOT

from .test_plain_plays import PLAYBOOK

FILL = "mount -t tmpfs -o size=1m tmpfs {0} && head -c 1M /dev/zero > {0}/filler"  # never into a directory of this machine
# Of each node: what is done to its file systems, its own variables, and what is said of it.
NODES = {
    "full": (FILL.format("/var/lib"), {}, "/var/lib is full (0 of 1 MiB free)"),
    "fixed": ("mount --bind /etc /etc\nmount -o remount,bind,ro /etc", {}, "/etc is mounted read-only"),
    # Python looks in its working directory too.
    "python": ("\n".join(FILL.format(place) for place in ("/tmp", "/var/tmp")) + "\ncd /var/tmp", {},
               "/tmp is full (0 of 1 MiB free)"),
    "file": ("mount -t tmpfs -o ro tmpfs /mnt", {"ansible_pipelining": False, "ansible_remote_tmp": "/mnt/tmp"},
             "the node's disk is full or read-only: mkdir: cannot create directory"),
}
PLAYS = ("drift", "plan", "apply", "facts", "validate")
DISKS = f'''
import shlex
from ansible.plugins.connection.local import Connection as Local
DOCUMENTATION = """
name: disks
short_description: this machine with other file systems
description: for a test
options: {{}}
extends_documentation_fragment: [connection_pipelining]
"""
SETUP = {({name: setup for name, (setup, _variables, _text) in NODES.items()})!r}
class Connection(Local):
    transport = "disks"
    def exec_command(self, cmd, in_data=None, sudoable=True):
        own = SETUP[self._play_context.remote_addr]
        return super().exec_command(shlex.join(["unshare", "--mount", "/bin/sh", "-c", own + "\\n" + cmd]), in_data, sudoable)
'''

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces of its own"), pytest.mark.slow,
    pytest.mark.xdist_group("full disk"),  # the same plays answer all of them
]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    directory = tmp_path_factory.mktemp("disks")
    common = {"ansible_connection": "disks", "ansible_become": False, "ansible_python_interpreter": sys.executable, "rdma_fabric": "roce",
              "rdma_mtu": 9000, "rdma_rails": []}
    hosts = {name: {**common, **variables} for name, (_setup, variables, _text) in NODES.items()}
    (directory / "hosts.yml").write_text(json.dumps({"all": {"children": {"rdma": {"hosts": hosts}}}}))
    (directory / "disks.py").write_text(DISKS)
    plays = PLAYS
    environment = {"HOME": str(directory), "LANG": "C.UTF-8", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".dev"),
                   "ANSIBLE_CONNECTION_PLUGINS": str(directory)}
    commands = [{"argv": [PLAYBOOK, "-i", "hosts.yml", f"railwright.rdma.{play}"], "cwd": str(directory), "env": environment}
                for play in plays]
    return dict(zip(plays, run_there(directory, commands), strict=True))


@pytest.mark.parametrize("play", PLAYS)
@pytest.mark.parametrize("node", sorted(NODES))
def test_the_node_is_failed_with_the_reason(told: dict[str, Said], play: str, node: str) -> None:
    output = told[play].output
    assert re.search(rf"^{node} +: .* changed=0 +unreachable=0 +failed=1 ", output, re.MULTILINE), output
    failed = re.search(rf"^fatal: \[{node}\]: FAILED! => (.*)", output, re.MULTILINE)
    assert failed, output
    assert json.loads(failed[1])["msg"].startswith(NODES[node][2])
