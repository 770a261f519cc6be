# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings as rdma_check returns them, one of every kind that a remediation tells apart."""

from __future__ import annotations

from typing import Any


def finding(key: str, kind: str = "setting", severity: str = "major", disruption: str = "none", **more: Any) -> dict[str, Any]:
    area, _colon, what = key.partition(": ")
    base = {"key": key, "kind": kind, "area": area, "what": what, "severity": severity, "disruption": disruption, "why": "w", "by": ""}
    return {**base, "expected": "x" * 100, "found": None, **more}


SYSCTL = finding("sysctl: sysctl net.x")
CONF = finding("nccl: file /etc/nccl.conf")
MTU = finding("network: MTU of rail0 (eth1)", severity="critical", disruption="link")
BURNT = finding("nic_firmware: firmware X in effect on Y", disruption="reboot")
KERNEL = finding("kernel: package linux-image-6.1")
LINE = finding("effective: NCCL_IB_TIMEOUT for login shells", kind="effective", area="nccl", by="set in /etc/profile.d/site.sh:1")
PORT = finding("port.state: mlx5_0 port 1", kind="state", severity="critical", area="hca", disruption="")
MASKED = finding("problem: opensm: unit opensm.service", kind="problem", severity="critical", area="opensm", what="unit opensm.service")


def seen(*findings: dict[str, Any]) -> dict[str, Any]:
    return {"findings": list(findings)}
