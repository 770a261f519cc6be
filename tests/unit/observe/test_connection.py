# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's connection is found behind sudo, which drops SSH_CONNECTION from the environment."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nics import ancestors_connection_address

MakeTree = Callable[[dict[str, str]], TreeHost]
SSH = "SSH_CONNECTION=10.0.0.1 40000 10.10.0.11 22"


def stat(name: str, parent: int) -> str:
    return f"42 ({name}) S {parent} 42 42 0 -1 4194304 0 0\n"


def test_a_parent_still_has_it(make_tree: MakeTree) -> None:
    host = make_tree(
        {
            "proc/self/environ": "PATH=/bin\x00HOME=/root\x00",
            "proc/self/stat": stat("python3", 30),
            "proc/30/environ": "SUDO_USER=ops\x00",
            "proc/30/stat": stat("evil) S 1 (sudo", 20),
            "proc/20/environ": f"HOME=/home/ops\x00{SSH}\x00TERM=x\x00",
            "proc/20/stat": stat("sh", 1),
        }
    )
    assert ancestors_connection_address(host) == "10.10.0.11"


def test_our_own_environment_is_asked_first(make_tree: MakeTree) -> None:
    """rdma_check reads it there alone: what Ansible's command was started with is in /proc/self/environ."""
    parent = SSH.replace("10.10.0.11", "10.99.0.99")
    host = make_tree({"proc/self/environ": f"HOME=/root\x00{SSH}\x00", "proc/self/stat": stat("a", 7), "proc/7/environ": parent})
    assert ancestors_connection_address(host) == "10.10.0.11"


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"proc/self/environ": "NOT_" + SSH, "proc/self/stat": stat("python3", 1)},
        {"proc/self/environ": "SSH_CONNECTION=garbage", "proc/self/stat": "garbage"},
        {"proc/self/stat": stat("a", 7), "proc/7/stat": stat("b", 7)},  # a circle ends too
    ],
)
def test_nobody_has_it(make_tree: MakeTree, files: dict[str, str]) -> None:
    assert ancestors_connection_address(make_tree(files)) is None


def test_on_a_live_system() -> None:
    """A child with a clean environment, under a parent that has the variable."""
    base = "from ansible_collections.railwright.rdma.plugins.module_utils."
    code = (f"{base}host.host import Host\n{base}observe.nics import ancestors_connection_address\n"
            "print(ancestors_connection_address(Host()))\n")
    environ = {key: value for key, value in os.environ.items() if key != "SSH_CONNECTION"}
    environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    parent = (
        "import subprocess, sys, os\n"
        "clean = {k: v for k, v in os.environ.items() if k != 'SSH_CONNECTION'}\n"
        "sys.exit(subprocess.call([sys.executable, '-c', sys.argv[1]], env=clean))\n"
    )
    key, _separator, value = SSH.partition("=")
    argv = [sys.executable, "-c", parent, code]
    answer = subprocess.run(argv, env={**environ, key: value}, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "10.10.0.11"
