# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that railwright ever downloads, or takes packages from: the only place of URLs, checksums, fingerprints and commits.

One row an artifact, each with its source. ``pin`` says how what arrives is recognised:
``sha256`` of a file, ``fingerprint`` of an OpenPGP key (of a repository: the key that signs it),
``commit`` of a git tree, or ``operator``: nobody here computed or read one, so railwright
refuses the artifact until the inventory pins it in ``rdma_artifact_pins``.

A URL may hold ``{version}``: ``version`` is the release that the catalogue pins, and
``located`` puts in the one that an inventory asks for. The wheels' begin with ``INDEX`` in place
of a host: from which package index a site takes them is the inventory's to say, not ours.
"""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..types import Identity, Platform
from . import erdma

# Alibaba's eRDMA driver as source, in the rows that ``artifacts.py`` joins: (name, version, url, kind, pin, value, source).
#
# The vendor's installer is on a host that only machines inside Alibaba's VPC can resolve, and only by http: it is the checksum
# that makes it trustworthy. Nobody here has had one of those archives in hand.

# The only commit after 0.2.35. Packed as GitHub does it (git archive, gzip -n), which gives known checksums of other repositories.
_COMMIT = "8a062864c9ef4697422bfcb8ad255c686a52c920"
ERDMA_DRIVER_ROWS = (
    ("erdma-driver", "0.2.37", "https://github.com/alibaba/elastic-rdma-drivers/archive/%s.tar.gz" % _COMMIT, "archive", "sha256",
     "4387643f7d5cc0458a8d336f4c30330bd24d5dbb10425a3c501bb1e4231fbc6a",
     "ERD (r0.2.37, 2025-07-23); computed here from the commit in a copy of the repository"),
    ("erdma-driver-git", "0.2.37", "https://github.com/alibaba/elastic-rdma-drivers.git", "archive", "commit", _COMMIT,
     "ERD (erdma: Bump to version 0.2.37, 2025-07-23)"),
) + tuple(
    ("erdma-installer" + name, release, "http://mirrors.cloud.aliyuncs.com/erdma/erdma_installer-{version}.tar.gz", "archive", "sha256",
     value, "ALI (page erdma-usage, table of installer releases, %s); read there, not compared with a downloaded file" % day)
    for name, release, day, value in (
        ("", "1.5.7", "2026-03-31", "cb44f4c4aaaabfbd81224c85a9e7889732bda26cc832ff70ecc0559bcc14165c"),
        ("-1.5.6", "1.5.6", "2026-03-30", "a0529f5ca597ffb31a960c59b8c13ce854550c3512e6ce4c0542784f8e99fcc2"),
        ("-1.4.5", "1.4.5", "2025-04-29", "83d810301f9141ca6f387a7e0cf99c89f40b27d484a312eb1d1bd605ebf8bc28"),
        ("-1.4.3", "1.4.3", "2025-03-13", "f82c1eb7a5f93387185a6c0ce7a78c39495d8a07a3e2ee8248cec8b9d525ba2f"),
    )
)


PINS = ("sha256", "fingerprint", "commit", "operator")
FORMS = {"sha256": r"[0-9a-f]{64}", "fingerprint": r"[0-9A-F]{40}", "commit": r"[0-9a-f]{40}"}
FORM_WORDS = {
    "sha256": "a sha256: 64 lower case hexadecimal digits",
    "fingerprint": "an OpenPGP fingerprint: 40 upper case hexadecimal digits without spaces",
    "commit": "a git commit: 40 lower case hexadecimal digits",
}
OPERATOR_PIN = {"repository": "fingerprint", "key": "fingerprint", "package": "sha256", "archive": "sha256"}  # what an operator gives


class Artifact(NamedTuple):
    """``value`` is what ``pin`` names; None when that is operator."""

    name: str  # stable: the key of rdma_artifact_pins
    version: str
    url: str
    kind: str  # a key of OPERATOR_PIN
    pin: str  # one of PINS
    value: Optional[str]
    source: str


DOCA_RELEASE = "3.2.3"
MLNX_OFED_RELEASE = "24.10-4.1.4.0"
INDEX = "nccl_wheel_index"  # the inventory key whose value takes this word's place
NCCL_RELEASE = "2.30.7"  # PyTorch 2.14 and 2.15 bring the same

# What the rows of one vendor have in common. NVIDIA re-signed every DOCA repository in January 2026 with a key of its own.
_DOCA_HOST_KEY = "70454E6BF5D9C2D3B78709E8DC726C5E41B9CC50"
_DOCA_HOST_KEY_SOURCE = (
    "AgentBaker pull requests 9256 and 9394 (the live InRelease of ubuntu24.04), a public page of July 2026; SuperBench takes the file "
    "of 3.2.3"
)
_DOCA_HOST_KEY_INFERRED = "; read for ubuntu24.04, inferred for this system"
_DOCA_RPM_KEY_SOURCE = (
    "NVIDIA/cuda-quantum (deps_common.sh for the file; pull request 5456: it is still the key that was retired in January 2026). Keep "
    "the new one, which nobody here has read, in a place of yours"
)
_CUDA_KEY_SOURCE = "NVIDIA (GPG keys used to sign the packages; cuda-repo-management issue 4) for file and key id; %s for the fingerprint"
# The key of EL 10 is not that of EL 8 and 9. Of its file a checksum was read, and what is pinned is the fingerprint of a key.
_CUDA_RHEL10_SOURCE = (
    "NVIDIA/gpu-driver-container (rhel10/Dockerfile) for the file; without its Version lines its sha256 is "
    "afbea87d3b979b3788ef34223aeeb323ade481128e2c133723ae99b8a51368bb; no fingerprint was read"
)
_CUDA_KEYS: Dict[str, Tuple[str, Optional[str], str]] = {  # of a label's beginning: (file, fingerprint, where the fingerprint was read)
    "ubuntu22": ("3bf863cc.pub", "EB693B3035CD5710E231E123A4B469963BF863CC", "public installers that check it, for ubuntu2204"),
    "ubuntu24": ("3bf863cc.pub", "EB693B3035CD5710E231E123A4B469963BF863CC", "public installers that check it, for ubuntu2404"),
    "ubuntu26": ("60DF8A40.pub", "14BAFBC7562AD710CA04E69905FBB6DA60DF8A40",
                 "one public configuration with the user id Kitmaker (Ubuntu 26.04)"),
    "debian12": ("3bf863cc.pub", "EB693B3035CD5710E231E123A4B469963BF863CC", "public installers that check it, for debian12"),
    "debian13": ("8793F200.pub", "02182E60104FCDC26EAE1B8597A5D4CB8793F200",
                 "two public configurations, one with the user id Kitmaker (Debian 13 Trixie)"),
    "rhel10": ("CDF6BA43.pub", None, ""),
    "rhel": ("D42D0685.pub", "610C7B14E068A878070DA4E99CD0A493D42D0685", "three public installers that check rpms of rhel9 against it"),
}

_DOCA = "https://linux.mellanox.com/public/repo/doca/{version}/%s/%s/"
_OFED = "https://linux.mellanox.com/public/repo/mlnx_ofed/{version}/%s/%s/"
_CUDA = "https://developer.download.nvidia.com/compute/cuda/repos/%s/%s/"
_HOST = "https://www.mellanox.com/downloads/DOCA/DOCA_v%s/host/%s"
_HCM = "NVIDIA/hpc-container-maker@37f7b95 (building_blocks/doca_ofed.py), NVIDIA/cuda-quantum (deps_common.sh)"

# (label of the system, architecture, source of the directory's name)
DOCA_SYSTEMS = (
    ("ubuntu22.04", "x86_64", _HCM), ("ubuntu22.04", "aarch64", _HCM),
    ("ubuntu24.04", "x86_64", _HCM), ("ubuntu24.04", "aarch64", _HCM),
    ("debian12", "x86_64", "a public Puppet module that uses 3.2.2/debian12/x86_64"),
    ("debian13", "x86_64", "public notes that use 3.2.0/debian13/x86_64; doca-host 3.2.2 for debian13"),
    ("rhel8", "x86_64", _HCM), ("rhel8", "aarch64", _HCM),
    ("rhel9", "x86_64", _HCM + "; SA (roles/doca: 3.2.3)"), ("rhel9", "aarch64", _HCM),
    ("rhel10", "x86_64", _HCM), ("rhel10", "aarch64", _HCM),
)
OFED_SYSTEMS = (
    ("ubuntu22.04", "x86_64", "a public Dockerfile that uses 24.10-0.7.0.0/ubuntu22.04"),
    ("rhel9.5", "x86_64", "a public guide that uses 24.10-4.1.4.0/rhel9.5/x86_64"),
)
_CUDA_REPOS = "NVIDIA (CUDA installation guide for Linux: repos/$distro/$arch)"
CUDA_SYSTEMS = tuple(
    (label, arch, _CUDA_REPOS)
    for label in ("ubuntu2204", "ubuntu2404", "ubuntu2604", "debian12", "debian13", "rhel8", "rhel9", "rhel10")
    for arch in ("x86_64", "aarch64")
    if arch == "x86_64" or not label.startswith(("debian", "ubuntu2604"))
)
ARCH_LABELS: Dict[str, Dict[str, str]] = {  # what each vendor calls aarch64
    "doca": {"aarch64": "arm64-sbsa"},  # HCM
    "mlnx_ofed": {},
    "cuda": {"aarch64": "sbsa"},  # AZ (install_nvidiagpudriver.sh)
}


def _doca_rows() -> List[Artifact]:
    rows = []
    for label, arch, source in DOCA_SYSTEMS:
        url = _DOCA % (label, ARCH_LABELS["doca"].get(arch, arch))
        if label.startswith("rhel"):
            pin, value, key, key_source = "operator", None, "GPG-KEY-Mellanox.pub", _DOCA_RPM_KEY_SOURCE
        else:
            pin, value, key, key_source = "fingerprint", _DOCA_HOST_KEY, "doca_keyring.gpg", _DOCA_HOST_KEY_SOURCE
            key_source += "" if label == "ubuntu24.04" else _DOCA_HOST_KEY_INFERRED
        rows.append(Artifact("doca-%s-%s" % (label, arch), DOCA_RELEASE, url, "repository", pin, value, source))
        rows.append(Artifact("doca-key-%s-%s" % (label, arch), DOCA_RELEASE, url + key, "key", pin, value, key_source))
    return rows


def _ofed_rows() -> List[Artifact]:
    key = "https://www.mellanox.com/downloads/ofed/RPM-GPG-KEY-Mellanox"
    why = ("NVIDIA/hpc-container-maker@37f7b95 (building_blocks/mlnx_ofed.py) for the file; which of Mellanox's three keys signs 24.10 was "
           "read nowhere")
    rows = []
    for label, arch, source in OFED_SYSTEMS:
        url = _OFED % (label, ARCH_LABELS["mlnx_ofed"].get(arch, arch))
        rows.append(Artifact("mlnx_ofed-%s-%s" % (label, arch), MLNX_OFED_RELEASE, url, "repository", "operator", None, source))
        rows.append(Artifact("mlnx_ofed-key-%s-%s" % (label, arch), "all", key, "key", "operator", None, why))
    return rows


def _cuda_rows() -> List[Artifact]:
    rows = []
    for label, arch, source in CUDA_SYSTEMS:
        url = _CUDA % (label, ARCH_LABELS["cuda"].get(arch, arch))
        file, value, read = next(row for start, row in _CUDA_KEYS.items() if label.startswith(start))
        pin, key_source = ("operator", _CUDA_RHEL10_SOURCE) if value is None else ("fingerprint", _CUDA_KEY_SOURCE % read)
        rows.append(Artifact("cuda-%s-%s" % (label, arch), "all", url, "repository", pin, value, source))
        rows.append(Artifact("cuda-key-%s-%s" % (label, arch), "all", url + file, "key", pin, value, key_source))
    return rows


_AZ = "AZ (versions.json of azhpc-images@8e9d055); not compared with a downloaded file"
# DOCA's repository as one package, for rdma_stack_offline_package: (system, architecture, release, file, sha256).
_HOST_PACKAGES = (
    ("ubuntu22.04", "x86_64", "3.2.1", "doca-host_3.2.1-044000-25.10-ubuntu2204_amd64.deb",
     "75b8d4258b7239ef5021abaa25e7eeb4fcbc0c8117cab89ce1a766d2d218c8a0"),
    ("ubuntu24.04", "x86_64", "3.2.3", "doca-host_3.2.3-019000-25.10-ubuntu2404_amd64.deb",
     "762a3dbc1c8c1e4b03867b022ccafcfafa95bffe461a58a5b6e38fc678263614"),
    ("ubuntu24.04", "aarch64", "3.2.2", "doca-host_3.2.2-035000-25.10-ubuntu2404_arm64.deb",
     "0343656f130b79b7392742f9f7890fb59d6a1489fa020ccab26adc714e727b04"),
    ("rhel8", "x86_64", "3.2.1", "doca-host-3.2.1-044000_25.10_rhel8.x86_64.rpm",
     "ce630bb2e98f4202ed041d8607c72caf9db2ea8a9d795b982823af5493e4cb4b"),
    ("rhel9", "x86_64", "3.2.2", "doca-host-3.2.2-035000_25.10_rhel9.x86_64.rpm",
     "97d2ff3f271bd7e324e2c25b17ac12fb22e91be3e8a4bdf50a399ced1e5a7bc9"),
    ("alinux3.2", "x86_64", "3.2.1", "doca-host-3.2.1-044000_25.10_alinux32.x86_64.rpm",
     "dbf0ee79182c6ae00c99fc9089fa1d81fc6f406f64b2215bff7da9b8cc423ad5"),
)
# Tags 1.0-9 and 1.3-0 of the repository, read in a copy of it: (name, release, commit, source).
_NV_PEER_MEM = tuple(row for name, release, commit, source in (
    ("nv_peer_mem", "1.0-9", "8a79f11fc856fc04ca359465ab64191800d77135",
     'NPM (tag 1.0-9, "Roll 1.0-9 release", 2020-05-05); the guide to RoCE for the release'),
    ("nv_peer_mem-1.3", "1.3-0", "a15f0f666f40efa33b2719f80fe3d968586d2d4d", "NPM (tag 1.3-0, 2022-01; for OFED 5.1 and newer)"),
) for row in (
    Artifact(name, release, "https://github.com/Mellanox/nv_peer_memory/archive/%s.tar.gz" % commit, "archive", "operator", None,
             "NPM (archive of the commit below; nobody here has its checksum)"),
    Artifact(name + "-git", release, "https://github.com/Mellanox/nv_peer_memory.git", "archive", "commit", commit, source),
))
_PYPI = INDEX + "/packages/%s/nvidia_nccl_%s-{version}-py3-none-manylinux_2_18_%s.whl"
_WHEEL = "PyPI, project nvidia-nccl-%s: sha256 (and BLAKE2b-256, of which the URL is made) computed here from the wheel"
_NCCL_WHEELS = (  # (CUDA, architecture, place, sha256) of NCCL_RELEASE; another release has another place
    ("cu12", "x86_64", "50/32/e7ffa9c324ae260e5dbb4af2cd557bf7a8d155c8ac7b79a785fe1796fb92",
     "8ce1b8213f61f2bfac132e6df890af6450b77cbd140c6ce4e98cb0c2d8e678c9"),
    ("cu12", "aarch64", "8f/8c/554bb020501d6c04ad8127d83f728137f8f9123f991666efbdcf9095a221",
     "03ecd776fd1d58fd2c9a0a687dcf8db9ecd0057382dba646fa3d65786d4a9ea1"),
    ("cu13", "x86_64", "3f/34/c500f90c7ae641b8e0f98965b36b8a7ac79cc8b296e8d251fe3eb592ee54",
     "cefa7fdb9710efd0f39c5f1be1d61ff6fc9a996c451265bd7fbdcf9455ed4b50"),
    ("cu13", "aarch64", "d1/21/a73174c6157101bdf1ffc22b517f76ff0082613989dd9bc8f43e8034caac",
     "ca786ffa5a647c75d4d1f5cc72a6c4f537947e2ba8823d7c8aaf768e7a7b9f77"),
)
_NCCL = tuple(
    Artifact("nccl-wheel-%s-%s" % (cuda, arch), NCCL_RELEASE, _PYPI % (place, cuda, arch), "archive", "sha256", value, _WHEEL % cuda)
    for cuda, arch, place, value in _NCCL_WHEELS
) + (
    Artifact("nccl-source", NCCL_RELEASE, "https://github.com/NVIDIA/nccl/archive/refs/tags/v{version}-1.tar.gz", "archive", "sha256",
             "292a7f7a27b6754acaf46b5506a60758ca7b18cc1dfbd3d1d4e1e229d0863b4e",
             "computed here from the tag in a copy of the repository (git archive, gzip -n); TensorFlow pins the same for this URL"),
    Artifact("nccl-source-git", NCCL_RELEASE, "https://github.com/NVIDIA/nccl.git", "archive", "commit",
             "73cf112295c33aee2b895f329f592f2a9b4b0f97", "NVIDIA/nccl (tag v2.30.7-1, 2026-06-04)"),
)
# HPC-X for hosts with NVIDIA's stack, and CUDA 13 in its UCX. What a start over ssh and TCP needs of it is in every build.
_HPCX_URL = "https://content.mellanox.com/hpc/hpc-x/v{version}_cuda13/hpcx-v{version}-gcc-doca_ofed-%s-cuda13-%s.tbz"
_HPCX = tuple(
    Artifact("hpcx-%s-%s" % (label, arch), release, _HPCX_URL % (label.replace("rhel", "redhat"), arch), "archive", "sha256", value, _AZ)
    for label, arch, release, value in (
        ("ubuntu22.04", "x86_64", "2.25.1", "f64228e4d54c6fc83d7ea9ad7048bad1545a58388c9baad9f335d16c881f5d9d"),
        ("ubuntu24.04", "x86_64", "2.25.1", "8767bea4f0967a6b0f5e1b31395a431bf5624eaf34c928f109bc2db985f26887"),
        ("ubuntu24.04", "aarch64", "2.25.1", "cfc6816a4ac7932cf65e3f17a47106845728652cfd4d5ad71b0cb9b3ce2a9e48"),
        ("rhel8", "x86_64", "2.25.1", "5af44cf5dba8efc33f4e596fdf838e217e5071ce6a355a3a75fc72b66a6e646c"),
        ("rhel9", "x86_64", "2.25.1", "32d26857bd9c6aa47795b0eb354773b465d44e30784587258da0c91a8081df63"),
        ("rhel9", "aarch64", "2.24.1", "ab0c053e98c67b4a08ce73c81eb74c87dbc56dd6a21558cd721ab34e46798b4c"),
    )
)
# git archive of the tag (commit a0b82b2260cf5152b9f8c061bbf7eaf0ba096432), prefix nccl-tests-VERSION/, through gzip -n: computed here. What
# GitHub serves is the same byte for byte: the sums of 2.0.0 and 2.13.6, made that way, are the ones that Spack has for the downloads.
_NCCL_TESTS = Artifact(
    "nccl-tests", "2.19.6", "https://github.com/NVIDIA/nccl-tests/archive/refs/tags/v{version}.tar.gz", "archive", "sha256",
    "adbd3d27ba6c00bd7b7cf98cc8811c6ad860427ecd5de59527466b21472c0d93",
    "NVIDIA/nccl-tests (tag v2.19.6); computed from the tag, in the way that gives Spack's checksums of 2.0.0 and 2.13.6")
# AIACC's network plugin for NCCL. The vendor does not sign it, and nobody here has seen a checksum of it.
_AIACC_PLACES = (  # (release, beginning of the URL, where that was read)
    ("1.0.2", "https://ali-perseus-release.oss-cn-huhehaote.aliyuncs.com/ACSpeed/nccl-plugin/%s/", "the guide to eRDMA, lines 44-46"),
    ("1.1.0", "https://mirrors.aliyun.com/aiacc/aiacc-nccl-plugin/", "ALI (AIACC), ERC: http there, on a host that has https"),
)
_AIACC = tuple(
    Artifact("aiacc_nccl_plugin_%s%s" % (ending, "" if release == "1.0.2" else "-" + release), release,
             place.replace("%s", ending) + "aiacc-nccl-plugin-%s.%s" % (release, ending), "package", "operator", None, source)
    for release, place, source in _AIACC_PLACES for ending in ("deb", "rpm")
)
_HOST_ROWS = [
    Artifact("doca-host-%s-%s" % (label, arch), release, _HOST % (release, file), "package", "sha256", value, _AZ)
    for label, arch, release, file, value in _HOST_PACKAGES
]
# Alibaba's user space of eRDMA: on apt one directory holds every suite. Which systems they serve says erdma.py.
_ERDMA = "https://mirrors.aliyun.com/erdma/"
_ERDMA_ROWS = tuple(
    Artifact("erdma-%s-x86_64" % label, "all", _ERDMA + path, "repository", "operator", None, source)
    for label, path, source in (
        ("apt", "apt/ubuntu/", "the guide to eRDMA, lines 81-83 (focal, bionic), ERC (docs/erdma-benchmark/Dockerfile: jammy)"),
        ("redhat7", "yum/redhat/7/erdma/x86_64/", "the guide to eRDMA, line 66 ($releasever in place of 7), ALI (ACK page: 7)"),
        ("redhat8", "yum/redhat/8/erdma/x86_64/", "the guide to eRDMA, line 66 ($releasever in place of 8); the directory was not read"),
    )
) + (Artifact("erdma-key", "all", _ERDMA + "GPGKEY", "key", "operator", None,
              "the guide to eRDMA, lines 69 and 78, ERC and ALI for the file; its fingerprint was read nowhere"),)
ARTIFACTS = tuple(_doca_rows() + _HOST_ROWS + _ofed_rows() + _cuda_rows()) + _ERDMA_ROWS + _NV_PEER_MEM + _NCCL + (_NCCL_TESTS,) + _HPCX
ARTIFACTS += tuple(Artifact(*row) for row in ERDMA_DRIVER_ROWS) + _AIACC
# Systems that NVIDIA serves from RHEL's directories: built from the same sources.
REBUILDS = {
    "doca": ("rhel", "rocky", "almalinux"),  # AZ installs rhel8 and rhel9 packages on AlmaLinux and Rocky Linux
    "mlnx_ofed": ("rhel", "rocky", "almalinux"),
    "cuda": ("rhel", "rocky", "almalinux", "ol"),  # NVIDIA (driver installation guide, table of distributions)
}
_BY_NAME: Dict[str, Artifact] = {row.name: row for row in ARTIFACTS}


def find_artifact(name: str) -> Optional[Artifact]:
    return _BY_NAME.get(name)


def located(artifact: Artifact, version: Optional[str] = None) -> str:
    """The URL of an artifact, of the release that the catalogue pins or of another one."""
    return artifact.url.replace("{version}", version or artifact.version)


def at_vendor(artifact: Artifact, spec: Any, version: Optional[str] = None) -> str:
    """As ``located``, with the inventory's package index where the URL has ``INDEX`` and the inventory names one."""
    url: str = located(artifact, version)
    index: Optional[str] = spec[INDEX]
    return index.rstrip("/") + url[len(INDEX):] if index is not None and url.startswith(INDEX + "/") else url


