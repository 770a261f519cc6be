# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules between the keys of what jobs use: NCCL, MPI, nccl-tests, the Python environment, AIACC's plugin; and of rolling upgrades. Pure.

What nobody here has computed a checksum of is taken only with the operator's.
"""

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue import aiacc
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import ARTIFACTS, INDEX, NCCL_RELEASE
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.drivers import driver_fits, minimum_driver, wanted_driver
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.libnccl import BUILDS, IN_PREFIX, cuda_of, wanted_cuda
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.torch import (
    FIRST_SAFE,
    NEWEST,
    OLDEST_PYTHON,
    RELEASES,
    cuda_of_torch,
    find_release,
    local_cuda,
    newer,
    python_fits,
)
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import numbers
from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.launch import ACROSS, LEAF, RAIL

from .findings import Findings, did_you_mean
from .values import bytes_of

Values = Mapping[str, Any]
_NUMBER = r"2\.[0-9]{1,3}\.[0-9]{1,3}"
VERSIONS = {  # by nccl_install: (pattern, what is allowed); each way to install NCCL has its own form of a version
    "repository": (_NUMBER + r"(-[0-9]+(\+cuda[0-9]{2}\.[0-9])?)?",
                   f"a release like {NCCL_RELEASE}, or the package's version like {BUILDS[0].version}"),
    "distribution": (_NUMBER + r"(-[A-Za-z0-9.+~-]+)?", "a release like 2.22.3, or the package's version like 2.22.3-1-1"),
    "wheel": (_NUMBER + r"(\.post[0-9]+)?", f"a release as PyPI has it, like {NCCL_RELEASE}"),
    "source": (_NUMBER, f"a release like {NCCL_RELEASE}; its tag is v{NCCL_RELEASE}-1"),
}
ENDINGS = {"wheel": (".whl",), "source": (".tar.gz", ".tgz"), "hpcx": (".tbz", ".tbz2", ".tar.bz2", ".tgz", ".tar.gz")}
HPCX = tuple(row for row in ARTIFACTS if row.name.startswith("hpcx-"))
HPCX_RELEASES = tuple(sorted({row.version for row in HPCX}))
HPCX_VERSION = r"[0-9]{1,3}(\.[0-9]{1,3}){1,3}"
SOURCE = next(row for row in ARTIFACTS if row.name == "nccl-tests")
SLURM_OWN = ("--job-name", "--nodes", "--nodelist", "--ntasks", "--ntasks-per-node", "--export", "--kill-on-bad-exit")
_ABOVE = r"/(?:bin|boot|dev|etc|home|lib|lib64|opt|proc|root|run|sbin|srv|sys|tmp|usr|usr/local|var)?/*\Z"
URL, MORE = "ai_environment_index_url", "ai_environment_extra_index_urls"
TORCH, PYTHON = "ai_environment_torch", "ai_environment_python"
LOCK, WHEELS = "ai_environment_requirements", "ai_environment_wheels"
CONDA = ("ai_environment_conda_installer", "ai_environment_conda_installer_sha256", "ai_environment_conda_explicit")
COMMANDS = ("upgrade_drain_command", "upgrade_drained_command", "upgrade_undrain_command")
PLACES = ("node", "reason")


def check_nccl(values: Values, _rails: Any, findings: Findings) -> None:
    install, version = values["nccl_install"], values["nccl_version"]
    if install != "none" and version is not None and not re.fullmatch(VERSIONS[install][0], version):
        findings.error("nccl_version", version, f"is not a version of NCCL as nccl_install {install} has it", VERSIONS[install][1])
    elif install == "repository":
        _check_cuda(values, findings)
    elif install in IN_PREFIX:
        _check_file(values, findings)


def _check_cuda(values: Values, findings: Findings) -> None:
    """The repository has one package for each CUDA, so the inventory must say which, and say it once."""
    version, toolkit = values["nccl_version"], values["cuda_version"]
    suffix, major = cuda_of(version), (toolkit or "").partition(".")[0]
    wanted = wanted_cuda(values)
    if suffix and major and suffix != major:
        findings.error("nccl_version", version, f"is built for CUDA {suffix}, cuda_version is {toolkit}",
                       f"a package for CUDA {major}, or the release alone")
    elif not wanted:
        findings.error("nccl_install", "repository", "has a package for each CUDA: neither cuda_version nor gpu_driver_branch says which",
                       "one of them, or nccl_version with its CUDA, like " + BUILDS[0].version)
    elif version is None and wanted not in [row.cuda for row in BUILDS]:
        findings.error("nccl_install", "repository", f"no package of NCCL {NCCL_RELEASE} for CUDA {wanted} is known",
                       "nccl_version too, or CUDA " + " or ".join(sorted(row.cuda for row in BUILDS)))


def _check_file(values: Values, findings: Findings) -> None:
    """A wheel comes only from where the operator says."""
    install, version, archive = values["nccl_install"], values["nccl_version"], values["nccl_archive"]
    if archive is not None and not archive.endswith(ENDINGS[install]):
        findings.error("nccl_archive", archive, f"is no file that nccl_install {install} can read",
                       "a file that ends in " + " or ".join(ENDINGS[install]))
    nowhere = install == "wheel" and archive is None
    if version in (None, NCCL_RELEASE):
        if nowhere and values[INDEX] is None and values["artifact_mirror"] is None:
            findings.error("nccl_install", install, f"needs {INDEX}: which package index has the wheel is for the site to say",
                           INDEX + " too, or rdma_artifact_mirror, or nccl_archive")
    elif nowhere:
        findings.error("nccl_version", version, "is a release that the catalogue has no wheel of", NCCL_RELEASE + ", or nccl_archive too")
    elif not any(name.startswith("nccl-" + install) for name in values["artifact_pins"]):
        name = "nccl-source" if install == "source" else "nccl-wheel-cuMAJOR-ARCHITECTURE"
        findings.error("nccl_version", version, "is a release that the catalogue has no checksum of",
                       f"{NCCL_RELEASE}, or its sha256 in rdma_artifact_pins.{name}")


def check_hpcx(values: Values, _rails: Any, findings: Findings) -> None:
    archive, version = values["mpi_archive"], values["mpi_version"]
    if values["mpi_install"] != "hpcx":
        return
    if archive is not None and not archive.endswith(ENDINGS["hpcx"]):
        findings.error("mpi_archive", archive, "is no archive of HPC-X", "a file that ends in " + ", ".join(ENDINGS["hpcx"]))
    if version is not None and not re.fullmatch(HPCX_VERSION, version):
        findings.error("mpi_version", version, "is no version of HPC-X", "digits and dots, like " + HPCX_RELEASES[-1])
    elif version not in (None, *HPCX_RELEASES) and not any(row.name in values["artifact_pins"] for row in HPCX):
        findings.error("mpi_version", version, "is a release of HPC-X that the catalogue has no checksum of",
                       f"{' or '.join(HPCX_RELEASES)}, or its sha256 in rdma_artifact_pins.hpcx-SYSTEM-ARCHITECTURE")


def check_nccl_tests_place(values: Values, _rails: Any, findings: Findings) -> None:
    """Something that is shared or mounted needs a place, and that is no directory of the system."""
    path, version = values["nccl_tests_path"], values.get("nccl_tests_version")
    if values.get("nccl_tests_install") == "prebuilt":
        if path is None:
            findings.error("nccl_tests_path", None, "is missing: nccl_tests_install: prebuilt means that the programs lie there already",
                           "an absolute path, such as /opt/nccl-tests/build")
        return
    shared = next((key for key in ("nccl_tests_nfs", "nccl_tests_shared") if values.get(key)), None)
    if shared is not None and path is None:
        findings.error(shared, values[shared], "needs nccl_tests_path: the directory that all nodes share",
                       "nccl_tests_path too, such as /shared/nccl-tests")
    elif values.get("nccl_tests_nfs") and re.match(_ABOVE, str(path)):
        findings.error("nccl_tests_path", path, "is a directory of the system; nccl_tests_nfs would be mounted over it",
                       "a directory of its own, such as /shared/nccl-tests")
    if version not in (None, SOURCE.version) and SOURCE.name not in values["artifact_pins"]:
        findings.error("nccl_tests_version", version, "is a release of nccl-tests that the catalogue has no checksum of",
                       f"{SOURCE.version}, or its sha256 in rdma_artifact_pins.{SOURCE.name}")


def check_nccl_tests_sizes(values: Values, _rails: Any, findings: Findings) -> None:
    begin, end = values["nccl_tests_begin"], values["nccl_tests_end"]
    if begin is not None and end is not None and bytes_of(begin) > bytes_of(end):
        findings.error("nccl_tests_begin", begin, f"is larger than nccl_tests_end, which is {end}", "at most nccl_tests_end")


def check_nccl_tests_groups(values: Values, rails: Any, findings: Findings) -> None:
    """Groups that the inventory itself rules out; what depends on the nodes of a run is found when it is known who takes part."""
    for index, group in enumerate(values["nccl_tests_groups"] or ()):
        why, allowed, leaves = "", "", values["leaves"]
        if group in (LEAF, ACROSS) and len(leaves) < (1 if group == LEAF else 2):
            why, allowed = f"rdma_leaves names {'one group' if leaves else 'no group'} of the inventory", "a group for each leaf"
        elif group == RAIL and len(rails) < 2:
            why, allowed = "rdma_rails has fewer than two rails", "two rails or more"
        elif group in (LEAF, ACROSS, RAIL) and values["nccl_tests_launcher"] == "local":
            why, allowed = "nccl_tests_launcher is local: each node runs by itself", "nccl_tests_launcher: auto, mpi or slurm"
        if why:
            findings.error(f"nccl_tests_groups[{index}]", group, f"cannot be had: {why}", f"{allowed}; or another group")


def check_slurm_options(values: Values, _rails: Any, findings: Findings) -> None:
    """srun takes the last of two: a job of another name would never be cancelled. It also takes an option by its beginning."""
    for index, option in enumerate(values["nccl_tests_slurm_options"]):
        if any(own.startswith(option.partition("=")[0]) for own in SLURM_OWN):
            findings.error(f"nccl_tests_slurm_options[{index}]", option, "is set by railwright itself",
                           f"other options than {', '.join(SLURM_OWN)}")


def check_ai_environment(values: Values, _rails: Any, findings: Findings) -> None:
    """One source that has checksums; a torch that is known, maintained and runs on the driver."""
    kind = values["ai_environment_kind"]
    if kind == "none":
        return
    for key in CONDA if kind == "conda" else ():
        if values[key] is None:
            findings.error(key, None, "is missing: ai_environment_kind conda needs an installer, its checksum and the packages",
                           "/PATH on the controller" if not key.endswith("sha256") else "64 lower case hexadecimal digits")
    lock, wheels, url = values[LOCK], values[WHEELS], values[URL]
    if lock is None and wheels is None and url is not None:
        findings.error(LOCK, None, "is missing: nothing is taken from an index that has no checksum",
                       "a file with NAME==VERSION --hash=sha256:… for every package; docs/ai-environment.md says how to get one")
    elif lock is None and wheels is None and kind == "venv":
        findings.error(LOCK, None, "is missing: nothing says where torch comes from", f"{LOCK} with {URL}, or {WHEELS}")
    if lock is not None and wheels is None and url is None:
        findings.error(URL, None, f"is missing: {LOCK} says what, and nothing says from where", f"{URL}, or {WHEELS}")
    if values[TORCH] is None:
        findings.error(TORCH, None, "is missing: an environment is made for one release of torch", f"a release like {NEWEST}")
    else:
        _check_age(values, findings)
        _check_torch(values, findings)


def _check_age(values: Values, findings: Findings) -> None:
    """Nobody maintains what is that old; a new cluster does not begin with it unless somebody says so."""
    torch, python = values[TORCH], values[PYTHON]
    severity, again = ("warning", "") if values["accept_eol"] else ("error", "; rdma_accept_eol: true goes on all the same")
    if numbers(torch)[0] < 2:
        findings.add(severity, TORCH, torch, "is of a series that PyTorch ended with 1.13.1 in 2022", f"{NEWEST}, or another 2.x{again}")
    elif newer(FIRST_SAFE, torch.partition("+")[0]):
        findings.warning(TORCH, torch, "runs code that lies in a checkpoint which it loads (CVE-2025-32434)", FIRST_SAFE + " or newer")
    if python is not None and numbers(python) < numbers(OLDEST_PYTHON):
        findings.add(severity, PYTHON, python, "gets no security updates any more", f"{OLDEST_PYTHON} or newer{again}")


def _check_torch(values: Values, findings: Findings) -> None:
    torch, python, row = values[TORCH], values[PYTHON], find_release(values[TORCH])
    if row is None and local_cuda(torch) is None and numbers(torch)[0] >= 2:
        findings.error(TORCH, torch, "is a release that the catalogue does not have, so which CUDA it is for is not known",
                       f"{', '.join(item.version for item in RELEASES[:6])}, or the build with its CUDA, like {torch}+cu128")
    if row is not None and python is not None and not findings.has_error(PYTHON) and not python_fits(row, python):
        findings.error(PYTHON, python, f"has no wheel of torch {row.version}", "%s to %s" % row.pythons)
    if row is not None and values["nccl_profile"] == aiacc.PROFILE and local_cuda(torch) is None and not aiacc.fits_nccl(row.nccl):
        fitting = [item.version for item in RELEASES if aiacc.fits_nccl(item.nccl)]
        findings.error(TORCH, torch, f"brings NCCL {row.nccl}, and AIACC's plugin is for NCCL {aiacc.RANGE}",
                       f"{', '.join(fitting)}, or rdma_nccl_profile erdma-native")
    cuda, driver = cuda_of_torch(torch, "x86_64"), wanted_driver(values)
    if cuda and driver is not None and not driver_fits(cuda, driver):
        findings.error(TORCH, torch, "is for CUDA %s, which needs driver %s or newer; the inventory asks for %s" % (
            cuda, minimum_driver(cuda) or "that nobody here knows", driver), "a newer gpu_driver_branch, or a build for an older CUDA")


def check_aiacc(values: Values, _rails: Any, findings: Findings) -> None:
    """The plugin goes with its profile and with no other. Which NCCL and variables the profile goes with, ``check_nccl_env`` says."""
    profile = values["nccl_profile"]
    for key in ("nccl_tests_environment", "ddp_benchmark_environment") if profile == aiacc.PROFILE else ():
        path, value = f"{key}.{aiacc.VARIABLE}", values[key].get(aiacc.VARIABLE)
        if value and not findings.has_error(path):  # an empty one is none to NCCL
            findings.error(path, value, f"profile {profile} needs it unset: NCCL loads AIACC's plugin only then; none turns it off",
                           "leave it out, or rdma_nccl_profile: erdma-native")
    if values["aiacc_install"] and profile != aiacc.PROFILE and not findings.has_error("rdma_nccl_profile"):
        findings.error("aiacc_install", True, f"the plugin takes the place of NCCL's own transport, which profile {profile} sets up",
                       "false, or rdma_nccl_profile: " + aiacc.PROFILE)
    elif values["aiacc_install"] and (values["aiacc_url"] is None or values["aiacc_archive"] is None):
        _check_package(values, findings)


def _check_package(values: Values, findings: Findings) -> None:
    """Runs last: a missing pin is named when all else is right. Which of the two a host needs, its system says."""
    version, key = values["aiacc_version"], "aiacc_archive" if values["aiacc_archive"] is not None else "aiacc_url"
    named = values[key]
    endings = [ending for ending in ("deb", "rpm") if named is None or named.endswith("." + ending)]
    names = [aiacc.artifact_name(version, ending) for ending in endings]
    if not endings:
        findings.error(key, named, "is neither a .deb nor a .rpm", "a file that ends in .deb or .rpm")
    elif named is None and not aiacc.known_place(version):
        known = [row.version for row in ARTIFACTS if row.name.startswith("aiacc_nccl_plugin_deb")]
        findings.error("aiacc_version", version, "is a release that the catalogue has no place of",
                       f"{', '.join(known)}, or aiacc_url or aiacc_archive too")
    elif not findings.error_count() and not any(name in values["artifact_pins"] for name in names):
        findings.error("rdma_artifact_pins", None, f"{aiacc.PACKAGE} {version} is not signed and not pinned",
                       "its sha256 as rdma_artifact_pins." + " or rdma_artifact_pins.".join(names))


def check_upgrade(values: Values, _rails: Any, findings: Findings) -> None:
    """Commands name the node: one that does not would drain another one, or all."""
    canary = values.get("upgrade_canary") or []
    twice = sorted({name for name in canary if canary.count(name) > 1})
    if twice:
        findings.error("upgrade_canary", canary, f"names {', '.join(twice)} twice", "each host once")
    for name in COMMANDS if values["upgrade_scheduler"] == "command" else ():
        if values.get(name) == []:
            findings.error(name, None, "is missing: upgrade_scheduler is command",
                           "a list of words, such as [/usr/local/sbin/drain, '{node}']")
        elif name in values:
            _check_command(name, values[name], findings)


def _check_command(name: str, command: list[str], findings: Findings) -> None:
    for index, word in enumerate(command):
        if re.search(r"[\x00-\x1f\x7f]", word):
            findings.error(f"{name}[{index}]", word, "holds a line break or a control character", "text of one line")
        strange = next((place for place in re.findall(r"\{([^{}]*)\}", word) if place not in PLACES), None)
        if strange is not None:
            findings.error(f"{name}[{index}]", word, f"{{{strange}}} stands for nothing{did_you_mean(strange, PLACES)}", "{node}, {reason}")
            return
    if not command[0].strip() or "{" in command[0]:
        findings.error(name + "[0]", command[0], "is no program", "the program to run, such as /usr/local/sbin/drain")
    elif not any("{node}" in word for word in command):
        findings.error(name, command, "does not say which node: no word of it holds {node}", "a command with {node} in one of its words")
