# SPDX-License-Identifier: GPL-3.0-or-later
"""``ddp_benchmark_environment``: any variable but those by which torchrun and railwright tell a rank who it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .check_nccl_tests import check_environment
from .findings import Findings
from .values import MISSING

KEY = "ddp_benchmark_environment"
TORCHRUN = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
OWN = ("RAILWRIGHT_BENCH", "TMPDIR")


def check_variables(variables: Mapping[Any, Any], findings: Findings) -> Any:
    """As {name: text}, or MISSING."""
    told = [name for name in variables if name in TORCHRUN]
    for name in told:
        findings.error(f"{KEY}.{name}", variables[name], "is what torchrun tells each rank", "other variables")
    return MISSING if told else check_environment(variables, findings, KEY, OWN)


CHECKS: dict[str, Any] = {KEY: check_variables}
