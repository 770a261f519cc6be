# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on the pinned kernel: whether it runs, and whether the next boot starts it again. Pure."""

from typing import Any, List, Mapping

from ...rules.comparisons import Inspection, Where, unreadable, verdict
from ...types import Verdict

CHECK = "kernel.pinned"


def judge_kernel(seen: Inspection) -> List[Verdict]:
    """Nothing is said where no kernel is pinned, nor in a container, whose kernel belongs to the machine below."""
    pinned, running = seen.spec["kernel_version"], seen.facts.get("kernel")
    if seen.identity.has("container") or pinned is None:
        return []
    where = Where(seen.node, None, None, "kernel")
    if running is None:
        return [unreadable(CHECK, where, pinned, "the running kernel's release")]
    boot = seen.facts.get("boot") or {}
    following = boot.get("next")
    if running != pinned:
        return [verdict(CHECK, where, "fail", pinned, running, "runs %s, not %s; %s" % (running, pinned, _way(boot, pinned)))]
    if following is not None and following != pinned:
        return [verdict(CHECK, where, "fail", pinned, following, "%s runs, and the next boot starts %s (%s)" % (
            pinned, following, boot.get("next_source")))]
    said = ", and is what the next boot starts" if following else ""
    return [verdict(CHECK, where, "pass", pinned, running, "%s runs%s" % (pinned, said))]


def _way(boot: Mapping[str, Any], pinned: str) -> str:
    """How far the node is from it."""
    if pinned not in [kernel["release"] for kernel in boot.get("kernels") or []]:
        return "it is not installed"
    return "the next boot starts it" if boot.get("next") == pinned else "it is installed, and the next boot starts %s" % boot.get("next")
