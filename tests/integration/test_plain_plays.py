# SPDX-License-Identifier: GPL-3.0-or-later
"""What plain ansible-playbook shows of a node: the playbooks facts, plan and drift, and rdma_state in a play of somebody else.

This machine is the node (tests/lib/quiet_machine.py); modules, action plugins and what Ansible prints are real. Nothing is changed.
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from quiet_machine import Said, run_there

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = str(Path(sys.executable).parent / "ansible-playbook")
FASTOPEN_KEY = "01234567-89abcdef-01234567-89abcdef"
BACKLOG = Path("/proc/sys/net/core/somaxconn")
KEY = "sysctl: sysctl net.core.somaxconn"
THEIRS = """
- hosts: rdma
  gather_facts: false
  module_defaults:
    group/railwright.rdma.rdma:
      areas: [sysctl]
  tasks:
    - name: Ask what this node needs
      railwright.rdma.rdma_state:
        mode: plan
      register: needs
      notify: Told

    - name: Show it
      ansible.builtin.debug:
        var: needs.summary
  handlers:
    - name: Told
      ansible.builtin.debug:
        msg: somebody was notified
"""

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces of its own"),
    pytest.mark.xdist_group("plain plays"),  # the same plays answer all of them
]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    """Every run of this file, in one machine."""
    directory = tmp_path_factory.mktemp("plain")
    node = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "rdma_fabric": "roce", "rdma_mtu": 9000,
            "rdma_rails": [{"name": "rail0", "match": {"mac": "52:54:00:aa:bb:01"}, "address": "10.10.0.1/24"}],
            "host_tuning_sysctls": {"net.ipv4.tcp_fastopen_key": FASTOPEN_KEY, "net.core.somaxconn": 34567}}
    (directory / "hosts.yml").write_text(json.dumps({"all": {"children": {"rdma": {"hosts": {"n1": node, "n2": node}}}}}))
    (directory / "theirs.yml").write_text(THEIRS)

    def command(*argv: str) -> dict[str, Any]:
        return {"argv": [PLAYBOOK, "-i", "hosts.yml", *argv], "cwd": str(directory), "env": {
            "HOME": str(directory), "LANG": "C.UTF-8", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".dev")}}

    last, nowhere = "railwright.rdma.final_play", "rdma_site_bench=true nccl_tests_install=prebuilt nccl_tests_path=/nowhere"
    runs = {
        "final": command(last), "final off": command(last, "--extra-vars", "rdma_site_bench=false"),
        "final on": command(last, "--extra-vars", f"{nowhere} rdma_job_user_root=accept"),
        "final root": command(last, "--extra-vars", "ansible_user=root"),
        "facts": command("railwright.rdma.facts"), "drift": command("railwright.rdma.drift"),
        "drift --diff": command("railwright.rdma.drift", "--diff"), "plan": command("railwright.rdma.plan"),
        "plan --diff": command("railwright.rdma.plan", "--diff"), "theirs": command("theirs.yml"),
        "theirs --diff": command("theirs.yml", "--diff"), "theirs --check": command("theirs.yml", "--check"),
    }  # fmt: skip
    return dict(zip(runs, run_there(directory, list(runs.values())), strict=True))


def recap(said: Said) -> list[str]:
    return re.findall(r"^n\d +: .* changed=(\d+) ", said.output, re.MULTILINE)


@pytest.mark.parametrize("run", ["plan --diff", "theirs --diff"])
def test_diff_shows_each_change_with_before_and_after(told: dict[str, Said], run: str) -> None:
    output = told[run].output
    part = output[output.index(f"--- before: {KEY}") :]
    assert re.match(rf"--- before: (.*)\n\+\+\+ after: \1\n@@ .*\n-{BACKLOG.read_text().strip()}\n\+34567\n", part), part[:400]
    assert "after: sysctl: sysctl net.ipv4.tcp_fastopen_key\n@@ -1 +1,2 @@\n (hidden)\n+another value\n" in output
    assert recap(told[run]) == ["1", "1"]


@pytest.mark.parametrize("run", ["plan", "theirs"])
def test_a_plan_without_diff_lists_its_changes_and_changes_nothing(told: dict[str, Said], run: str) -> None:
    output = told[run].output
    assert f"  {KEY}: {BACKLOG.read_text().strip()} → 34567 (none)" in output
    assert re.search(r'"n[12]: \d+ changes \(.*none \d+.*\), \d problems?"', output)
    assert "--- before" not in output
    assert recap(told[run]) == ["0", "0"]
    assert "somebody was notified" not in output


def test_module_defaults_of_the_action_group_reach_a_module(told: dict[str, Said]) -> None:
    assert "  sysctl: " in told["theirs"].output
    assert "  packages: " not in told["theirs"].output


def test_the_plan_of_every_node_is_shown_with_its_problems(told: dict[str, Said]) -> None:
    for node in ("n1", "n2"):
        assert f'"{node}: ' in told["plan"].output
    assert "problem: " in told["plan"].output
    assert told["plan"].output.index("Show the plan") < told["plan"].output.index("Report what cannot be planned")


def test_a_plan_in_check_mode_is_changed_where_an_apply_would_change(told: dict[str, Said]) -> None:
    assert recap(told["theirs --check"]) == ["1", "1"]


def test_drift_lists_its_findings_and_their_diff_when_asked(told: dict[str, Said]) -> None:
    found = BACKLOG.read_text().strip()
    assert re.search(rf"  major: {KEY}: expected 34567, found {found}", told["drift"].output)
    assert re.search(rf"\+\+\+ after: {KEY}\n@@ .*\n-{found}\n\+34567\n", told["drift --diff"].output)
    assert (recap(told["drift"]), recap(told["drift --diff"])) == (["0", "0"], ["1", "1"])


def test_facts_shows_what_drives_the_node(told: dict[str, Said]) -> None:
    output = told["facts"].output
    assert f"kernel {os.uname().release}, " in output
    assert re.search(r'"  stack: \w', output)
    assert re.search(r'"  GPU driver: \w', output)


def test_no_run_shows_a_secret_of_the_inventory(told: dict[str, Said]) -> None:
    assert [run for run, said in told.items() if FASTOPEN_KEY in said.output] == []
    assert "(hidden)" in told["plan --diff"].output


@pytest.mark.parametrize(("run", "why"), [
    ("final", "no node has a GPU (rdma_site_bench)"), ("final off", "rdma_site_bench is false"),
    ("final root", "the login is root, and rdma_job_user is not set")])
def test_the_final_play_says_in_one_line_why_not(told: dict[str, Said], run: str, why: str) -> None:
    said = told[run]
    assert said.code == 0
    assert re.findall(r"nccl-tests are not run: ([^\"\n]*)", said.output) == [why]
    assert "skipping: no hosts matched" in said.output
    assert "Bring the programs" not in said.output


def test_the_final_play_runs_where_it_is_told_to(told: dict[str, Said]) -> None:
    """This machine has no GPU and no program: the play of nccl-tests begins, and says so."""
    said = told["final on"]
    assert "nccl-tests come now, over all GPUs" in said.output
    assert "/nowhere" in said.output.partition("PLAY [Run nccl-tests]")[2]
    assert said.code == 2
