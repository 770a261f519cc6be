# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright container flags``: a captured tree with and without an inventory, a run over nodes, exit codes, ranks."""

import json
from typing import Any

import pytest
import yaml

import railwright.run
from ansible_collections.railwright.rdma.plugins.module_utils.entry.containers import inspect_container_access
from node_trees import NODES
from railwright.cli.main import run
from railwright.container_flags import FORMS
from railwright.events import Collector, HostOutcome, RunOutcome

from .conftest import Captured, Write

Capsys = pytest.CaptureFixture[str]


def told(capsys: Capsys, *argv: str, code: int = 0) -> tuple[str, str]:
    by = [] if "--sysroot" in argv else ["--transport", "ansible"]  # whose runs the tests play
    got = run(["container", "flags", *by, *argv])
    out, err = capsys.readouterr()
    assert got == code, (out, err)
    return out, err


def test_a_captured_tree_by_itself(captured: Captured, capsys: Capsys) -> None:
    captured.podman()
    out, err = told(capsys, "--sysroot", captured.root, "--image", "train:1", "--", "torchrun", "--nproc_per_node=2", "train.py")
    assert out.startswith("# gpu-host-1\n")
    flags = "--nnodes=1 --node_rank=0 --master_addr=127.0.0.1 --master_port=29500"
    assert out.endswith(f"  train:1 torchrun {flags} --nproc_per_node=2 train.py\n")
    assert "podman run --rm \\\n" in out
    assert err == ""


def test_a_captured_tree_as_a_node_of_an_inventory(captured: Captured, inventory: Write, capsys: Capsys) -> None:
    """Ranks are in the order of the inventory, not of the alphabet; rank 0's address is its own."""
    site = "rdma_fabric: roce\nrdma_mtu: 9000\ncontainers_image: site:1\ncontainers_shm_size: 16g\ncontainers_runtime: podman\n"
    out, _err = told(capsys, "--sysroot", captured.root, "-i", inventory(site), "--limit", "alpha", "--format", "json")
    (found,) = json.loads(out).values()
    assert found["torchrun"][:3] == ["--nnodes=2", "--node_rank=1", "--master_addr=198.51.100.11"]
    assert found["argv"][:2] == ["podman", "run"]
    assert found["argv"][-1] == "site:1"
    assert "--shm-size=16g" in found["argv"]
    assert found["environment"]["NCCL_IB_HCA"] == "=mlx5_0:1"


@pytest.mark.parametrize("name", ["doca8", "ib8", "erdma2", "rxe"])
def test_a_tree_as_it_is_captured(name: str, capsys: Capsys) -> None:
    """Not one that the test has written for the verb: sysfs says which devices there were."""
    out, err = told(capsys, "--sysroot", str(NODES / name), "--image", "train:1", "--format", "json")
    (found,) = json.loads(out).values()
    count = len(list((NODES / name / "sys/class/infiniband").iterdir()))
    assert [device for device in found["devices"] if "uverbs" in device] == [f"/dev/infiniband/uverbs{at}" for at in range(count)]
    assert ("/dev/infiniband/rdma_cm" in found["devices"]) is (name == "doca8")
    assert (found["problems"], err) == ([], "")


def test_a_tree_without_devices_is_a_problem(capsys: Capsys) -> None:
    assert "has no uverbs device" in told(capsys, "--sysroot", str(NODES / "nohca"), code=1)[1]


def test_every_form_is_there(captured: Captured, capsys: Capsys) -> None:
    for form in FORMS:
        out, _err = told(capsys, "--sysroot", captured.root, "--format", form, "--image", "x")
        assert out.startswith("# gpu-host-1\n"), form
    assert told(capsys, "--help")[0].count("--format") > 0


@pytest.mark.parametrize(("argv", "said"), [
    ((), "no node is named: give -i INVENTORY, or --sysroot DIR"),
    (("--sysroot", ".", "--image", "a b"), "--image a b: allowed: the name of an image"),
    (("--sysroot", ".", "--image-cuda", "12"), "--image-cuda 12: allowed: a release of CUDA, like 12.4"),
    (("--sysroot", ".", "--image-os", "Ubuntu"), "--image-os Ubuntu: allowed:"),
    (("--sysroot", ".", "--rdma-resource", "a/b/c"), "--rdma-resource a/b/c: allowed:"),
    (("--sysroot", ".", "--master-addr", "$(id)"), "--master-addr $(id): allowed:"),
    (("--sysroot", ".", "--pod-network"), "--pod-network is for pods"),
    (("--sysroot", "nowhere"), "--sysroot nowhere: does not exist"),
])
def test_bad_usage(inventory: Write, capsys: Capsys, argv: tuple[str, ...], said: str) -> None:
    inventory()
    assert said in told(capsys, *argv, code=64)[1]


def test_a_tree_is_one_node(captured: Captured, inventory: Write, capsys: Capsys) -> None:
    where = inventory()
    assert "is one node, and the inventory has 2" in told(capsys, "--sysroot", captured.root, "-i", where, code=64)[1]
    assert "give -i INVENTORY too" in told(capsys, "--sysroot", captured.root, "--limit", "alpha", code=64)[1]
    said = told(capsys, "--sysroot", captured.root, "-i", where, "--limit", "alpha", "--job", "zeta", code=64)[1]
    assert "alpha is no node of the job" in said


