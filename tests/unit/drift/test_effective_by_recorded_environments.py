# SPDX-License-Identifier: GPL-3.0-or-later
"""What jobs really get of NCCL's variables, from recorded environments: a login shell's, an ssh command's, systemd's."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host import TreeHost, recording_name
from ansible_collections.railwright.rdma.plugins.module_utils.observe.effective import (
    LOGIN,
    SHELLS,
    SHOW,
    Carrier,
    effective,
    observe_carriers,
    setters,
)


def write(root: Path, path: str, text: str, mode: int = 0o644) -> None:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    target.chmod(mode)


def process(root: Path, name: str, parent: int, environment: str) -> None:
    write(root, f"/proc/{name}/stat", f"{name} (a ) b) S {parent} 1 1")
    write(root, f"/proc/{name}/environ", environment)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    write(tmp_path, "/usr/bin/bash", "", 0o755)
    write(tmp_path, "/cmd/" + recording_name((*LOGIN, *SHELLS[0][1])), "HOME=/root\0SECRET=x\0NCCL_IB_TC=106\0NCCL_DEBUG=INFO\0")
    write(tmp_path, "/cmd/" + recording_name(SHOW), "LANG=C\nNCCL_IB_TC=41\nNCCL_DEBUG_FILE=$'/tmp/it\\'s here'\n")
    # sshd's child, the user's shell that has it from sshd, what the shell started after its startup files, sudo, and this module.
    process(tmp_path, "700", 1, "PATH=/usr/bin\0")
    process(tmp_path, "710", 700, "SSH_CONNECTION=10.0.0.1 5 10.0.0.2 22\0")
    process(tmp_path, "720", 710, "SSH_CONNECTION=10.0.0.1 5 10.0.0.2 22\0NCCL_IB_DISABLE=1\0PASSWORD=hunter2\0")
    process(tmp_path, "730", 720, "SUDO_USER=ops\0")
    process(tmp_path, "self", 730, "SUDO_USER=ops\0")
    return tmp_path


def test_each_way_has_its_own_variables_and_nobody_elses(node: Path) -> None:
    assert observe_carriers(TreeHost(str(node))) == (
        Carrier("login", {"NCCL_IB_TC": "106", "NCCL_DEBUG": "INFO"}),
        Carrier("ssh", {"NCCL_IB_DISABLE": "1"}),
        Carrier("service", {"NCCL_IB_TC": "41", "NCCL_DEBUG_FILE": "/tmp/it's here"}),
    )


def test_what_cannot_be_asked_is_not_called_empty(tmp_path: Path) -> None:
    assert [carrier.variables for carrier in observe_carriers(TreeHost(str(tmp_path)))] == [None, None, None]


def test_the_environment_wins_then_the_users_file_then_the_nodes(node: Path) -> None:
    write(node, "/root/.nccl.conf", "# mine\nNCCL_IB_TIMEOUT=18\nNCCL_IB_TC=0\n")
    host = TreeHost(str(node))
    login, ssh, _service = observe_carriers(host)
    conf = {"NCCL_IB_TC": "136", "NCCL_IB_TIMEOUT": "22", "NCCL_IB_HCA": "=mlx5_0:1"}
    assert effective(host, login, conf) == {
        "NCCL_IB_TC": "106",
        "NCCL_DEBUG": "INFO",
        "NCCL_IB_TIMEOUT": "18",
        "NCCL_IB_HCA": "=mlx5_0:1",
    }
    assert effective(host, ssh, conf)["NCCL_IB_TC"] == "0"


def test_a_file_that_is_named_stands_for_all_others(node: Path) -> None:
    write(node, "/srv/nccl.conf", "NCCL_IB_TC=41\n")
    carrier = Carrier("login", {"NCCL_CONF_FILE": "/srv/nccl.conf"})
    assert effective(TreeHost(str(node)), carrier, {"NCCL_IB_TC": "136", "NCCL_IB_HCA": "=mlx5_0:1"}) == {
        "NCCL_CONF_FILE": "/srv/nccl.conf",
        "NCCL_IB_TC": "41",
    }


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/etc/environment", "NCCL_IB_TC=41"),
        ("/etc/profile.d/site.sh", "  export NCCL_IB_TC=41"),
        ("/etc/systemd/system.conf.d/jobs.conf", 'DefaultEnvironment="NCCL_DEBUG=INFO" "NCCL_IB_TC=41"'),
        ("/etc/security/pam_env.conf", "NCCL_IB_TC DEFAULT=41"),
    ],
)
def test_the_line_that_sets_it_is_named(tmp_path: Path, path: str, line: str) -> None:
    write(tmp_path, path, f"# NCCL_IB_TC=0 is a comment\nX_NCCL_IB_TC=1\n{line}\nexport NCCL_IB_TCX=2\n")
    assert setters(TreeHost(str(tmp_path)), "NCCL_IB_TC") == [f"{path}:3"]
