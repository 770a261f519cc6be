# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``rdma_kernel_version`` may look like: a release as ``uname -r`` prints it, of any distribution. Its area says which fits a node."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import is_digits

from .findings import Findings
from .values import MISSING

KEY = "rdma_kernel_version"
ALLOWED = "a kernel release as `uname -r` prints it, like 6.1.0-48-amd64, 6.8.0-85-generic, 5.14.0-570.12.1.el9_6.x86_64"
_PACKAGE = re.compile(r"(?:linux-(?:image|headers|modules)|kernel(?:-(?:core|devel|modules))?|vmlinu[xz]|initrd\.img)-(?:extra-)?(?=[0-9])")
# Three numbers, then what the distribution adds: a number of its own, and in letters a flavour or an architecture.
_RELEASE = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+[+-](?=.*[a-z])[A-Za-z0-9_]+(?:[.+-][A-Za-z0-9_]+)*")
_WORDS = ("latest", "newest", "auto", "default", "generic", "cloud")


def check_kernel_version(value: str, findings: Findings) -> Any:
    """The release, or MISSING: what names a package, a meta package or only a part of a release."""
    found = _PACKAGE.match(value)
    if found is not None:
        findings.error(KEY, value, "is the name of a package or a file", value[found.end():])
    elif value in _WORDS or not is_digits(value[:1]):
        findings.error(KEY, value, "names no kernel: one exact release is pinned, so that every node runs the same", ALLOWED)
    elif not _RELEASE.fullmatch(value):
        findings.error(KEY, value, "is only a part of a release: the distribution's own number, flavour or architecture are missing",
                       ALLOWED)
    else:
        return value
    return MISSING


CHECKS: dict[str, Any] = {KEY: check_kernel_version}
