# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage over RDMA from /proc/mounts and sysfs, in the forms that the file systems document."""

from pathlib import Path

import pytest
from tests.fixtures.node_tree import Tree

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.storage import rdma_storage

MOUNTS = [
    ("10.0.0.1:/x /mnt/a\\040b nfs rw,vers=3,proto=rdma,port=20049 0 0", ("NFS over RDMA", "/mnt/a b")),
    ("10.0.0.1:/x /mnt nfs4 rw,vers=4.2,proto=tcp 0 0", None),
    ("//server/share /mnt cifs rw,vers=3.1.1,rdma 0 0", ("SMB Direct", "/mnt")),
    ("10.0.0.1@o2ib:10.0.0.2@o2ib:/fs /lustre lustre rw 0 0", ("Lustre o2ib", "/lustre")),
    ("10.0.0.1@tcp:/fs /lustre lustre rw 0 0", None),
    ("beegfs_nodev /beegfs beegfs rw,cfgFile=/etc/beegfs/other.conf 0 0", ("BeeGFS", "/beegfs")),
    ("default/wekafs /weka wekafs rw 0 0", ("WEKA", "/weka")),
    ("gpfs0 /gpfs gpfs rw 0 0", None),
    ("/dev/sda1 / ext4 rw 0 0", None),
    ("half a line", None),
]


@pytest.mark.parametrize(("line", "expected"), MOUNTS)
def test_file_systems(tmp_path: Path, line: str, expected: tuple[str, str] | None) -> None:
    tree = Tree(tmp_path / "node")
    tree.write("proc/mounts", line + "\n")
    assert [tuple(item) for item in rdma_storage(TreeHost(str(tree.root)))] == ([expected] if expected else [])


def test_what_a_configuration_turns_off_or_on(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "node")
    tree.write("proc/mounts", "beegfs_nodev /beegfs beegfs rw 0 0\ngpfs0 /gpfs gpfs rw 0 0\n")
    host = TreeHost(str(tree.root))
    assert [item.where for item in rdma_storage(host)] == ["/beegfs"]
    tree.write("etc/beegfs/beegfs-client.conf", "connUseRDMA  = false\n")
    tree.write("var/mmfs/gen/mmfs.cfg", "verbsRdma enable\n")
    assert [item.where for item in rdma_storage(host)] == ["/gpfs"]


def test_many_mounts_of_one_configuration_are_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each of them the file was read and searched anew: a megabyte of mounts took minutes."""
    tree = Tree(tmp_path / "node")
    tree.write("proc/mounts", "beegfs_nodev /beegfs beegfs rw 0 0\n" * 1000)
    tree.write("etc/beegfs/beegfs-client.conf", "connUseRDMA  = true\n")
    host = TreeHost(str(tree.root))
    asked: list[str] = []
    read = host.read
    monkeypatch.setattr(host, "read", lambda path, *more: asked.append(path) or read(path, *more))
    assert len(rdma_storage(host)) == 1000
    assert asked == ["/proc/mounts", "/etc/beegfs/beegfs-client.conf"]


def test_block_devices(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "node")
    for name, transport in (("nvme0", "pcie"), ("nvme1", "rdma"), ("nvme2", "tcp")):
        tree.write(f"sys/class/nvme/{name}/transport", transport + "\n")
    for name, driver in (("host0", "ahci"), ("host1", "iscsi_iser"), ("host2", "ib_srp")):
        tree.write(f"sys/class/scsi_host/{name}/proc_name", driver + "\n")
    found = [tuple(item) for item in rdma_storage(TreeHost(str(tree.root)))]
    assert found == [("NVMe over RDMA", "nvme1"), ("iSER", "host1"), ("SRP", "host2")]
