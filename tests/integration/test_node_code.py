# SPDX-License-Identifier: GPL-3.0-or-later
"""The code of inspections from a real apply to a read that is sent none: action plugin, module, transaction and entry/boot.py are real.

This machine is the node (tests/lib/quiet_machine.py), with places of its own for what is written.
"""

import json
import os
import sys
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.system.node_code import DIRECTORY
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_code import boot_text, code_digest
from quiet_machine import run_there
from repo import ROOT

from .test_plain_plays import PLAYBOOK

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces of its own")
PLAY = """
- hosts: rdma
  gather_facts: false
  tasks:
    - name: First
      railwright.rdma.rdma_state: {mode: plan, areas: [node_code]}
      register: first
    - name: Apply
      railwright.rdma.rdma_state: {mode: apply, areas: [node_code], expected: "{{ first.plan | map(attribute='key') | list }}"}
    - name: Then
      railwright.rdma.rdma_state: {mode: plan, areas: [node_code]}
      register: then
    - name: Numbers
      ansible.builtin.debug: {msg: "planned {{ first.plan | length }}, left {{ then.plan | length }}"}
"""
ASK = 'exec "$0" -I -c "$1" word "$2" < question'


def test_a_read_after_an_apply_is_sent_no_code(tmp_path: Path) -> None:
    own = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    site = {"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_rails": []}
    inventory = {"rdma": {"hosts": {"n1": own}, "vars": site}}
    (tmp_path / "hosts.yml").write_text(json.dumps(inventory))
    (tmp_path / "play.yml").write_text(PLAY)
    parts = b"{}", json.dumps({"module": "rdma_facts", "given": {}, "derived": {}}).encode()
    (tmp_path / "question").write_bytes(b"0 %d %d\n" % tuple(map(len, parts)) + b"".join(parts))
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8", "ANSIBLE_NOCOLOR": "1",
                   "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".dev")}
    argvs = (
        ("sh", "-c", "for place in /usr/local /var/lib; do mount -t tmpfs none $place; done"),
        (PLAYBOOK, "-i", "hosts.yml", "play.yml"),
        ("sh", "-c", ASK, sys.executable, boot_text(), f"{DIRECTORY}/{code_digest()}"),
    )
    *_before, play, read = run_there(tmp_path, [{"argv": argv, "env": environment, "cwd": str(tmp_path)} for argv in argvs])
    assert (play.code, "planned 1, left 0" in play.output) == (0, True), play.output
    assert (read.code, read.output.startswith("\n#railwright word have\n")) == (0, True), read.output
    assert '"rdma": {' in read.output
