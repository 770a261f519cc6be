# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that came with NCCL 2.31 and 2.32, those that went, and names that are newer than the table.

The lists are what ``strings`` finds in the read-only data of libnccl.so.2 in NVIDIA's wheels 2.30.7, 2.31.2 and 2.32.3 (nvidia-nccl-cu13).
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.variables import REMOVED, VARIABLES
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.findings import Findings
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nccl_overrides import check_name, meant
from railwright.cli.main import run as railwright
from railwright.nccl.explain import explanation

NEW = {
    "v2.31.2-1": [
        "NCCL_CE_COLL_AG_MULTICAST_THRESHOLD", "NCCL_CFT_ENABLE", "NCCL_DIAGNOSTICS_ECC_THRESHOLD", "NCCL_ENQUEUE_REARCH_ENABLE",
        "NCCL_GDRCOPY_USE_INTERNAL_DMABUF", "NCCL_GIN_IB_OOO_OPT", "NCCL_GIN_PROXY_NTHREADS", "NCCL_GIN_PROXY_POLL_BATCH",
        "NCCL_HIER_CE_COLL_NUM_CTX", "NCCL_IB_EVENT_BASED_LB", "NCCL_IB_EVENT_BASED_LB_REMOTE", "NCCL_IB_PKEY_VALUE",
        "NCCL_IB_WQE_LATENCY_REPORT", "NCCL_IB_WQE_LATENCY_THRESHOLD_NS", "NCCL_NUM_RMA_INT_CTX", "NCCL_P2P_PER_CHANNEL_REG_NET_BW",
        "NCCL_RMA_EAGER_INIT", "NCCL_RMA_MULTI_CTX_THRESHOLD", "NCCL_RUN_DIAGNOSTICS", "NCCL_RUN_RAS_DIAGNOSTICS",
    ],
    "v2.32.3-1": [
        "NCCL_CE_CHUNK_SIZE", "NCCL_CE_INTRA_GPU_MEMCPY_ENABLE", "NCCL_DEBUG_LEVELS", "NCCL_DIAGNOSTICS_IB_BW_TIMEOUT",
        "NCCL_GDAKI_FORCE_MCST", "NCCL_GIN_GDAKI_LAG_AWARE_DISABLE", "NCCL_HIER_CE_COLL_AG_RAIL_RING_ENABLE", "NCCL_IB_RAIL_POLICY",
        "NCCL_IB_SORT_MERGE_NICS", "NCCL_NVLS_UB_SIZE", "NCCL_PROGRESS_COUNTERS", "NCCL_PROGRESS_COUNTER_MONITOR_POLL_MS",
        "NCCL_PROGRESS_COUNTER_MONITOR_STALE_MS", "NCCL_PROGRESS_COUNTER_MONITOR_STALE_WARN_SEC", "NCCL_RMA_IB_WR_BATCHSIZE",
    ],
}
NAMES = [name for names in NEW.values() for name in names]
GONE = {"NCCL_NET_GDR_MLOPART": "v2.30.7-1 .. v2.31.2-1", "NCCL_MLOPART_RDMA_ENABLE": "v2.30.7-1 .. v2.31.2-1",
        "NCCL_TOPO_SCATTER_START_NET": "v2.31.2-1 .. v2.31.2-1"}
LATER = "NCCL_GIN_GDAKI_CQ_TYPE"  # in NCCL's development branch of September 2026, in no wheel yet


def judged(name: Any, nccl: str | None) -> list[tuple[str, str, str]]:
    """(severity, message, replacement) of a name for one release of NCCL; None: unknown."""
    found = Findings(None)
    check_name(name, name, found, nccl)
    return [(item.severity, item.message, item.allowed) for item in found.items]


