# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules between the keys of what drives the hardware: the RDMA stack, GPU driver, CUDA, GPUDirect, NIC firmware, PCIe. Pure.

What only the node can say (kernel, HCA, an installed driver) is refused there.
"""

import re
import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue import drivers
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import FORM_WORDS
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.stacks import PROFILES, VENDORS
from ansible_collections.railwright.rdma.plugins.module_utils.formats.sysfs_values import cpu_list
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import numbers
from ansible_collections.railwright.rdma.plugins.module_utils.rules.gpudirect import DMABUF_CUDA, OFED_STACKS, OPEN_DRIVER, PEERMEM_DRIVER

from .findings import Findings, did_you_mean

Values = Mapping[str, Any]
RELEASES = {
    "doca": (r"[0-9]+\.[0-9]+\.[0-9]+(-[0-9]+)?", "a release like 3.2.3, in quotes"),
    "mlnx_ofed": (r"[0-9]{2}\.[0-9]{2}-[0-9]+(\.[0-9]+)+", "a release like 24.10-4.1.4.0, in quotes"),
}
OPEN_BEGINS = 515  # the first branch with open kernel modules (data centre GPUs)
READ_REQUESTS = (0, 128, 256, 512, 1024, 2048, 4096)
IOMMU_NAMES = ("iommu", "intel_iommu", "amd_iommu", "iommu.passthrough")
_OF_BRANCH = re.compile(r"(?:[0-9]+:)?([0-9]{3,4})\.")
_RELEASED = re.compile(r"-[0-9]+-[0-9]+\Z")


def check_keys(values: Values, _rails: Any, findings: Findings) -> None:
    """A key from elsewhere is another key: what the catalogue knows of the vendor's does not stand for it."""
    for role in ("rdma_stack", "cuda", "erdma"):
        url = values.get(role + "_repository_key_url")
        if url is not None and values.get(role + "_repository_fingerprint", "malformed") is None:
            findings.error(role + "_repository_key_url", url, "names a signing key that is not pinned",
                           f"{role}_repository_fingerprint too: {FORM_WORDS['fingerprint']}")


def check_stack(values: Values, _rails: Any, findings: Findings) -> None:
    stack = values["rdma_stack"]
    if values.get("fabric") == "erdma" and stack in VENDORS and stack != "mlnx_ofed":  # check_erdma: which mode it goes with
        findings.error("rdma_stack", stack, "has no driver for eRDMA; its kernel module and provider are the distribution's or Alibaba's",
                       "auto, inbox")
    elif stack in (*VENDORS, "auto"):
        vendor = "mlnx_ofed" if stack == "mlnx_ofed" else "doca"
        version, profile, names = values.get("rdma_stack_version"), values.get("rdma_stack_profile"), PROFILES[vendor]
        pattern, allowed = RELEASES[vendor]
        if version is not None and not re.fullmatch(pattern, version):
            findings.error("rdma_stack_version", version, f"is no release of {vendor}", allowed)
        if profile is not None and profile not in names:
            other = next((name for name in VENDORS if profile in PROFILES[name]), None)
            message = f"is no meta package of {vendor}{did_you_mean(profile, names)}" if other is None else (
                f"is a meta package of {other}; this host's stack is {vendor}")
            findings.error("rdma_stack_profile", profile, message, ", ".join(names))


def check_gpu_driver(values: Values, _rails: Any, findings: Findings, today: str | None = None) -> None:
    """Branches that exist, versions that belong to them, flavours that they have. ``today``: an ISO date, for tests."""
    branch, version, flavour = values["gpu_driver_branch"], values["gpu_driver_version"], values["gpu_driver_flavour"]
    if branch is None:
        return
    known = tuple(row.name for row in drivers.BRANCHES)
    if version is None:
        if branch not in known and values["gpu_driver_source"] == "cuda_repository":
            findings.error("gpu_driver_branch", branch, "is no branch of the catalogue, so no version of it is pinned" + did_you_mean(
                branch, known), f"{', '.join(known)}, or gpu_driver_version too")
    elif (found := _OF_BRANCH.match(version)) is None or found.group(1) != branch:
        findings.error("gpu_driver_version", version, f"is no version of branch {branch}", f"{branch}.N or {branch}.N.N")
    if flavour == "proprietary" and int(branch) > drivers.LAST_PROPRIETARY:
        since = drivers.LAST_PROPRIETARY + 1
        findings.error("gpu_driver_flavour", flavour, f"branch {branch} has open kernel modules only (since {since})", "open")
    if flavour == "open" and int(branch) < OPEN_BEGINS:
        findings.error("gpu_driver_flavour", flavour, f"branch {branch} has no open kernel modules (they begin with {OPEN_BEGINS})",
                       "proprietary, or a newer branch")
    row, date = drivers.find_branch(branch), today or time.strftime("%Y-%m-%d", time.gmtime())
    if row is not None and date > row.eol:
        findings.warning("gpu_driver_branch", branch, f"NVIDIA's support of this branch ({row.kind}) ended on {row.eol}",
                         ", ".join(f"{item.name} ({item.kind}, to {item.eol})" for item in drivers.BRANCHES if date <= item.eol))


