# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes into an image, as data: everything here is part of the key that the image is cached under.

PLAIN is the lab's: QEMU loads the kernel, which is quick and cannot change. Another one may boot from a partition, as a server does.
"""

from dataclasses import dataclass, field

# Exactly what a node needs to boot, be reached and be inspected. No RDMA package: installing those is the product's job.
PACKAGES = (
    "systemd", "systemd-sysv", "udev", "dbus", "openssh-server", "python3", "iproute2", "kmod", "linux-image-amd64",
    "initramfs-tools", "iputils-ping", "ethtool", "pciutils", "ca-certificates",
)  # fmt: skip

FILES = {
    # eth0 is the management NIC in every node; networkd leaves the fabric NICs alone, as on a freshly racked machine.
    "/etc/systemd/network/10-management.network": "[Match]\nName=eth0\n\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\n",
    # QEMU's user network answers DNS here, with the controller's resolver behind it.
    "/etc/resolv.conf": "nameserver 10.0.2.3\n",
    "/etc/fstab": "/dev/vda / ext4 defaults 0 1\n",
    "/etc/default/locale": "LANG=C.UTF-8\n",
}

# The default initramfs carries every driver there is: 35 MB to unpack at each boot and to pack again in each package that
# refreshes it, at emulation speed. The machines have one kind of disk.
EARLY_FILES = {
    "/etc/initramfs-tools/conf.d/railwright-lab": "MODULES=list\n",
    "/usr/share/initramfs-tools/modules.d/railwright-lab": "virtio_pci\nvirtio_blk\next4\n",
}

# Host keys and identity are per node. The apt timers would hold dpkg's lock whenever a restored clock jumps past them.
FINISH = """set -e
rm -f "$1"/etc/ssh/ssh_host_* "$1"/etc/hostname "$1"/etc/machine-id "$1"/etc/apt/apt.conf.d/99mmdebstrap
chroot "$1" update-ca-certificates
chroot "$1" systemctl enable systemd-networkd.service
chroot "$1" systemctl mask apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service
"""

# Under emulation beside other work, 90 s is not enough for every unit to start. And where the host takes its processor away for some
# milliseconds, the kernel's clocksource watchdog blames the TSC and goes over to the HPET: each reading of the clock is then a trap
# into the emulator, and the machine ten times slower for the rest of its life. What protects a kernel from its processor's faults costs
# an emulated one a sixth of its time, and nobody else's secrets are in there.
KERNEL_ARGS = "console=ttyS0 quiet net.ifnames=0 systemd.default_timeout_start_sec=300 tsc=reliable mitigations=off"


@dataclass(frozen=True)
class Recipe:
    """One kind of image. finish is a shell script with the image's root as $1, run when all packages and files are in."""

    title: str
    packages: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    early_files: dict[str, str] = field(default_factory=dict)
    finish: str = "true\n"
    # Where the file system starts on the disk. 0: it is the whole disk, and QEMU loads the kernel.
    offset: int = 0
    # Run in each node after its first boot, before the bare snapshot.
    first_boot: tuple[tuple[str, ...], ...] = ()

    @property
    def boots_itself(self) -> bool:
        return self.offset > 0

    def rest(self) -> list[str]:
        """What belongs into the key beside the packages."""
        texts = [self.finish, repr((sorted(self.files.items()), sorted(self.early_files.items())))]
        return texts if not self.boots_itself else [*texts, str(self.offset), repr(self.first_boot)]


PLAIN = Recipe("bare Debian 12 image", PACKAGES, FILES, EARLY_FILES, FINISH)
