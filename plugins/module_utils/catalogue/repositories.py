# SPDX-License-Identifier: GPL-3.0-or-later
"""Which vendor repositories a node wants, where they are for this site, and whose key must have signed them. Pure."""

from typing import Dict, NamedTuple, Optional, Tuple

from ..spec.model import Spec
from ..types import Identity
from . import erdma
from .artifacts import located, mirrored, pinned, rows_of
from .drivers import VersionPin, module_stream, version_pins, wants_cuda_repository
from .stacks import TITLES, VendorStack, vendor_stack


class Repository(NamedTuple):
    """One vendor repository, with the site's overrides and mirror applied.

    ``priority``: apt's Pin-Priority of everything in it, or dnf's priority (lower wins, 99 is the default).
    """

    name: str  # doca, mlnx_ofed, erdma, cuda: of its definition, keyring and pins
    url: str
    key_url: str  # an armoured key or a binary keyring
    fingerprint: Optional[str]  # of the key that signs it; None: refused until the operator gives one
    label: str  # Label of its Release file, a glob that apt preferences select it by; "" where none is known
    excludes: Tuple[str, ...]  # globs of packages that must never come from it
    priority: Optional[int]  # None: the package manager's default
    flat: bool  # apt: no suite and component; "deb URL ./" (its Release file lies at URL)
    purpose: str  # for people, and the title of its definition
    source: str
    pins: Tuple[VersionPin, ...] = ()  # apt: what must be taken at one version though it holds newer ones
    stream: Optional[str] = None  # dnf: module stream to enable, like nvidia-driver:580-open
    suite: str = ""  # apt, where it is not flat
    architectures: str = ""  # apt: the only ones that the repository has; "" as the node's
    supplies: Tuple[str, ...] = ()  # packages that must come from here, though the distribution has these names too
    index_signed: bool = False  # dnf: there is a repodata/repomd.xml.asc, so that the index is checked and not only the packages


# What the vendors' packages and the distribution's disagree about, by vendor and package manager: (label, excludes, priority).
# AZ: on apt the distribution's dkms and not DOCA's; mft must follow DOCA and not CUDA. NVIDIA's own pin files for CUDA and for DOCA-HOST
# have 600. EL 9.8's rdma-core (61) and DOCA's (2510) cannot both be installed: on dnf only a repository priority keeps it away.
_RULES = {
    ("doca", "apt"): ("DOCA-HOST*", ("dkms",), 600),
    ("doca", "dnf"): ("", (), 50),
    ("mlnx_ofed", "apt"): ("", (), None),
    ("mlnx_ofed", "dnf"): ("", (), 50),
    # What its Release file says is known to nobody here: apt is told by its host. priority is for what it supplies alone.
    ("erdma", "apt"): ("", (), 600),
    ("erdma", "dnf"): ("", (), 50),
    ("cuda", "apt"): ("NVIDIA CUDA", ("mft*", "kernel-mft*"), 600),
    ("cuda", "dnf"): ("", ("mft*", "kernel-mft*"), None),
}
# dnf: who signs its index (repomd.xml), where that was read, and what stands in for the signature. apt refuses an index without one.
# A signature says who made an index, not that it is the newest: what keeps an older one away is the release that the plan asks for.
INDEX_SIGNED: Dict[str, Tuple[bool, str]] = {
    "cuda": (True, "NVIDIA/cuda-repo-management (README: repodata/repomd.xml.asc); its public index for fedora44 lists the file (2026-05)"),
    "doca": (False, "nothing public says so. In its place: signed packages, and the meta package is asked for by its release"),
    "mlnx_ofed": (False, "nothing public says so; a public copy of NVIDIA's .repo has no such check. In its place: as with doca"),
    "erdma": (False, "nothing public says so; ALI (ACK page) checks no signature. In its place: signed packages, and rdma_stack_pins"),
}


def repositories_of(spec: Spec, identity: Identity) -> Tuple[Repository, ...]:
    """Every vendor repository that this node wants, in the order of use. What has no URL at all is missing here: see ``stack_problem``."""
    rows = []
    stack = vendor_stack(spec, identity)
    if stack is not None and not spec["rdma_stack_offline_package"]:
        rows.append(_build(spec, identity, stack.name, stack))
    if wants_erdma_repository(spec, identity):
        rows.append(_build(spec, identity, "erdma", None))
    if wants_cuda_repository(spec, identity):
        rows.append(_build(spec, identity, "cuda", None))
    return tuple(row for row in rows if row is not None)


def wants_erdma_repository(spec: Spec, identity: Identity) -> bool:
    """Whether the user space of eRDMA comes from Alibaba: not where a vendor's stack brings it, nor where the distribution's has it."""
    if spec.fabric != "erdma" or vendor_stack(spec, identity) is not None or spec["erdma_repository"] == "false":
        return False
    named = spec["erdma_repository"] == "true" or spec["erdma_repository_url"] is not None
    return named or not erdma.inbox_provider(identity.platform)


def erdma_problem(spec: Spec, identity: Identity) -> Optional[str]:
    """Why the repository that is wanted for eRDMA cannot be had, in one line, or None."""
    if not wants_erdma_repository(spec, identity) or spec["erdma_repository_url"] is not None:
        return None
    return erdma.no_repository(identity)


def _build(spec: Spec, identity: Identity, name: str, stack: Optional[VendorStack]) -> Optional[Repository]:
    role = "rdma_stack" if stack is not None else name
    release = stack.release if stack is not None else None
    mirror = spec["artifact_mirror"]
    repository, key = rows_of(name, identity)
    url = spec[role + "_repository_url"]
    key_url = spec[role + "_repository_key_url"]
    fingerprint = spec[role + "_repository_fingerprint"]
    if key_url is None and key is not None and (repository is not None or name == "erdma"):
        key_url = mirrored(located(key, release), mirror)
        own = spec["artifact_pins"].get(repository.name) if repository is not None else None
        fingerprint = fingerprint or own or pinned(key, spec)
    source = "inventory" if url is not None or repository is None else repository.source
    if url is None and repository is not None:
        url = mirrored(located(repository, release), mirror)
    if url is None or key_url is None:
        return None
    manager = "apt" if identity.platform.package_manager == "apt" else "dnf"
    label, excludes, priority = _RULES[(name, manager)]
    purpose = "NVIDIA %s %s" % (TITLES[name], release) if stack is not None else "NVIDIA CUDA"
    row = Repository(name, url, key_url, fingerprint, label, excludes, priority, True, purpose, source, index_signed=INDEX_SIGNED[name][0])
    if name == "erdma":
        return row._replace(
            flat=False, purpose="eRDMA user space of Alibaba Cloud", suite=erdma.suite_of(identity.platform),
            architectures="" if source == "inventory" else erdma.APT_ARCH,
            supplies=erdma.supplied_by_alibaba(identity.platform))
    if name == "cuda":
        return row._replace(pins=version_pins(spec, identity)) if manager == "apt" else row._replace(stream=module_stream(spec, identity))
    return row