def download_url(artifact: Artifact, spec: Any, version: Optional[str] = None) -> Optional[str]:
    """Where a node takes it from: the mirror, else the vendor. None for a wheel where the inventory names neither mirror nor index."""
    url = mirrored(located(artifact, version), spec["artifact_mirror"]) if spec["artifact_mirror"] else at_vendor(artifact, spec, version)
    return url if "://" in url else None


def mirror_path(url: str) -> Optional[str]:
    """Where a mirror keeps what a vendor has: ``HOST/PATH``, or ``INDEX/PATH``. None for what is neither."""
    if url.startswith(INDEX + "/"):
        return url
    found = re.match(r"^https?://(.+)$", url)
    return found.group(1) if found is not None else None


def mirrored(url: str, mirror: Optional[str]) -> str:
    """``MIRROR/HOST/PATH`` of a vendor's URL, or the URL without a mirror. Never for a URL that the operator gave himself."""
    path = mirror_path(url)
    return "%s/%s" % (mirror.rstrip("/"), path) if mirror and path is not None else url


def pinned(artifact: Artifact, spec: Any, version: Optional[str] = None) -> Optional[str]:
    """What to hold an artifact to: the operator's value where he gives one, else the catalogue's, which is of its own release only.

    None: refuse it.
    """
    given: Optional[str] = spec["artifact_pins"].get(artifact.name)
    return given if given is not None or version not in (None, artifact.version) else artifact.value


