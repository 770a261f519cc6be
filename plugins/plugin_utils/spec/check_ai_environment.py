# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the Python environment: one source that has checksums, a torch that is known, maintained and runs on the driver. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue import aiacc
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.drivers import driver_fits, minimum_driver, wanted_driver
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.torch import (
    FIRST_SAFE,
    NEWEST,
    OLDEST_PYTHON,
    RELEASES,
    cuda_of_torch,
    find_release,
    local_cuda,
    newer,
    number,
    python_fits,
)

from .findings import Findings
from .values import MISSING

URL, MORE = "ai_environment_index_url", "ai_environment_extra_index_urls"
TORCH, PYTHON = "ai_environment_torch", "ai_environment_python"
LOCK, WHEELS = "ai_environment_requirements", "ai_environment_wheels"
CONDA = ("ai_environment_conda_installer", "ai_environment_conda_installer_sha256", "ai_environment_conda_explicit")
_URL = re.compile(r"https?://[!-~]+\Z")
_ALLOWED = "an http or https URL without user and password in it; pip takes those from the node's netrc"
_NEEDED = (TORCH, PYTHON, LOCK, WHEELS, URL, MORE, "ai_environment_kind", "ai_environment_path", "ai_environment_packages", "accept_eol",
           "nccl_profile", "gpu_driver_branch", "gpu_driver_version", *CONDA)


def check_url(key: str, url: str, findings: Findings) -> bool:
    """No value in the finding where a password may stand in it."""
    if "@" in re.sub(r"\A[a-z]+://", "", url).partition("/")[0]:
        findings.error(key, None, "has a user or a password in it; it is not shown here", _ALLOWED)
        return False
    if not _URL.match(url):
        findings.error(key, url, "is no URL of a package index", _ALLOWED)
        return False
    return True


def check_index(url: str, findings: Findings) -> Any:
    return url if check_url(URL, url, findings) else MISSING


def check_more(urls: Any, findings: Findings) -> Any:
    good = [check_url(f"{MORE}[{place}]", url, findings) for place, url in enumerate(urls)]
    return list(urls) if all(good) else MISSING


CHECKS: dict[str, Any] = {URL: check_index, MORE: check_more}


def check_ai_environment(values: Mapping[str, Any], findings: Findings) -> None:
    if any(key not in values for key in _NEEDED):
        return
    if values["ai_environment_kind"] == "none":
        for key in (TORCH, PYTHON, LOCK, WHEELS, URL, *CONDA):
            if values[key] is not None:
                findings.error(key, values[key], "does nothing while ai_environment_kind is none",
                               "venv or conda as ai_environment_kind, or unset")
        return
    _check_conda(values, findings)
    _check_source(values, findings)
    if values[TORCH] is None:
        findings.error(TORCH, None, "is missing: an environment is made for one release of torch", f"a release like {NEWEST}")
        return
    _check_age(values, findings)
    _check_release(values, findings)


def _check_conda(values: Mapping[str, Any], findings: Findings) -> None:
    conda = values["ai_environment_kind"] == "conda"
    for key in CONDA:
        if conda and values[key] is None:
            findings.error(key, None, "is missing: ai_environment_kind conda needs an installer, its checksum and the packages",
                           "/PATH on the controller" if not key.endswith("sha256") else "64 lower case hexadecimal digits")
        elif not conda and values[key] is not None:
            findings.error(key, values[key], "is read only where ai_environment_kind is conda", "conda there, or unset")
    if conda and values[PYTHON] is not None:
        findings.error(PYTHON, values[PYTHON], "is read only where ai_environment_kind is venv; conda's is in " + CONDA[2], "unset")


def _check_source(values: Mapping[str, Any], findings: Findings) -> None:
    """What is installed has checksums, and comes from one place that is named."""
    lock, wheels, url = values[LOCK], values[WHEELS], values[URL]
    if lock is None and wheels is None:
        if url is not None:
            findings.error(LOCK, None, "is missing: nothing is taken from an index that has no checksum",
                           "a file with NAME==VERSION --hash=sha256:… for every package; docs/ai-environment.md says how to get one")
        elif values["ai_environment_kind"] == "venv":
            findings.error(LOCK, None, "is missing: nothing says where torch comes from",
                           f"{LOCK} with {URL}, or {WHEELS}")
    if lock is not None and wheels is None and url is None:
        findings.error(URL, None, f"is missing: {LOCK} says what, and nothing says from where", f"{URL}, or {WHEELS}")
    if wheels is not None and url is not None:
        findings.error(URL, url, f"is not asked where {WHEELS} is set", "one of the two")
    if url is None and values[MORE]:
        findings.error(MORE, values[MORE], f"does nothing without {URL}", f"{URL} too, or an empty list")


def _check_age(values: Mapping[str, Any], findings: Findings) -> None:
    """Nobody mends what is that old; a new cluster does not begin with it unless somebody says so."""
    torch, python = values[TORCH], values[PYTHON]
    say = findings.warning if values["accept_eol"] else findings.error
    again = "" if values["accept_eol"] else "; rdma_accept_eol: true goes on all the same"
    if number(torch)[0] < 2:
        say(TORCH, torch, "is of a series that PyTorch ended with 1.13.1 in 2022", f"{NEWEST}, or another 2.x{again}")
    elif newer(FIRST_SAFE, torch.partition("+")[0]):
        findings.warning(TORCH, torch, "runs code that lies in a checkpoint which it loads (CVE-2025-32434)", FIRST_SAFE + " or newer")
    if python is not None and number(python) < number(OLDEST_PYTHON):
        say(PYTHON, python, "gets no security updates any more", f"{OLDEST_PYTHON} or newer{again}")


def _check_release(values: Mapping[str, Any], findings: Findings) -> None:
    torch, python, row = values[TORCH], values[PYTHON], find_release(values[TORCH])
    if row is None and local_cuda(torch) is None and number(torch)[0] >= 2:
        findings.error(TORCH, torch, "is a release that the catalogue does not have, so which CUDA it is for is not known",
                       f"{', '.join(item.version for item in RELEASES[:6])}, or the build with its CUDA, like {torch}+cu128")
    if row is not None and python is not None and not findings.has_error(PYTHON) and not python_fits(row, python):
        findings.error(PYTHON, python, f"has no wheel of torch {row.version}", "%s to %s" % row.pythons)
    if row is not None and values["nccl_profile"] == aiacc.PROFILE and local_cuda(torch) is None and not aiacc.fits(row.nccl):
        fitting = [item.version for item in RELEASES if aiacc.fits(item.nccl)]
        findings.error(TORCH, torch, f"brings NCCL {row.nccl}, and AIACC's plugin is for NCCL {aiacc.RANGE}",
                       f"{', '.join(fitting)}, or rdma_nccl_profile erdma-native")
    cuda, driver = cuda_of_torch(torch, "x86_64"), wanted_driver(values)
    if cuda and driver is not None and not driver_fits(cuda, driver):
        findings.error(TORCH, torch, "is for CUDA %s, which needs driver %s or newer; the inventory asks for %s" % (
            cuda, minimum_driver(cuda) or "that nobody here knows", driver), "a newer gpu_driver_branch, or a build for an older CUDA")
