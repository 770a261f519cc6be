# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of eRDMA: its driver, its mode and the RDMA stack, what a node was bought as, and the mode that all hosts of a site share. Pure.

An instance type that the catalogue does not have is no error: Alibaba has more of them than anybody writes down, and an inventory
must not wait for a release of ours. It is a warning that says what is then not judged.
"""

from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.areas.erdma.drivers import INSTALLER, OPEN, artifact_of
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import ARTIFACTS, find_artifact
from ansible_collections.railwright.rdma.plugins.module_utils.rules.erdma_mode import COMPAT, DEFAULT, LEAVE, LETTERS, MAINLINE, OFED
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

from .erdma_instances import ERDMA_INSTANCES, ErdmaInstance, erdma_instance
from .findings import Findings, join_hosts

Values = Mapping[str, Any]
Rails = list[dict[str, Any]]
JUMBO, PLAIN = 8500, 1400


def check_erdma_driver(values: Values, _rails: Rails, findings: Findings) -> None:
    if values["fabric"] != "erdma":
        return
    driver, mode, version = values["erdma_driver"], values["erdma_mode"], values["erdma_driver_version"]
    if driver == MAINLINE and mode == OFED:
        findings.error("erdma_driver", driver, "does not load on top of MLNX_OFED, and erdma_mode is ofed",
                       "auto, dkms, or erdma_mode: compat")
    if version is not None and driver not in (MAINLINE, LEAVE):
        _version(version, values, findings)
    # ofed is compat on top of MLNX_OFED; the other modes are for the distribution's RDMA core.
    stack = values.get("rdma_stack")
    if stack == "mlnx_ofed" and mode in (DEFAULT, COMPAT):
        findings.error("rdma_stack", stack, f"goes with erdma_mode: ofed; it is {mode} here", "auto, inbox")
    if stack == "inbox" and mode == OFED:
        findings.error("rdma_stack", stack, "has no MLNX_OFED, which erdma_mode: ofed runs on top of", "auto, mlnx_ofed")
    if stack == "mlnx_ofed" and values.get("rdma_stack_activation") == "restart":
        findings.warning("rdma_stack_activation", "restart",
                         "openibd does not know eRDMA's driver, and cannot unload the RDMA core under it", "reboot")


def _version(version: str, values: Values, findings: Findings) -> None:
    row = find_artifact(artifact_of(version) or "")
    own, bought = (", ".join(item.version for item in ARTIFACTS if item.pin == "sha256" and item.name.startswith(name))
                   for name in (OPEN, INSTALLER))  # of which releases the catalogue knows the checksum
    if row is None:
        findings.error("erdma_driver_version", version, "is no release that the catalogue has a source of", f"{own}, or a release of the "
                       f"installer: {bought}, or a newer one with rdma_artifact_pins: {{{INSTALLER}: its sha256}}")
    elif row.version != version and row.name not in values.get("artifact_pins", {}):
        findings.error("erdma_driver_version", version, "is an archive that is not pinned here",
                       f"{own}, {bought}, or rdma_artifact_pins: {{{row.name}: its sha256}} too")


def check_erdma_instance(values: Values, rails: Rails, findings: Findings) -> None:
    """MTU, number of rails and expectations against the instance type."""
    wanted = values["erdma_instance_type"]
    row = erdma_instance(wanted)
    if values["fabric"] != "erdma":
        return
    if wanted is None or row is not None:
        _check_jumbo(values.get("mtu"), rails, row, findings)
    if row is None:
        if wanted is not None:
            known = ", ".join(row.name for row in ERDMA_INSTANCES)
            findings.warning("erdma_instance_type", wanted, "is not in the catalogue: number of devices, jumbo frames and bandwidth are "
                             "judged by rdma_expect.hcas, rdma_mtu and validate_min_bandwidth_gbps alone", known)
        return
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
                       f"at most {most:g}")


def _check_jumbo(mtu: Any, rails: Rails, row: ErdmaInstance | None, findings: Findings) -> None:
    """``row``: of the instance type; None where the inventory names none."""
    given = {"rdma_mtu": mtu, **{f"rdma_rails[{rail['index']}].mtu": rail["mtu"] for rail in rails if rail["mtu"] not in (None, mtu)}}
    danger = "and a wrong MTU can corrupt data under NCCL's LL128"
    for key in sorted(key for key, size in given.items() if size == JUMBO):
        if row is None:
            findings.warning(key, JUMBO, f"needs erdma_instance_type: whether the instance has jumbo frames is not known, {danger}",
                             f"{PLAIN}, or erdma_instance_type with {JUMBO}")
        elif row.jumbo is False:
            findings.error(key, JUMBO, f"{row.name} has no jumbo frames, {danger}", str(PLAIN))
        elif row.jumbo is None:
            findings.warning(key, JUMBO, f"whether {row.name} has jumbo frames is not known here, {danger}",
                             f"{JUMBO} if DescribeInstanceTypes (JumboFrameSupport) says so and they are on for the instance, else {PLAIN}")


def check_modes(specs: Mapping[str, Spec], findings: Findings) -> None:
    """All hosts in one wire mode, as far as the inventory tells: auto is compat or ofed, which are one; leave is known on the node only."""
    camps: dict[str, list[str]] = {LETTERS[DEFAULT]: [], LETTERS[COMPAT]: []}
    for host, spec in sorted(specs.items()):
        if spec.fabric == "erdma" and spec["erdma_driver"] != LEAVE:
            camps[LETTERS[DEFAULT if spec["erdma_mode"] == DEFAULT else COMPAT]].append(host)
    if not all(camps.values()):
        return
    minor, major = sorted((camps[letter] for letter in sorted(camps)), key=len)
    message = "is the mode of %s, but %s is on %s; nodes in default cannot talk RDMA to nodes in compat or ofed" % (
        join_hosts(minor), specs[major[0]]["erdma_mode"], join_hosts(major))
    findings.of(minor[0]).error("erdma_mode", specs[minor[0]]["erdma_mode"], message, "default on all hosts, or compat and ofed")
