# SPDX-License-Identifier: GPL-3.0-or-later
"""What is made of package managers' own words: dnf's table, errors of a failed step, DKMS logs, locks, states of dpkg."""

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.action.rdma_packages import package_failure_text
from ansible_collections.railwright.rdma.plugins.module_utils.entry import packages
from ansible_collections.railwright.rdma.plugins.module_utils.observe.package_locks import Holder, lock_holder
from ansible_collections.railwright.rdma.plugins.module_utils.observe.packages import Hold, all_installed, held_packages, unfinished
from ansible_collections.railwright.rdma.plugins.module_utils.plan.packages.dry_run import size_of
from ansible_collections.railwright.rdma.plugins.module_utils.plan.packages.dry_run_apt import _EXACT, _INST, _REMV, _TROUBLE
from ansible_collections.railwright.rdma.plugins.module_utils.plan.packages.dry_run_dnf import parse_table
from packages_nodes import BOOKWORM, ROCKY, Node

# Written from what dnf 4.14 prints when its output is no terminal; the wide name and the replaced package are its own layout.
DNF = """Last metadata expiration check: 0:00:01 ago on Sat Nov 21 03:00:00 2026.
Dependencies resolved.
================================================================================
 Package                 Arch     Version                     Repository   Size
================================================================================
Installing:
 doca-ofed               noarch   3.2.3-019000                railwright-doca
                                                                          7.1 k
Upgrading:
 rdma-core               noarch   2510.0.12-1.el9             railwright-doca
                                                                          6.8 k
     replacing  librdmacm-old.noarch 1.0-1
Installing dependencies:
 a-package-with-a-name-that-needs-a-line-of-its-own-in-such-a-table
                         noarch   1:1.0-1.el9                 baseos       1.2 M
Removing:
 mlnx-tools              noarch   24.10-1                     @mlnx          0

Transaction Summary
================================================================================
Install  2 Packages

Total download size: 1.2 M
Operation aborted.
"""
APT = """Reading package lists...
Remv site-tool [1.0-1]
Inst rdma-core [44.0-2] (2510.0.12-1 DOCA-HOST 3.2.3:stable [amd64]) []
Inst doca-ofed (3.2.3-019000 DOCA-HOST 3.2.3:stable [amd64])
Conf rdma-core (2510.0.12-1 DOCA-HOST 3.2.3:stable [amd64])
"""
UNMET = """The following packages have unmet dependencies:
 doca-ofed : Depends: rdma-core (= 2510.0.11-1) but 2510.0.12-1 is to be installed
             Depends: libibverbs1 (= 2510.0.11-1) but it is not going to be installed
             Depends: mlnx-tools (>= 2) but 1 is to be installed
"""


def test_dnfs_table() -> None:
    table = parse_table(DNF)
    assert table.incoming == {
        "doca-ofed": ("3.2.3-019000", "railwright-doca"), "rdma-core": ("2510.0.12-1.el9", "railwright-doca"),
        "a-package-with-a-name-that-needs-a-line-of-its-own-in-such-a-table": ("1:1.0-1.el9", "baseos"),
    }  # fmt: skip
    assert table.outgoing == {"librdmacm-old": "1.0-1", "mlnx-tools": "24.10-1"}


def test_apts_simulation() -> None:
    assert _REMV.findall(APT) == [("site-tool", "1.0-1")]
    assert [row[:3] for row in _INST.findall(APT)] == [("rdma-core", "44.0-2", "2510.0.12-1"), ("doca-ofed", "", "3.2.3-019000")]


def test_warnings_that_stop_nothing() -> None:
    harmless = ("W: http://x/InRelease: Policy will reject signature within a year, see --audit for details\n"
                "W: Download is performed unsandboxed as root as file '/x' couldn't be accessed by user '_apt'.\nN: See apt-secure(8)\n")
    assert _TROUBLE.findall(harmless) == []
    for line in ("W: Failed to fetch http://x  404  Not Found", "W: GPG error: http://x InRelease: BADSIG", "Err:1 http://x InRelease",
                 "E: The repository is not signed.", "W: Some index files failed to download. They have been ignored, or old ones used."):
        assert _TROUBLE.findall(harmless + line + "\n") == [line]


def test_only_exact_dependencies_are_followed() -> None:
    assert _EXACT.findall(UNMET) == [("rdma-core", "2510.0.11-1"), ("libibverbs1", "2510.0.11-1")]


@pytest.mark.parametrize(("number", "unit", "size"), [("12.5", "M", 13107200), ("1,024", "", 1024), ("3", "kB", 3072), ("0", "", 0)])
def test_sizes(number: str, unit: str, size: int) -> None:
    assert size_of(number, unit) == size


