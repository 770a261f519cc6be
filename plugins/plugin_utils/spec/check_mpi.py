# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules between the mpi keys: one MPI, from one place, and each of its keys only where it is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import ARTIFACTS

from .findings import Findings

_KEYS = ("mpi_install", "mpi_version", "mpi_archive", "mpi_prefix", "artifact_pins")
_HPCX_VERSION = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){1,3}\Z")
ENDINGS = (".tbz", ".tbz2", ".tar.bz2", ".tgz", ".tar.gz")
HPCX = tuple(row for row in ARTIFACTS if row.name.startswith("hpcx-"))
RELEASES = tuple(sorted({row.version for row in HPCX}))


def check_mpi(values: Mapping[str, Any], findings: Findings) -> None:
    if any(key not in values for key in _KEYS):
        return
    install, version = values["mpi_install"], values["mpi_version"]
    if install != "none" and values["mpi_prefix"] is not None:
        findings.error("mpi_prefix", values["mpi_prefix"], f"names an MPI of the site, and mpi_install {install} brings another one",
                       "mpi_install: none, or mpi_prefix unset")
    if install == "none" and version is not None:
        findings.error("mpi_version", version, "does nothing without mpi_install", "openmpi, mpich or hpcx as mpi_install, or unset")
    if install != "hpcx":
        if values["mpi_archive"] is not None:
            findings.error("mpi_archive", values["mpi_archive"], f"is HPC-X's archive, and mpi_install is {install}",
                           "mpi_install: hpcx, or unset")
        return
    if values["mpi_archive"] is not None and not values["mpi_archive"].endswith(ENDINGS):
        findings.error("mpi_archive", values["mpi_archive"], "is no archive of HPC-X", "a file that ends in " + ", ".join(ENDINGS))
    if version is None:
        return
    if not _HPCX_VERSION.match(version):
        findings.error("mpi_version", version, "is no version of HPC-X", "digits and dots, like " + RELEASES[-1])
    elif version not in RELEASES and not any(row.name in values["artifact_pins"] for row in HPCX):
        findings.error("mpi_version", version, "is a release of HPC-X that the catalogue has no checksum of",
                       f"{' or '.join(RELEASES)}, or its sha256 in rdma_artifact_pins.{'hpcx-SYSTEM-ARCHITECTURE'}")
