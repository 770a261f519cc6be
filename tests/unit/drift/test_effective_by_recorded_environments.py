# SPDX-License-Identifier: GPL-3.0-or-later
"""What jobs really get of NCCL's variables, from recorded environments: a login shell's, an ssh command's, systemd's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, TreeHost, recording_name
from ansible_collections.railwright.rdma.plugins.module_utils.host.write import Result
from ansible_collections.railwright.rdma.plugins.module_utils.observe import nccl as observe_effective
from ansible_collections.railwright.rdma.plugins.module_utils.observe.nccl import (
    LOGIN,
    SHELLS,
    SHOW,
    Carrier,
    effective,
    observe_carriers,
    setters,
    unknown,
)
from railwright.drift import unasked


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
    write(tmp_path, "/cmd/" + recording_name((*LOGIN, *SHELLS[0][1])), "\0HOME=/root\0SECRET=x\0NCCL_IB_TC=106\0NCCL_DEBUG=INFO\0")
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


@pytest.mark.parametrize(("changed", "known"), [(1300, True), (1510, False), (9999, True)], ids=["before", "since", "future"])
def test_a_kept_connection_has_the_environment_of_its_begin(node: Path, changed: int, known: bool) -> None:
    """sshd began at 1000 + 400 s; ssh's ControlPersist kept its connection until now, 1000 + 600 s."""
    write(node, "/proc/stat", "cpu 1 2\nbtime 1000\n")
    write(node, "/proc/uptime", "600.25 100.00\n")
    write(node, "/proc/700/stat", "700 (sshd) S 1 " + "1 " * 17 + "40000 9 9")
    write(node, "/etc/environment", "NCCL_IB_RETRY_CNT=1\n")
    os.utime(node / "etc/environment", (changed, changed))
    carriers = observe_carriers(TreeHost(str(node)))
    assert carriers[1].variables == ({"NCCL_IB_DISABLE": "1"} if known else None)
    assert [line.partition(": ")[2].partition(" (")[0] for line in unknown(carriers)] == (
        [] if known else ["/etc/environment changed after this ssh connection had begun"])


def test_what_cannot_be_asked_is_not_called_empty(tmp_path: Path) -> None:
    write(tmp_path, "/usr/bin/sh", "", 0o755)
    carriers = observe_carriers(TreeHost(str(tmp_path)))
    assert [carrier.variables for carrier in carriers] == [None, None, None]
    lines = ["NCCL's variables for login shells: sh ends with exit 127 before it shows its environment; inspect root's startup files"]
    assert unknown(carriers) == lines, "nobody came by ssh, and there is no systemd: that is no ignorance"
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    lines.append("NCCL's variables for systemd services: systemctl show-environment: exit 127")
    assert unknown(observe_carriers(TreeHost(str(tmp_path)))) == lines


class Login(TreeHost):
    """A node whose root has these startup files and one of this machine's shells, which is really started."""

    def __init__(self, root: Path, shell: str, profile: str, logout: str = "") -> None:
        super().__init__(str(root))
        write(root, "/usr/bin/" + shell, "", 0o755)
        for name, text in ((".profile", profile), (".bash_logout", logout)):
            write(root, "/root/" + name, text)

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        at_home = [f"HOME={self.root}/root" if word == "HOME=/root" else word for word in argv]
        return Host().run(at_home, timeout) if argv[0] == "env" else Result(127, "", "")


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_what_a_startup_file_prints_hides_no_variable(tmp_path: Path, shell: str) -> None:
    profile = "echo Welcome\nprintf NCCL_IB_HCA=\ntrap 'echo NCCL_DEBUG=INFO' EXIT\nfor name in A B C D; do export NCCL_IB_$name=1; done\n"
    login, _ssh, _service = observe_carriers(Login(tmp_path, shell, profile, "echo NCCL_DEBUG=INFO\n"))
    assert login == Carrier("login", {f"NCCL_IB_{name}": "1" for name in "ABCD"})


@pytest.mark.parametrize(
    ("profile", "how"),
    [
        ("exit 3\n", "ends with exit 3"),
        ("exec true\n", "ends with exit 0"),
        ("sleep 60; true\n", "takes longer than 2 s"),
        ("cat /dev/zero\n", "says without end"),
    ],
)
def test_a_login_shell_that_gives_no_answer_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str, how: str) -> None:
    monkeypatch.setattr(observe_effective, "SECONDS", 2.0)
    carriers = observe_carriers(Login(tmp_path, "bash", profile))
    assert carriers[0].variables is None
    lines = unknown(carriers)
    assert lines == [f"NCCL's variables for login shells: bash {how} before it shows its environment; inspect root's startup files"]
    known = ["effective: NCCL_IB_TC for login shells", "effective: NCCL_IB_TC for ssh commands", "nccl: file /etc/nccl.conf"]
    assert unasked(known, ["login shells"]) == known[:1], "since when it is so is not forgotten"


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
