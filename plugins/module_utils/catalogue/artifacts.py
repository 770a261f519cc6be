# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that railwright ever downloads, or takes packages from: the only place of URLs, checksums, fingerprints and commits.

One row an artifact, each with its source. ``pin`` says how what arrives is recognised:
``sha256`` of a file, ``fingerprint`` of an OpenPGP key (of a repository: the key that signs it),
``commit`` of a git tree, or ``operator``: nobody here computed or read one, so railwright
refuses the artifact until the inventory vouches for it in ``artifact_pins``.

A repository's URL may hold ``{version}``; ``version`` is then the release that the catalogue
pins, and ``located`` puts in another one.
"""

import re
from typing import Any, Dict, NamedTuple, Optional, Tuple

KINDS = ("repository", "key", "package", "archive")
PINS = ("sha256", "fingerprint", "commit", "operator")
FORMS = {"sha256": r"^[0-9a-f]{64}$", "fingerprint": r"^[0-9A-F]{40}$", "commit": r"^[0-9a-f]{40}$"}
FORM_WORDS = {
    "sha256": "a sha256: 64 lower case hexadecimal digits",
    "fingerprint": "an OpenPGP fingerprint: 40 upper case hexadecimal digits, without spaces",
    "commit": "a git commit: 40 lower case hexadecimal digits",
}


class Artifact(NamedTuple):
    """``value`` is what ``pin`` names; None when that is operator."""

    name: str  # stable: the key of artifact_pins
    version: str
    url: str
    kind: str  # one of KINDS
    pin: str  # one of PINS
    value: Optional[str]
    source: str


DOCA_RELEASE = "3.2.3"
MLNX_OFED_RELEASE = "24.10-4.1.4.0"
NV_PEER_MEM_RELEASE = "1.0-9"

_DOCA_URL = "https://linux.mellanox.com/public/repo/doca/{version}/%s/%s/"
_OFED_URL = "https://linux.mellanox.com/public/repo/mlnx_ofed/{version}/%s/%s/"
_CUDA_URL = "https://developer.download.nvidia.com/compute/cuda/repos/%s/%s/"
_HOST_URL = "https://www.mellanox.com/downloads/DOCA/DOCA_v%s/host/%s"

# AgentBaker (Azure) pull requests 9256 and 9394, August and September 2026: checked against the live repositories.
DOCA_HOST_KEY = "70454E6BF5D9C2D3B78709E8DC726C5E41B9CC50"
_DOCA_HOST_KEY_SOURCE = (
    "Azure/AgentBaker pull request 9394: NVIDIA DOCA Host, RSA 4096, created 2026-01-20, signs the InRelease of every DOCA release for "
    "Ubuntu since; GPG-KEY-Mellanox.pub beside it holds the retired keys only"
)
# Computed with gpg from the armoured keys in AgentBaker's doca.pub (commit 06836ee): "Mellanox Technologies - Signing Key v3".
MELLANOX_KEY = "CAE649B3B3929F8470D4D33BA024F6F0E6D6A281"
_MELLANOX_KEY_SOURCE = (
    "computed from the key block that Azure/AgentBaker@06836ee ships (parts/linux/cloud-init/artifacts/ubuntu/gb/doca.pub): Mellanox "
    "Technologies, Signing Key v3, RSA 2048, 2018-01-14; key id A024F6F0E6D6A281 in NVIDIA/network-operator issues"
)
CUDA_DEB_KEY = "EB693B3035CD5710E231E123A4B469963BF863CC"
CUDA_RPM_KEY = "610C7B14E068A878070DA4E99CD0A493D42D0685"

_DOCA_DOC = "NVIDIA DOCA 3.2 (DOCA-Host installation and upgrade)"


def _row(name, version, url, kind, pin, value, source):
    # type: (str, str, str, str, str, Optional[str], str) -> Artifact
    return Artifact(name, version, url, kind, pin, value, source)


# (label of the system, label of the architecture, our name of the architecture, where the directory was read)
DOCA_SYSTEMS = (
    ("ubuntu22.04", "x86_64", "x86_64", "NVIDIA DOCA 3.2; public Dockerfiles of 3.2.1"),
    ("ubuntu22.04", "arm64-sbsa", "aarch64", "NVIDIA DOCA 3.2"),
    ("ubuntu24.04", "x86_64", "x86_64", "NVIDIA DOCA 3.2; public scripts of 3.2.1"),
    ("ubuntu24.04", "arm64-sbsa", "aarch64", "NVIDIA DOCA 3.2"),
    ("debian12", "x86_64", "x86_64", "a public Puppet module that uses 3.2.2/debian12"),
    ("debian13", "x86_64", "x86_64", "public notes that use 3.2.0/debian13"),
    ("rhel8", "x86_64", "x86_64", "AZ (doca-host 3.2.1 rhel8); NVIDIA DOCA 3.2"),
    ("rhel9", "x86_64", "x86_64", "a public Dockerfile that uses 3.2.2/rhel9"),
    ("rhel10", "x86_64", "x86_64", "a public repository list that uses 3.2.1/rhel10"),
)
CUDA_SYSTEMS = (
    ("ubuntu2204", "x86_64", "x86_64"), ("ubuntu2204", "sbsa", "aarch64"),
    ("ubuntu2404", "x86_64", "x86_64"), ("ubuntu2404", "sbsa", "aarch64"),
    ("debian12", "x86_64", "x86_64"), ("debian13", "x86_64", "x86_64"),
    ("rhel8", "x86_64", "x86_64"), ("rhel8", "sbsa", "aarch64"),
    ("rhel9", "x86_64", "x86_64"), ("rhel9", "sbsa", "aarch64"),
    ("rhel10", "x86_64", "x86_64"), ("rhel10", "sbsa", "aarch64"),
)
_DEB = ("ubuntu", "debian")


def _doca():
    # type: () -> Tuple[Artifact, ...]
    rows = []
    for label, arch, ours, source in DOCA_SYSTEMS:
        url = _DOCA_URL % (label, arch)
        deb = label.startswith(_DEB)
        pin, value = ("fingerprint", DOCA_HOST_KEY) if deb else ("operator", None)
        rows.append(_row("doca-%s-%s" % (label, ours), DOCA_RELEASE, url, "repository", pin, value, source))
        key = url + ("doca_keyring.gpg" if deb else "GPG-KEY-Mellanox.pub")
        rows.append(_row("doca-key-%s-%s" % (label, ours), DOCA_RELEASE, key, "key", pin, value, _DOCA_HOST_KEY_SOURCE))
    return tuple(rows)


def _cuda():
    # type: () -> Tuple[Artifact, ...]
    rows = []
    for label, arch, ours in CUDA_SYSTEMS:
        url = _CUDA_URL % (label, arch)
        deb = label.startswith(_DEB)
        value = CUDA_DEB_KEY if deb else CUDA_RPM_KEY
        rows.append(_row("cuda-%s-%s" % (label, ours), "all", url, "repository", "fingerprint", value, "NVIDIA CUDA installation guide"))
        key = url + ("3bf863cc.pub" if deb else "D42D0685.pub")
        rows.append(_row("cuda-key-%s-%s" % (label, ours), "all", key, "key", "fingerprint", value, "NVIDIA/cuda-repo-management issue 4"))
    return tuple(rows)


ARTIFACTS = _doca() + _cuda()
_BY_NAME = {row.name: row for row in ARTIFACTS}  # type: Dict[str, Artifact]


def find(name):
    # type: (str) -> Optional[Artifact]
    return _BY_NAME.get(name)


def located(artifact, version=None):
    # type: (Artifact, Optional[str]) -> str
    """The URL of an artifact, of the release that the catalogue pins or of another one."""
    return artifact.url.replace("{version}", version or artifact.version)


def mirrored(url, mirror):
    # type: (str, Optional[str]) -> str
    """Where a mirror keeps what a vendor has at ``https://HOST/PATH``: ``MIRROR/HOST/PATH``. Never for a URL that the operator gave."""
    found = re.match(r"^https?://(.+)$", url)
    if not mirror or found is None:
        return url
    return "%s/%s" % (mirror.rstrip("/"), found.group(1))


def pinned(artifact, spec):
    # type: (Artifact, Any) -> Optional[str]
    """The value to hold an artifact to: the operator's where he gives one, else the catalogue's. None: refuse it."""
    given = spec["artifact_pins"].get(artifact.name)
    return given if given is not None else artifact.value
