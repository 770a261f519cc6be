# SPDX-License-Identifier: GPL-3.0-or-later
"""The images of the lab tests: GRUB, which boots by its boot loader, and that with what would take minutes to install at emulation speed.

DRIVERS has what DKMS needs, the stand-in PCI Express fabric (modules/README.md) and, as packages that are not installed, a second kernel
and its headers; KERNELS is that with most of the RDMA packages. FABRIC has the distribution's RDMA packages. None of them has a package
source of its own: what a test installs comes from its own repository. LOGGED is FABRIC with a stand-in that logs. CONTAINERS has FABRIC's
packages, podman and docker. QOS has FABRIC's packages, lldpad and the stand-in NIC with DCB; DRIFT has nftables as well, and the
distribution's package sources. SECURE_BOOT boots by UEFI, and has a module that DKMS has not built yet.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from railwright.lab import PLAIN, Recipe
from railwright.lab.recipe import KERNEL_ARGS

# core.img lies between the partition table and the first partition, where grub-install puts it too; boot.img's and core.img's own
# block lists say sectors 1 and 2, so neither needs a patch. Its modules are what finds /boot/grub on the first partition.
_GRUB_CORE = """
cp -r "$1/usr/lib/grub/i386-pc" "$1/boot/grub/"
chroot "$1" grub-mkimage -O i386-pc -p '(hd0,msdos1)/boot/grub' -o /boot/grub/i386-pc/core.img biosdisk part_msdos ext2
kernel=$(basename "$1"/boot/vmlinuz-*)
cat > "$1/boot/grub/grub.cfg" <<CFG
linux /boot/$kernel root=/dev/vda1 rw ARGS
initrd /boot/initrd.img-${kernel#vmlinuz-}
boot
CFG
"""

# Boots from a partition as a server does, so that a guest can install another kernel, change kernel arguments and reboot into both. It is
# made without loop devices: mkfs.ext4 -d at an offset, boot.img and core.img at the places that their own block lists name.
GRUB = Recipe(
    "Debian 12 image with GRUB",
    (*PLAIN.packages, "grub-pc"),
    {
        **PLAIN.files,
        "/etc/fstab": "/dev/vda1 / ext4 defaults 0 1\n",
        "/etc/default/grub.d/railwright-lab.cfg": (
            f'GRUB_TIMEOUT=0\nGRUB_TERMINAL=serial\nGRUB_CMDLINE_LINUX_DEFAULT=""\nGRUB_CMDLINE_LINUX="{KERNEL_ARGS}"\n'
        ),
    },
    PLAIN.early_files,
    PLAIN.finish + _GRUB_CORE.replace("ARGS", KERNEL_ARGS),
    offset=1024**2,
    # grub-probe wants the disk that it will boot from, and a chroot has none.
    first_boot=(("update-grub",),),
)

MODULES = Path(__file__).with_name("modules")
KERNEL_DEB = "/srv/lab/kernel.deb"
HEADERS_DEB = "/srv/lab/headers.deb"
# What the second kernel's name ends in: it sorts behind the first, so GRUB takes it for the newer one.
SECOND_FLAVOUR = "-cloud-amd64"

TOOLCHAIN = ("python3-apt", "dkms", "gcc", "make", "linux-headers-amd64", "linux-image-cloud-amd64", "linux-headers-cloud-amd64")
SOFT_RDMA = ("rdma-core", "ibverbs-providers", "ibverbs-utils", "librdmacm1", "rdmacm-utils", "perftest")
RDMA = (*SOFT_RDMA, "infiniband-diags", "mstflint")

# The hooks of the distribution's kernel packages run, DKMS's and GRUB's among them; only the initramfs is there already, and the
# modules are those that a guest of the lab can have a device for.
_POSTINST = """#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
INITRD=No run-parts --report --exit-on-error --arg=@KERNEL@ --arg=/boot/vmlinuz-@KERNEL@ /etc/kernel/postinst.d
"""
_NEEDED = "virtio_pci virtio_net virtio_blk virtio_rng ext4 af_packet ib_core ib_uverbs ib_umad rdma_ucm rdma_rxe lab_pcie"

_PREPARE = """set -e
chroot "$1" sh -eu <<'INSIDE'
first=$(basename "$(ls -d /lib/modules/*-amd64 | grep -v -e FLAVOUR)")
second=$(basename /lib/modules/*FLAVOUR)
for kernel in $first $second; do
    make -s -C /lib/modules/$kernel/build M=/usr/src/lab_pcie modules
    install -D -m 644 /usr/src/lab_pcie/lab_pcie.ko /lib/modules/$kernel/extra/lab_pcie.ko
    make -s -C /lib/modules/$kernel/build M=/usr/src/lab_pcie clean
    depmod $kernel
done
rm -r /usr/src/lab_pcie

stage=/srv/lab/stage
mkdir -p $stage/DEBIAN $stage/boot $stage/lib/modules/$second
cp /boot/*-$second $stage/boot/
cp /lib/modules/$second/modules.builtin* /lib/modules/$second/modules.order $stage/lib/modules/$second/
for module in NEEDED; do
    modprobe --set-version $second --show-depends $module 2>/dev/null || true
done | sed -n 's/^insmod \\([^ ]*\\).*/\\1/p' | sort -u | while read -r file; do cp --parents "$file" $stage/; done
[ ! -d $stage/usr/lib/modules ] || { cp -r $stage/usr/lib/modules/. $stage/lib/modules/; rm -r $stage/usr; }
depmod -b $stage $second
cat > $stage/DEBIAN/control <<CONTROL
Package: linux-image-$second
Version: $(dpkg-query -W -f '${Version}' linux-image-$second)
Architecture: amd64
Maintainer: Stand-in of a test <nobody@example.com>
Description: Debian's kernel of that name, with few modules and its initramfs
CONTROL
sed "s/@KERNEL@/$second/g" > $stage/DEBIAN/postinst <<'POSTINST'
SCRIPT
POSTINST
chmod 755 $stage/DEBIAN/postinst
dpkg-deb --build -Zgzip -z1 --root-owner-group $stage /srv/lab/kernel.deb
cp /var/cache/apt/archives/linux-headers-${second}_*.deb /srv/lab/headers.deb
rm -r $stage
dpkg --purge linux-image-cloud-amd64 linux-headers-cloud-amd64 linux-image-$second linux-headers-$second
rm -rf /lib/modules/$second
: > /etc/apt/sources.list
INSIDE
"""

_NO_SOURCES = ': > "$1/etc/apt/sources.list"\n'


def _prepare() -> str:
    return _PREPARE.replace("FLAVOUR", SECOND_FLAVOUR).replace("NEEDED", _NEEDED).replace("SCRIPT\n", _POSTINST)


_BUILD = """set -e
chroot "$1" sh -eu <<'INSIDE'
kernel=$(basename /lib/modules/*)
make -s -C /lib/modules/$kernel/build M=/usr/src/MODULE modules
install -D -m 644 /usr/src/MODULE/MODULE.ko /lib/modules/$kernel/extra/MODULE.ko
rm -r /usr/src/MODULE
depmod $kernel
INSIDE
"""
_BUILD_DCB = _BUILD.replace("MODULE", "lab_dcb") + 'chroot "$1" systemctl disable lldpad.service lldpad.socket\n'


def _sources(directory: str, module: str) -> dict[str, str]:
    return {f"/usr/src/{module}/{path.name}": path.read_text(encoding="utf-8") for path in sorted((MODULES / directory).iterdir())}


DRIVERS: Recipe = replace(
    GRUB,
    title="image of the driver tests (kernel headers, DKMS, a second kernel)",
    packages=(*GRUB.packages, *TOOLCHAIN),
    files={**GRUB.files, **_sources("pcie", "lab_pcie")},
    finish=_prepare() + GRUB.finish,
)
KERNELS: Recipe = replace(
    DRIVERS, title="image of the kernel tests (kernel headers, DKMS, a second kernel, RDMA packages)",
    packages=(*DRIVERS.packages, *SOFT_RDMA),
)  # fmt: skip
FABRIC: Recipe = replace(
    GRUB,
    title="image of the fabric tests (GRUB, RDMA packages)",
    packages=(*GRUB.packages, "python3-apt", *RDMA),
    finish=GRUB.finish + _NO_SOURCES,
)
LOGGED: Recipe = replace(
    FABRIC,
    title="image of the health tests (the fabric tests', a stand-in that logs as the kernel)",
    packages=(*FABRIC.packages, "gcc", "make", "linux-headers-amd64"),
    files={**FABRIC.files, **_sources("log", "lab_log")},
    # A bundle keeps links as they are, and Python unpacks no absolute one.
    finish=_BUILD.replace("MODULE", "lab_log") + 'rm "$1"/lib/modules/*/build\n' + FABRIC.finish,
)
# A compiler, as job users have one; MPI and its headers are for `apply` to bring, from the distribution's servers.
MPI: Recipe = replace(
    GRUB,
    title="image of the bench test (GRUB, RDMA packages, a compiler)",
    packages=(*GRUB.packages, "python3-apt", "procps", "gcc", "libc6-dev", *RDMA),
)
# The build has stand-ins for nvcc and NCCL, which are compiled there. The programs read the build from an NFS mount of the other machine.
NFS: Recipe = replace(
    GRUB,
    title="image of the NFS test (GRUB, an NFS server and client, a compiler)",
    packages=(*GRUB.packages, "python3-apt", "procps", "g++", "make", "nfs-kernel-server", "nfs-common"),
    finish=GRUB.finish + _NO_SOURCES,
)
# catatonit is what podman holds a pod's namespaces with; without apparmor's parser dockerd cannot load its profile, and starts nothing.
CONTAINERS: Recipe = replace(
    GRUB,
    title="image of the container test (GRUB, RDMA packages, podman, docker)",
    packages=(*GRUB.packages, "python3-apt", "podman", "crun", "catatonit", "docker.io", "docker-compose", "apparmor", *RDMA),
    finish=GRUB.finish + _NO_SOURCES,
)
QOS: Recipe = replace(
    GRUB,
    title="image of the QoS test (GRUB, RDMA packages, a stand-in NIC with DCB)",
    packages=(*GRUB.packages, "python3-apt", "gcc", "make", "linux-headers-amd64", "lldpad", *RDMA),
    files={**GRUB.files, **_sources("dcb", "lab_dcb")},
    finish=_BUILD_DCB + GRUB.finish + _NO_SOURCES,
)
# What is removed by hand has to come back by `apply`, from the distribution's servers.
DRIFT: Recipe = replace(
    QOS,
    title="image of the drift test (QoS test's, with package sources and nftables)",
    packages=(*QOS.packages, "nftables"),
    finish=_BUILD_DCB + GRUB.finish,
)

# What the distributions' own installers put there: shim, signed by Microsoft, starts GRUB, which Debian signed, and that starts Debian's
# kernel. GRUB's file on the EFI system partition leads to the one in /boot.
_ESP_MIB = 32
_EFI = """set -e
chroot "$1" sh -eu <<'INSIDE'
export MTOOLS_SKIP_CHECK=1
esp=/boot/esp.img
truncate -s $((SIZE - 1))M $esp
mkfs.vfat -n ESP $esp
mmd -i $esp ::EFI ::EFI/BOOT ::EFI/debian
mcopy -i $esp /usr/lib/shim/shimx64.efi.signed ::EFI/BOOT/BOOTX64.EFI
mcopy -i $esp /usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed ::EFI/BOOT/grubx64.efi
mcopy -i $esp /usr/lib/shim/mmx64.efi.signed ::EFI/BOOT/mmx64.efi
cat > /tmp/grub.cfg <<'CFG'
search --no-floppy --label railwright-lab --set=root
configfile ($root)/boot/grub/grub.cfg
CFG
mcopy -i $esp /tmp/grub.cfg ::EFI/debian/grub.cfg
rm /tmp/grub.cfg
kernel=$(basename /boot/vmlinuz-*)
mkdir -p /boot/grub
cat > /boot/grub/grub.cfg <<CFG
set timeout=0
menuentry Debian {
linux /boot/$kernel root=/dev/vda1 rw ARGS
initrd /boot/initrd.img-${kernel#vmlinuz-}
}
CFG
INSIDE
""".replace("SIZE", str(_ESP_MIB)).replace("ARGS", KERNEL_ARGS)
_UNSIGNED = """set -e
chroot "$1" sh -eu <<'INSIDE'
cp -r /usr/src/gdrdrv-2.5 /srv/unsigned
make -s -C /lib/modules/*/build M=/srv/unsigned modules
dkms add gdrdrv/2.5
INSIDE
"""
SECURE_BOOT: Recipe = replace(
    PLAIN,
    title="image of the Secure Boot test (shim, signed GRUB, mokutil, kernel headers, DKMS, RDMA packages)",
    packages=(*PLAIN.packages, "python3-apt", "dkms", "gcc", "make", "linux-headers-amd64", "shim-signed", "grub-efi-amd64-signed",
              "mokutil", "openssl", "mtools", "dosfstools", *RDMA),
    files={**PLAIN.files, "/etc/fstab": GRUB.files["/etc/fstab"], **_sources("gdrdrv", "gdrdrv-2.5")},
    finish=_UNSIGNED + _EFI + PLAIN.finish + _NO_SOURCES,
    offset=_ESP_MIB * 1024**2,
)  # fmt: skip
