# SPDX-License-Identifier: GPL-3.0-or-later
"""What a preflight refuses, and with which words."""

import calendar
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import platform_of
from ansible_collections.railwright.rdma.plugins.module_utils.plan.preflight import (
    Evidence,
    observe_preflight,
    preflight_problems,
    preflight_warnings,
)
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity
from field_specs import build_spec

NOW = float(calendar.timegm((2026, 11, 20, 12, 0, 0)))
GOOD = Evidence(uid=0, free_mb={"/": 9000, "/var": 9000}, clock=NOW, sent=NOW, received=NOW + 1, synchronised=True)


def spec(**values: Any) -> Spec:
    built, findings = build_spec({"fabric": "roce", "mtu": 9000, **values}, "node1")
    assert built is not None, findings
    return built


def identity(os_id: str = "debian", version: str = "12", kernel: str = "6.1.0-26-amd64", python: str = "3.11.2") -> Identity:
    platform = platform_of(f'ID={os_id}\nVERSION_ID="{version}"\n')
    return Identity("node1", platform, kernel, "x86_64", python, None, (), (), ("systemd",))


def subjects(*arguments: Any) -> list[str]:
    return [problem.subject for problem in preflight_problems(*arguments)]


def message(*arguments: Any) -> str:
    (problem,) = preflight_problems(*arguments)
    assert problem.area == "preflight"
    return f"{problem.subject}: {problem.message}"


def test_a_good_node_has_no_problem_and_no_warning() -> None:
    assert preflight_problems(spec(), identity(), GOOD) == []
    assert preflight_warnings(spec(), identity(), GOOD) == []


def test_an_unknown_system_is_refused_with_the_supported_ones() -> None:
    text = message(spec(), identity("slackware", "15.0"), GOOD)
    assert text.startswith("system: slackware 15.0 is not supported; supported are ")
    assert "Debian 12" in text
    assert "CentOS Linux 7" not in text


@pytest.mark.parametrize(("os_id", "version", "since"), [("centos", "7", "2024-06-30"), ("ubuntu", "18.04", "2023-05-31")])
def test_end_of_life_is_refused_unless_accepted(os_id: str, version: str, since: str) -> None:
    node = identity(os_id, version, kernel="5.4.0-1")
    text = message(spec(), node, GOOD)
    assert since in text
    assert "accept_eol" in text
    assert preflight_problems(spec(accept_eol=True), node, GOOD) == []
    assert [item.subject for item in preflight_warnings(spec(accept_eol=True), node, GOOD)] == ["system"]


def test_the_controller_s_date_decides_about_end_of_life() -> None:
    early = float(calendar.timegm((2020, 1, 1, 0, 0, 0)))
    node = identity("centos", "7", kernel="3.10.0-1160.el7.x86_64")
    assert "system" in subjects(spec(), node, GOOD._replace(clock=early))
    assert subjects(spec(), node, GOOD._replace(clock=early, sent=early, received=early)) == []


@pytest.mark.parametrize(("stack", "kernel", "good"), [
    ("inbox", "4.4.0-1", False), ("inbox", "4.5.0", True), ("inbox", "4.18.0-553.el8_10.x86_64", True),
    ("soft_roce", "4.19.91-26.al7.x86_64", False), ("soft_roce", "4.18.0-553.el8_10.x86_64", True), ("soft_roce", "5.10.134-17.al8", True),
])  # fmt: skip
def test_each_stack_has_a_kernel_floor(stack: str, kernel: str, good: bool) -> None:
    found = preflight_problems(spec(rdma_stack=stack), identity(kernel=kernel), GOOD)
    assert [item.subject for item in found] == ([] if good else ["kernel"])
    assert good or kernel in found[0].message


def test_python_root_systemd_and_disk() -> None:
    assert message(spec(), identity(python="3.5.2"), GOOD) == "Python: 3.5.2 is too old; at least 3.6 is needed"
    assert "become" in message(spec(), identity(), GOOD._replace(uid=1000))
    assert message(spec(), identity()._replace(capabilities=()), GOOD).startswith("systemd: ")
    low = GOOD._replace(free_mb={"/": 2000, "/var": 1023})
    assert message(spec(), identity(), low) == "disk /var: 1023 MiB free, 1024 needed (preflight_min_free_mb)"
    assert preflight_problems(spec(preflight_min_free_mb=1000), identity(), low) == []


