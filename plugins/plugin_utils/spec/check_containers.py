# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of the role containers that its types do not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .findings import Findings


def check_containers(checked: Mapping[str, Any], findings: Findings) -> None:
    """Keys that contradict each other; each only when it is well-formed."""
    runtime, gpu = checked.get("containers_runtime"), checked.get("containers_gpu")
    if gpu == "nvidia" and runtime in ("podman", "nerdctl"):
        findings.error("containers_gpu", gpu, f"the nvidia runtime is docker's; {runtime} takes CDI", "auto, cdi, or none")
    if checked.get("containers_toolkit_install") is not True:
        return
    for key, value in (("containers_runtime", runtime), ("containers_gpu", gpu)):
        if value == "none":
            findings.error("containers_toolkit_install", True, f"nothing would use it: {key} is none",
                           f"false, or another value for {key}")
