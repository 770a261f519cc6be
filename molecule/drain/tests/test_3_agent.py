# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent as a service of both nodes, and `railwright agent` over the real Slurm. The fault itself is one that an agent remembers from
before a boot: no container has a GPU that could be sick."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agreed import agreed
from drain_steps import NODES, Slurm
from playbook import BIN, SETTINGS

ROOT = Path(__file__).resolve().parents[3]
MEMORY, STATUS = "/var/lib/railwright/agent", "/run/railwright/agent"
PROGRAM, HOOK = "/usr/local/libexec/railwright/agent", "/usr/local/libexec/railwright/node-status"
FINDING = {"id": "3fa90c1e", "key": "gpu.xid|GPU 0000:27:00.0", "check": "gpu.xid", "subject": "GPU 0000:27:00.0", "part": "gpu 1653023",
           "status": "fail", "text": "H100: Xid 79, GPU has fallen off the bus", "first": 1.8e9, "cured": None, "known": None,
           "seen": {"t": 1.8e9, "up": 10.0, "boot": "an earlier one"}}  # fmt: skip
SECONDS = 600
TRUSTED = {"rdma_checks_release": "0.1.0"}  # by which gpu.xid, seen on an H200, refuses jobs and drains
PROLOG = f"""#!/bin/sh
exec {HOOK} prolog
"""
WEEK_AGO = f"""
import json, time, zlib
began = dict(t=time.time() - 8 * 86400, up=1.0, boot="an earlier one")
found = dict(began, kind="found", id="3fa90c1e", check="gpu.xid", subject="GPU 0000:27:00.0", part="", status="fail", text="Xid 79")
with open("{MEMORY}/000000.log", "w") as file:
    for text in map(json.dumps, (dict(began, kind="boot"), found)):
        file.write("%08x %s\\n" % (zlib.crc32(text.encode()), text))
"""


class Site:
    """The site: its inventory, with the agent on, and verbs as an operator calls them."""

    def __init__(self, slurm: Slurm, place: Path) -> None:
        self.slurm, self.state = slurm, place / "state"
        self.more = place / "more.yml"
        self.set("observe")

    def set(self, mode: str, **more: Any) -> None:
        values = {"agent_mode": mode, "rdma_drain_gate": "none", **TRUSTED, **more}
        self.more.write_text(json.dumps({"all": {"vars": values}}))

    def verb(self, *words: str) -> tuple[int, dict[str, Any]]:
        argv = [str(Path(sys.executable).with_name("railwright")), *words, "-i", str(self.slurm.cluster.inventory), "-i", str(self.more),
                *agreed(words), "--format", "json"]  # fmt: skip
        ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=SECONDS, stdin=subprocess.DEVNULL,
                               env={**os.environ, "XDG_STATE_HOME": str(self.state)})  # fmt: skip
        sys.stderr.write(ended.stderr)
        assert ended.stdout, ended.stderr[-3000:]
        document: dict[str, Any] = json.loads(ended.stdout)
        return ended.returncode, document

    def role(self) -> None:
        play = self.more.with_name("play.yml")
        play.write_text(json.dumps([{"hosts": "rdma", "gather_facts": False, "roles": ["railwright.rdma.agent"]}]))
        argv = [str(BIN / "ansible-playbook"), "-i", str(self.slurm.cluster.inventory), "-i", str(self.more), str(play)]
        ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=SECONDS, env={**os.environ, **SETTINGS}, cwd=ROOT)
        assert ended.returncode == 0, ended.stdout[-3000:]

    def line(self, node: str) -> str:
        return self.slurm.on(node, "cat", f"{STATUS}/status", check=False).stdout

    def plain(self, *words: str) -> str:
        """Run a verb that has no JSON form, and return what it printed."""
        argv = [str(Path(sys.executable).with_name("railwright")), *words, "-i", str(self.slurm.cluster.inventory), "-i", str(self.more)]
        ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=SECONDS, stdin=subprocess.DEVNULL,
                               env={**os.environ, "XDG_STATE_HOME": str(self.state)})  # fmt: skip
        assert ended.returncode == 0, ended.stderr[-3000:]
        return ended.stdout

    def remember(self, node: str, word: str = "refuse") -> None:
        """The finding, as a state that an agent left."""
        state = json.loads(self.slurm.on(node, "cat", f"{MEMORY}/state.json").stdout)
        state["findings"][FINDING["id"]] = FINDING
        self.slurm.cluster.container(node).run("tee", f"{MEMORY}/state.json", stdin=json.dumps(state))
        self.slurm.on(node, "systemctl", "start", "railwright-agent")  # a look, rather than wait for the timer's
        assert self.line(node).startswith(word + " "), self.line(node)

    def forget(self, node: str) -> None:
        self.slurm.on(node, "python3", PROGRAM, "ack", FINDING["id"], "GPU was seated again")
        self.slurm.on(node, "systemctl", "start", "railwright-agent")
        assert self.line(node).startswith("ok "), self.line(node)