def test_modules_that_are_built_need_room_of_their_own() -> None:
    """A full /boot leaves half an initramfs. In a container, or for a stack without modules, nobody writes there."""
    low = GOOD._replace(free_mb={**GOOD.free_mb, "/boot": 127, "/usr": 1024})
    rails = [{"name": "rail0", "match": {"pci": "0000:1a:00.0"}, "address": "192.0.2.11/28"}]
    doca = spec(rdma_stack="doca", rails=rails)
    assert message(doca, identity(), low) == "disk /boot: 127 MiB free, 128 needed to build and install kernel modules"
    assert preflight_problems(doca, identity(), GOOD._replace(free_mb={**GOOD.free_mb, "/boot": 128, "/usr": 1024})) == []
    assert preflight_problems(spec(), identity(), low) == []
    inside = identity()
    assert preflight_problems(doca, inside._replace(capabilities=(*inside.capabilities, "container")), low) == []


@pytest.mark.parametrize(("offset", "words"), [
    (-32.0, "31 s behind"), (-31.0, None), (0.0, None), (31.0, None), (32.0, "31 s ahead of"),
])  # fmt: skip
def test_clocks_may_differ_by_the_round_trip_and_the_limit(offset: float, words: str | None) -> None:
    found = preflight_problems(spec(preflight_max_clock_skew_s=30), identity(), GOOD._replace(clock=NOW + offset))
    assert [item.subject for item in found] == ([] if words is None else ["clock"])
    assert words is None or words in found[0].message


def test_an_unsynchronised_clock_is_a_warning() -> None:
    found = preflight_warnings(spec(), identity(), GOOD._replace(synchronised=False))
    assert [item.subject for item in found] == ["clock"]


def test_nothing_known_is_nothing_judged() -> None:
    assert preflight_problems(spec(), identity(python="", kernel=""), Evidence(None, {}, None, None, None, None)) == []


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[str, str], None]:
    def put(name: str, text: str) -> None:
        (tmp_path / "cmd").mkdir(exist_ok=True)
        (tmp_path / "cmd" / name).write_text(text)

    return put


def test_evidence_from_the_node_itself(tree: Callable[[str, str], None], tmp_path: Path) -> None:
    tree("id_-u", "1000\n")
    tree("date_+%s", f"{int(NOW) + 500}\n")
    host = TreeHost(str(tmp_path))
    assert observe_preflight(host) == Evidence(1000, {}, None, None, None, None)
    evidence = observe_preflight(host, NOW)
    assert (evidence.clock, evidence.sent) == (NOW + 500, NOW)
    assert subjects(spec(), identity(), evidence) == ["root", "clock"]


@pytest.mark.parametrize(("keys", "text"), [
    ({"host_tuning_sysctls": {"vm.nr_hugepages": 120000}}, "host_tuning_sysctls.vm.nr_hugepages reserves 240000 MiB of the node's"),
    ({"host_tuning_sysctls": {"vm/min_free_kbytes": 67108864 * 2 - 1}}, None),
    ({"host_tuning_sysctls": {"vm/min_free_kbytes": 67000000}}, ""),
    ({"pci_tuning_kernel_args": ["hugepagesz=1G", "hugepages=127"]}, "pci_tuning_kernel_args: hugepages=127 reserves 130048 MiB of"),
    ({"pci_tuning_kernel_args": ["default_hugepagesz=1G", "hugepages=100"]}, ""),
    ({"pci_tuning_kernel_args": ["hugepages=60000"], "host_tuning_sysctls": {"vm.nr_hugepages": 60000}}, ""),
])
def test_more_memory_than_the_node_has(keys: dict[str, Any], text: str | None) -> None:
    if text is None:  # what no node has is lint's to refuse
        with pytest.raises(AssertionError, match="does not survive it"):
            spec(**keys)
        return
    evidence = GOOD._replace(memory={"MemTotal": 128 * 1024 * 1024, "Hugepagesize": 2048})
    found = [problem.message for problem in preflight_problems(spec(**keys), identity(), evidence)]
    assert [message.startswith(text) for message in found] == ([True] if text else [])
    in_container = identity()._replace(capabilities=("systemd", "container"))
    assert preflight_problems(spec(**keys), in_container, evidence) == []
    assert preflight_problems(spec(**keys), identity(), GOOD) == [], "a probe without Python does not read it"


def test_the_memory_that_a_node_says_of_itself(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       16384256 kB\nMemFree:         1 kB\nHugepagesize:       2048 kB\n")
    assert observe_preflight(TreeHost(str(tmp_path))).memory == {"MemTotal": 16384256, "Hugepagesize": 2048}
