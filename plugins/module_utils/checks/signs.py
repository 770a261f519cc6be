# SPDX-License-Identifier: GPL-3.0-or-later
"""The sign: one finding of a check of health, before the findings about one part are joined into a verdict. Pure."""

from typing import Any, List, Mapping, NamedTuple, Optional, Sequence


class Sign(NamedTuple):
    """A finding. ``found``: its shortest form. ``todo``: what to do, where that differs from the catalogue's text for the check."""

    check: str
    subject: str
    hca: Optional[str]
    status: str
    found: str
    text: str
    todo: str = ""


def gpu_subject(pci: str) -> str:
    return "GPU %s" % pci


def gpu_sign(check: str, pci: str, status: str, found: str, text: str) -> Sign:
    return Sign(check, gpu_subject(pci), None, status, found, text)


def majority(values: Sequence[Any]) -> Any:
    """Return the value of more than half of the values that are not None; None where there is no such value."""
    known = [value for value in values if value is not None]
    best = max(known, key=known.count) if known else None
    return best if best is not None and 2 * known.count(best) > len(known) else None


def gpu_rows(health: Mapping[str, Any]) -> List[Mapping[str, Any]]:
    """The rows of GPUs that nvidia-smi, or NVML, answered about."""
    return list((health.get("gpu") or {}).get("gpus") or [])