# As module apt of ansible-core 2.19 gave it when dpkg 1.21 failed: dpkg's own words are in stdout only, with the line ends of a terminal.
APT_FAILED = {
    "msg": "'/usr/bin/apt-get -y install doca-ofed' failed: debconf: delaying package configuration, since apt-utils is not installed\n"
           "E: Sub-process /usr/bin/dpkg returned an error code (1)\n",
    "stderr": "debconf: delaying package configuration, since apt-utils is not installed\n"
              "E: Sub-process /usr/bin/dpkg returned an error code (1)\n",
    "stdout": "Setting up mlnx-ofed-kernel-dkms (25.10) ...\r\n"
              "dpkg: error processing package mlnx-ofed-kernel-dkms (--configure):\r\n"
              " installed mlnx-ofed-kernel-dkms package post-installation script subprocess returned error exit status 1\r\n"
              "Setting up mstflint (4.34) ...\r\nErrors were encountered while processing:\r\n mlnx-ofed-kernel-dkms\r\n",
}  # fmt: skip


def test_a_failed_step_is_one_line_and_the_log_of_the_build_that_broke(node: Node, monkeypatch: pytest.MonkeyPatch, identity: Any) -> None:
    monkeypatch.setattr(packages, "observe_identity", lambda *_arguments: identity(BOOKWORM))
    (line,) = packages.explain_failure(node, package_failure_text(APT_FAILED)).splitlines()
    assert line == ("the package step failed: dpkg: error processing package mlnx-ofed-kernel-dkms (--configure): installed "
                    "mlnx-ofed-kernel-dkms package post-installation script subprocess returned error exit status 1; E: Sub-process "
                    "/usr/bin/dpkg returned an error code (1). Packages may be half changed: inspect it with a new plan")  # fmt: skip
    looped = {"msg": "One or more items failed", "results": [{"failed": False}, APT_FAILED | {"failed": True}]}
    assert packages.explain_failure(node, package_failure_text(looped)) == line
    log = "".join(f"line {n}\n" for n in range(90)) + "error: no member named x\n"
    node.put("/var/lib/dkms/mlnx-ofed-kernel/25.10/build/make.log", log)
    Path(node.root, "var/lib/dkms/mlnx-ofed-kernel/25.10/source").symlink_to("/usr/src/mlnx-ofed-kernel-25.10")
    node.put("/usr/src/mlnx-ofed-kernel-25.10/dkms.conf", "")
    lines = packages.explain_failure(node, package_failure_text(APT_FAILED)).splitlines()
    assert lines[1] == "DKMS could not build mlnx-ofed-kernel 25.10 for 6.1.0-26-amd64; the end of its make.log:"
    assert lines[-1] == "error: no member named x"
    assert len(lines) == 2 + packages.LOG_LINES


def test_the_steps_before_a_package_file_and_after_it() -> None:
    steps = [{"state": "present", "names": ["a"]}, {"state": "file", "names": ["/f"]}, {"state": "present", "names": ["b"]}]
    assert packages.parted(steps, after_file=False) == (steps[:2], steps[2:])
    assert packages.parted(steps, after_file=True) == (steps[2:], [])
    plain = [steps[0], steps[2]]
    assert packages.parted(plain, after_file=False) == (plain, [])
    assert packages.parted(plain, after_file=True) == ([], [])
    assert packages.parted([], after_file=False) == ([], [])


def test_who_holds_dnf_by_its_pid_file(node: Node) -> None:
    node.put("/var/lib/dnf/rpmdb_lock.pid", "4711")
    assert lock_holder(node, "dnf") is None, "that process is gone"
    node.put("/proc/4711/cmdline", "/usr/bin/python3\0/usr/bin/dnf\0upgrade\x1b[31m\0")
    assert lock_holder(node, "dnf") == Holder("/var/lib/dnf/rpmdb_lock.pid", 4711, "/usr/bin/python3 /usr/bin/dnf upgrade?[31m")


def test_states_of_dpkg(node: Node, identity: Any) -> None:
    node.dpkg(("a", "1"), ("b", "2", "hold ok installed"), ("c", "3", "install ok unpacked"), ("d", "4", "deinstall ok config-files"),
              ("e", "5", "install reinstreq half-installed"))  # fmt: skip
    assert all_installed(node, identity(BOOKWORM)) == {"a": "1", "b": "2"}
    assert held_packages(node, identity(BOOKWORM), ["a", "b"]) == (Hold("b", "apt-mark hold", "apt-mark unhold b"),)
    assert unfinished(node).packages == (("c", "unpacked"), ("e", "half-installed"))
    assert unfinished(node).any


@pytest.mark.parametrize(("line", "names"), [
    ("perftest-0:1.0-1.el9.*", ["perftest"]), ("perftest-1.0-1.el9.x86_64", ["perftest"]), ("!perftest-0:1.0-1.el9.*", []),
    ("# perftest", []), ("perf*-0:1.0-1.*", ["perftest"]), ("perftest", ["perftest"]), ("kernel-core-0:5.14.0-427.el9.*", []),
])  # fmt: skip
def test_lines_of_version_locks(node: Node, identity: Any, line: str, names: list[str]) -> None:
    node.put("/etc/dnf/plugins/versionlock.list", line + "\n")
    assert [hold.name for hold in held_packages(node, identity(ROCKY), ["perftest", "rdma-core"])] == names