def test_cuda_that_does_not_run_prints_no_command(with_gpus: Captured, capsys: Capsys) -> None:
    with_gpus.driver("470.82.01")
    out, err = told(capsys, "--sysroot", with_gpus.root, "--image", "x", "--image-cuda", "12.4", code=1)
    assert out == ""
    assert "gpu-host-1: error: the image's CUDA 12.4 needs driver 525 or newer, and this node has 470.82.01" in err
    out, _err = told(capsys, "--sysroot", with_gpus.root, "--image", "x", "--image-cuda", "12.4", "--format", "json", code=1)
    assert json.loads(out)["gpu-host-1"]["cuda"]["fits"] is False


class Nodes:
    """What a run of the playbook would bring: each host's look, through the same door as the module's results."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, looks: dict[str, Any]) -> None:
        self.looks, self.playbook = looks, ""
        self.variables: dict[str, Any] = {}
        monkeypatch.setattr(railwright.run, "run_playbook", self.answer)

    def answer(self, playbook: str, _inventory: Any, limit: str | None, variables: dict[str, Any], *_rest: Any) -> RunOutcome:
        self.playbook, self.variables = playbook, variables
        collector = Collector()
        for name, found in self.looks.items():
            if limit not in (None, name):
                continue
            data = {"host": name, "task": "Look", "resolved_action": "railwright.rdma.rdma_state", "res": {"container": found}}
            collector.handle({"event": "runner_on_ok" if found is not None else "runner_on_unreachable", "event_data": data})
        return collector.finish()


def test_ranks_of_a_run_over_nodes(captured: Captured, inventory: Write, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    captured.docker()
    nodes = Nodes(monkeypatch, {"alpha": inspect_container_access(captured, None), "zeta": inspect_container_access(captured, None)})
    out, _err = told(capsys, "-i", inventory(), "--image", "x:1", "--format", "json", "--", "torchrun", "t.py")
    assert nodes.playbook == "container_flags"
    assert (nodes.variables["rdma_container_job"], nodes.variables["rdma_container_image"]) == (["zeta", "alpha"], "x:1")
    found = json.loads(out)
    assert [found[name]["torchrun"][1:3] for name in ("zeta", "alpha")] == [
        [f"--node_rank={rank}", "--master_addr=192.0.2.11"] for rank in (0, 1)]
    text, _err = told(capsys, "-i", "inv", "--image", "x:1", "--format", "compose")
    assert [sorted(document) for document in yaml.safe_load_all(text)] == [["services"], ["services"]]


def test_rank_0_need_not_be_inspected(captured: Captured, inventory: Write, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    """The action plugin adds its addresses as the inventory has them."""
    Nodes(monkeypatch, {"alpha": {**inspect_container_access(captured, None), "first_addresses": ["127.0.0.1", "fe80::1", "203.0.113.9"]}})
    out, _err = told(capsys, "-i", inventory(), "--limit", "alpha", "--image", "x:1")
    assert "# rank 1 of 2 nodes; rank 0 is at 203.0.113.9, zeta in the inventory: torchrun --nnodes=2 --node_rank=1" in out
    out, _err = told(capsys, "-i", "inv", "--limit", "alpha", "--image", "x:1", "--master-addr", "node0.example", "--master-port", "6000")
    assert "--master_addr=node0.example --master_port=6000" in out
    out, _err = told(capsys, "-i", "inv", "--limit", "alpha", "--image", "x:1", "--job", "alpha", "--format", "json")
    assert json.loads(out)["alpha"]["torchrun"][:3] == ["--nnodes=1", "--node_rank=0", "--master_addr=127.0.0.1"]


def test_pods_of_one_job(captured: Captured, inventory: Write, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    Nodes(monkeypatch, {"alpha": inspect_container_access(captured, None), "zeta": inspect_container_access(captured, None)})
    out, _err = told(capsys, "-i", inventory(), "--image", "x:1", "--format", "kubernetes", "--pod-network", "--", "torchrun", "t.py")
    documents = list(yaml.safe_load_all(out))
    assert [item["kind"] for item in documents] == ["Service", "Pod", "Pod"]
    arguments = [item["spec"]["containers"][0]["args"] for item in documents[1:]]
    assert [words[3] for words in arguments] == ["--master_addr=rdma-zeta.rdma"] * 2


def test_a_node_that_does_not_answer_is_3(captured: Captured, inventory: Write, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(monkeypatch, {"zeta": inspect_container_access(captured, None), "alpha": None})
    out, err = told(capsys, "-i", inventory(), "--image", "x:1", code=3)
    assert out.startswith("# zeta\n")
    assert "alpha: unreachable" in err
    nodes.looks = {"alpha": None}
    out, _err = told(capsys, "-i", "inv", "--limit", "alpha", "--image", "x:1", "--format", "json", code=3)
    assert json.loads(out) == {"alpha": None}


def test_an_answer_without_a_look_is_a_failure(inventory: Write, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(railwright.run, "run_playbook", lambda *_args: RunOutcome({"zeta": HostOutcome("zeta")}))
    assert "the run ended before this node's container flags" in told(capsys, "-i", inventory(), "--limit", "zeta", code=1)[1]


def test_a_bad_inventory_contacts_nobody(inventory: Write, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = Nodes(monkeypatch, {})
    _out, err = told(capsys, "-i", inventory("rdma_fabric: roce\nrdma_mtu: 9000\ncontainers_shm_size: 16 GB\n"), code=64)
    assert "containers_shm_size: 16 GB" in err
    assert nodes.playbook == ""
