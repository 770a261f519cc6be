# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about what an eRDMA node was bought as: MTU, number of rails and expectations against its instance type. Pure.

A type that the catalogue does not have is no error: Alibaba has more of them than anybody writes down, and an inventory
must not wait for a release of ours. It is a warning that says what is then not judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.erdma_instances import ErdmaInstance, erdma_instance, known_types

from .findings import Findings

JUMBO, PLAIN = 8500, 1400
DEFAULTS: dict[str, Any] = {"erdma_instance_type": None, "erdma_route_metric": 200}
API = "DescribeInstanceTypes (JumboFrameSupport)"


def check_erdma_instance(values: Mapping[str, Any], rails: list[dict[str, Any]], findings: Findings) -> None:
    """Runs after each key is well-formed."""
    if values.get("fabric") is None:
        return
    if values["fabric"] != "erdma":
        for name, default in DEFAULTS.items():
            if values.get(name, default) != default:
                findings.error(name, values[name], f"is for eRDMA; rdma_fabric is {values['fabric']}", "unset, or rdma_fabric: erdma")
        return
    wanted = values.get("erdma_instance_type")
    row = erdma_instance(wanted)
    if row is None:
        if wanted is not None:
            findings.warning("erdma_instance_type", wanted, "is not in the catalogue: number of devices, jumbo frames and bandwidth are "
                             "judged by rdma_expect.hcas, rdma_mtu and validate_min_bandwidth_gbps alone", ", ".join(known_types()))
        return
    _mtus(row, values, rails, findings)
    _numbers(row, values, rails, findings)


def _mtus(row: ErdmaInstance, values: Mapping[str, Any], rails: list[dict[str, Any]], findings: Findings) -> None:
    given = {"rdma_mtu": values.get("mtu")}
    given.update({f"rdma_rails[{rail['index']}].mtu": rail["mtu"] for rail in rails if rail["mtu"] not in (None, values.get("mtu"))})
    for key in sorted(key for key, mtu in given.items() if mtu == JUMBO):
        if row.jumbo is False:
            findings.error(key, JUMBO, f"{row.name} has no jumbo frames, and a wrong MTU can corrupt data under NCCL's LL128", str(PLAIN))
        elif row.jumbo is None:
            findings.warning(key, JUMBO, "whether %s has jumbo frames is not known here, and a wrong MTU can corrupt data under NCCL's "
                             "LL128" % row.name, f"{JUMBO} if {API} says so and they are on for the instance, else {PLAIN}")


def _numbers(row: ErdmaInstance, values: Mapping[str, Any], rails: list[dict[str, Any]], findings: Findings) -> None:
    hcas, least = (values.get("expect") or {}).get("hcas"), values.get("validate_min_bandwidth_gbps")
    if row.devices is not None and len(rails) > row.devices:
        findings.error("rdma_rails", len(rails), f"are more than the eRDMA devices of {row.name}, which are {row.devices}",
                       f"at most {row.devices} rails, or another erdma_instance_type")
    if row.devices is not None and hcas not in (None, row.devices):
        findings.warning("rdma_expect.hcas", hcas, f"{row.name} has {row.devices} eRDMA devices; rdma_expect.hcas is what counts",
                         str(row.devices))
    most, whose = (row.device_gbps, "one eRDMA device") if row.device_gbps is not None else (row.gbps, "all network interfaces")
    if most is not None and least is not None and least > most:
        findings.error("validate_min_bandwidth_gbps", least, f"is more than the {most:g} Gb/s of {whose} of {row.name}",
                       "at most %g" % most)