class Source(NamedTuple):
    """An archive to download. ``sha256`` None: it is not pinned yet, so it is not taken."""

    version: str
    artifact: str
    url: str
    sha256: Optional[str]


def source_of(name: str, spec: Any, version: Optional[str] = None) -> Optional[Source]:
    """The archive of a release, through the site's mirror; None where the catalogue has no such artifact."""
    artifact = find_artifact(name)
    if artifact is None:
        return None
    wanted = version or artifact.version
    return Source(wanted, name, mirrored(located(artifact, wanted), spec["artifact_mirror"]), pinned(artifact, spec, wanted))


def pin_form(artifact: Artifact) -> str:
    """sha256, fingerprint or commit: what an operator's pin for this artifact has to be."""
    return artifact.pin if artifact.pin != "operator" else OPERATOR_PIN[artifact.kind]


def label_of(vendor: str, platform: Platform) -> Optional[str]:
    """ubuntu24.04 for DOCA, ubuntu2404 for CUDA, rhel9.5 for MLNX_OFED …; None for a system that the vendor does not serve."""
    if vendor == "erdma":
        return erdma.label_of(platform)
    major = platform.version.partition(".")[0]
    if platform.id == "ubuntu":
        return "ubuntu" + (platform.version.replace(".", "") if vendor == "cuda" else platform.version)
    if platform.id == "debian":
        return "debian" + major
    if platform.id in REBUILDS[vendor]:
        return "rhel" + (platform.version if vendor == "mlnx_ofed" else major)
    return None


def rows_of(vendor: str, identity: Identity) -> Tuple[Optional[Artifact], Optional[Artifact]]:
    """(repository, key) of a vendor (doca, mlnx_ofed, cuda, erdma) for a node; None where the catalogue has none."""
    place = "%s-%s" % (label_of(vendor, identity.platform), identity.arch)
    repository = find_artifact("%s-%s" % (vendor, place))
    if vendor == "erdma":
        return repository, find_artifact(erdma.KEY)
    return repository, find_artifact("%s-key-%s" % (vendor, place))
