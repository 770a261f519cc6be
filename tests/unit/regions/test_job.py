# SPDX-License-Identifier: GPL-3.0-or-later
"""What a region's worker is sent: its own nodes with all that the inventory says of them, and nothing of anybody else."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultLib, VaultSecret

from ansible_collections.railwright.rdma.plugins.plugin_utils import saved_plan, scanned
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster_addresses import WHOLE_CLUSTER, cluster_addresses
from ansible_collections.railwright.rdma.plugins.plugin_utils.draining import ASKED
from railwright import __version__, run
from railwright.cli import upgrade_run
from railwright.cli.regional import places
from railwright.events import HostOutcome, RunOutcome
from railwright.given import given
from railwright.inventory import load_inventory
from railwright.lint import judge_with_specs
from railwright.region_worker import JOB, Job, read_job
from railwright.regions import Region, Regions
from railwright.regions.inventory import Unsafe
from railwright.run import part_of

SECRET, OTHER = VaultSecret(b"open sesame"), VaultSecret(b"never said")
HOSTS = """
all:
  hosts:
    bastion: {ansible_host: 192.0.2.1, ansible_user: jump}
    slurm: {ansible_host: 192.0.2.2, token: of-slurm, ansible_password: slurm-ssh, ansible_become_password: slurm-sudo}
  children:
    rack1: {hosts: {e1: {}, w1: {}}}
    rdma:
      vars: {rdma_fabric: roce, rdma_mtu: 9000, rdma_rails: [], firewall_manage: false, upgrade_scheduler: slurm,
             upgrade_scheduler_host: slurm}
      children:
        east:
          hosts:
            e1: {token: of-e1, ansible_password: e1-ssh,
                 named: "{{ token }}-{{ inventory_hostname }}",
                 closed: !vault VAULT, other: !vault OTHER,
                 raw: !unsafe "a{{ 1 }}b",
                 ages: {1: one, two: 2}, since: 2026-11-28, odd: "\\u00e4\\u0007\\U0001F600\\"\\\\{", nothing: null, sure: true, half: 0.5}
            e2: {token: of-e2, ansible_password: e2-ssh}
          vars: {rdma_region: east, rdma_region_worker: bastion}
        west:
          hosts: {w1: {token: of-w1}}
          vars: {rdma_region: west, rdma_region_worker: bastion}
        here: {hosts: {h1: {token: of-h1}}}
"""


@pytest.fixture
def regions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Regions:
    (tmp_path / "password").write_bytes(SECRET.bytes)
    monkeypatch.setattr(given, "vault_files", (str(tmp_path / "password"),))
    closed = VaultLib([("default", SECRET)]).encrypt("what {{ was }} closed", SECRET).decode()
    other = VaultLib([("default", OTHER)]).encrypt("another", OTHER).decode()
    text = HOSTS.replace("VAULT", json.dumps(closed)).replace("OTHER", json.dumps(other))
    (tmp_path / "hosts.yml").write_text(text, encoding="utf-8")
    inventory = load_inventory(tmp_path / "hosts.yml")
    findings, specs = judge_with_specs(inventory)
    assert [str(finding) for finding in findings if finding.severity == "error"] == []
    return Regions(inventory, specs)


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given, "password", "of-ssh")  # of -k: of nodes, not of the worker


def sent(regions: Regions, nodes: list[str], playbook: str = "drift", **variables: Any) -> tuple[Region, Any, dict[str, Any], bytes]:
    """(the region, the job's first line, ansible-runner's arguments, all of it)"""
    (region,) = regions.of(nodes)
    data = regions.job(region, f"railwright.rdma.{playbook}", variables, {"^SSH password: $": "of-ssh"})
    stream = io.BytesIO(data)
    job = read_job(stream.readline())
    lines = stream.read().splitlines()
    assert yaml.safe_load(lines[-1]) == {"eof": True}
    return region, job, yaml.safe_load(lines[0])["kwargs"], data


def read(job: Job) -> Any:
    """As the worker's Ansible reads it."""
    return DataLoader().load(job.files["inventory.yml"])["all"]


def test_nodes_go_to_the_regions_that_they_are_in(regions: Regions) -> None:
    found = regions.of(["e1", "h1", "w1", "e2"])
    assert [(region.name, region.worker, region.nodes) for region in found] == [
        ("east", "bastion", ("e1", "e2")), ("west", "bastion", ("w1",))]


def test_a_worker_gets_its_own_nodes_and_nobody_elses(regions: Regions) -> None:
    for playbook in ("plan", "drift", "apply"):
        _region, job, arguments, data = sent(regions, ["e1"], playbook, rdma_run_id="r1")
        inventory = read(job)
        assert set(inventory["hosts"]) == {"e1", "e2", "localhost"}, "all of the region: plays look at their peers"
        assert job.files["nodes"] == "e1\n"
        assert {name: set(group["hosts"]) for name, group in inventory["children"].items()} == {
            "rdma": {"e1", "e2"}, "east": {"e1", "e2"}, "rack1": {"e1"}}
        for foreign in (b"of-w1", b"of-h1", b"of-slurm", b"jump", b"slurm-ssh", b"slurm-sudo"):
            assert foreign not in data
        assert (arguments["extravars"], arguments["limit"]) == ({"rdma_run_id": "r1"}, f"@{JOB}/nodes")
        assert arguments["passwords"] == {"^SSH password: $": "of-ssh"}
        assert (arguments["envvars"]["ANSIBLE_ASK_PASS"], arguments["envvars"]["ANSIBLE_BECOME_ASK_PASS"]) == ("True", "False")


def test_of_nodes_beyond_the_limit_a_worker_gets_no_password(regions: Regions) -> None:
    for nodes, own in ((["e1"], {"e1": "e1-ssh"}), (["e1", "e2"], {"e1": "e1-ssh", "e2": "e2-ssh"})):
        hosts = read(sent(regions, nodes)[1])["hosts"]
        assert {name: value["ansible_password"] for name, value in hosts.items() if "ansible_password" in value} == own
        assert "token" in hosts["e2"], "templates may need it"


STEPS = ("scheduler", "drain", "drained", "undrain", "hold", "change", "validate", "gate")
ASKING = [*((playbook, "") for playbook in ("scheduler_state", "isolate_drain", "agent_open", "upgrade_preflight")),
          *(("upgrade_step", step) for step in STEPS)]  # fmt: skip


@pytest.mark.parametrize(("playbook", "step"), ASKING)
def test_a_scheduler_that_only_the_worker_reaches(regions: Regions, monkeypatch: pytest.MonkeyPatch, playbook: str, step: str) -> None:
    """Its host's credentials go along for what asks it, and for nothing else; and no node's where no node is reached."""
    monkeypatch.setattr(regions, "_specs", {name: Told(spec) for name, spec in regions._specs.items()})
    alone = playbook not in ("upgrade_preflight", "upgrade_step") or step in STEPS[:4]
    _region, job, arguments, data = sent(regions, ["e1"], playbook, rdma_upgrade_step=step)
    hosts = read(job)["hosts"]
    assert {key for key in hosts["slurm"] if not key.startswith("ansible_")} == set()
    assert (hosts["slurm"]["ansible_password"], hosts["slurm"]["ansible_become_password"]) == ("slurm-ssh", "slurm-sudo")
    assert (b"e1-ssh" in data, arguments["passwords"] != {}) == (not alone, not alone)
    assert arguments["envvars"]["ANSIBLE_ASK_PASS"] == str(not alone)
    assert [region.name for region in regions.of(["e1"], part_of(playbook, {"rdma_upgrade_step": step}))] == ["east"]
    for other in (("plan", ""), ("drift", ""), ("upgrade_step", "lease"), ("upgrade_step", "release"), ("validate", "")):
        assert b"slurm-s" not in sent(regions, ["e1"], other[0], rdma_upgrade_step=other[1])[-1]


@pytest.mark.parametrize(("playbook", "step"), ASKING)
def test_else_the_controller_asks(regions: Regions, monkeypatch: pytest.MonkeyPatch, playbook: str, step: str) -> None:
    """What only the scheduler is asked for is run here; what begins with a question is told the answer."""
    runs: list[tuple[str, str, dict[str, Any], list[str]]] = []
    drain = {"state": "drained", "closed": True, "empty": True, "done": True}

    def here(name: str, *words: Any) -> RunOutcome:
        _inventory, _limit, variables, _collector, nodes, _stop = words
        runs.append(("controller", name, variables, list(nodes)))
        return RunOutcome({node: HostOutcome(node, drain=drain if node != "w1" else None) for node in nodes}, finished=True)

    @contextmanager
    def running(chosen: list[Region], name: str, variables: dict[str, Any], *_others: Any) -> Iterator[list[Any]]:
        runs.extend((region.name, name, yaml.safe_load(regions.job(region, name, variables, {}).split(b"\n")[1])["kwargs"]["extravars"],
                     list(region.nodes)) for region in chosen)  # fmt: skip
        assert all(b"slurm-s" not in regions.job(region, name, variables, {}) for region in chosen)
        yield []

    monkeypatch.setattr(run, "_run_here", here)
    monkeypatch.setattr(regions, "running", running)
    nodes = ["e1", "w1", "h1"]
    run.run_playbook(playbook, regions.inventory.path, None, {"rdma_upgrade_step": step}, nodes=nodes, regions=regions)
    if playbook not in ("upgrade_preflight", "upgrade_step") or step in STEPS[:4]:
        assert [(place, name, of) for place, name, _variables, of in runs] == [("controller", playbook, nodes)]
        return
    (first, question, asked, of), *others = runs
    assert (first, question, asked["rdma_upgrade_step"], of) == (
        "controller", "upgrade_step", "scheduler" if playbook == "upgrade_preflight" else "drained", ["e1", "w1"])
    told = {place: variables.get(ASKED) for place, _name, variables, _of in others}
    assert told == {"east": {"e1": drain}, "west": {"w1": None}, "controller": {"e1": drain, "w1": None}}


class Told:
    """A Spec of a region whose worker asks the scheduler."""

    def __init__(self, spec: Any) -> None:
        self._spec = spec

    def __getitem__(self, key: str) -> Any:
        return True if key == "region_asks_scheduler" else self._spec[key]


def test_the_worker_is_reached_by_a_key_whatever_password_its_nodes_have(regions: Regions) -> None:
    (region,) = regions.of(["e1"])
    argv = regions.command(region)
    assert argv[-2:] == ["192.0.2.1", "python3 -m railwright.region_worker"]
    assert 'User="jump"' in argv


def test_templates_go_as_they_are_written_and_a_vault_opened(regions: Regions) -> None:
    _region, job, _arguments, _data = sent(regions, ["e1"])
    said = read(job)["hosts"]["e1"]
    assert (said["named"], said["closed"], said["token"]) == ("{{ token }}-{{ inventory_hostname }}", "what {{ was }} closed", "of-e1")
    assert [type(tagged(job.files["inventory.yml"])[name]) for name in ("named", "raw", "closed")] == [str, Unsafe, Unsafe]
    assert "other" not in said, "a vault that no password opens; a play that needs it says so"
    assert (said["raw"], said["ages"], said["odd"]) == ("a{{ 1 }}b", {1: "one", "two": 2}, 'ä\x07\U0001F600"\\{')
    assert (said["since"], said["nothing"], said["sure"], said["half"]) == (date(2026, 11, 28), None, True, 0.5)
    assert not {"inventory_dir", "groups", "hostvars", "omit", "ansible_facts"} & said.keys()


class Tagged(yaml.SafeLoader):
    """Says which texts are ``!unsafe``."""


Tagged.add_constructor("!unsafe", lambda loader, node: Unsafe(loader.construct_scalar(node)))


def tagged(text: str) -> Any:
    return Tagged(text).get_single_data()["all"]["hosts"]["e1"]


def test_a_firewall_of_ours_knows_the_whole_cluster(tmp_path: Path) -> None:
    hosts = {name: {"ansible_host": f"192.0.2.{number}", "rdma_region": name[:-1], "rdma_region_worker": "bastion"}
             for number, name in enumerate(("east1", "east2", "west1"), 10)}  # fmt: skip
    own = {"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_rails": []}
    site = {"all": {"hosts": {"bastion": {}}, "children": {"rdma": {"hosts": hosts, "vars": own}}}}
    (tmp_path / "site.json").write_text(json.dumps(site))
    inventory = load_inventory(tmp_path / "site.json", "east1")
    _findings, specs = judge_with_specs(inventory)
    _region, job, arguments, _data = sent(Regions(inventory, specs), ["east1"])
    assert set(read(job)["hosts"]) == {"east1", "east2", "localhost"}, "all of the region, whatever the limit"
    assert arguments["extravars"] == {WHOLE_CLUSTER: {"peers": ["192.0.2.10/31", "192.0.2.12/32"], "unknown": []}}
    assert cluster_addresses({**arguments["extravars"], "groups": {"rdma": ["east1"]}}) == arguments["extravars"][WHOLE_CLUSTER]


def test_extra_variables_lie_over_everything_there_too(regions: Regions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given, "extra_vars", ("token=of-e",))
    inventory = load_inventory(regions.inventory.path)
    _findings, specs = judge_with_specs(inventory)
    _region, _job, arguments, _data = sent(Regions(inventory, specs), ["e1"], rdma_areas=["nccl"])
    assert arguments["extravars"] == {"token": "of-e", "rdma_areas": ["nccl"]}


def test_parts_of_a_saved_plan_go_to_their_nodes_worker(regions: Regions, tmp_path: Path) -> None:
    for name in ("e1", "w1"):
        saved_plan.keep_part(tmp_path, name, [{"key": f"plan of {name}"}])
    _region, job, arguments, data = sent(regions, ["e1"], **{saved_plan.VARIABLE: str(tmp_path), scanned.VARIABLE: str(tmp_path)})
    assert arguments["extravars"] == {saved_plan.VARIABLE: f"{JOB}/saved"}
    assert [name.partition("/")[0] for name in job.files if name not in ("nodes", "inventory.yml")] == ["saved"]
    assert b"plan of e1" in data
    assert b"plan of w1" not in data


@pytest.mark.parametrize(("line", "why"), [
    (b"\n", "is no job"), (b"{}\n", "is no job"), (b"[1]\n", "is no job"), (b'{"version": "1"}\n', "is no job"),
    (b"[" * 100_000 + b"\n", "is no job"), (b"\xff\xfe\n", "is no job"),
    (b'{"version": "0.0", "patience": 5, "stream": 1, "files": {}}\n', "the controller has 0.0; allowed: the same on both"),
    (json.dumps({"version": __version__, "patience": 5, "stream": 1 << 40, "files": {}}).encode() + b"\n", "allowed: up to"),
])  # fmt: skip
def test_what_is_no_job_of_ours_is_refused(line: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_job(line)


def test_a_playbook_that_counts_its_nodes_has_one_place_after_the_other(regions: Regions) -> None:
    nodes = ["w1", "h1", "e1", "e2"]
    assert places(regions, "remediate", nodes) == [["h1"], ["w1"], ["e1", "e2"]]
    assert places(regions, "apply", nodes) == [nodes]
    assert places(None, "remediate", None) == [None]


def test_a_batch_of_an_upgrade_is_one_run_over_its_regions(regions: Regions, monkeypatch: pytest.MonkeyPatch) -> None:
    """So its journal and its rules count all of them."""
    asked: list[Any] = []
    shown: Any = nullcontext

    def run_playbook(*words: Any) -> RunOutcome:
        asked.append(words)
        return RunOutcome()

    monkeypatch.setattr(upgrade_run, "run_playbook", run_playbook)
    upgrade_run.Playbooks(Path("site"), {}, {}, shown, regions=regions).execute("change", ["e1", "w1", "h1"], {})
    assert [(words[0], words[2], words[6], words[7]) for words in asked] == [("upgrade_step", None, ["e1", "w1", "h1"], regions)]
