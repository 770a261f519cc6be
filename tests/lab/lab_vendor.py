# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-ins of a vendor's packages: DOCA-OFED's kernel part, the GPU driver's DKMS module, nv_peer_mem's."""

from __future__ import annotations

from lab_debs import MODULES, Deb, dkms_deb, filled

RELEASE, META_VERSION = "3.2.3", "3.2.3-019000"
STACK_DKMS, STACK_VERSION = "mlnx-ofed-kernel", "25.10.OFED.25.10.3.1.1"
STACK_DEB = f"{STACK_VERSION}-1"
DRIVER_VERSION = "580.105.08"
OLD_DRIVER_VERSION = "460.106.00"
LABEL = f"DOCA-HOST {RELEASE}"
HCA = "0001:02:00.0"  # the stand-in NIC
STACK = ("kernel.", "stack.")  # the checks that judge it
SITE = {
    "rdma_fabric": "roce",
    "rdma_stack": "doca",
    "rdma_stack_version": RELEASE,
    "rdma_mtu": 9000,
    "rdma_qos_profile": "none",  # the stand-in stack has no rdma_cm; test_qos.py has
    "gpudirect_path": "none",
    "rdma_consent": ["link", "restart", "reload"],
    "rdma_expect": {"link_layer": "Ethernet"},
    "validate_perftest": False,
}

LOADS = ("ib_core", "ib_uverbs", "ib_umad", "rdma_ucm", "mlx5_core", "mlx5_ib")
# The distribution's modules may be the ones that are loaded, with what lies between them.
UNLOADS = ("mlx5_ib", "mlx5_core", "rdma_ucm", "ib_uverbs", "ib_umad", "rdma_cm", "iw_cm", "ib_cm", "ib_core")
OPENIBD = f"""#!/bin/sh
### BEGIN INIT INFO
# Provides: openibd
# Required-Start: $local_fs
# Required-Stop: $local_fs
# Default-Start: 2 3 4 5
# Default-Stop: 0 1 6
# Description: the RDMA stack's modules
### END INIT INFO
# Stand-in of the vendor's: loads the stack's modules, and cannot stop while somebody uses them.
set -e
case $1 in
    start)
        # The vendor's inspects a module's srcversion for this: what the initramfs or the distribution loaded has to go first.
        if [ -d /sys/module/ib_core ] && [ "$(cat /sys/module/ib_core/srcversion)" != "$(modinfo -F srcversion ib_core)" ]; then $0 stop; fi
        for module in {" ".join(LOADS)}; do modprobe $module; done ;;
    stop)
        for module in {" ".join(UNLOADS)}; do
            if [ -d /sys/module/$module ]; then rmmod $module; fi
        done ;;
    restart|force-restart) $0 stop; $0 start ;;
esac
"""
UNIT = """[Unit]
Description=openibd - configure Mellanox devices (stand-in)
After=systemd-modules-load.service
ConditionPathExists=/etc/infiniband/openib.conf
[Service]
Type=oneshot
RemainAfterExit=yes
TimeoutStartSec=300
ExecStart=/etc/init.d/openibd start
ExecStop=/etc/init.d/openibd stop
[Install]
WantedBy=multi-user.target
"""
ENABLE = '#!/bin/sh\nset -e\n[ "$1" != configure ] || systemctl enable openibd.service\n'


def stack(does_not_compile: str = "") -> list[Deb]:
    """DOCA-OFED 3.2.3: what of it belongs to the kernel. does_not_compile: a word of the kernel's release that ends the build."""
    broken = f"$(if $(findstring {does_not_compile},$(KERNELRELEASE)),-DMODULE_VERSION=does_not_compile)" if does_not_compile else ""
    values = {"MODULE": STACK_DKMS, "VERSION": STACK_VERSION, "BROKEN": broken}
    utils = {
        "/lib/systemd/system/openibd.service": UNIT,
        "/etc/init.d/openibd": OPENIBD,
        "/etc/infiniband/openib.conf": "ONBOOT=yes\nIPOIB_LOAD=yes\n",
    }
    exact = f"(= {STACK_DEB})"
    return [
        Deb("ofed-scripts", STACK_DEB, files={"/usr/bin/ofed_info": "#!/bin/sh\necho 'OFED-internal-25.10-3.1.1:'\n"}),
        Deb("mlnx-ofed-kernel-utils", STACK_DEB, (f"ofed-scripts {exact}",), utils, {"postinst": ENABLE}, ("/etc/infiniband/openib.conf",)),
        dkms_deb("mlnx-ofed-kernel-dkms", STACK_DEB, "stack", values, (f"mlnx-ofed-kernel-utils {exact}",)),
        Deb("doca-ofed", META_VERSION, (f"ofed-scripts {exact}", f"mlnx-ofed-kernel-utils {exact}", f"mlnx-ofed-kernel-dkms {exact}")),
    ]


OPEN = {"LICENSE": "Dual MIT/GPL", "NVRM": "NVIDIA UNIX Open Kernel Module for x86_64", "DEVICE": "0"}
# Its real license has the kernel refuse what is exported to the GPL alone, which is more than this test asks.
PROPRIETARY = {"LICENSE": "GPL", "NVRM": "NVIDIA UNIX x86_64 Kernel Module", "DEVICE": "0"}
SECOND = 'BUILT_MODULE_NAME[1]="nvidia"\nDEST_MODULE_LOCATION[1]="/updates"'


def driver(version: str = DRIVER_VERSION, device: str = "0") -> Deb:
    """The GPU driver's open modules: nvidia, and nvidia-peermem. device "1": with /dev/nvidia0, which programs hold."""
    values = {"MODULE": "nvidia", "VERSION": version, "PEERMEM": "nvidia-peermem", "NAME": "nvidia-peermem", **OPEN, "DEVICE": device}
    return dkms_deb("nvidia-kernel-open-dkms", f"{version}-1", "peermem", {
        **values, "OBJECTS": "nvidia-peermem.o nvidia.o", "SECOND": SECOND})  # fmt: skip


def old_driver() -> Deb:
    """A driver older than R470: it brings no peer memory module."""
    values = {"MODULE": "nvidia", "VERSION": OLD_DRIVER_VERSION, "PEERMEM": "none", "NAME": "nvidia", "SECOND": "", **PROPRIETARY}
    return dkms_deb("nvidia-kernel-dkms", f"{OLD_DRIVER_VERSION}-1", "peermem", {**values, "OBJECTS": "nvidia.o"})


def nv_peer_mem_source(version: str) -> dict[str, str]:
    """The source tree of nv_peer_mem, file by file."""
    values = {"MODULE": "nv_peer_mem", "VERSION": version, "PEERMEM": "nv_peer_mem", "NAME": "nv_peer_mem", "SECOND": "",
              "OBJECTS": "nv_peer_mem.o", **PROPRIETARY}  # fmt: skip
    return {path.name: filled(path.read_text(encoding="utf-8"), values) for path in sorted((MODULES / "peermem").iterdir())}
