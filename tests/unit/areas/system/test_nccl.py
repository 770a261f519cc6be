# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's two files: what NCCL's parser and a real shell make of them, and what the node adds."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.files import HEADER
from ansible_collections.railwright.rdma.plugins.module_utils.areas.nccl import environment as nccl
from ansible_collections.railwright.rdma.plugins.module_utils.formats.nccl_conf import conf_variables

CONF, PROFILE = "/etc/nccl.conf", "/etc/profile.d/railwright-nccl.sh"
SHELLS = [name for name in ("dash", "bash", "busybox") if shutil.which(name)]
HOSTILE = [
    "plain", "=mlx5_0:1,mlx5_1:1", "a b", "it's", 'say "x"', "$HOME", "$(touch /tmp/rw-owned)", "`id`", "a\\b", "\\", "${X}", "}", "a}b{c",
    "#x", "!x", "a;b&c|d", "*", "~", "é", "x" * 1023,
]  # fmt: skip


def read_conf(text: str) -> dict[str, str]:
    """NCCL 2.30.7 src/misc/param.cc: '#' in column 0, strchr '=', no trimming, setenv without overwrite."""
    found: dict[str, str] = {}
    for row in text.split("\n"):
        if row and row[0] != "#" and "=" in row:
            name, value = row.split("=", 1)
            found.setdefault(name, value[:1023])
    return found


def read_profile(shell: str, path: Path, **environment: str) -> dict[str, str]:
    """What a shell exports after it sourced the file, from a clean environment."""
    command = [shell, "sh"] if shell == "busybox" else [shell]
    environment["PATH"] = "/usr/bin:/bin"
    out = subprocess.run([*command, "-uec", f'. "{path}"; env -0'], env=environment, capture_output=True, check=True)
    return dict(item.split("=", 1) for item in out.stdout.decode().split("\0") if item.startswith("NCCL_"))


def test_a_bare_node_needs_both_files_and_then_nothing(planner: Callable[..., Any], node: Any, tmp_path: Path) -> None:
    plans = planner()
    assert plans.keys("nccl") == [f"file {CONF}", f"file {PROFILE}"]
    plans.converge("nccl")
    conf = read_conf(node.get(CONF))
    assert conf["NCCL_IB_HCA"] == "=rxe0:1,rxe1:1"
    assert "NCCL_IB_HCA==rxe0:1,rxe1:1\n" in node.get(CONF)
    assert conf["NCCL_SOCKET_IFNAME"] == "=eth0"
    assert conf["NCCL_IB_TC"] == "106"
    assert "NCCL_IB_GID_INDEX" not in conf
    for shell in SHELLS:
        assert read_profile(shell, tmp_path / PROFILE[1:]) == conf


@pytest.mark.parametrize("path", [CONF, PROFILE])
def test_each_file_alone(planner: Callable[..., Any], node: Any, path: str) -> None:
    plans = planner()
    plans.converge("nccl")
    node.remove(path)
    (change,) = plans.plan("nccl")
    assert (change.what, change.before) == (f"file {path}", None)


def test_a_file_of_somebody_else_is_replaced_in_sight(planner: Callable[..., Any], node: Any) -> None:
    node.put(CONF, "NCCL_DEBUG=INFO\n")
    change = planner().plan("nccl")[0]
    assert change.before == "NCCL_DEBUG=INFO\n"
    assert change.after.startswith(HEADER)
    assert "not written by railwright" in change.why


def test_hardware_lists_the_matched_hcas_in_rail_order(planner: Callable[..., Any], hcas: Any) -> None:
    plans = planner(rdma_stack="inbox", hcas=hcas[::-1])
    assert read_conf(plans.plan("nccl")[0].after)["NCCL_IB_HCA"] == "=mlx5_0:1,mlx5_1:1"


