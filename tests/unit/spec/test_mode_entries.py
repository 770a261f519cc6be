# SPDX-License-Identifier: GPL-3.0-or-later
"""The key rdma_checks: what it takes, and what a check that is off says in validate and drift."""

import time
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.entry.check import check_node, observe_drift
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec
from node_trees import NODES

BASE: dict[str, Any] = {"rdma_fabric": "infiniband", "rdma_mtu": 4092}
LATER = "2099-12-31"


def built(checks: Any, **more: Any) -> tuple[Any, list[str]]:
    spec, findings = build_spec({**BASE, "rdma_checks": checks, **more}, "n")
    return spec, [f"{item.key}: {item.message}; allowed: {item.allowed}" for item in findings if item.severity == "error"]


@pytest.mark.parametrize(("checks", "wrong"), [
    ({"gpu.nvlnk": "off"}, "rdma_checks.gpu.nvlnk: gpu.nvlnk is no check; did you mean gpu.nvlink?"),
    ({"config.ncl": "observe"}, "config.ncl is no check"), ({7: "observe"}, "7 is no check"),
    ({"gpu.nvlink": "of"}, "of is no mode; allowed: off, observe, enforce, or {mode"), ({"gpu.nvlink": 3}, "is no mode"),
    ({"gpu.nvlink": {"mode": "observe", "ticket": "x"}}, "has ticket"), ({"gpu.nvlink": {"reason": "x"}}, "has no mode"),
    ({"gpu.nvlink": "off"}, "off needs a reason and a day on which it ends"),
    ({"gpu.nvlink": {"mode": "off", "reason": "x"}}, "off needs a reason and a day"),
    ({"gpu.nvlink": {"mode": "observe", "until": "2020-01-01"}}, "rdma_checks.gpu.nvlink.until: the entry has expired"),
    ({"gpu.nvlink": {"mode": "observe", "until": "soon"}}, "is no day; allowed: YYYY-MM-DD, in quotes"),
    ({"gpu.nvlink": {"mode": "observe", "reason": "a\nb"}}, "rdma_checks.gpu.nvlink.reason: is no line of text"),
    ({"gpu.nvlink": {"mode": "observe", "subjects": "mlx5_3"}}, "is no list of parts"),
    ({"gpu.nvlink": {"mode": "observe", "subjects": ["a\x1bb"]}}, "is no list of parts")])
def test_a_bad_entry_is_an_error_with_what_is_allowed(checks: Any, wrong: str) -> None:
    spec, errors = built(checks)
    assert spec is None
    assert [wrong in error for error in errors] == [True], errors


def test_an_entry_that_ends_within_a_week_is_a_warning() -> None:
    entry = {"mode": "observe", "until": time.strftime("%Y-%m-%d", time.gmtime(time.time() + 3 * 86400))}
    spec, findings = build_spec({**BASE, "rdma_checks": {"gpu.nvlink": entry}}, "n")
    assert spec is not None
    assert [item.severity for item in findings if item.key == "rdma_checks.gpu.nvlink.until"] == ["warning"]


def test_entries_have_one_form() -> None:
    spec, errors = built({
        "gpu.nvlink": "observe", "config.nccl": "observe", "port.optics": {"mode": False, "reason": "case 7", "until": LATER,
                                                                           "subjects": ["mlx5_3"]}})
    assert errors == []
    empty = {"reason": "", "until": "", "by": "", "subjects": []}
    assert spec["checks"] == {
        "gpu.nvlink": {"mode": "observe", **empty}, "config.nccl": {"mode": "observe", **empty},
        "port.optics": {"mode": "off", "reason": "case 7", "until": LATER, "by": "", "subjects": ["mlx5_3"]}}, "YAML reads off as false"


def test_a_check_that_is_off_is_skipped_in_validate_and_no_drift() -> None:
    host = TreeHost(str(NODES / "port-polling"))
    off = {"mode": "off", "reason": "dark on purpose", "until": LATER}

    def judged(checks: Any) -> tuple[set[str], set[str], set[str]]:
        spec, errors = built(checks, rdma_rails=[{"name": "rail0", "match": {"pci": "0000:41:00.0"}}])
        assert errors == []
        verdicts = check_node(host, "n", spec)["verdicts"]
        failed = {item["check"] for item in verdicts if item["status"] == "fail"}
        said = {item["message"] for item in verdicts if item["status"] == "skipped" and "dark on purpose" in item["message"]}
        return failed, said, {item["key"] for item in observe_drift(host, "n", spec)["findings"]}

    failed, said, drift = judged({})
    assert said == set()
    assert failed
    code = min(failed)
    without, said, less = judged({code: off})
    assert without == failed - {code}
    assert said == {f"off until {LATER} by rdma_checks: dark on purpose"}
    assert less < drift or not code.startswith("config."), "what is off is no drift"
    assert judged({code: "observe"})[0] == failed, "an observed check counts in exit codes"