@pytest.mark.parametrize("name", NAMES)
def test_a_new_name_is_known_since_its_release(name: str) -> None:
    (since,) = (tag for tag, names in NEW.items() if name in names)
    assert explanation(name)["since"] == since
    assert explanation(name)["meaning"]
    assert judged(name, None) == judged(name, since[1:].partition("-")[0]) == []
    assert judged(name, "2.30.7") == [
        ("warning", f"is not read by NCCL 2.30.7, only since {since}", "a newer nccl_version, or leave it out")]


def test_lint_has_nothing_against_any_new_name(write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]) -> None:
    assert len(NAMES) == 35
    path = write("job.sh", "".join(f"export {name}=${{VALUE}}\n" for name in [*NAMES, LATER]))
    assert railwright(["nccl", "lint", path, "--format", "json"]) == 0
    assert [(item["variable"], item["severity"], item["message"], item["replacement"])
            for item in json.loads(capsys.readouterr().out)] == [
        (LATER, "warning", "is newer than the table (NCCL 2.32.3) or misspelt", "")]


@pytest.mark.parametrize("name", GONE)
def test_a_name_that_went_is_good_for_the_releases_that_had_it(name: str) -> None:
    assert REMOVED[name].existed == GONE[name]
    message = f"was removed from NCCL (it existed in {GONE[name]})"
    for nccl, severity in (("2.32.3", "error"), ("2.31.2", "warning"), (None, "warning")):
        assert judged(name, nccl) == [(severity, message, "leave it out")], nccl
    assert judged("NCCL_RINGS", None)[0][0] == "error", "no release that is installed today has it"


@pytest.mark.parametrize(("nccl", "severity"), [("2.32.3", "error"), ("2.21.5", "error"), ("2.32.6", "warning"), ("2.33.0", "warning"),
                                                (None, "warning")])  # fmt: skip
@pytest.mark.parametrize("name", [LATER, "NCCL_IB_TIMEOUTT"])
def test_an_unknown_name_is_an_error_only_for_releases_of_the_table(name: str, nccl: str | None, severity: str) -> None:
    ((found, message, replacement),) = judged(name, nccl)
    assert found == severity
    assert ("newer than the table" in message) == (severity == "warning")
    nothing = "" if severity == "warning" else "a variable of NCCL 2.32.3"
    assert replacement == ("NCCL_IB_TIMEOUT" if "TIMEOUTT" in name else nothing)


@pytest.mark.parametrize("name", ["nccl_ib_hca", "IB_HCA", "NCCL-IB-HCA", "NCCL_IB_HCÄ", ""])
def test_what_is_no_name_of_nccl_is_no_newer_one(name: str) -> None:
    assert judged(name, None)[0][0] == "error"


@pytest.mark.parametrize(("name", "other"), [
    ("NCCL_IB_TIMEOUTS", "NCCL_IB_TIMEOUT"), ("NCCL_IB_QPS_PER_CONECTION", "NCCL_IB_QPS_PER_CONNECTION"), ("NCCL_DEBG", "NCCL_DEBUG"),
    ("NCCL_DEBUG_SUBYSS", "NCCL_DEBUG_SUBSYS"), ("nccl_ib_tc", "NCCL_IB_TC"), ("NCCL_IB_HCAS", "NCCL_IB_HCA"),
    ("NCCL_IB_PKEY_VAL", "NCCL_IB_PKEY_VALUE"),
    ("NCCL_SOCKET_IFNMAE", "NCCL_SOCKET_IFNAME"), ("NCCL_NET_GDR_LEVLE", "NCCL_NET_GDR_LEVEL"),
    # another meaning, another prefix, more than two letters, or two candidates: no advice
    ("NCCL_IB_PKEY_INDEX", None), ("NCCL_IB_RAIL_POLICIES", None), ("NCCL_IB_" + "A" * 100000, None),
    ("NCCL_IB_CTA_POLICY", None), ("NCCL_IB_TS", None), ("NCCL_IB_SC", None),
    ("NCCL_MID_CTAS", None), ("NCCL_GIN_TIMEOUT", None), ("NCCL_NET_ENABLE_INTRA", None), ("NCCL_XYZ", None), ("NCCL_P2P_LEVELING", None),
    ("NCCL_SOCKET_XXXBUF", None), ("NCCL_IB_TIMEOUT_MS", None),
])  # fmt: skip
def test_advice_is_a_slip_of_two_letters_in_the_same_words(name: str, other: str | None) -> None:
    assert meant(name) == other
    assert explanation(name)["nearest"] == other


