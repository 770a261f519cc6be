# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of gpu_driver and cuda that contradict each other; the lines themselves are in lint/bad_inventories_drivers.yml."""

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.drivers import BRANCHES
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.check_drivers import check_gpu_driver
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.findings import Findings
from field_specs import build_spec


def findings(**values: Any) -> list[tuple[str, str]]:
    _spec, found = build_spec({"fabric": "roce", "mtu": 9000, "rails": [], **values}, "n1")
    return [(item.key, item.severity) for item in found if item.key.startswith(("gpu_", "cuda_"))]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"gpu_driver_branch": "580"},
        {"gpu_driver_branch": "580", "gpu_driver_version": "580.95.05"},
        {"gpu_driver_branch": "580", "gpu_driver_version": "580.95.05-0ubuntu1"},
        {"gpu_driver_branch": "570", "gpu_driver_version": "570.195.03"},
        {"gpu_driver_branch": "535", "gpu_driver_source": "distribution"},
        {"gpu_driver_branch": "580", "gpu_driver_flavour": "proprietary"},
        {"gpu_driver_branch": "620", "gpu_driver_version": "620.1"},
        {"gpu_driver_branch": "620"},
        {"gpu_driver_branch": "580", "cuda_version": "13.0", "cuda_cudnn_version": "9.13"},
        {"cuda_version": "12.9"},
        {"gpu_driver_branch": "535", "gpu_driver_source": "distribution", "cuda_version": "13.0"},  # the node's own driver decides
        {"gpu_driver_fabricmanager": False},
    ],
)
def test_what_fits_together(values: dict[str, Any]) -> None:
    assert findings(**values) == []


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"gpu_driver_branch": "581"}, "gpu_driver_branch"),
        ({"gpu_driver_branch": "580", "gpu_driver_version": "570.195.03"}, "gpu_driver_version"),
        ({"gpu_driver_branch": "580", "gpu_driver_version": "5801.2"}, "gpu_driver_version"),
        ({"gpu_driver_version": "580.95.05"}, "gpu_driver_version"),
        ({"gpu_driver_fabricmanager": True}, "gpu_driver_fabricmanager"),
        ({"gpu_driver_dcgm": True}, "gpu_driver_dcgm"),
        ({"gpu_driver_branch": "580", "gpu_driver_source": "distribution", "gpu_driver_dcgm": True}, "gpu_driver_dcgm"),
        ({"gpu_driver_branch": "620", "gpu_driver_version": "620.1", "gpu_driver_flavour": "proprietary"}, "gpu_driver_flavour"),
        ({"gpu_driver_branch": "470", "gpu_driver_version": "470.1"}, "gpu_driver_flavour"),
        ({"cuda_cudnn_version": "9.13"}, "cuda_cudnn_version"),
        ({"cuda_version": "99.0"}, "cuda_version"),
        ({"cuda_version": "13.0", "gpu_driver_branch": "570", "gpu_driver_version": "570.195.03"}, "cuda_version"),
        (
            {"cuda_version": "13.0", "gpu_driver_branch": "535", "gpu_driver_source": "distribution", "gpu_driver_version": "535.1.2-1"},
            "cuda_version",
        ),
    ],
)
def test_what_does_not(values: dict[str, Any], key: str) -> None:
    assert findings(**values) == [(key, "error")]


def test_a_branch_whose_support_is_over_is_a_warning() -> None:
    row = BRANCHES[0]
    values = {
        "gpu_driver_version": None,
        "gpu_driver_branch": row.name,
        "gpu_driver_flavour": "open",
        "gpu_driver_source": "cuda_repository",
    }
    for today, expected in ((row.eol, []), ("9999-01-01", ["warning"])):
        found = Findings("n1")
        check_gpu_driver(values, [], found, today)
        assert [item.severity for item in found.items] == expected
        assert all(row.eol in item.message for item in found.items)
