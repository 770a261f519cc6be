# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright explain gpudirect``: captured trees, and what a run of the playbook brought; what nodes say is shown, not obeyed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.entry.gpudirect import explain, needed_source
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from node_trees import NODES
from railwright.cli import console
from railwright.cli.explain import show_explanation
from railwright.cli.main import run as run_command
from railwright.events import Collector

OLD = "4.18.0-553.el8_10.x86_64"


@pytest.fixture(autouse=True)
def own_streams() -> Iterator[None]:
    """The consoles keep the stream that they were made with; capsys gives every test another one."""
    console.out.cache_clear()
    console.err.cache_clear()
    yield
    console.out.cache_clear()
    console.err.cache_clear()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_command(["explain", "gpudirect", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def captured_json(capsys: pytest.CaptureFixture[str], name: str) -> dict[str, Any]:
    code, out, _err = run(capsys, "--sysroot", str(NODES / name), "--format", "json")
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_node_that_takes_dma_buf(capsys: pytest.CaptureFixture[str]) -> None:
    found = captured_json(capsys, "doca8")
    assert found["path"] == "dmabuf"
    assert "the HCAs and CUDA were asked and support it" in found["reason"]
    assert {item["path"]: item["certain"] for item in found["refused"]} == {"nvidia_peermem": False, "nv_peer_mem": True}


def test_a_node_that_takes_peermem(capsys: pytest.CaptureFixture[str]) -> None:
    """ib8: the same stack and driver, in a kernel without on-demand paging."""
    found = captured_json(capsys, "ib8")
    assert found["path"] == "nvidia_peermem"
    assert "CONFIG_INFINIBAND_ON_DEMAND_PAGING" in found["reason"]
    build = next(row for row in found["evidence"] if row["what"] == "peer memory module on disk")
    assert (build["value"], build["source"].endswith("nvidia-peermem.ko.zst")) == ("fits", True)


def test_every_piece_of_evidence_says_where_it_was_read(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("doca8", "ib8", "hgx-skew", "erdma2"):
        evidence = captured_json(capsys, name)["evidence"]
        assert len(evidence) > 10
        assert all(row["what"] and row["source"] for row in evidence)


@pytest.mark.parametrize(("name", "words"), [("nohca", "no NVIDIA GPU"), ("rxe", "no NVIDIA GPU"), ("hgx-skew", "no RDMA device")])
def test_a_node_with_nothing_to_connect_says_so(capsys: pytest.CaptureFixture[str], name: str, words: str) -> None:
    code, out, _err = run(capsys, "--sysroot", str(NODES / name))
    assert code == 0
    assert "path: none" in out
    assert words in out


def test_every_captured_node_can_be_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for path in NODES.iterdir():
        if path.is_dir():
            assert captured_json(capsys, path.name)["reason"]


def test_text_names_the_alternatives_and_the_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    _code, out, _err = run(capsys, "--sysroot", str(NODES / "ib8"))
    assert "because: DMA-BUF is out" in out
    assert any(line.split()[:2] == ["dmabuf", "no"] for line in out.splitlines())
    assert "/lib/modules/6.8.0-85-generic/updates/dkms/nvidia-peermem.ko.zst" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "give -i INVENTORY, or --sysroot DIR"),
        (("--sysroot", "/nowhere"), "does not exist"),
        (("--sysroot", str(NODES), "--limit", "node1"), "does not go with"),
        (("-i", "/nowhere"), "does not exist"),
    ],
)
def test_bad_usage_is_one_line_and_64(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (64, "")
    assert words in err


def test_an_explanation_arrives_with_its_node() -> None:
    collector = Collector()
    answer = {"explanation": {"path": "dmabuf"}, "changed": False}
    collector.handle({"event": "runner_on_ok", "event_data": {"host": "n1", "task_action": "railwright.rdma.rdma_state", "res": answer}})
    foreign = {"event": "runner_on_ok", "event_data": {"host": "n2", "task_action": "ansible.builtin.debug", "res": answer}}
    collector.handle(foreign)
    outcome = collector.finish()
    assert outcome.hosts["n1"].explanation == {"path": "dmabuf"}
    assert outcome.hosts["n2"].explanation is None


def test_what_a_node_says_is_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b[2J[red]x[/red]"
    show_explanation(
        {
            "path": evil,
            "reason": evil,
            "problem": evil,
            "gpus": 1,
            "refused": [{"path": evil, "why": evil, "certain": True}],
            "evidence": [{"what": evil, "value": evil, "source": evil}],
        }
    )
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[red]x[/red]" in out


def test_the_inventory_s_wish_and_its_refusal_are_explained(planner: Callable[..., Any]) -> None:
    """The table alone: a refused wish is part of the explanation, with the reason."""
    plans = planner(rdma_stack="doca", gpudirect_path="nv_peer_mem")
    plans.node.put("/sys/bus/pci/devices/0000:1b:00.0/vendor", "0x10de\n")
    plans.node.put("/sys/bus/pci/devices/0000:1b:00.0/class", "0x030200\n")
    plans.node.put("/sys/bus/pci/devices/0000:1b:00.0/device", "0x2330\n")
    plans.node.put("/sys/class/infiniband/mlx5_0/device/uevent", "DRIVER=mlx5_core\n")
    plans.node.driver("580.95.05")
    found = explain(plans.node, plans.spec)
    assert found["path"] == "nv_peer_mem"
    assert found["problem"].startswith("nv_peer_mem cannot work on this node")


def test_the_source_is_asked_for_only_where_it_is_missing(planner: Callable[..., Any]) -> None:
    def node(**values: Any) -> Any:
        plans = planner(kernel=OLD, rdma_stack="mlnx_ofed", **values)
        for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x2330")):
            plans.node.put(f"/sys/bus/pci/devices/0000:1b:00.0/{name}", text + "\n")
        plans.node.put("/sys/class/infiniband/mlx5_0/device/uevent", "DRIVER=mlx5_core\n")
        plans.node.driver("460.106.00", "NVIDIA")
        return plans

    pinned = node(artifact_pins={"nv_peer_mem-1.3": "b" * 64}, artifact_mirror="https://mirror.example.com/pub")
    source = needed_source(pinned.node, pinned.spec)
    assert source is not None
    assert source["url"].startswith("https://mirror.example.com/pub/github.com/")
    assert (source["sha256"], source["directory"], source["release"]) == ("b" * 64, "/usr/src/nv_peer_mem-1.3", "1.3-0")
    pinned.node.put("/usr/src/nv_peer_mem-1.3/dkms.conf", "")
    assert needed_source(pinned.node, pinned.spec) is None
    plain = planner()
    plain.node.driver("580.95.05")
    assert needed_source(plain.node, plain.spec) is None


def test_an_archive_that_is_not_pinned_is_not_taken(planner: Callable[..., Any]) -> None:
    plans = planner(kernel=OLD, rdma_stack="mlnx_ofed")
    for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x2330")):
        plans.node.put(f"/sys/bus/pci/devices/0000:1b:00.0/{name}", text + "\n")
    plans.node.put("/sys/class/infiniband/mlx5_0/device/uevent", "DRIVER=mlx5_core\n")
    plans.node.driver("460.106.00", "NVIDIA")
    with pytest.raises(RailwrightError, match="artifact_pins"):
        needed_source(plans.node, plans.spec)
