# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan for AIACC's plugin on simulated nodes: package, loader's path, loader's cache; and what forbids it."""

from collections.abc import Callable
from typing import Any

import pytest

from aiacc_node import PINS, AiaccNode, wishes
from ansible_collections.railwright.rdma.plugins.module_utils.areas.nccl import aiacc
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.aiacc import package_of
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.plan.package_steps import downloads, package_steps
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Problem

MakeNode = Callable[..., AiaccNode]
PLUGIN = "/usr/local/lib/libnccl-net.so"
SYSTEMS = ("ubuntu2404", "rocky9")
CONF = "/etc/ld.so.conf.d/railwright-aiacc.conf"


class Planner:
    """The area against a node, as plan.py calls it."""

    def __init__(self, node: AiaccNode, **values: Any) -> None:
        self.node, self.spec, self.identity = node, wishes(**values), observe_identity(node)

    @property
    def plan(self) -> list[Change]:
        desired = aiacc.desired(self.spec, self.identity)
        return aiacc.plan(desired, aiacc.observe(self.node, desired))

    @property
    def refused(self) -> list[Problem]:
        desired = aiacc.desired(self.spec, self.identity)
        return aiacc.problems(self.spec, self.identity, desired) + aiacc.conflicts(desired, aiacc.observe(self.node, desired))

    @property
    def notes(self) -> list[str]:
        desired = aiacc.desired(self.spec, self.identity)
        return aiacc.notes(desired, aiacc.observe(self.node, desired))

    @property
    def pin(self) -> str | None:
        package = package_of(self.spec, self.identity.platform.package_manager)
        return package.sha256 if package is not None else None

    def words(self) -> str:
        assert len(self.refused) == 1, self.refused
        return f"{self.refused[0].subject}: {self.refused[0].message}"

    def apply(self) -> None:
        """The package step of the playbook (its files, and no ldconfig), then the changes with ops."""
        planned = self.plan
        for change in planned:
            if change.package is not None:
                self.node.install("aiacc-nccl-plugin", f"{change.after}-1" if self.node.rpm else str(change.after), PLUGIN, PLUGIN + ".0")
        for op in (op for change in self.plan for op in change.ops):
            if op.kind == "write":
                self.node.put(op.path, op.content)
            else:
                assert self.node.run(op.argv).ok


@pytest.mark.parametrize("os_name", SYSTEMS)
def test_package_path_and_cache_and_nothing_the_second_time(node: MakeNode, os_name: str) -> None:
    planner = Planner(node(os_name))
    whats = [change.what for change in planner.plan]
    path = [f"file {CONF}"] if os_name == "rocky9" else []
    assert whats == ["package aiacc-nccl-plugin", *path, f"{PLUGIN} in the loader's cache"]
    assert (planner.plan[0].before, planner.plan[0].after, planner.plan[0].disruption) == (None, "1.0.2", "none")
    assert planner.refused == []
    planner.apply()
    assert planner.plan == []
    assert planner.refused == []
    assert planner.node.cache["libnccl-net.so"] == [PLUGIN]
    assert planner.node.exists(CONF) is (os_name == "rocky9")


def test_what_is_there_in_the_right_release_is_no_change(node: MakeNode) -> None:
    host = node("rocky9")
    host.put("etc/ld.so.conf.d/site.conf", "/usr/local/lib\n")
    host.install("aiacc-nccl-plugin", "1.0.2-1.el7", PLUGIN)
    host.ldconfig()
    assert Planner(host).plan == []


@pytest.mark.parametrize(("found", "disruption"), [("1.0.1", "none"), ("1.0.20", "downgrade"), ("1.1.0", "downgrade")])
def test_another_release_is_replaced_and_an_older_one_needs_consent(node: MakeNode, found: str, disruption: str) -> None:
    host = node()
    host.install("aiacc-nccl-plugin", found, PLUGIN)
    host.ldconfig()
    changes = Planner(host).plan
    assert [(change.what, change.before, change.after, change.disruption) for change in changes] == [
        ("package aiacc-nccl-plugin", found, "1.0.2", disruption)
    ]


def test_a_library_that_the_loader_does_not_know_yet(node: MakeNode) -> None:
    host = node()
    host.install("aiacc-nccl-plugin", "1.0.2", PLUGIN)
    assert [change.what for change in Planner(host).plan] == [f"{PLUGIN} in the loader's cache"]


def test_nothing_is_planned_nor_asked_where_nobody_wants_it(node: MakeNode) -> None:
    host = node()
    host.install("aiacc-nccl-plugin", "1.0.2", PLUGIN)
    host.nccl("/usr/local/lib/libnccl.so.2", "2.30.7")
    host.commands.clear()
    planner = Planner(host, nccl_profile="erdma-native", aiacc_install=False)
    assert (planner.plan, planner.refused, planner.notes) == ([], [], [])