def test_no_new_name_would_have_had_advice_without_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next 35 will be as these: what the table of 2.30.7 would have said of each."""
    for name in NAMES:
        monkeypatch.delitem(VARIABLES, name)
    assert {name: meant(name) for name in NAMES} == dict.fromkeys(NAMES)
    assert {row[0] for name in NAMES for row in judged(name, None)} == {"warning"}


@pytest.mark.parametrize(("more", "code"), [
    ("", 0), ("nccl_install: distribution\nnccl_version: 2.33.1-1\n", 0), ("nccl_install: distribution\nnccl_version: 2.28.9-1\n", 64),
], ids=["unknown", "newer", "in the table"])
def test_an_inventory_with_a_newer_name_is_refused_only_if_covered(
        more: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "hosts.yml").write_text("rdma:\n  hosts:\n    n1:\n")
    (tmp_path / "group_vars/all.yml").write_text(
        f"rdma_fabric: roce\nrdma_mtu: 9000\n{more}nccl_overrides: {{{LATER}: 1, NCCL_RUN_DIAGNOSTICS: 1}}\n"
        f"nccl_tests_environment: {{{LATER}: '1'}}\n")
    capsys.readouterr()
    assert railwright(["lint", "-i", str(tmp_path)]) == code
    output = "".join(capsys.readouterr())
    assert (f"nccl_overrides.{LATER}: is no variable of NCCL" in output) == (code == 64)
    assert (f"nccl_overrides.{LATER}: is newer than the table" in output) == (code == 0)
    assert f"nccl_tests_environment.{LATER}: is newer than the table" in output, "its NCCL may be another one"
    assert ("is not read by NCCL 2.28.9, only since v2.31.2-1" in output) == (code == 64)
    job = tmp_path / "job.sh"
    job.write_text(f"export {LATER}=1\n")
    if not code:
        assert railwright(["nccl", "lint", "-i", str(tmp_path), str(job)]) == 0


def test_a_job_script_is_held_against_the_nccl_of_the_inventory(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(
        "rdma:\n  hosts:\n    n1:\n  vars: {rdma_fabric: roce, rdma_mtu: 9000, nccl_install: distribution, nccl_version: 2.28.9-1}\n")
    job = tmp_path / "job.sh"
    job.write_text(f"export {LATER}=1\n")
    assert railwright(["nccl", "lint", str(job)]) == 0
    assert railwright(["nccl", "lint", "-i", str(tmp_path), str(job)]) == 1


@pytest.mark.parametrize(("name", "good", "bad"), [
    ("NCCL_IB_RAIL_POLICY", ["NONE", "CX9:ALT", "cx9:block"], ["CX8", "CX9:"]), ("NCCL_DEBUG", ["ATTN"], ["ATTENTION"]),
    ("NCCL_IB_PKEY_VALUE", ["0x8001", "-1"], ["65536", "0xzz"]), ("NCCL_RAS_TIMEOUT_FACTOR", ["0.5", "2"], []),
    ("NCCL_MNNVL_RAIL_PER_HOST", ["-1", "1"], ["true"]),
])  # fmt: skip
def test_values_of_2_32(name: str, good: list[str], bad: list[str], write: Callable[[str, str], str]) -> None:
    for value, code in [*((value, 0) for value in good), *((value, 1) for value in bad)]:
        assert railwright(["nccl", "lint", write("job.sh", f"export {name}={value}\n")]) == code, value
