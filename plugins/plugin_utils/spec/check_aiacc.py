# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules around AIACC's plugin: with its profile and with no other, and with a sha256 of the operator's.

Which NCCL and which variables its profile goes with is the profile's own to say (``check_nccl_env.py``); here are the other two
places that variables of a job come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.aiacc import PACKAGE, PROFILE, VARIABLE, artifact_name, known_place
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import ARTIFACTS

from .findings import Findings

ENDINGS = ("deb", "rpm")
_KEYS = ("aiacc_install", "aiacc_version", "aiacc_url", "aiacc_archive", "artifact_pins", "nccl_profile", "nccl_tests_environment",
         "ddp_benchmark_environment")
_ENVIRONMENTS = ("nccl_tests_environment", "ddp_benchmark_environment")


def fill_aiacc(checked: dict[str, Any]) -> None:
    """The default of ``aiacc_install``, once the profile is known."""
    if checked.get("aiacc_install", False) is None:
        checked["aiacc_install"] = checked.get("nccl_profile") == PROFILE


def check_aiacc(values: Mapping[str, Any], findings: Findings) -> None:
    """Runs last. That nobody vouches for the package is said when all else is right."""
    if any(key not in values for key in _KEYS):
        return
    profile, install = values["nccl_profile"], values["aiacc_install"]
    if profile == PROFILE:
        _check_environment(values, findings)
    if not install:
        for key in ("aiacc_url", "aiacc_archive"):
            if values[key] is not None:
                findings.error(key, values[key], "does nothing without aiacc_install", "unset, or aiacc_install: true")
        return
    if profile != PROFILE and not findings.has_error("rdma_nccl_profile"):
        findings.error("aiacc_install", True, f"the plugin takes the place of NCCL's own transport, which profile {profile} sets up",
                       "false, or rdma_nccl_profile: " + PROFILE)
        return
    _check_file(values, findings)


def _check_environment(values: Mapping[str, Any], findings: Findings) -> None:
    for key in _ENVIRONMENTS:
        path = f"{key}.{VARIABLE}"
        value = values[key].get(VARIABLE)
        if value and not findings.has_error(path):  # an empty one is none to NCCL
            findings.error(path, value, f"profile {PROFILE} needs it unset: NCCL loads AIACC's plugin only then; none turns it off",
                           "leave it out, or rdma_nccl_profile: erdma-native")


def _check_file(values: Mapping[str, Any], findings: Findings) -> None:
    """Which of the two a host needs, its system says; that there is neither is known before."""
    version, url, archive = values["aiacc_version"], values["aiacc_url"], values["aiacc_archive"]
    if url is not None and archive is not None:
        findings.error("aiacc_archive", archive, "says where the package is, and so does aiacc_url", "one of the two")
        return
    named = archive if archive is not None else url
    ending = next((ending for ending in ENDINGS if named is not None and named.endswith("." + ending)), None)
    if named is not None and ending is None:
        findings.error("aiacc_archive" if archive is not None else "aiacc_url", named, "is neither a .deb nor a .rpm",
                       "a file that ends in .deb or .rpm")
        return
    if named is None and not known_place(version):
        known = [row.version for row in ARTIFACTS if row.name.startswith("aiacc_nccl_plugin_deb")]
        findings.error("aiacc_version", version, "is a release that the catalogue has no place of",
                       f"{', '.join(known)}, or aiacc_url or aiacc_archive too")
        return
    names = [artifact_name(version, item) for item in ([ending] if ending is not None else ENDINGS)]
    if not findings.error_count() and not any(name in values["artifact_pins"] for name in names):
        findings.error("rdma_artifact_pins", None, f"{PACKAGE} {version} is not signed, and nobody vouches for it",
                       "its sha256 as rdma_artifact_pins." + " or rdma_artifact_pins.".join(names))
