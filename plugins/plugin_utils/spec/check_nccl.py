# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules between the nccl keys: each way to install NCCL has its own form of a version, and its own files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import INDEX, NCCL_RELEASE
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.libnccl import BUILDS, IN_PREFIX, cuda_of, wanted_cuda

from .findings import Findings

_NUMBER = r"2\.[0-9]{1,3}\.[0-9]{1,3}"
VERSIONS = {  # by nccl_install: (pattern, what is allowed)
    "repository": (_NUMBER + r"(-[0-9]+(\+cuda[0-9]{2}\.[0-9])?)?",
                   f"a release like {NCCL_RELEASE}, or the package's version like {BUILDS[0].version}"),
    "distribution": (_NUMBER + r"(-[A-Za-z0-9.+~-]+)?", "a release like 2.22.3, or the package's version like 2.22.3-1-1"),
    "wheel": (_NUMBER + r"(\.post[0-9]+)?", f"a release as PyPI has it, like {NCCL_RELEASE}"),
    "source": (_NUMBER, f"a release like {NCCL_RELEASE}; its tag is v{NCCL_RELEASE}-1"),
}
ENDINGS = {"wheel": (".whl",), "source": (".tar.gz", ".tgz")}
_KEYS = ("nccl_install", "nccl_version", "nccl_archive", INDEX, "artifact_mirror", "artifact_pins", "cuda_version", "gpu_driver_branch")


def check_nccl(values: Mapping[str, Any], findings: Findings) -> None:
    if any(key not in values for key in _KEYS):
        return
    install, version, archive = values["nccl_install"], values["nccl_version"], values["nccl_archive"]
    if install == "none":
        if version is not None:
            findings.error("nccl_version", version, "does nothing without nccl_install", ", ".join(VERSIONS) + " as nccl_install, or unset")
    elif version is not None and not re.fullmatch(VERSIONS[install][0], version):
        findings.error("nccl_version", version, f"is not a version of NCCL as nccl_install {install} has it", VERSIONS[install][1])
        return
    if archive is not None and install not in IN_PREFIX:
        findings.error("nccl_archive", archive, "is read only where nccl_install is wheel or source", "one of these there, or unset")
    if install == "repository":
        _check_cuda(values, findings)
    elif install in IN_PREFIX:
        _check_file(values, findings)


def _check_cuda(values: Mapping[str, Any], findings: Findings) -> None:
    """The repository has one package for each CUDA, so the inventory must say which, and say it once."""
    version, toolkit = values["nccl_version"], values["cuda_version"]
    suffix, major = cuda_of(version), (toolkit or "").partition(".")[0]
    if suffix and major and suffix != major:
        findings.error("nccl_version", version, f"is built for CUDA {suffix}, cuda_version is {toolkit}",
                       f"a package for CUDA {major}, or the release alone")
        return
    wanted = wanted_cuda(values)
    if not wanted:
        findings.error("nccl_install", "repository", "has a package for each CUDA: neither cuda_version nor gpu_driver_branch says which",
                       "one of them, or nccl_version with its CUDA, like " + BUILDS[0].version)
    elif version is None and wanted not in [row.cuda for row in BUILDS]:
        findings.error("nccl_install", "repository", f"no package of NCCL {NCCL_RELEASE} for CUDA {wanted} is known",
                       "nccl_version too, or CUDA " + " or ".join(sorted(row.cuda for row in BUILDS)))


def _check_file(values: Mapping[str, Any], findings: Findings) -> None:
    """What nobody here has computed a checksum of is taken only with the operator's, and a wheel only from where he says."""
    install, version, archive = values["nccl_install"], values["nccl_version"], values["nccl_archive"]
    if archive is not None and not archive.endswith(ENDINGS[install]):
        findings.error("nccl_archive", archive, f"is no file that nccl_install {install} can read",
                       "a file that ends in " + " or ".join(ENDINGS[install]))
    if version in (None, NCCL_RELEASE):
        if install == "wheel" and archive is None and values[INDEX] is None and values["artifact_mirror"] is None:
            findings.error("nccl_install", install, f"needs {INDEX}: which package index has the wheel is for the site to say",
                           INDEX + " too, or rdma_artifact_mirror, or nccl_archive")
        return
    if install == "wheel" and archive is None:
        findings.error("nccl_version", version, "is a release that the catalogue has no wheel of", NCCL_RELEASE + ", or nccl_archive too")
    elif not any(name.startswith("nccl-" + install) for name in values["artifact_pins"]):
        name = "nccl-source" if install == "source" else "nccl-wheel-cuMAJOR-ARCHITECTURE"
        findings.error("nccl_version", version, "is a release that the catalogue has no checksum of",
                       f"{NCCL_RELEASE}, or its sha256 in rdma_artifact_pins.{name}")