@pytest.mark.parametrize(("os_name", "ending"), [("ubuntu2404", "deb"), ("rocky9", "rpm")])
def test_the_step_installs_one_file_that_the_dry_run_compares(node: MakeNode, os_name: str, ending: str) -> None:
    planner = Planner(node(os_name))
    path = f"/var/cache/railwright/packages/aiacc-nccl-plugin.{ending}"
    manager = planner.identity.platform.package_manager
    assert package_steps(planner.plan, manager)["steps"] == [{"area": "aiacc", "state": "unsigned", "names": [path]}]
    rows = downloads(planner.spec, planner.identity, planner.plan)
    assert [(row["dest"], row["checksum"]) for row in rows] == [(path, "")]
    assert planner.pin == PINS["aiacc_nccl_plugin_" + ending]
    assert rows[0]["url"].endswith(f"/nccl-plugin/{ending}/aiacc-nccl-plugin-1.0.2.{ending}")
    mirrored = Planner(node("debian12" if ending == "deb" else "alinux3"), artifact_mirror="http://mirror.example.com/m")
    assert downloads(mirrored.spec, mirrored.identity, mirrored.plan)[0]["url"].startswith(
        "http://mirror.example.com/m/ali-perseus-release."
    )


def test_a_newer_release_has_its_own_place_and_its_own_checksum(node: MakeNode) -> None:
    planner = Planner(node("rocky9"), aiacc_version="1.1.0")
    rows = downloads(planner.spec, planner.identity, planner.plan)
    assert [row["url"].rpartition("/")[2] for row in rows] == ["aiacc-nccl-plugin-1.1.0.rpm"]
    assert planner.pin == "f" * 64
    other = Planner(
        node("alinux3"), aiacc_version="1.2.0", aiacc_url="http://mirror.example.com/plugin.rpm", artifact_mirror="http://m.example"
    )
    rows = downloads(other.spec, other.identity, other.plan)
    assert [row["url"] for row in rows] == ["http://mirror.example.com/plugin.rpm"]
    assert other.pin == "e" * 64


def test_a_file_of_the_controllers_is_not_downloaded(node: MakeNode) -> None:
    planner = Planner(node(), aiacc_archive="/srv/plugin.deb")
    assert downloads(planner.spec, planner.identity, planner.plan) == []
    assert planner.refused == []
    assert "aiacc_archive: /srv/plugin.rpm is no .deb" in Planner(node("debian12"), aiacc_archive="/srv/plugin.rpm").words()
    assert "aiacc_url: http://m.example/plugin.deb is no .rpm" in Planner(node("rocky9"), aiacc_url="http://m.example/plugin.deb").words()


@pytest.mark.parametrize("os_name", SYSTEMS)
def test_without_a_sha256_it_is_refused(node: MakeNode, os_name: str) -> None:
    other = {name: value for name, value in PINS.items() if ("rpm" in name) is (os_name != "rocky9")}
    ending = "rpm" if os_name == "rocky9" else "deb"
    assert f"set rdma_artifact_pins.aiacc_nccl_plugin_{ending} to the sha256" in Planner(node(os_name), artifact_pins=other).words()


def test_a_held_package_is_refused(node: MakeNode) -> None:
    host = node()
    host.install("aiacc-nccl-plugin", "1.0.1", PLUGIN)
    status = host.read("/var/lib/dpkg/status") or ""
    head, name, rest = status.partition("Package: aiacc-nccl-plugin\n")
    host.put("var/lib/dpkg/status", head + name + rest.replace("Status: install ok", "Status: hold ok", 1))
    host.ldconfig()
    assert "apt-mark unhold aiacc-nccl-plugin" in Planner(host).words()


@pytest.mark.parametrize("version", ["2.7.8", "2.17.1", "2.20.5", "2.30.7"])
@pytest.mark.parametrize("install", [True, False])
def test_an_nccl_that_it_does_not_go_with_is_refused_by_path_and_release(node: MakeNode, version: str, install: bool) -> None:
    host = node()
    host.nccl("/usr/local/lib/libnccl.so.2", version)
    words = Planner(host, aiacc_install=install).words()
    assert words.startswith(f"NCCL /usr/local/lib/libnccl.so.2: is {version}, ")
    assert "NCCL 2.8 to 2.16" in words


@pytest.mark.parametrize("version", ["2.8.3", "2.10.3", "2.16.5"])
def test_an_nccl_that_it_goes_with(node: MakeNode, version: str) -> None:
    host = node()
    host.nccl("/usr/local/lib/libnccl.so.2", version)
    assert Planner(host).refused == []


def test_torch_of_the_environment_counts_too(node: MakeNode) -> None:
    host = node()
    host.nccl("/opt/torch/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2", "2.27.3")
    assert "site-packages" in Planner(host, ddp_benchmark_python="/opt/torch/bin/python3").words()


