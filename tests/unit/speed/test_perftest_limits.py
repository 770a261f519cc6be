# SPDX-License-Identifier: GPL-3.0-or-later
"""What perftest must reach by default, against the figures that others publish."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.measure.perftest import Limit, Measurement
from ansible_collections.railwright.rdma.plugins.plugin_utils.perftest_round import limit_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.speed.perftest_limits import bandwidth_limit, payload_share
from field_specs import build_spec

MIB = 1 << 20
TEST = Measurement("write_bw", "rail0 (eth1)", "mlx5_0", 1, 3, 18515, "10.0.0.2")
KEY, GPU_KEY = "validate_min_bandwidth_gbps", "gpudirect_min_bandwidth_gbps"


# oracle-quickstart/oci-hpc b5285a6, multi_node_active_healthcheck.py: A100, H100 (both 200 and 100 Gb/s ports), H200. Azure's conf/ at
# 0e0a1ac: check_ib_bw_gdr of ND A100 v4, and of ND H200 v5, the lowest of its 400 Gb/s machines.
@pytest.mark.parametrize(("rate", "gpu", "published"), [
    (100, False, 96), (200, False, 192), (400, False, 384), (200, True, 180), (400, True, 360),
])  # fmt: skip
def test_the_published_figures_are_the_default(rate: float, published: float, *, gpu: bool) -> None:
    value, source = bandwidth_limit(rate, 4096, MIB, gpu=gpu, ipv6=False)
    assert value == published
    assert f"rdma_expect.rate_gbps {rate}" in source and "active MTU 4096" in source


@pytest.mark.parametrize(("mtu", "share"), [(4096, 0.96), (2048, 0.94), (1024, 0.91), (512, 0.84), (256, 0.74)])
def test_a_smaller_mtu_leaves_less(mtu: int, share: float) -> None:
    assert bandwidth_limit(100, mtu, MIB, gpu=False, ipv6=False)[0] == 100 * share
    assert share < payload_share(mtu, ipv6=False), "no floor is above what the wire carries"
    assert bandwidth_limit(100, mtu, MIB, gpu=True, ipv6=False)[0] == 100 * min(0.9, share)


@pytest.mark.parametrize("mtu", [4096, 2048, 1024, 512, 256])
def test_longer_headers_are_counted(mtu: int) -> None:
    value, _source = bandwidth_limit(100, mtu, MIB, gpu=False, ipv6=True)
    assert value is not None
    assert value < 100 * payload_share(mtu, ipv6=True) < 100 * payload_share(mtu, ipv6=False)


@pytest.mark.parametrize("mtu", [None, 0, 1500, 9000, -4096])
def test_without_an_mtu_nothing_is_known(mtu: int | None) -> None:
    value, why = bandwidth_limit(400, mtu, MIB, gpu=False, ipv6=False)
    assert value is None
    assert "active MTU of one end cannot be read" in why


def test_short_messages_have_no_published_figure() -> None:
    assert bandwidth_limit(400, 4096, 65536, gpu=False, ipv6=False)[0] == 384
    assert bandwidth_limit(400, 4096, 65535, gpu=False, ipv6=False)[0] is None


def limit(test: Measurement = TEST, mtu: int | None = 4096, rate: float | None = 400, **keys: Any) -> Limit:
    spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rails": [], **keys}, "n1")
    assert spec is not None, findings
    return limit_of(spec, test, mtu, rate)


def test_an_operators_own_limits_win() -> None:
    assert limit(**{KEY: 375}) == limit(**{KEY: 375}, mtu=None) == limit(**{KEY: 375}, rate=None) == Limit(375, KEY)
    gpu = TEST._replace(gpu=0)
    assert (limit(gpu, **{GPU_KEY: 380}), limit(gpu, **{KEY: 375}).value) == (Limit(380, GPU_KEY), 360)
    lat = TEST._replace(name="write_lat")
    assert limit(lat, validate_max_write_latency_us=9) == Limit(9, "validate_max_write_latency_us")


@pytest.mark.parametrize(("name", "value"), [("write_bw", 384), ("together", 384), ("write_lat", 5), ("read_lat", None)])
def test_the_rate_alone_gives_limits(name: str, value: float | None) -> None:
    """5 us: OCI, for writes. What is published is for no read, which goes both ways."""
    found = limit(TEST._replace(name=name))
    assert (found.value, found.unknown) == (value, False)
    assert limit(TEST._replace(name=name), rate=None) == limit(TEST._replace(name=name), rate=None, mtu=None)
    assert limit(TEST._replace(name=name), rate=None).value is None


def test_what_is_expected_and_cannot_be_told_is_unknown() -> None:
    assert (limit(mtu=None).value, limit(mtu=None).unknown) == (None, True)
    soft = limit(rdma_stack="soft_roce")
    assert (soft.value, soft.unknown, "made up" in soft.source) == (None, True, True)
    assert limit(rdma_stack="soft_roce", rate=None).unknown is False
    assert limit(validate_perftest_message_bytes=4096).unknown
