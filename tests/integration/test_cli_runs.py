# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line over real ansible-playbook runs: real events, a real unreachable node, a real Ctrl-C.

The playbooks of the collection would need RDMA nodes. Here a collection of the same name
stands before it: its modules return what a test hands them, and Ansible, the runner, ssh
and the command line are the real ones. Nodes are this machine (local connection) and a
closed port of it.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from agreed import agreed

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = "ansible_collections/railwright/rdma"

MODULE = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={"result": {"type": "dict"}, "mode": {"type": "str"}}, supports_check_mode=True)
result = module.params["result"] or {}
module.fail_json(**result) if result.get("failed") else module.exit_json(**result)
"""

MTU = {
    "key": "network: MTU of rail0 (eth1)",
    "area": "network",
    "what": "MTU of rail0 (eth1)",
    "before": 1500,
    "after": 9000,
    "disruption": "link",
    "why": "jumbo frames",
    "source": "inventory mtu",
}
FILE = MTU | {
    "key": "nccl: file /etc/nccl.conf",
    "area": "nccl",
    "what": "file /etc/nccl.conf",
    "before": None,
    "after": "# ours\nNCCL_IB_TC=106\n",
}
FILE |= {"disruption": "none"}
GONE = "n2"


class Site:
    """A directory with an inventory, a stand-in collection and a state directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.inventory = directory / "hosts.yml"
        self.state = directory / "state"
        plugins = directory / COLLECTION / "plugins" / "modules"
        plugins.mkdir(parents=True)
        (directory / COLLECTION / "playbooks").mkdir()
        for name in ("rdma_state", "rdma_facts", "rdma_check", "rdma_consent"):
            (plugins / f"{name}.py").write_text(MODULE)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.closed_port = probe.getsockname()[1]
        self.hosts("n1")

    def hosts(self, *names: str) -> None:
        """Local nodes, and one behind a closed port."""
        hosts: dict[str, Any] = {}
        for number, name in enumerate(names, 1):
            local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
            remote = {"ansible_host": "127.0.0.1", "ansible_port": self.closed_port}
            rail = {"name": "rail0", "match": {"mac": f"52:54:00:aa:bb:0{number}"}, "address": f"10.10.0.{number}/24"}
            hosts[name] = (remote if name == GONE else local) | {"rdma_rails": [rail]}
        document = {"all": {"vars": {"rdma_fabric": "roce", "rdma_mtu": 9000}, "children": {"rdma": {"hosts": hosts}}}}
        self.inventory.write_text(json.dumps(document))

    def playbook(self, name: str, *tasks: tuple[str, dict[str, Any]], **play: Any) -> None:
        """A playbook whose tasks return these results; a key named after a node holds its own result."""
        rows = []
        for module, results in tasks:
            text = results if "n1" not in results else "{{ canned[inventory_hostname] | default({}) }}"
            full = module if "." in module else f"railwright.rdma.{module}"
            arguments = {"result": text} if full.startswith("railwright") else results
            rows.append({"name": f"Run {module}", full: arguments} | ({"vars": {"canned": results}} if "n1" in results else {}))
        whole = [{"name": name, "hosts": "rdma", "gather_facts": False, "tasks": rows} | play]
        (self.directory / COLLECTION / "playbooks" / f"{name}.yml").write_text(json.dumps(whole))

    def environment(self) -> dict[str, str]:
        path = f"{self.directory}:{ROOT / '.dev'}:{ROOT / 'src'}"
        # No activated environment: the command line itself must find the ansible-playbook beside its interpreter.
        kept = {key: os.environ[key] for key in ("HOME", "LANG") if key in os.environ}
        return kept | {"PATH": "/usr/bin:/bin", "PYTHONPATH": path, "XDG_STATE_HOME": str(self.state), "TMPDIR": str(self.temporary)}

    @property
    def temporary(self) -> Path:
        path = self.directory / "tmp"
        path.mkdir(exist_ok=True)
        return path

    def start(self, *argv: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "railwright", *argv, *agreed(argv)]
        return subprocess.Popen(
            command, env=self.environment(), cwd=self.directory, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def run(self, *argv: str) -> tuple[int, str, str]:
        with self.start(*argv) as process:
            out, err = process.communicate(timeout=120)
        assert "Traceback" not in err
        return process.returncode, out, err

    def json(self, *argv: str) -> tuple[int, Any]:
        """Exit code and the one document on stdout."""
        code, out, _err = self.run(*argv, "--format", "json")
        return code, json.loads(out)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    one = Site(tmp_path)
    yield one
    left = [path.name for path in one.temporary.iterdir() if path.name.startswith("railwright-")]
    assert not left, "the runner's directory, which holds the environment, stayed behind"


def test_drift_is_2_and_no_drift_is_0(site: Site) -> None:
    site.playbook("plan", ("rdma_state", {"plan": [MTU, FILE], "problems": []}))
    code, document = site.json("plan", "-i", "hosts.yml")
    assert code == 2
    assert document["nodes"]["n1"]["changes"] == [MTU, FILE]
    assert (document["nodes"]["n1"]["status"], document["summary"]["changes"]) == ("ok", 2)
    code, out, err = site.run("plan", "-i", "hosts.yml")
    assert code == 2
    assert "MTU of rail0 (eth1)" in out
    assert "NCCL_IB_TC=106 … (2 lines)" in out
    assert "Run rdma_state" in err
    assert "--consent link" in err
    site.playbook("plan", ("rdma_state", {"plan": [], "problems": []}))
    code, out, _err = site.run("plan", "-i", "hosts.yml")
    assert (code, "0 changes" in out) == (0, True)


def test_a_problem_is_1_and_wins_over_drift(site: Site) -> None:
    problem = {"area": "network", "subject": "rail0", "message": "no device"}
    site.playbook("plan", ("rdma_state", {"plan": [MTU], "problems": [problem]}))
    code, document = site.json("plan", "-i", "hosts.yml")
    assert (code, document["nodes"]["n1"]["problems"]) == (1, [problem])


def test_unreachable_is_3_and_the_other_node_is_complete(site: Site) -> None:
    site.hosts("n1", GONE)
    site.playbook("plan", ("rdma_state", {"plan": [MTU], "problems": []}))
    code, document = site.json("plan", "-i", "hosts.yml")
    assert code == 3
    assert {name: node["status"] for name, node in document["nodes"].items()} == {"n1": "ok", GONE: "unreachable"}
    assert document["nodes"]["n1"]["changes"] == [MTU]
    assert "refused" in document["nodes"][GONE]["message"]
    code, out, _err = site.run("plan", "-i", "hosts.yml", "--limit", "n1")
    assert (code, GONE in out) == (2, False)


def test_a_node_that_the_run_never_came_to_has_not_passed(site: Site) -> None:
    site.hosts("n1", "n3")
    results = {"n1": {"failed": True, "msg": "broken"}, "n3": {"plan": []}}
    site.playbook("plan", ("rdma_state", results), serial=1, any_errors_fatal=True)
    code, document = site.json("plan", "-i", "hosts.yml")
    assert code == 1
    assert (document["nodes"]["n1"]["message"], document["nodes"]["n3"]["status"]) == ("broken", "failed")


def test_a_large_plan_arrives_whole(site: Site) -> None:
    many = [MTU | {"key": str(number), "before": "x" * 2000} for number in range(500)]
    site.playbook("plan", ("rdma_state", {"plan": many, "problems": []}))
    code, document = site.json("plan", "-i", "hosts.yml")
    assert (code, len(document["nodes"]["n1"]["changes"])) == (2, 500)


def test_apply_says_what_it_did_and_changes_are_0(site: Site) -> None:
    site.playbook("apply", ("rdma_state", {"plan": [MTU], "problems": []}), ("rdma_state", {"plan": [MTU], "changed": True}))
    code, document = site.json("apply", "-i", "hosts.yml")
    assert (code, document["nodes"]["n1"]["changes"]) == (0, [MTU | {"applied": True}])
    site.playbook("apply", ("rdma_state", {"plan": [], "problems": []}))
    code, out, _err = site.run("apply", "-i", "hosts.yml")
    assert (code, "1 node: 0 changes" in out) == (0, True)


def test_a_refused_consent_is_1_and_says_how_to_give_it(site: Site) -> None:
    refusal = {"failed": True, "msg": "refused without consent", "refused": [MTU]}
    site.playbook("apply", ("rdma_state", {"plan": [MTU], "problems": []}), ("rdma_consent", refusal))
    code, out, _err = site.run("apply", "-i", "hosts.yml")
    assert code == 1
    assert "needs consent to link: MTU of rail0 (eth1)" in out
    assert "rdma_consent: [link] in the inventory, or --consent link" in out
    assert "not applied" in out


def test_consent_of_the_command_line_is_an_extra_variable(site: Site) -> None:
    site.playbook(
        "apply",
        ("rdma_state", {"plan": []}),
        ("ansible.builtin.assert", {"that": ["rdma_consent == ['link', 'restart']", "rdma_run_id is match('.*-apply')"]}),
    )
    assert site.run("apply", "-i", "hosts.yml", "--consent", "link,restart")[0] == 0
    assert site.run("apply", "-i", "hosts.yml", "--consent", "link")[0] == 1


def verdict(status: str, **more: Any) -> dict[str, Any]:
    base = {"check": "port.state", "node": "n1", "hca": "mlx5_0", "port": 1, "subject": "rail0 (eth1)", "status": status}
    return base | {"expected": "ACTIVE", "found": "DOWN", "message": "port is down"} | more


def test_a_failed_verdict_is_1_and_names_everything(site: Site) -> None:
    site.playbook(
        "validate",
        ("rdma_check", {"verdicts": [verdict("pass", subject="rail1"), verdict("fail"), verdict("unknown", node="", subject="mtu")]}),
        ("ansible.builtin.assert", {"that": ["false"]}),
    )
    code, out, _err = site.run("validate", "-i", "hosts.yml")
    assert code == 1
    line = next(line for line in out.splitlines() if "port is down" in line)
    assert line.split() == ["fail", "n1", "port.state", "mlx5_0", "1", "rail0", "(eth1)", "ACTIVE", "DOWN", "port", "is", "down"]
    assert "verdicts: 1 fail, 0 warn, 1 unknown, 0 unproven, 0 skipped, 1 pass" in out
    assert "rail1" not in out
    code, document = site.json("validate", "-i", "hosts.yml")
    assert (code, document["nodes"]["n1"]["status"], len(document["verdicts"])) == (1, "ok", 3)
    assert document["verdicts"][0]["status"] == "fail"
    assert "rail1" in site.run("validate", "-i", "hosts.yml", "--all")[1]
    code, out, _err = site.run("validate", "-i", "hosts.yml", "--format", "prometheus")
    assert (code, 'railwright_validate_verdicts{node="n1",check="port.state",status="fail"} 1\n' in out) == (1, True)
    assert site.run("validate", "-i", "hosts.yml", "-o", "x")[0] == 64
    assert site.run("validate", "-i", "hosts.yml", "--format", "junit", "-o", "x.xml")[0] == 1
    assert 'failures="1"' in (site.directory / "x.xml").read_text()


def test_validate_without_verdicts_has_not_passed(site: Site) -> None:
    site.playbook("validate", ("ansible.builtin.assert", {"that": ["true"]}))
    assert site.run("validate", "-i", "hosts.yml")[0] == 1


def test_facts_by_node(site: Site) -> None:
    site.hosts("n1", GONE)
    site.playbook("facts", ("rdma_facts", {"rdma": {"hcas": [], "kernel": "6.1"}}))
    code, document = site.json("facts", "-i", "hosts.yml")
    assert (code, document) == (3, {"n1": {"hcas": [], "kernel": "6.1"}, GONE: None})


def test_report_of_the_last_run(site: Site) -> None:
    site.hosts("n1", GONE)
    site.playbook("validate", ("rdma_check", {"verdicts": [verdict("fail", message="<b>|&\x1b")]}))
    assert site.run("validate", "-i", "hosts.yml")[0] == 3
    code, out, _err = site.run("report", "-o", "out")
    assert code == 0
    assert out.split() == ["out/report.json", "out/report.xml", "out/report.md", "out/report.html"]
    root = ET.parse(site.directory / "out" / "report.xml").getroot()
    assert {suite.get("name"): (suite.get("failures"), suite.get("errors")) for suite in root} == {"n1": ("1", "0"), GONE: ("0", "1")}
    record = json.loads((site.directory / "out" / "report.json").read_text())
    assert (record["exit_code"], record["verb"]) == (3, "validate")


def test_the_record_holds_no_environment_and_no_variables(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(site.inventory.read_text())
    document["all"]["vars"] |= {"ansible_password": "open-sesame"}
    site.inventory.write_text(json.dumps(document))
    site.playbook("plan", ("rdma_state", {"plan": [], "problems": []}))
    assert site.run("plan", "-i", "hosts.yml")[0] == 0
    records = list(site.state.rglob("run.json"))
    assert len(records) == 1
    text = records[0].read_text()
    assert "open-sesame" not in text
    assert str(site.state) not in text


@pytest.mark.parametrize("limit", ["nobody", "n1:&nobody"])
def test_a_limit_that_matches_nothing_is_64(site: Site, limit: str) -> None:
    site.playbook("plan", ("rdma_state", {"plan": []}))
    code, out, err = site.run("plan", "-i", "hosts.yml", "--limit", limit)
    assert (code, out) == (64, "")
    assert err.startswith("railwright: error: --limit")


@pytest.mark.parametrize("verb", ["lint", "plan", "apply", "validate", "facts"])
def test_a_bad_inventory_is_64_and_no_node_is_contacted(site: Site, verb: str) -> None:
    site.playbook(verb if verb != "lint" else "plan", ("ansible.builtin.file", {"path": str(site.directory / "touched"), "state": "touch"}))
    site.inventory.write_text(site.inventory.read_text().replace("9000", '"nine"'))
    code, out, err = site.run(verb, "-i", "hosts.yml")
    assert code == 64
    assert "rdma_mtu" in out + err
    assert not (site.directory / "touched").exists()
    code, document = site.json(verb, "-i", "hosts.yml")
    assert (code, document["summary"]["errors"], document["findings"][0]["key"]) == (64, 1, "rdma_mtu")


def test_a_broken_inventory_is_64(site: Site) -> None:
    site.inventory.write_text("all: [")
    code, _out, err = site.run("plan", "-i", "hosts.yml")
    assert code == 64
    assert err.splitlines()[-1].startswith("railwright: error: ")


def test_a_broken_playbook_says_nothing_about_nodes(site: Site) -> None:
    site.playbook("plan", ("railwright.rdma.no_such_module", {}))
    code, out, err = site.run("plan", "-i", "hosts.yml")
    assert (code, out) == (1, "")
    assert "railwright: error: playbook railwright.rdma.plan could not be run: " in err
    assert "no_such_module" in err


def test_the_operators_ansible_cfg_is_in_force(site: Site) -> None:
    (site.directory / "ansible.cfg").write_text("[defaults]\nforks = 3\n")
    site.playbook(
        "plan",
        ("rdma_state", {"plan": []}),
        ("ansible.builtin.assert", {"that": ["ansible_forks == 3", "lookup('config', 'HOST_KEY_CHECKING')"]}),
    )
    assert site.run("plan", "-i", "hosts.yml")[0] == 0
    (site.directory / "ansible.cfg").write_text(f"[defaults]\nforks = 3\nhost_key_checking = {False}\n")
    assert site.run("plan", "-i", "hosts.yml")[0] == 1, "the operator's own host_key_checking is not ours to change"


def test_host_keys_are_checked_unless_the_operator_says_otherwise(site: Site) -> None:
    site.playbook("plan", ("rdma_state", {"plan": []}), ("ansible.builtin.assert", {"that": ["lookup('config', 'HOST_KEY_CHECKING')"]}))
    assert site.run("plan", "-i", "hosts.yml")[0] == 0


def command_lines() -> list[str]:
    """Every running command, from /proc: ps is not on every machine."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # ended while we looked
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def test_ctrl_c_is_130_and_ansible_ends_too(site: Site) -> None:
    marker = site.directory / "slept"
    site.playbook("plan", ("ansible.builtin.command", {"argv": ["sh", "-c", f"echo $$ >{marker}; sleep 60"]}))
    process = site.start("plan", "-i", "hosts.yml")
    deadline = time.monotonic() + 120
    while not marker.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert marker.exists()
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    _out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "railwright: stopped"
    assert time.monotonic() - begin < 40  # and not the 60 of sleep
    left = [line for line in command_lines() if str(site.inventory) in line]
    while left and time.monotonic() - begin < 40:  # told to end, it takes a moment
        time.sleep(0.1)
        left = [line for line in command_lines() if str(site.inventory) in line]
    assert not left, "ansible-playbook still runs"
    if Path(f"/proc/{marker.read_text().strip()}").exists():  # on a node it would be the node's own affair
        os.kill(int(marker.read_text()), signal.SIGTERM)


def test_nothing_has_passed_where_ansible_was_killed(site: Site) -> None:
    """As the kernel does when the controller has no memory left: every task so far was fine, and the changes were never made."""
    marker = site.directory / "slept"
    sleeping = ("ansible.builtin.command", {"argv": ["sh", "-c", f"echo $$ >{marker}; exec sleep 60"]})
    site.playbook("apply", ("rdma_state", {"plan": [MTU], "problems": []}), sleeping)
    process = site.start("apply", "-i", "hosts.yml", "--format", "json")
    deadline = time.monotonic() + 60
    while not (marker.exists() and marker.read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.1)
    task = int(marker.read_text())
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        out, err = process.communicate(timeout=60)
    finally:
        os.kill(task, signal.SIGKILL)
    assert "Traceback" not in err
    node = json.loads(out)["nodes"]["n1"]
    assert (process.returncode, node["status"]) == (1, "failed")
    assert node["message"].startswith("ansible-playbook ended in the middle of the run: ")
    assert not any(change["applied"] for change in node["changes"])


def test_debug_shows_ansibles_own_output(site: Site) -> None:
    site.playbook("plan", ("rdma_state", {"plan": []}))
    _code, out, err = site.run("plan", "-i", "hosts.yml", "--debug")
    assert "TASK [Run rdma_state]" in err
    assert "TASK" not in out


def test_debug_shows_what_a_node_says_and_the_terminal_obeys_none_of_it(site: Site) -> None:
    """Ansible prints a module's warnings as they come; Ansible's own colours go the same way."""
    site.playbook("plan", ("rdma_state", {"plan": [], "warnings": ["\x1b]0;owned\x07\x1b[2J\tand more"]}))
    _code, _out, err = site.run("plan", "-i", "hosts.yml", "--debug")
    assert "\\u001b]0;owned\\u0007\\u001b[2J" in err
    assert "and more" in err
    assert [char for char in err if char < " " and char not in "\n\t"] == []
