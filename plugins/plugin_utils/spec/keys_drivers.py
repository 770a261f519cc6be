# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the schema for what drives the hardware: GPU driver, CUDA, GPUDirect, NIC firmware, PCIe. ``schema.py`` joins them.

Roles that change a node that works already (a driver, firmware, kernel arguments) do nothing
until a key of theirs is set: an installed driver is nobody's to replace by default.
"""

from .key import Key

# A password in a URL would stand in plans and reports; a file has a whole path.
HOST = r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"  # without a user and a password, and with nothing that could be one
URL = rf"^(https?://{HOST}([/?#][!-~]*)?|file:///[!-~]*)$"
URL_FORM = "an http or https URL without a password in it, or file:///PATH"
FINGERPRINT = r"^[0-9A-F]{40}$"
FINGERPRINT_FORM = "the 40 hexadecimal digits of an OpenPGP fingerprint, upper case, without spaces"
_LOOSE = r"^[0-9][A-Za-z0-9.+:~_-]*$"

GPU_DRIVER = (
    Key("gpu_driver_branch", "str", None,
        "Branch of the NVIDIA driver to install, such as 580. Unset: the driver is left as it is and only judged. Nodes without an NVIDIA "
        "GPU are skipped in any case.",
        "choice: an installed driver is nobody's to replace by default; docs/reference/drivers.md lists the branches",
        pattern=r"^[0-9]{3}$", form="a branch of three digits", example="580"),
    Key("gpu_driver_version", "str", None, "Version of the driver. Unset: the one that the catalogue pins for the branch.",
        "docs/reference/drivers.md", pattern=_LOOSE, form="a version, in quotes", example="580.95.05"),
    Key("gpu_driver_flavour", "str", "open", "Kernel modules: open, or proprietary (only for GPUs older than Turing; DMA-BUF needs open).",
        "NVIDIA (open is the default since 560 and the only one for Blackwell and Grace)", choices=("open", "proprietary")),
    Key("gpu_driver_source", "str", "cuda_repository",
        "Where the packages come from: NVIDIA's CUDA repository, or the distribution's own (Debian non-free, Ubuntu restricted).",
        "NVIDIA (driver installation guide)", choices=("cuda_repository", "distribution")),
    Key("gpu_driver_fabricmanager", "bool", None,
        "Install and run the fabric manager in exactly the driver's version. Unset: where the node has or manages an NVSwitch.",
        "NVIDIA (Fabric Manager user guide: version must match the driver's)"),
    Key("gpu_driver_imex", "bool", None,
        "Run nvidia-imex with a channel of it on nodes of a rack (GB200, GB300). Unset: where such GPUs are. false: jobs or pods bring "
        "their own.", "NVIDIA (IMEX guide: CUDA refuses memory of other nodes without it)"),
    Key("gpu_driver_imex_nodes", "list", [],
        "Addresses of all nodes of the rack, the same on each (/etc/nvidia-imex/nodes_config.cfg). Empty: the file is left alone.",
        "NVIDIA (IMEX guide)", elements="str",
        form="a list of IP addresses", example=["192.0.2.11", "192.0.2.12"]),
    Key("gpu_driver_dcgm", "bool", False,
        "Install DCGM beside the driver and run its daemon. Health checks and the burn-in ask it where it is.",
        "NVIDIA (DCGM installation: package by CUDA's major version, from the CUDA repository); choice of false: one daemon more"),
    Key("gpu_driver_persistence", "bool", True, "Keep the driver initialised while no process uses a GPU (nvidia-persistenced).",
        "NVIDIA (driver persistence: the daemon, not the deprecated nvidia-smi -pm)"),
)

CUDA = (
    Key("cuda_version", "str", None,
        "CUDA toolkit, MAJOR.MINOR. Unset: none is installed. Refused where the node's driver is too old for it.",
        "choice: many sites bring CUDA with containers", pattern=r"^[0-9]{2}\.[0-9]$", form="MAJOR.MINOR in quotes", example="13.0"),
    Key("cuda_cudnn_version", "str", None, "cuDNN for this toolkit, MAJOR.MINOR or more digits. Unset: none is installed.", "choice",
        pattern=_LOOSE, form="a version, in quotes", example="9.13"),
    Key("cuda_packages", "list", ["cuda-toolkit"],
        "What of the toolkit to install, without the version in the name: cuda-toolkit, or cuda-compiler, cuda-cudart-dev ….",
        "NVIDIA (meta packages of the CUDA installation guide)", elements="str", pattern=r"^[a-z][a-z0-9-]*$",
        form="a list of package names"),
    Key("cuda_hold", "bool", True, "Keep CUDA and cuDNN at the pinned versions when the system is updated.",
        "AZ (apt-mark hold), LSR (versionlock)"),
    Key("cuda_repository_url", "str", None, "NVIDIA's CUDA repository for this system. Unset: the catalogue's (or the mirror's).",
        "docs/reference/drivers.md", pattern=URL, form=URL_FORM),
    Key("cuda_repository_key_url", "str", None, "Where the repository's signing key is. Unset: the catalogue's (or the mirror's).",
        "docs/reference/drivers.md", pattern=URL, form=URL_FORM),
    Key("cuda_repository_fingerprint", "str", None, "Fingerprint that the signing key must have. Unset: the catalogue's.",
        "docs/reference/drivers.md", pattern=FINGERPRINT, form=FINGERPRINT_FORM),
)

GPUDIRECT = (
    Key("gpudirect_path", "str", "auto",
        "How the HCAs reach GPU memory. auto decides by kernel, driver, stack and HCA; `railwright explain gpudirect` shows how. Any other "
        "value is refused where it cannot work.", "NVIDIA (GPUDirect RDMA: DMA-BUF preferred, nvidia-peermem legacy)",
        choices=("auto", "dmabuf", "nvidia_peermem", "nv_peer_mem", "none")),
    Key("gpudirect_traffic", "bool", True, "Let validation prove it with ib_write_bw from GPU memory, where perftest is built with CUDA.",
        "AZ (ib_write_bw --use_cuda for every GPU and HCA)"),
    Key("gpudirect_gdrcopy", "bool", False,
        "Install GDRCopy (its kernel module and library) once the GPU driver is there, from a repository that the site has: NVIDIA "
        "publishes its packages as single files.", "NVIDIA/gdrcopy (README: packages by system); choice of false"),
    Key("gpudirect_min_bandwidth_gbps", "number", None,
        "Average ib_write_bw in Gb/s from GPU memory that every pair of GPU and HCA must reach, and every rail with all others. Unset: "
        "0.9 of rdma_expect.rate_gbps; else measured and reported, not judged.",
        "AZ (180 of 200G, 380 of 400G with H100, 360 with H200, all HCAs at once)", minimum=0, maximum=10000, example=380),
)

NIC_FIRMWARE = (
    Key("nic_firmware_config", "dict", {},
        "Stored configuration of the rails' NVIDIA NICs (mlxconfig), {NAME: value}, such as ATS_ENABLED, NUM_OF_VFS, LINK_TYPE_P1, "
        "ROCE_CC_PRIO_MASK_P1. What the inventory does not name is left alone.",
        "choice: the vendor's defaults are right unless the platform says otherwise; docs/reference/drivers.md",
        example={"ATS_ENABLED": False}),
    Key("nic_firmware_versions", "dict", {},
        "Wanted firmware by board, {PSID: version}. It is judged, and flashed only with an image and consent to firmware.", "choice",
        example={"MT_0000000838": "28.47.1080"}),
    Key("nic_firmware_images", "dict", {},
        "Firmware images by board, {PSID: {url, sha256}}. Without one, wrong firmware is a verdict and nothing more.", "choice",
        example={"MT_0000000838": {"url": "file:///srv/fw.bin", "sha256": "0" * 64}}),
)

PCI_TUNING = (
    Key("pci_tuning_acs", "str", "disable",
        "Access Control Services of PCIe bridges above GPUs and HCAs: disable, so that they talk directly, or keep. Only on bare metal "
        "with GPUs and HCAs; in a virtual machine ACS must stay.", "NVIDIA (NCCL troubleshooting: PCI Access Control Services)",
        choices=("disable", "keep")),
    Key("pci_tuning_max_read_request", "int", 4096,
        "PCIe MaxReadReq of the rails' HCAs in bytes: 128, 256, 512, 1024, 2048 or 4096; 0 leaves it alone.", "NCO (4096)", minimum=0,
        maximum=4096),
    Key("pci_tuning_relaxed_ordering", "str", "keep",
        "PCIe relaxed ordering of the rails' HCAs: enable, or keep. NCCL asks for it per memory region by itself.",
        "NCCL (NCCL_IB_PCI_RELAXED_ORDERING=2, automatic)", choices=("enable", "keep")),
    Key("pci_tuning_iommu", "str", "keep",
        "passthrough adds the kernel arguments that let devices bypass IOMMU translation (iommu=pt, on arm64 iommu.passthrough=1); "
        "effective after a reboot. keep leaves them alone; the mode is judged.",
        "NVIDIA (DGX nv-iommu-pt), AZ (iommu.passthrough=1 on Grace); choice of keep: a reboot is asked for, never assumed",
        choices=("passthrough", "keep")),
    Key("pci_tuning_isolated_cpus", "str", None,
        "CPUs that are kept for processes pinned to them: the kernel leaves them without load balancing, tick and work of its own "
        "(isolcpus, nohz_full), and what is not pinned shares the others. Effective after a reboot. Unset: nothing is set.",
        "Linux (admin-guide/cpu-isolation, kernel-parameters)", pattern=r"^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$",
        form="a list of CPUs like 4-31,36-63", example="4-31"),
    Key("pci_tuning_preemption", "str", "keep",
        "full adds preempt=full: the kernel gives way to a process that wakes, at some cost in throughput. Effective after a reboot, on "
        "kernels with PREEMPT_DYNAMIC.", "Linux (kernel-parameters: preempt)", choices=("full", "keep")),
    Key("pci_tuning_kernel_args", "list", [], "Further kernel arguments; effective after a reboot.", "choice", elements="str",
        pattern=r"^[A-Za-z0-9_.-]+(=[A-Za-z0-9_.,:;@/+-]+)?$", form="a list of kernel arguments like numa_balancing=disable",
        example=["numa_balancing=disable"]),
)
