# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of keys keeps its own rules, and everything generated from it is up to date."""

import re
import subprocess
import sys
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue import aiacc
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.sysctls import SYSCTLS, canonical, wanted_sysctls
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.launch import GROUPS
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import DISRUPTIONS
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.check_entries import COLLECTIVES, HOST
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.findings import MISSING, Findings
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import BY_NAME, FORMS, KEYS, ROLE_KEYS, ROLES, SITE_PREFIX
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.values import check_key
from repo import ROOT


def test_names_are_unique_and_owned() -> None:
    assert len(BY_NAME) == len(KEYS)
    assert {key.name for key in KEYS if key.owner == "site"} | {name for names in ROLE_KEYS.values() for name in names} == set(BY_NAME)
    assert all(names for names in ROLE_KEYS.values())
    assert set(ROLE_KEYS) == set(ROLES)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
def test_a_row(key: Any) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9_]*", key.name)
    assert key.name.startswith(SITE_PREFIX if key.owner == "site" else key.owner + "_")
    role = max((role for role in ROLES if key.name.startswith(role + "_")), key=len, default="site")
    assert role == key.owner, "the name must not look like another role's"
    assert key.doc.endswith((".", ")"))
    assert key.source
    assert key.type in ("str", "int", "number", "bool", "list", "dict")
    assert key.pattern is None or key.form, "a pattern is explained in words"
    assert not (key.required and key.default is not None)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.name)
@pytest.mark.parametrize("field", ["default", "example"])
def test_defaults_and_examples_are_allowed(key: Any, field: str) -> None:
    value = getattr(key, field)
    if value is not None:
        findings = Findings("n1")
        assert check_key(key, value, key.name, findings) is not MISSING
        assert findings.items == []


def test_rows_name_what_the_code_has() -> None:
    """The table is text: what it repeats of the code is held to it here."""
    collectives = BY_NAME["nccl_tests_collectives"]
    assert collectives.pattern == f"^({'|'.join(COLLECTIVES)})$"
    assert collectives.form == "a list of " + ", ".join(COLLECTIVES)
    assert f": {', '.join(COLLECTIVES)}. " in collectives.doc
    assert BY_NAME["nccl_tests_groups"].choices == GROUPS
    assert BY_NAME["rdma_consent"].choices == DISRUPTIONS[1:]
    assert BY_NAME["aiacc_version"].default == aiacc.RELEASE
    assert FORMS["url"]["pattern"] == f"^(https?://{HOST}([/?#][!-~]*)?|file:///[!-~]*)$"
    assert BY_NAME["nccl_wheel_index"].pattern == r"^(?!.*/simple/?$)" + FORMS["url"]["pattern"][1:]


def test_generated_files_are_up_to_date() -> None:
    """make generate --check, as a contract."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/generate"), "--check"],
        check=False, capture_output=True, text=True, env={"PYTHONPATH": f"{ROOT}/.dev:{ROOT}/src", "PATH": ""},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def spec(**keys: Any) -> Spec:
    """A host's Spec without rails."""
    built, _findings = build_spec({"rdma_fabric": "roce", "rdma_mtu": 9000, **keys}, "n1")
    assert built is not None
    return built


def test_sysctls_for_each_rail_with_overrides() -> None:
    rows = {row.name: row for row in wanted_sysctls(spec(), ["eth1", "eth2.100"])}
    assert rows["net/ipv4/conf/eth1/rp_filter"].value == "2"
    assert rows["net/ipv4/conf/eth2.100/arp_ignore"].path == "/proc/sys/net/ipv4/conf/eth2.100/arp_ignore"
    assert not any("{nic" in name for name in rows)
    assert len(rows) == len(SYSCTLS) - 2 + 3, "three rows are per rail, and there are two rails; two are for IPv6"
    six = {row.name: row.value for row in wanted_sysctls(spec(), ["eth1", "eth2"], ["eth2"])}
    assert {name: value for name, value in six.items() if "ipv6" in name} == {
        "net/ipv6/conf/eth2/accept_ra": "0", "net/ipv6/conf/eth2/accept_dad": "1"}
    overridden = spec(
        host_tuning_sysctls={
            "vm.zone_reclaim_mode": None,
            "net.ipv4.conf.{nic}.arp_ignore": 1,
            "net.ipv4.conf.eth2/100.rp_filter": 0,
            "vm.swappiness": 1,
        }
    )
    rows = {row.name: row for row in wanted_sysctls(overridden, ["eth1", "eth2.100"])}
    assert "vm/zone_reclaim_mode" not in rows
    assert [rows[f"net/ipv4/conf/{nic}/arp_ignore"].value for nic in ("eth1", "eth2.100")] == ["1", "1"]
    assert (rows["net/ipv4/conf/eth1/rp_filter"].value, rows["net/ipv4/conf/eth2.100/rp_filter"].value) == ("2", "0")
    assert rows["vm/swappiness"].value == "1"


def test_both_forms_of_a_sysctl_name() -> None:
    assert canonical("net.ipv4.conf.eth1/100.rp_filter") == "net/ipv4/conf/eth1.100/rp_filter"
    assert canonical("net/ipv4/conf/eth1.100/rp_filter") == "net/ipv4/conf/eth1.100/rp_filter"


@pytest.mark.parametrize("row", SYSCTLS, ids=lambda row: row.name)
def test_sysctl_rows_have_reason_and_source(row: Any) -> None:
    assert row.why
    assert row.source
    assert "." not in row.name
