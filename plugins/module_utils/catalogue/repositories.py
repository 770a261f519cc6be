# SPDX-License-Identifier: GPL-3.0-or-later
"""Which vendor repositories a node wants, where they are for this site, and whose key must have signed them. Pure."""

from typing import NamedTuple, Optional, Tuple

from ..spec.model import Spec
from ..types import Identity, Platform
from .artifacts import Artifact, find, located, mirrored, pinned
from .stacks import stack_of, vendor_stack


class Repository(NamedTuple):
    """One vendor repository, with the site's overrides and mirror applied."""

    name: str  # doca, mlnx_ofed, cuda: of its definition, keyring and pins
    url: str
    key_url: str
    fingerprint: Optional[str]  # of the key that signs it; None: refused until the operator gives one
    label: str  # Label of its Release file, a glob that apt preferences can select it by; "" when none is known
    excludes: Tuple[str, ...]  # globs of packages that must never come from it
    priority: Optional[int]  # apt: Pin-Priority; dnf: priority (lower wins); None: the package manager's default
    flat: bool  # apt: no suite and component, "deb URL ./"
    purpose: str  # for people, and the title of its definition
    source: str


def doca_label(platform):
    # type: (Platform) -> Optional[str]
    """What NVIDIA calls this system in DOCA's repositories (3.2 and later), or None."""
    return _label(platform, dotted=True)


def cuda_label(platform):
    # type: (Platform) -> Optional[str]
    """What NVIDIA calls this system in CUDA's repositories, or None."""
    return _label(platform, dotted=False)


REBUILDS = ("rhel", "rocky", "almalinux", "centos", "ol")  # built from RHEL's sources: they use its repositories


def _label(platform, dotted):
    # type: (Platform, bool) -> Optional[str]
    major = platform.version.partition(".")[0]
    if platform.id == "ubuntu":
        return "ubuntu" + (platform.version if dotted else platform.version.replace(".", ""))
    if platform.id == "debian":
        return "debian" + major
    if platform.id in REBUILDS:
        return "rhel" + major
    return None


def repositories_of(spec, identity):
    # type: (Spec, Identity) -> Tuple[Repository, ...]
    """Every vendor repository that this node wants, in the order of use."""
    rows = [_stack_repository(spec, identity), _cuda_repository(spec, identity)]
    return tuple(row for row in rows if row is not None)


def _stack_repository(spec, identity):
    # type: (Spec, Identity) -> Optional[Repository]
    stack = vendor_stack(spec, identity)
    if stack is None or spec["rdma_stack_offline_package"]:
        return None
    repository = find("%s-%s-%s" % (stack.name, doca_label(identity.platform), identity.arch))
    key = find("%s-key-%s-%s" % (stack.name, doca_label(identity.platform), identity.arch))
    apt = identity.platform.package_manager == "apt"
    return _build(spec, stack.name, "rdma_stack", repository, key, stack.release,
                  label="DOCA-HOST*" if apt else "", excludes=("dkms",) if apt else (), priority=None if apt else 90, flat=True,
                  purpose="NVIDIA %s %s" % (stack.name, stack.release))


def _cuda_repository(spec, identity):
    # type: (Spec, Identity) -> Optional[Repository]
    driver = spec["gpu_driver_branch"] is not None and spec["gpu_driver_source"] == "cuda_repository"
    if not identity.gpus or not (driver or spec["cuda_version"] is not None):
        return None
    label = cuda_label(identity.platform)
    apt = identity.platform.package_manager == "apt"
    return _build(spec, "cuda", "cuda", find("cuda-%s-%s" % (label, identity.arch)), find("cuda-key-%s-%s" % (label, identity.arch)), None,
                  label="NVIDIA CUDA" if apt else "", excludes=("mft*", "kernel-mft*"), priority=600 if apt else None, flat=True,
                  purpose="NVIDIA CUDA")


def _build(spec, name, prefix, repository, key, release, label, excludes, priority, flat, purpose):
    # type: (Spec, str, str, Optional[Artifact], Optional[Artifact], Optional[str], str, Tuple[str, ...], Optional[int], bool, str) -> Optional[Repository]
    mirror = spec["artifact_mirror"]
    url = spec[prefix + "_repository_url"] or (mirrored(located(repository, release), mirror) if repository else None)
    key_url = spec[prefix + "_repository_key_url"]
    fingerprint = spec[prefix + "_repository_fingerprint"]
    if key_url is None and key is not None:
        key_url = mirrored(located(key, release), mirror)
        fingerprint = fingerprint or pinned(key, spec)
    if url is None or key_url is None:
        return None
    return Repository(name, url, key_url, fingerprint, label, excludes, priority, flat, purpose,
                      repository.source if repository else "inventory")