def check_cuda(values: Values, _rails: Any, findings: Findings) -> None:
    """CUDA, and the driver that the inventory names."""
    version = values["cuda_version"]
    if version is None:
        return
    for position, name in enumerate(values.get("cuda_packages", ())):
        if _RELEASED.search(name) is not None:
            findings.error(f"cuda_packages[{position}]", name, "has a version in its name; cuda_version adds it",
                           f"the name without it: {_RELEASED.sub('', name)}")
    minimum = drivers.minimum_driver(version)
    if not minimum:
        findings.error("cuda_version", version, "is no CUDA release that the catalogue knows a minimum driver for",
                       f"a release of CUDA {', '.join(sorted(drivers.MINIMUM_DRIVERS))}")
        return
    driver = drivers.wanted_driver(values)
    if driver is not None and not drivers.driver_fits(version, driver):
        findings.error("cuda_version", version, "needs driver %s or newer, gpu_driver_branch %s brings %s" % (
            minimum, values["gpu_driver_branch"], driver), "a newer gpu_driver_branch, or an older cuda_version")


def check_gpudirect(values: Values, _rails: Any, findings: Findings) -> None:
    """A path that contradicts what the same inventory asks of driver, CUDA or RDMA stack."""
    path = values["gpudirect_path"]
    found = _dmabuf(values) if path == "dmabuf" else _peermem(path, values) if path in ("nvidia_peermem", "nv_peer_mem") else None
    if found is not None:
        findings.error("gpudirect_path", path, found, "auto, or a path that fits")


def _dmabuf(values: Values) -> str | None:
    branch, cuda = values["gpu_driver_branch"], values["cuda_version"]
    if values["rdma_stack"] == "soft_roce":
        return "needs an HCA; rdma_stack is soft_roce, and there the CPU copies"
    if branch is not None and int(branch) < OPEN_DRIVER:
        return f"needs driver R{OPEN_DRIVER} or newer; gpu_driver_branch is {branch}"
    if branch is not None and values["gpu_driver_flavour"] == "proprietary":
        return "needs the open kernel modules; gpu_driver_flavour is proprietary"
    return f"needs CUDA 11.7 or newer; cuda_version is {cuda}" if cuda is not None and numbers(cuda) < DMABUF_CUDA else None


def _peermem(path: str, values: Values) -> str | None:
    branch, stack = values["gpu_driver_branch"], values["rdma_stack"]
    if branch is not None and int(branch) < PEERMEM_DRIVER and path == "nvidia_peermem":
        return f"needs driver R{PEERMEM_DRIVER} or newer; gpu_driver_branch is {branch}"
    if branch is not None and int(branch) >= PEERMEM_DRIVER and path == "nv_peer_mem":
        return f"is for drivers before R{PEERMEM_DRIVER}, newer ones bring nvidia_peermem; gpu_driver_branch is {branch}"
    # auto is decided on the node: it may be OFED there
    return f"needs DOCA-OFED or MLNX_OFED; rdma_stack is {stack}" if stack not in (*OFED_STACKS, "auto") else None


def check_nic_firmware(values: Values, _rails: Any, findings: Findings) -> None:
    """An image without the version that it holds could never be said to be wrong, or there."""
    for psid in values["nic_firmware_images"]:
        if psid not in values["nic_firmware_versions"]:
            findings.error(f"nic_firmware_images.{psid}", psid, "has an image, but no wanted version",
                           f"the version that the image holds, in nic_firmware_versions.{psid}")


def check_read_request(values: Values, _rails: Any, findings: Findings) -> None:
    size = values["pci_tuning_max_read_request"]
    if size not in READ_REQUESTS:
        findings.error("pci_tuning_max_read_request", size, "is no MaxReadReq", ", ".join(str(value) for value in READ_REQUESTS))


def check_kernel_arguments(values: Values, _rails: Any, findings: Findings) -> None:
    arguments = values["pci_tuning_kernel_args"]
    own = {"isolcpus": "pci_tuning_isolated_cpus", "nohz_full": "pci_tuning_isolated_cpus", "preempt": "pci_tuning_preemption"}
    isolated = values["pci_tuning_isolated_cpus"]
    cpus = cpu_list(isolated) if isolated is not None else {1}
    if not cpus or 0 in cpus:
        findings.error("pci_tuning_isolated_cpus", isolated, "runs downwards" if not cpus else "has CPU 0, which keeps the kernel's time",
                       "CPUs from 1 on, in ranges that run upwards")
    for at, argument in enumerate(arguments):
        if argument in arguments[:at]:
            findings.error(f"pci_tuning_kernel_args[{at}]", argument, "is there twice", "every argument once")
        name = argument.partition("=")[0]
        if name in own and values[own[name]] not in (None, "keep"):
            findings.error(f"pci_tuning_kernel_args[{at}]", argument, f"is set by {own[name]} already", "one of both")
        if name in IOMMU_NAMES and values["pci_tuning_iommu"] == "passthrough":
            findings.error(f"pci_tuning_kernel_args[{at}]", argument, "is set by pci_tuning_iommu already",
                           "one of both: pci_tuning_iommu: keep, or no argument of that name")