def test_a_rail_whose_hca_is_gone_does_not_shorten_the_list(planner: Callable[..., Any], hcas: Any, node: Any) -> None:
    planner(rdma_stack="inbox", hcas=hcas).converge("nccl")
    sick = planner(rdma_stack="inbox", hcas=hcas[:1])
    assert sick.plan("nccl") == []
    assert sick.notes("nccl") == ["nccl: no RDMA device on rail1 (eth2) at the moment; NCCL_IB_HCA stays as it is: =mlx5_0:1,mlx5_1:1"]
    node.put(CONF, "NCCL_IB_HCA=mlx5\n")  # not ours: nothing is taken over from it
    assert "NCCL_IB_HCA" not in read_conf(sick.plan("nccl")[0].after)
    assert "left out" in sick.notes("nccl")[0]


def test_overrides_beat_what_the_node_would_add(planner: Callable[..., Any]) -> None:
    plans = planner(nccl_overrides={"NCCL_IB_HCA": "^mlx5_bond_0", "NCCL_SOCKET_IFNAME": None, "NCCL_DEBUG": "WARN"})
    conf = read_conf(plans.plan("nccl")[0].after)
    assert conf["NCCL_IB_HCA"] == "^mlx5_bond_0"
    assert conf["NCCL_DEBUG"] == "WARN"
    assert "NCCL_SOCKET_IFNAME" not in conf


def test_bootstrap_interface(planner: Callable[..., Any], nics: Any) -> None:
    assert read_conf(planner(bootstrap_interface="eth2").plan("nccl")[0].after)["NCCL_SOCKET_IFNAME"] == "=eth2"
    (problem,) = planner(bootstrap_interface="eno7").problems("nccl")
    assert problem == "rdma_bootstrap_interface: this node has no interface eno7; it has eth0, eth1, eth2"
    (problem,) = planner(nics=nics[1:]).problems("nccl")
    assert "set rdma_bootstrap_interface" in problem
    assert planner().problems("nccl") == []


def test_a_rail_is_the_last_choice_for_the_bootstrap(planner: Callable[..., Any], nics: Any) -> None:
    both = (nics[1]._replace(management=True, uplink=0), nics[0]._replace(uplink=1), nics[2])
    assert read_conf(planner(nics=both).plan("nccl")[0].after)["NCCL_SOCKET_IFNAME"] == "=eth0"
    only = (nics[1]._replace(management=True, uplink=0), nics[2])
    assert read_conf(planner(nics=only).plan("nccl")[0].after)["NCCL_SOCKET_IFNAME"] == "=eth1"


@pytest.mark.parametrize("value", HOSTILE)
def test_both_grammars_carry_any_value_unchanged(value: str, tmp_path: Path) -> None:
    variables = [("NCCL_DEBUG_FILE", value), ("NCCL_IB_TC", "106")]
    assert nccl.fault(*variables[0]) is None
    assert read_conf(nccl.conf_text(variables)) == dict(variables)
    assert conf_variables(nccl.conf_text(variables)) == dict(variables)
    path = tmp_path / "nccl.sh"
    path.write_text(nccl.profile_text(variables))
    assert SHELLS
    for shell in SHELLS:
        assert read_profile(shell, path) == dict(variables)
    assert not Path("/tmp/rw-owned").exists()


def test_what_a_user_exports_wins(tmp_path: Path) -> None:
    path = tmp_path / "nccl.sh"
    path.write_text(nccl.profile_text([("NCCL_DEBUG", "WARN")]))
    assert read_profile(SHELLS[0], path, NCCL_DEBUG="INFO") == {"NCCL_DEBUG": "INFO"}


@pytest.mark.parametrize("item", [
    ("NCCL_X", "a\nNCCL_Y=b"), ("NCCL_X", "a\r"), ("NCCL_X", "a\0"), ("NCCL_X", " a"), ("NCCL_X", "a "), ("NCCL_X", ""),
    ("NCCL_X", "x" * 1024), ("NCCL_X", "é" * 512), ("export X", "1"), ("X\n", "1"), ("x;y", "1"),
])  # fmt: skip
def test_what_neither_file_can_hold_is_refused(item: tuple[str, str]) -> None:
    assert nccl.fault(*item) is not None
