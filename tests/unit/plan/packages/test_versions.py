# SPDX-License-Identifier: GPL-3.0-or-later
"""Version comparison against real dpkg, and against the vectors of rpm's documentation and tests."""

import itertools
import shutil
import subprocess

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.formats.versions import compare, direction, matches

DEBIAN = [
    "44.0-2", "44.0-2+deb12u1", "44.0-10", "1:44.0-2", "0:44.0-2", "44.0~rc1-1", "44.0~~-1", "44.0", "44.0-0", "44.0a-1", "44-1",
    "44.0+b-1", "3.2.3-019000-25.10", "25.10.OFED.25.10.1.2.8.1-1", "1.0.0-1ubuntu2", "1.0.0-1ubuntu2~22.04", "0010-1", "10-1",
    "1.2-3-4", "~-1", "z-1",
]  # fmt: skip
# rpm.org, "rpm-version(7)" and the vectors of rpm's own test suite (rpmvercmp.at): (one, other, result)
RPM = [
    ("1.0", "1.0", 0), ("1.0", "2.0", -1), ("2.0.1", "2.0.1a", -1), ("5.5p1", "5.5p2", -1), ("5.5p10", "5.5p1", 1),
    ("10xyz", "10.1xyz", -1), ("xyz10", "xyz10.1", -1), ("xyz.4", "8", -1), ("xyz.4", "2", -1), ("5.5p2", "5.6p1", -1),
    ("6.0.rc1", "6.0", 1), ("10b2", "10a1", 1), ("1.0aa", "1.0aa", 0), ("10.0001", "10.1", 0), ("10.0001", "10.0039", -1),
    ("4.999.9", "5.0", -1), ("20101121", "20101122", -1), ("2_0", "2.0", 0), ("a+", "a_", 0), ("+", "_", 0),
    ("1.0~rc1", "1.0", -1), ("1.0~rc1", "1.0~rc2", -1), ("1.0~rc1~git123", "1.0~rc1", -1), ("1.0^", "1.0", 1), ("1.0^git1", "1.0", 1),
    ("1.0^git1", "1.0^git2", -1), ("1.0^git1", "1.01", -1), ("1.0^20160101", "1.0.1", -1), ("1.0^20160101^git1", "1.0^20160102", -1),
    ("1.0~rc1^git1", "1.0~rc1", 1), ("1.0^git1~pre", "1.0^git1", -1), ("1:1.0-1", "2.0-1", -1), ("1:1.0-1", "0:2.0-1", 1),
    ("1.0-1.el9", "1.0-2.el9", -1), ("1.0-1.el9", "1.0", 0),
]  # fmt: skip


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="this machine has no dpkg to compare with")
def test_debian_versions_as_dpkg_compares_them() -> None:
    wrong = []
    for one, other in itertools.combinations(DEBIAN, 2):
        older = subprocess.run(["dpkg", "--compare-versions", one, "lt", other], check=False, stderr=subprocess.DEVNULL).returncode == 0
        newer = subprocess.run(["dpkg", "--compare-versions", one, "gt", other], check=False, stderr=subprocess.DEVNULL).returncode == 0
        if compare(one, other, "debian") != newer - older:
            wrong.append((one, other, newer - older))
    assert not wrong


def test_debian_order_without_dpkg() -> None:
    ordered = ["44-1", "44.0~~-1", "44.0~rc1-1", "44.0-2", "44.0-2+deb12u1", "44.0-10", "44.0a-1", "1:1.0-1"]
    for one, other in itertools.combinations(ordered, 2):
        assert compare(one, other, "debian") == -1, (one, other)
        assert compare(other, one, "debian") == 1, (other, one)
    assert compare("0:44.0-2", "44.0-2", "debian") == 0


@pytest.mark.parametrize(("one", "other", "result"), RPM)
def test_rpm_versions_as_rpm_documents_them(one: str, other: str, result: int) -> None:
    assert compare(one, other, "redhat") == result
    assert compare(other, one, "redhat") == -result


@pytest.mark.parametrize(("version", "wanted", "family", "result"), [
    ("3.2.3-019000-25.10", "3.2.3*", "debian", True),
    ("3.2.30-1", "3.2.3-*", "debian", False),
    ("51.0-1.el9", "1:51.0-1.el9", "redhat", True),  # rpm -q prints no epoch: a pin with one must not drift for ever
    ("1:51.0-1.el9", "51.0-1.el9", "redhat", True),
    ("2:51.0-1.el9", "1:51.0-1.el9", "redhat", False),
    ("3:580.95.05-1.el9", "580.95.05*", "redhat", True),
    ("1:44.0-2", "44.0-2", "debian", False),  # apt would not install 44.0-2 for 1:44.0-2
    ("44.0-2", "44.0-2", "debian", True),
    ("44.0-3", "44.0-2", "debian", False),
])  # fmt: skip
def test_the_wanted_version(version: str, wanted: str, family: str, result: bool) -> None:
    assert matches(version, wanted, family) is result


@pytest.mark.parametrize(("found", "wanted", "result"), [
    ("44.0-2", "44.0-2", 0), ("44.0-3", "44.0-2", -1), ("44.0-1", "44.0-2", 1), ("3.2.3-1", "3.2*", 0), ("3.3.0-1", "3.2.3*", -1),
    ("3.1.0-1", "3.2.3*", 1), ("24.10-4", "*", 0), ("3.2.2-1", "3.2.3-*", 1),
])  # fmt: skip
def test_forwards_or_backwards(found: str, wanted: str, result: int) -> None:
    assert direction(found, wanted, "debian") == result
    assert direction(found, wanted, "redhat") == result
