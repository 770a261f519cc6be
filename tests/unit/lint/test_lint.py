# SPDX-License-Identifier: GPL-3.0-or-later
"""Good inventories, folding, warnings, structure, and the JSON form."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from railwright.lint import lint

Make = Callable[[Mapping[str, object]], Path]


def hosts(count: int, more: str = "") -> str:
    """hosts.yml of a rack."""
    text = "all:\n  children:\n    rdma:\n      hosts:\n"
    for number in range(1, count + 1):
        mac = f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}"
        address = f"10.0.{number >> 8}.{number & 255}/16"
        text += f'        n{number}:\n          rdma_rails: [{{name: rail0, match: {{mac: "{mac}"}}, address: {address}}}]\n{more}'
    return text


def test_a_good_inventory_has_no_findings(make: Make) -> None:
    assert lint(make({})) == []


def test_foreign_and_private_variables_are_left_alone(make: Make) -> None:
    site = "rdma_fabric: roce\nrdma_mtu: 9000\nansible_user: root\n_mine: 1\nslurm_x: '{{ not_defined }}'\n"
    assert lint(make({"site": site})) == []


def test_four_hundred_hosts_share_one_line(make: Make) -> None:
    directory = make({"hosts": hosts(400), "site": "rdma_fabric: roce\nrdma_mtu: 9000\nnetwork_backnd: auto\n"})
    started = time.monotonic()
    findings = lint(directory)
    assert time.monotonic() - started < 20
    assert len(findings) == 1
    assert len(findings[0].hosts) == 400
    assert "network_backnd" in str(findings[0])
    assert "n1" not in str(findings[0]), "a finding of all hosts names none of them"


def test_some_of_the_hosts_are_named(make: Make) -> None:
    directory = make({"hosts": hosts(6, '          validate_port: "x"\n'), "files": {"host_vars/n6.yml": "validate_port: 20000\n"}})
    text = [str(finding) for finding in lint(directory) if finding.key == "validate_port" and finding.severity == "error"]
    assert len(text) == 5
    assert all("(n" in line for line in text)


def test_warnings_say_so(make: Make) -> None:
    findings = lint(make({"site": "rdma_fabric: roce\nrdma_mtu: 1500\n"}))
    assert [(finding.severity, finding.key) for finding in findings] == [("warning", "rdma_mtu")]
    assert str(findings[0]) == (
        "inv/group_vars/all.yml:2: warning: rdma_mtu: 1500: RoCE's active_mtu would be less than 4096; "
        "allowed: at least 4200; 9000 is usual"
    )


def test_a_host_without_rails_is_a_warning(make: Make) -> None:
    findings = lint(make({"n2": "rdma_rails: []"}))
    assert [(finding.severity, finding.key, finding.hosts) for finding in findings] == [("warning", "rdma_rails", ("n2",))]


def test_a_subnet_manager_outside_the_group(make: Make) -> None:
    rdma = "all:\n  children:\n    rdma:\n      hosts:\n        n1: {rdma_rails: [{name: rail0, match: {pci: '1a:00.0'}}]}\n"
    text = rdma + "    opensm:\n      hosts:\n        sm1: {}\n"
    findings = lint(make({"hosts": text, "site": "rdma_fabric: infiniband\nrdma_mtu: 4092\n"}))
    assert [(finding.severity, finding.key) for finding in findings] == [("warning", "opensm")]
    assert "sm1" in str(findings[0])


def test_one_host_of_the_group_decides_nothing_for_others(make: Make) -> None:
    """group_vars of a group that holds a part of the hosts: only those are named."""
    text = hosts(3) + "    old:\n      hosts:\n        n1:\n        n2:\n"
    findings = lint(make({"hosts": text, "files": {"group_vars/old.yml": "rdma_accept_eol: perhaps\n"}}))
    assert [(finding.file, finding.line, finding.hosts) for finding in findings] == [("inv/group_vars/old.yml", 1, ("n1", "n2"))]
    assert "(n1, n2)" in str(findings[0])


def test_variables_for_a_group_that_does_not_exist(make: Make) -> None:
    """A warning: two inventories side by side may share their group_vars."""
    findings = lint(make({"files": {"group_vars/rmda.yml": "rdma_mtu: 4200\n", "host_vars/n9/a.yml": "rdma_mtu: 4200\n"}}))
    assert [str(finding).partition("; ")[0] for finding in findings] == [
        "inv/group_vars/rmda.yml: warning: rmda.yml: no group has this name, so nothing reads it",
        "inv/host_vars/n9: warning: n9: no host has this name, so nothing reads it",
    ]


@pytest.mark.parametrize("number", ["9" * 400, "0x" + "f" * 5000, '"' + "9" * 5000 + '"', "-" + "9" * 400, ".nan", "-.inf"])
@pytest.mark.parametrize("key", ["rdma_mtu", "validate_min_bandwidth_gbps", "validate_port"])
def test_a_number_that_nobody_meant_is_one_clear_line(make: Make, key: str, number: str) -> None:
    """Python refuses to print or to read a number of more than 4300 digits, and no float holds one of 400."""
    findings = lint(make({"site": f"rdma_fabric: roce\n{key}: {number}\n" + ("" if key == "rdma_mtu" else "rdma_mtu: 9000\n")}))
    assert [item.key for item in findings] == [key]
    assert "\n" not in str(findings[0])
    assert len(str(findings[0])) < 300


def test_json_form(make: Make) -> None:
    findings = lint(make({"site": "rdma_fabric: erdma\nrdma_mtu: 9000\n"}))
    document = json.loads(json.dumps([finding.as_dict() for finding in findings]))
    assert document == [
        {
            "file": "inv/group_vars/all.yml",
            "line": 2,
            "hosts": ["n1", "n2"],
            "key": "rdma_mtu",
            "value": 9000,
            "message": "eRDMA needs 8500 (jumbo frames) or 1400",
            "allowed": "8500, 1400",
            "severity": "error",
        }
    ]


def test_a_value_cannot_disturb_the_terminal(make: Make) -> None:
    line = str(lint(make({"site": 'rdma_fabric: "ro\\u001b[31mce"\nrdma_mtu: 9000\n'}))[0])
    assert "\x1b" not in line
    assert "\\x1b[31m" in line
    long = str(lint(make({"site": f"rdma_fabric: {'x' * 500}\nrdma_mtu: 9000\n"}))[0])
    assert len(long) < 300


@pytest.mark.parametrize("name", ["rdma_password", "rdma_consnet"])
def test_values_of_unknown_variables_are_not_shown(make: Make, name: str) -> None:
    (finding,) = lint(make({"site": f"rdma_fabric: roce\nrdma_mtu: 9000\n{name}: hunter2\n"}))
    assert "hunter2" not in str(finding)