@pytest.fixture(scope="module")
def site(cluster_once: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = Site(cluster_once, tmp_path_factory.mktemp("agent"))
    found.set("drain")
    found.role()
    for node in NODES:
        cluster_once.until(lambda node=node: found.line(node).startswith("ok "), f"{node}'s agent looks: {found.line(node)}")
    yield found
    found.set("off")
    found.role()
    assert cluster_once.on("node1", "systemctl", "is-active", "railwright-agent.timer", check=False).stdout.strip() != "active"


def test_healthy_nodes_are_left_alone(site: Site, slurm: Slurm) -> None:
    code, document = site.verb("agent", "drain")
    assert (code, document["agent"]["drain"], document["agent"]["silent"]) == (0, {}, [])
    assert [slurm.state(node) for node in NODES] == ["IDLE", "IDLE"]


def test_a_sick_node_is_drained_and_given_back_after_its_gate(site: Site, slurm: Slurm) -> None:
    job = slurm.submit("node1", "sleep 600")
    slurm.runs(job)
    site.remember("node1")
    site.set("observe")
    code, document = site.verb("agent", "drain")
    assert (code, document["agent"]["drain"], list(document["agent"]["observed"])) == (1, {}, ["node1"])
    assert "DRAIN" not in slurm.state("node1")
    site.set("drain")
    code, document = site.verb("agent", "drain")
    assert code == 1
    assert "DRAIN" in slurm.state("node1"), document
    assert slurm.reason("node1") == "railwright watch: gpu.xid GPU 0000:27:00.0: H100: Xid 79, GPU has fallen off the bus"
    assert slurm.job(job)["JobState"] == "RUNNING", "no job is ended"
    for verb in ("drain", "status"):
        code, document = site.verb("agent", verb)
        assert (code, document["agent"]["drain"], document["agent"]["held"]) == (1, {}, ["node1"]), "what is drained is not drained again"
    slurm.say("scancel", job)
    slurm.until(lambda: slurm.state("node1") == "IDLE+DRAIN", "the job has left")
    site.forget("node1")
    gates = {"person": "node1 is cured and stays drained: rdma_drain_gate is person",
             "validate": "node1 stays drained: validate did not pass"}  # nothing was applied to these nodes, so it cannot
    for gate, said in gates.items():
        assert "DRAIN" in slurm.state("node1")
        site.set("drain", rdma_drain_gate=gate)
        document = site.verb("agent", "drain")[1]
        assert (document["agent"]["cured"], document["agent"]["done"]) == (["node1"], [said])
    site.set("drain", rdma_drain_gate="none")
    assert site.verb("agent", "drain")[1]["agent"]["cured"] == ["node1"]
    site.set("drain")
    slurm.until(lambda: slurm.state("node1") == "IDLE", "node1 takes jobs")


def test_a_gate_that_passes_gives_the_node_back(site: Site, slurm: Slurm) -> None:
    """A real apply, and a real validate as the gate; without rails, since a container has no RDMA device to measure."""
    values = {**TRUSTED, "agent_mode": "drain", "rdma_drain_gate": "validate", "rdma_consent": ["restart", "link"]}
    site.more.write_text(json.dumps({"all": {"vars": values, "hosts": {"node2": {"rdma_rails": []}}}}))
    code, document = site.verb("apply", "--limit", "node2")
    assert code == 0, document
    site.remember("node2")
    assert list(site.verb("agent", "drain")[1]["agent"]["drain"]) == ["node2"]
    assert "DRAIN" in slurm.state("node2")
    site.forget("node2")
    time.sleep(12)  # SlurmdTimeout and more: an apply that touched the network made slurmd silent for a moment
    slurm.until(lambda: slurm.answers("node2"), "slurmd is heard again")
    document = site.verb("agent", "drain")[1]
    assert (document["agent"]["cured"], document["agent"]["done"]) == (["node2"], ["node2 takes jobs again"])
    slurm.until(lambda: slurm.state("node2") == "IDLE", "node2 takes jobs")
    site.set("drain")


def test_the_breaker_drains_nobody_until_it_is_reset(site: Site, slurm: Slurm) -> None:
    for node in NODES:
        site.remember(node)
    code, document = site.verb("agent", "drain")
    assert (code, document["agent"]["drain"]) == (1, {})
    assert "rdma_drain_share allows 1" in document["agent"]["breaker"]
    assert not any("DRAIN" in slurm.state(node) for node in NODES)
    site.forget("node2")
    assert site.verb("agent", "drain")[1]["agent"]["drain"] == {}
    code, document = site.verb("agent", "drain", "--reset")
    assert list(document["agent"]["drain"]) == ["node1"]
    site.forget("node1")
    site.verb("agent", "drain")


def test_an_operators_drain_stays_the_operators(site: Site, slurm: Slurm) -> None:
    slurm.say("scontrol", "update", "nodename=node1", "state=drain", "reason=RMA")
    site.verb("agent", "drain")
    assert slurm.reason("node1") == "RMA"


def test_out_of_service_counts_for_nobody(site: Site, slurm: Slurm) -> None:
    site.more.write_text(json.dumps({"all": {"vars": {**TRUSTED, "agent_mode": "drain"}, "hosts": {
        "node2": {"rdma_out_of_service": {"reason": "GPU 3 returned", "ticket": "RMA-4711"}}}}}))
    site.verb("agent", "drain")
    assert slurm.reason("node2") == "railwright watch: out of service: GPU 3 returned, ticket RMA-4711"
    document = site.verb("drift")[1]
    assert document["nodes"]["node2"]["out_of_service"] == "GPU 3 returned"
    site.set("drain")


MEASURE = f"""
import subprocess, time
spent = []
for _ in range(300):
    began = time.perf_counter()
    subprocess.call([{HOOK!r}, "prolog"], stdout=subprocess.DEVNULL)
    spent.append(time.perf_counter() - began)
print(*spent)
"""


def test_what_the_hooks_say_of_a_sick_node(site: Site, slurm: Slurm) -> None:
    site.remember("node1")
    ended = {(node, word): slurm.on(node, HOOK, word, check=False) for node in NODES for word in ("prolog", "epilog", "health", "npd")}
    assert {key: found.returncode for key, found in ended.items() if found.returncode} == {("node1", "prolog"): 1, ("node1", "npd"): 1}
    assert "Xid 79" in ended["node1", "health"].stdout
    spent = sorted(map(float, slurm.on("node2", "python3", "-c", MEASURE).stdout.split()))
    print(f"node-status prolog: median {statistics.median(spent) * 1e3:.1f} ms, p99 {spent[296] * 1e3:.1f} ms")
    site.forget("node1")


def test_events_are_told_by_the_node(site: Site, slurm: Slurm) -> None:
    time.sleep(1)
    text = slurm.on("node1", "python3", PROGRAM, "events").stdout
    assert "ACK  3fa90c1e gpu.xid GPU 0000:27:00.0" in text
    assert "GPU was seated again" in text


@pytest.fixture
def with_prolog(slurm: Slurm) -> Iterator[Slurm]:
    """Slurm asks each node's agent before a job, by the script of docs/agent.md."""
    everywhere = ("controller", *NODES)
    before = slurm.on("controller", "cat", "/etc/slurm/slurm.conf").stdout
    for node in everywhere:
        slurm.cluster.container(node).run("tee", "/etc/slurm/prolog", stdin=PROLOG)
        slurm.on(node, "chmod", "755", "/etc/slurm/prolog")
        slurm.cluster.container(node).run("tee", "/etc/slurm/slurm.conf", stdin=f"{before}\nProlog=/etc/slurm/prolog\nPrologFlags=Alloc\n")
    slurm.say("scontrol", "reconfigure")
    yield slurm
    for node in everywhere:
        slurm.cluster.container(node).run("tee", "/etc/slurm/slurm.conf", stdin=before)
    slurm.say("scontrol", "reconfigure")


def completes(slurm: Slurm) -> None:
    job = slurm.submit("node1", "true")
    slurm.until(lambda: slurm.job(job)["JobState"] == "COMPLETED", f"job {job} completes: {slurm.job(job)}")


def is_refused(slurm: Slurm) -> None:
    job = slurm.submit("node1", "true")
    slurm.until(lambda: "DRAIN" in slurm.state("node1"), f"the prolog refuses job {job}")
    slurm.say("scancel", job)
    slurm.until(lambda: not slurm.say("squeue", "--noheader"), "the queue is empty")
    slurm.say("scontrol", "update", "nodename=node1", "state=resume")
    slurm.until(lambda: slurm.state("node1") == "IDLE", "node1 is idle")


def test_a_check_earns_the_right_to_refuse_and_a_hold_takes_it_at_once(site: Site, with_prolog: Slurm) -> None:
    slurm, metrics = with_prolog, "/var/lib/node-exporter"
    for node in NODES:
        slurm.on(node, "mkdir", "-p", metrics)
        slurm.on(node, "python3", "-c", WEEK_AGO)
    site.set("drain", rdma_checks_release=None, agent_textfile_directory=metrics)
    site.role()
    site.remember("node1", word="ok")
    completes(slurm)
    assert list(site.verb("agent", "status")[1]["agent"]["observed"]) == ["node1"]
    assert 'mode="observe"' in slurm.on("node1", "cat", f"{metrics}/railwright-agent.prom").stdout
    tickets = site.more.with_name("tickets.csv")
    when = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() - 7 * 86400))
    tickets.write_text(f"node,time,reason\nnode1,{when},GPU replaced\nnode2,{when},GPU replaced\n")
    trial = site.plain("agent", "trial", "--for", "30d", "--tickets", str(tickets))
    assert "gpu.xid: would have drained 2 nodes; taken out within 72 h: 2 (tickets 2)" in trial
    assert "taken out while no check failed: no node" in trial
    print(site.plain("agent", "promote", "gpu.xid"))
    site.role()
    slurm.on("node1", "systemctl", "start", "railwright-agent")
    assert site.line("node1").startswith("refuse ")
    is_refused(slurm)
    began = time.monotonic()
    assert site.verb("agent", "hold", "--reason", "case 4711")[0] == 0
    assert time.monotonic() - began < 60
    completes(slurm)
    assert site.verb("agent", "drain")[1]["agent"]["drain"] == {}
    assert site.verb("agent", "hold", "--end")[0] == 0
    is_refused(slurm)
    slurm.on("node1", "touch", "/etc/railwright/hold")  # by any means, while no controller runs
    completes(slurm)
    slurm.on("node1", "rm", "/etc/railwright/hold")
    site.forget("node1")
