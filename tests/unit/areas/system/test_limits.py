# SPDX-License-Identifier: GPL-3.0-or-later
"""Locked memory and open files: three files, two effective values, each drift alone."""

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.system import limits

ALL = [
    f"file {limits.LOGIN_FILE}", f"file {limits.SYSTEM_FILE}", f"file {limits.USER_FILE}",
    "systemd DefaultLimitMEMLOCK", "systemd DefaultLimitNOFILE",
]  # fmt: skip


def test_a_bare_node_needs_all_and_then_nothing(planner: Callable[..., Any]) -> None:
    plans = planner()
    assert plans.keys("limits") == ALL
    plans.converge("limits")


def test_login_file_covers_root_too(planner: Callable[..., Any], node: Any) -> None:
    planner().converge("limits")
    rows = [row.split() for row in node.get(limits.LOGIN_FILE).splitlines() if not row.startswith("#")]
    assert sorted(rows) == sorted(
        [who, kind, item, value]
        for who in ("*", "root") for kind in ("soft", "hard") for item, value in (("memlock", "unlimited"), ("nofile", "1048576"))
    )


def test_services_keep_the_soft_limit_of_open_files(planner: Callable[..., Any], node: Any) -> None:
    planner(host_tuning_memlock="65536").converge("limits")
    assert node.get(limits.SYSTEM_FILE).splitlines()[1:] == ["[Manager]", "DefaultLimitMEMLOCK=67108864", "DefaultLimitNOFILE=1024:1048576"]


@pytest.mark.parametrize("path", [limits.LOGIN_FILE, limits.SYSTEM_FILE, limits.USER_FILE])
@pytest.mark.parametrize("damage", ["remove", "edit", "mode"])
def test_each_file_alone(planner: Callable[..., Any], node: Any, path: str, damage: str) -> None:
    plans = planner()
    plans.converge("limits")
    if damage == "remove":
        node.remove(path)
    else:
        node.put(path, node.get(path) + ("# x\n" if damage == "edit" else ""), 0o644 if damage == "edit" else 0o600)
    changes = plans.plan("limits")
    assert [change.what for change in changes] == [f"file {path}"]
    if damage == "mode":
        assert (changes[0].before, changes[0].after) == ({"mode": "0600"}, {"mode": "0644"})
    plans.converge("limits")


@pytest.mark.parametrize("name", ["DefaultLimitMEMLOCK", "DefaultLimitNOFILE"])
def test_a_manager_that_has_not_read_the_file(planner: Callable[..., Any], node: Any, name: str) -> None:
    plans = planner()
    plans.converge("limits")
    good = node.get("/run/test-manager")
    node.put("/run/test-manager", "".join(f"{name}=4096\n" if row.startswith(name) else row + "\n" for row in good.splitlines()))
    changes = plans.plan("limits")
    assert [(change.what, change.before) for change in changes] == [(f"systemd {name}", "4096")]
    assert [op.argv for op in changes[0].ops] == [("systemctl", "daemon-reexec")]
    plans.converge("limits")


def test_nofile_above_the_kernel_s_own_limit_would_lock_everybody_out(planner: Callable[..., Any], node: Any) -> None:
    node.put("/proc/sys/fs/nr_open", "1000000\n")
    (problem,) = planner().problems("limits")
    assert problem == "host_tuning_nofile: 1048576 is above this kernel's fs.nr_open 1000000; logins would be refused"
    assert planner(host_tuning_nofile=1000000).problems("limits") == []


def test_no_systemd_no_drop_ins(planner: Callable[..., Any], node: Any) -> None:
    node.put("/proc/1/comm", "bash\n")
    assert planner().keys("limits") == [f"file {limits.LOGIN_FILE}"]


@pytest.mark.parametrize(("path", "line"), [
    ("/etc/security/limits.d/95-site.conf", "* soft memlock 64"),
    ("/etc/security/limits.d/zz.conf", "root - nofile 1024"),
    ("/etc/systemd/system.conf.d/99-site.conf", "DefaultLimitMEMLOCK=8M"),
    ("/usr/lib/systemd/system.conf.d/99-vendor.conf", "DefaultLimitNOFILE=1024:524288"),
])  # fmt: skip
def test_a_later_file_that_wins_is_named(planner: Callable[..., Any], node: Any, path: str, line: str) -> None:
    node.put(path, f"# site\n{line}\n")
    (problem,) = planner().problems("limits")
    assert problem.startswith(f"{path}: has {line!r}")


@pytest.mark.parametrize(("path", "line"), [
    ("/etc/security/limits.d/10-early.conf", "* soft memlock 64"),
    ("/etc/security/limits.d/95-site.conf", "* soft memlock unlimited"),
    ("/etc/security/limits.d/95-site.conf", "@students hard memlock 64"),
    ("/etc/security/limits.d/95-site.conf", "* soft core 0"),
    ("/etc/systemd/system.conf.d/99-site.conf", "DefaultLimitNOFILE=4096:1048576"),
    ("/etc/systemd/system.conf.d/99-site.conf", "DefaultTasksMax=80%"),
])  # fmt: skip
def test_lines_that_do_not_win(planner: Callable[..., Any], node: Any, path: str, line: str) -> None:
    node.put(path, line + "\n")
    assert planner().problems("limits") == []


def test_what_runs_already_is_not_promised_anything(planner: Callable[..., Any], node: Any) -> None:
    plans = planner()
    (note,) = plans.notes("limits")
    assert "keep the limits they were started with" in note
    plans.converge("limits")
    assert plans.notes("limits") == []


@pytest.mark.parametrize(("files", "reached"), [
    ({}, True),  # no PAM configuration to inspect
    ({"sshd": "session required pam_limits.so\n"}, True),
    ({"sshd": "@include common-session\n", "common-session": "session  required  /lib/security/pam_limits.so conf=x\n"}, True),
    ({"sshd": "session include password-auth\n", "password-auth": "session required pam_limits.so\n"}, True),
    ({"sshd": "# session required pam_limits.so\nsession required pam_unix.so\n"}, False),
    ({"sshd": "@include sshd\nsession substack ../../etc/passwd\n"}, False),
])  # fmt: skip
def test_logins_that_pam_leaves_out_are_named(planner: Callable[..., Any], node: Any, files: dict[str, str], *, reached: bool) -> None:
    plans = planner()
    plans.converge("limits")
    for name, text in files.items():
        node.put("/etc/pam.d/" + name, text)
    assert ["pam_limits" in note for note in plans.notes("limits")] == ([] if reached else [True])
    assert plans.plan("limits") == [], "a note is no drift"