def test_a_package_that_the_same_apply_replaces_is_no_reason_to_refuse(node: MakeNode) -> None:
    """Else nobody could ever go back to an NCCL that the plugin goes with. Only where a GPU makes the NCCL area act."""
    host = node()
    path = "/usr/lib/x86_64-linux-gnu/libnccl.so.2"
    host.nccl(path, "2.30.7")
    host.install("libnccl2", "2.30.7-1+cuda12.9", path)
    host.ldconfig()
    wanted = {"nccl_install": "repository", "nccl_version": "2.16.5", "cuda_version": "12.0"}
    assert len(Planner(host, **wanted).refused) == 1
    device = "sys/bus/pci/devices/0000:1b:00.0"
    for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x20b0")):
        host.put(f"{device}/{name}", text + "\n")
    assert Planner(host, **wanted).identity.gpus
    assert Planner(host, **wanted).refused == []


def test_the_distributions_nccl_is_judged_by_the_system(node: MakeNode) -> None:
    host = node()
    device = "sys/bus/pci/devices/0000:1b:00.0"
    for name, text in (("vendor", "0x10de"), ("class", "0x030200"), ("device", "0x20b0")):
        host.put(f"{device}/{name}", text + "\n")
    assert "the distribution's NCCL 2.18.5 is outside of 2.8 to 2.16" in Planner(host, nccl_install="distribution").words()


@pytest.mark.parametrize(("path", "text"), [
    ("/etc/profile.d/site.sh", "export NCCL_NET_PLUGIN=none\n"), ("/etc/environment", 'NCCL_NET_PLUGIN="none"\n')])  # fmt: skip
def test_a_variable_that_somebody_else_sets_is_refused_by_file(node: MakeNode, path: str, text: str) -> None:
    host = node()
    host.put(path, text)
    words = Planner(host).words()
    assert words.startswith(f"{path}: sets NCCL_NET_PLUGIN=none")


def test_the_files_that_apply_writes_lose_the_variable_by_themselves(node: MakeNode) -> None:
    """From erdma-native to erdma-aiacc: the plan of area nccl takes the line out."""
    host = node()
    host.put("/etc/nccl.conf", "NCCL_NET_PLUGIN=none\n")
    host.put("/etc/profile.d/railwright-nccl.sh", 'export NCCL_NET_PLUGIN="${NCCL_NET_PLUGIN:-none}"\n')
    assert Planner(host).refused == []
    assert "/etc/nccl.conf: sets" in Planner(host, nccl_conf_path="/etc/site/nccl.conf").words()


def test_another_plugin_is_neither_overwritten_nor_preferred(node: MakeNode) -> None:
    host = node()
    host.put(PLUGIN, b"\x7fELF of somebody else")
    assert "belongs to no package" in Planner(host).words()
    other = node("rocky9")
    other.put("etc/ld.so.conf.d/a-hpcx.conf", "/opt/hpcx/lib\n")
    other.put("etc/ld.so.conf.d/b.conf", "/usr/local/lib\n")
    other.put("/opt/hpcx/lib/libnccl-net.so", b"\x7fELF")
    other.install("aiacc-nccl-plugin", "1.0.2-1", PLUGIN)
    other.ldconfig()
    assert Planner(other).words().startswith("/opt/hpcx/lib/libnccl-net.so: is another network plugin")


def test_deepnccl_and_packages_of_an_index_are_said_and_stop_nothing(node: MakeNode) -> None:
    host = node()
    host.nccl("/usr/local/lib/libnccl.so.2", "2.16.5")
    host.put("/usr/local/lib/libnccl.so.2.bak", b"\x7fELF")
    host.install("deep-nccl", "2.1", "/usr/local/lib/libnccl.so.2")
    host.put("/usr/lib/python3/dist-packages/aiacc_nccl_plugin-2.0.1.dist-info/METADATA", "")
    host.put("/usr/lib/python3/dist-packages/deepnccl-2.2.1-py3.11.egg-info/PKG-INFO", "")
    host.put("/usr/lib/python3/dist-packages/torch-1.10.1.dist-info/METADATA", "")
    planner = Planner(host)
    assert planner.refused == []
    deep, *index = planner.notes
    assert "package deep-nccl 2.1" in deep
    assert "/usr/local/lib/libnccl.so.2.bak" in deep
    assert [line.split()[1:3] for line in index] == [["aiacc-nccl-plugin", "2.0.1"], ["deepnccl", "2.2.1"]]


def test_a_system_without_deb_or_rpm_is_refused(node: MakeNode) -> None:
    host = node()
    host.put("etc/os-release", 'ID=sles\nVERSION_ID="15.6"\nID_LIKE="suse"\nPRETTY_NAME="SLES 15 SP6"\n')
    assert any("there is a deb and an rpm of aiacc-nccl-plugin" in problem.message for problem in Planner(host).refused)
