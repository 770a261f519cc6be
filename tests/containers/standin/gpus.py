# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver and CUDA of NVIDIA's repository: names and relations as it has them, daemons that start and do nothing.

As in the real one every package of the driver depends on the others in exactly one version, and two versions are there at once:
an older one can be installed only by who says so for all of them.
"""

from __future__ import annotations

from stub import Stub, exactly

VERSIONS = ("580.95.05", "580.105.08")
CUDA, CUDNN = "13.0.2-1", ("9.13.1.26-1", "9.14.0.64-1")
NCCL = ("2.29.7-1+cuda12.9", "2.29.7-1+cuda13.1", "2.30.7-1+cuda12.9", "2.30.7-1+cuda13.3", "2.31.2-1+cuda13.3")
PERSISTENCED, FABRICMANAGER, IMEX, DCGM = "nvidia-persistenced", "nvidia-fabricmanager", "nvidia-imex", "nvidia-dcgm"
DEBS = ("nvidia-kernel-open-dkms", "nvidia-driver-cuda", PERSISTENCED, "libnvidia-ml1", "nvidia-modprobe")
RPMS = ("kmod-nvidia-open-dkms", "nvidia-driver", "nvidia-driver-cuda", PERSISTENCED, "nvidia-kmod-common", "nvidia-modprobe")


def daemon(name: str) -> dict[str, str]:
    """A unit that NVIDIA's package has, around a process that only lives."""
    return {
        f"/usr/lib/systemd/system/{name}.service":
            f"[Unit]\nDescription={name} (stand-in)\n[Service]\nExecStart=/usr/bin/{name}\n[Install]\nWantedBy=multi-user.target\n",
        f"/usr/bin/{name}": "#!/bin/sh\nexec sleep infinity\n",
    }


def driver(names: tuple[str, ...], version: str, manager_version: str) -> tuple[Stub, ...]:
    """One release: its parts, the meta package, and beside it the daemons of a fabric."""
    parts = tuple(
        Stub(name, version, ("dkms",) if name.endswith("dkms") else (), files=daemon(name) if name == PERSISTENCED else {})
        for name in names)
    fabric = [Stub(name, manager_version, files=daemon(name)) for name in (FABRICMANAGER, IMEX)]
    return (*parts, Stub("nvidia-open", version, exactly(parts)), *fabric)


def toolkit(devel: str) -> tuple[Stub, ...]:
    """CUDA, releases of cuDNN and NCCL whose parts go together (NCCL's for two CUDAs each), and an mft that must win nowhere."""
    rows = []
    for version in CUDNN:
        library = Stub("libcudnn9-cuda-13", version)
        headers = Stub("libcudnn9-headers-cuda-13", version)
        rows += [library, headers, Stub(f"libcudnn9-{devel}-cuda-13", version, exactly((library, headers)))]
    for version in NCCL:
        library = Stub("libnccl2" if devel == "dev" else "libnccl", version)
        rows += [library, Stub(f"libnccl-{devel}", version, exactly((library,)))]
    core = Stub("datacenter-gpu-manager-4-core", "1:4.4.1-1", files=daemon(DCGM))
    rows += [Stub(name, "2.5.1-1") for name in (("gdrdrv-dkms", "libgdrapi") if devel == "dev" else ("gdrcopy-kmod", "gdrcopy"))]
    rows += [Stub("nvlsm", "2025.06.11-1"), core, Stub("datacenter-gpu-manager-4-cuda13", "1:4.4.1-1", ("datacenter-gpu-manager-4-core",))]
    return (Stub("cuda-toolkit-13-0", CUDA), Stub("mft", "4.99.0-1"), Stub("kernel-mft-dkms", "4.99.0-1"), *rows)
