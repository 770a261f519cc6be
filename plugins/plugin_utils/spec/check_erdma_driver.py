# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules between the keys of eRDMA's driver, its mode and the RDMA stack, and the one that all hosts of a site must keep. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.areas.erdma.source import INSTALLER, OPEN, artifact_of
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import ARTIFACTS, find
from ansible_collections.railwright.rdma.plugins.module_utils.rules.erdma_mode import AUTO, COMPAT, DEFAULT, LEAVE, LETTERS, MAINLINE, OFED
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec

from .findings import Findings

KEYS = ("erdma_driver", "erdma_driver_version", "erdma_mode")
DEFAULTS: dict[str, Any] = {"erdma_driver": AUTO, "erdma_driver_version": None, "erdma_mode": AUTO}
STACKS = {OFED: ("auto", "mlnx_ofed"), AUTO: ("auto", "inbox", "mlnx_ofed"), COMPAT: ("auto", "inbox"), DEFAULT: ("auto", "inbox")}


def check_erdma_driver(values: Mapping[str, Any], findings: Findings) -> None:
    """Rules over several keys; runs after each is well-formed."""
    if any(name not in values for name in (*KEYS, "fabric")):
        return
    if values["fabric"] != "erdma":
        for name in KEYS:
            if values[name] != DEFAULTS[name]:
                findings.error(name, values[name], f"is for eRDMA; rdma_fabric is {values['fabric']}", "unset, or rdma_fabric: erdma")
        return
    _driver(values, findings)
    _version(values, findings)
    _stack(values, findings)


def _driver(values: Mapping[str, Any], findings: Findings) -> None:
    driver, mode = values["erdma_driver"], values["erdma_mode"]
    if driver == MAINLINE and mode == OFED:
        findings.error("erdma_driver", driver, "does not load on top of MLNX_OFED, and erdma_mode is ofed",
                       "auto, dkms, or erdma_mode: compat")
    if driver == LEAVE and mode != AUTO:
        findings.warning("erdma_mode", mode, "is judged and never set: erdma_driver is leave", "another erdma_driver, or auto")


def _version(values: Mapping[str, Any], findings: Findings) -> None:
    version, driver = values["erdma_driver_version"], values["erdma_driver"]
    if version is None:
        return
    if driver in (MAINLINE, LEAVE):
        findings.error("erdma_driver_version", version, f"is a release of Alibaba's driver; erdma_driver is {driver}",
                       "unset, or erdma_driver: auto or dkms")
        return
    name = artifact_of(version)
    row = find(name or "")
    if row is None:
        findings.error("erdma_driver_version", version, "is no release that the catalogue has a source of", "%s, or a release of the "
                       "installer: %s, or a newer one with rdma_artifact_pins: {%s: its sha256}" % (
                           ", ".join(releases(OPEN)), ", ".join(releases(INSTALLER)), INSTALLER))
    elif row.version != version and row.name not in values.get("artifact_pins", {}):
        findings.error("erdma_driver_version", version, "is an archive that nobody here vouches for", "%s, or rdma_artifact_pins: {%s: its "
                       "sha256} too" % (", ".join(releases(OPEN) + releases(INSTALLER)), row.name))


def releases(name: str) -> list[str]:
    """Of which releases the catalogue knows the checksum."""
    return [row.version for row in ARTIFACTS if row.pin == "sha256" and row.name.startswith(name)]


def _stack(values: Mapping[str, Any], findings: Findings) -> None:
    """ofed is compat on top of MLNX_OFED; the other modes are for the distribution's RDMA core."""
    stack, mode = values.get("rdma_stack"), values["erdma_mode"]
    if stack == "mlnx_ofed" and mode in (DEFAULT, COMPAT):
        findings.error("rdma_stack", stack, f"goes with erdma_mode: ofed; it is {mode} here", ", ".join(STACKS[mode]))
    if stack == "inbox" and mode == OFED:
        findings.error("rdma_stack", stack, "has no MLNX_OFED, which erdma_mode: ofed runs on top of", ", ".join(STACKS[mode]))
    if stack == "mlnx_ofed" and values.get("rdma_stack_activation") == "restart":
        findings.warning("rdma_stack_activation", "restart",
                         "openibd does not know eRDMA's driver, and cannot unload the RDMA core under it", "reboot")


def check_modes(specs: Mapping[str, Spec]) -> list[Finding]:
    """All hosts in one wire mode, as far as the inventory tells: auto is compat or ofed, which are one; leave is known on the node only."""
    letters = [(host, spec["erdma_mode"], LETTERS[DEFAULT] if spec["erdma_mode"] == DEFAULT else LETTERS[COMPAT])
               for host, spec in sorted(specs.items()) if spec.fabric == "erdma" and spec["erdma_driver"] != LEAVE]
    camps = {letter: [row for row in letters if row[2] == letter] for letter in sorted(set(LETTERS.values()))}
    if not all(camps.values()):
        return []
    minor, major = sorted(camps.values(), key=len)
    message = "is the mode of %s, but %s is on %s; nodes in default cannot talk RDMA to nodes in compat or ofed" % (
        _hosts(minor), major[0][1], _hosts(major))
    return [Finding(minor[0][0], "erdma_mode", minor[0][1], message, "default on all hosts, or compat and ofed", "error")]


def _hosts(rows: list[tuple[str, str, str]]) -> str:
    names = [host for host, _mode, _letter in rows]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
