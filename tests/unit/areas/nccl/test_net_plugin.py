# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl.plugin: AWS's and Google's plugins, as files of a captured tree that the test writes, read by the facts and judged."""

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.nccl.net_plugin import judge_net_plugin
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.net_plugins import NET_PLUGINS
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nccl import observe_nccl
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity, Platform
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.profiles import NCCL_PROFILES
from field_specs import build_spec

UBUNTU = Platform("ubuntu", "24.04", "noble", (), "Ubuntu 24.04", "debian", "apt")
NODE = Identity("n1", UBUNTU, "6.8.0", "x86_64", "3.12", None, (), (), ())
NCCL = [{"path": "/usr/lib/x86_64-linux-gnu/libnccl.so.2", "version": "2.30.7", "origin": "package"}]
CHECKED = [(profile.name, plugin.paths) for profile in NCCL_PROFILES for plugin in NET_PLUGINS if profile.transport == plugin.transport]


def status(tree: Path, profile: str, *files: str, **more: Any) -> list[tuple[str, str]]:
    """(verdict, message) of a node with these files."""
    for name in files:
        path = tree / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    spec, _findings = build_spec({"fabric": "roce", "mtu": 9000, "qos_profile": "none", "nccl_profile": profile}, "n1")
    assert spec is not None
    facts = {"nccl": observe_nccl(TreeHost(str(tree))), "nccl_libraries": NCCL, **more}
    return [(item.status, item.message) for item in judge_net_plugin(inspection_of("n1", spec, NODE, facts)) if item.check == "nccl.plugin"]


@pytest.mark.parametrize(("profile", "paths"), CHECKED)
def test_a_plugin_in_its_place_passes_and_a_missing_one_warns(profile: str, paths: tuple[str, ...], tmp_path: Path) -> None:
    [(verdict, message)] = status(tmp_path / "without", profile)
    assert (verdict, "use TCP sockets" in message) == ("warn", True)
    assert [status(tmp_path / str(number), profile, path)[0][0] for number, path in enumerate(paths)] == ["pass"] * len(paths)


def test_all_profiles_that_set_nothing_are_checked() -> None:
    silent = {profile.name for profile in NCCL_PROFILES if not profile.variables and profile.transport and profile.name != "erdma-aiacc"}
    assert silent == {name for name, _paths in CHECKED}
    assert len(silent) >= 6


def test_a_node_whose_jobs_bring_nccl_is_not_judged(tmp_path: Path) -> None:
    assert status(tmp_path, "aws-efa", nccl_libraries=[])[0][0] == "skipped"
    assert status(tmp_path, "gcp-a4x-max", nccl_libraries=[])[0][0] == "skipped"


def test_a_plugin_in_another_place_and_unread_facts_are_unknown(tmp_path: Path) -> None:
    assert status(tmp_path, "aws-efa", "/usr/local/lib/libnccl-net-ofi.so")[0][0] == "unknown"
    assert status(tmp_path, "aws-efa", nccl={})[0][0] == "unknown"


def test_other_profiles_have_no_such_check(tmp_path: Path) -> None:
    assert status(tmp_path, "roce") == []
    assert status(tmp_path, "gcp-a3-high") == []
