# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules between the keys of nccl-tests: what contradicts itself is said before a node is contacted. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import ARTIFACTS

from .findings import Findings, did_you_mean
from .nccl_overrides import check_variable
from .values import MISSING, as_number, bytes_of, type_name

COLLECTIVES = (
    "all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "gather", "scatter", "sendrecv", "hypercube",
)
SOURCE = next(row for row in ARTIFACTS if row.name == "nccl-tests")
BUILD_ONLY = ("nccl_tests_version", "nccl_tests_archive")
SLURM_ONLY = ("nccl_tests_slurm_options", "nccl_tests_slurm_host")
SLURM_OWN = ("--job-name", "--nodes", "--nodelist", "--ntasks", "--ntasks-per-node", "--export", "--kill-on-bad-exit")
RESERVED = ("RAILWRIGHT_BENCH", "NCCL_DEBUG_FILE")  # the runs' own: what ends them, and where their log is read
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ABOVE = r"/(?:bin|boot|dev|etc|home|lib|lib64|opt|proc|root|run|sbin|srv|sys|tmp|usr|usr/local|var)?/*\Z"


def check_collectives(names: list[str], findings: Findings) -> Any:
    twice = sorted({name for name in names if names.count(name) > 1})
    if not names:
        findings.error("nccl_tests_collectives", names, "is empty: nothing would be run", ", ".join(COLLECTIVES))
    elif twice:
        findings.error("nccl_tests_collectives", names, f"names {', '.join(twice)} twice", "each collective once")
    else:
        return names
    return MISSING


def check_min_busbw(floors: Mapping[Any, Any], findings: Findings) -> Any:
    """``nccl_tests_min_busbw`` as {collective: GB/s}, or MISSING."""
    good: dict[str, float] = {}
    for name, value in floors.items():
        path = f"nccl_tests_min_busbw.{name}"
        number = as_number(value)
        if name not in COLLECTIVES:
            findings.error(path, value, f"is no collective of nccl-tests{did_you_mean(str(name), COLLECTIVES)}", ", ".join(COLLECTIVES))
        elif number is None or number <= 0:
            found = type_name(value) if number is None else "that"
            findings.error(path, value, f"must be a positive number, not {found}", "GB/s, such as 340")
        else:
            good[str(name)] = number
    return good if len(good) == len(floors) else MISSING


def check_environment(
    variables: Mapping[Any, Any], findings: Findings, key: str = "nccl_tests_environment", reserved: Sequence[str] = RESERVED
) -> Any:
    """``nccl_tests_environment`` (or another key of that kind) as {name: text}, or MISSING."""
    good: dict[str, str] = {}
    before = findings.error_count()
    for name, value in variables.items():
        path = f"{key}.{name}"
        if not isinstance(name, str) or not _NAME.match(name):
            findings.error(path, value, "is no name of a variable", "letters, digits and _")
        elif name in reserved:
            findings.error(path, value, "is set by railwright itself: it finds the run and its log by it", "other variables")
        elif isinstance(value, bool) or not isinstance(value, (str, int, float)):
            findings.error(path, value, f"must be text, not {type_name(value)}", "text, in quotes")
        elif re.search(r"[\x00-\x1f\x7f]", str(value)):
            findings.error(path, value, "holds a line break or a control character", "text of one line")
        else:
            check_variable(name, str(value), path, findings)
            good[name] = str(value)
    return good if findings.error_count() == before else MISSING


def check_nccl_tests(values: Mapping[str, Any], findings: Findings) -> None:
    """Rules over several keys; runs after each is well-formed."""
    install, path = values.get("nccl_tests_install"), values.get("nccl_tests_path")
    if install == "prebuilt" and "nccl_tests_path" in values:
        if path is None:
            findings.error("nccl_tests_path", None, "is missing: nccl_tests_install: prebuilt means that the programs lie there already",
                           "an absolute path, such as /opt/nccl-tests/build")
        for key in BUILD_ONLY:
            if values.get(key) is not None:
                findings.error(key, values[key], "is for a build; nccl_tests_install is prebuilt", "unset, or nccl_tests_install: build")
    elif "nccl_tests_path" in values:
        _check_place(values, path, findings)
        _check_version(values, findings)
    _check_sizes(values, findings)
    if values.get("nccl_tests_launcher") not in ("slurm", None):
        for key in SLURM_ONLY:
            if values.get(key):
                findings.error(key, values[key], f"is for srun; nccl_tests_launcher is {values['nccl_tests_launcher']}",
                               "unset, or nccl_tests_launcher: slurm")
    _check_slurm_options(values.get("nccl_tests_slurm_options") or (), findings)


def _check_slurm_options(options: Sequence[str], findings: Findings) -> None:
    """srun takes the last of two: a job of another name would never be cancelled. It also takes an option by its beginning."""
    for index, option in enumerate(options):
        name = option.partition("=")[0]
        if any(own.startswith(name) for own in SLURM_OWN):
            findings.error(f"nccl_tests_slurm_options[{index}]", option, "is set by railwright itself",
                           f"other options than {', '.join(SLURM_OWN)}")


def _check_place(values: Mapping[str, Any], path: str | None, findings: Findings) -> None:
    """Something that is shared or mounted needs a place, and that is no directory of the system."""
    for key in ("nccl_tests_nfs", "nccl_tests_shared"):
        if values.get(key) and path is None:
            findings.error(key, values[key], "needs nccl_tests_path: the directory that all nodes share",
                           "nccl_tests_path too, such as /shared/nccl-tests")
            return
    if values.get("nccl_tests_nfs") and re.match(_ABOVE, str(path)):
        findings.error("nccl_tests_path", path, "is a directory of the system; nccl_tests_nfs would be mounted over it",
                       "a directory of its own, such as /shared/nccl-tests")


def _check_version(values: Mapping[str, Any], findings: Findings) -> None:
    """A release whose archive nobody here has looked at is built only with the operator's checksum."""
    version, pins = values.get("nccl_tests_version"), values.get("artifact_pins")
    if version not in (None, SOURCE.version) and pins is not None and SOURCE.name not in pins:
        findings.error("nccl_tests_version", version, "is a release of nccl-tests that the catalogue has no checksum of",
                       f"{SOURCE.version}, or its sha256 in rdma_artifact_pins.{SOURCE.name}")


def _check_sizes(values: Mapping[str, Any], findings: Findings) -> None:
    begin, end = values.get("nccl_tests_begin"), values.get("nccl_tests_end")
    if begin is not None and end is not None and bytes_of(begin) > bytes_of(end):
        findings.error("nccl_tests_begin", begin, f"is larger than nccl_tests_end, which is {end}", "at most nccl_tests_end")


CHECKS: dict[str, Any] = {
    "nccl_tests_collectives": check_collectives, "nccl_tests_min_busbw": check_min_busbw, "nccl_tests_environment": check_environment,
}
