# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes one node different from the next, written into its disk before the first boot.

debugfs writes into the ext4 file itself: no loop device, no mount, no root, and no agent in the guest.
"""

import shutil
import uuid
from pathlib import Path

from railwright.lab import machine, tools
from railwright.lab.image import Image
from railwright.lab.state import LabPaths, LabState, Node, write_atomic
from railwright.lab.tools import LabError

NEEDED_BYTES = 2 * 1024**3


def keypair(path: Path, comment: str) -> str:
    """Make an ed25519 key pair unless it is there; return the public half."""
    public = path.with_name(path.name + ".pub")
    if not (path.exists() and public.exists()):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        path.unlink(missing_ok=True)
        tools.run_tool(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])
    return public.read_text(encoding="ascii").strip()


def write_known_hosts(state: LabState) -> None:
    """The real host keys, so that host-key checking stays on from the first connection."""
    lines = []
    for node in state.nodes:
        kind, key, *_ = keypair(_host_key(state.paths, node), f"root@{node.name}").split()
        lines.append(f"[127.0.0.1]:{node.ssh_port} {kind} {key}\n")
    write_atomic(state.paths.known_hosts, "".join(lines), 0o600)


def _host_key(paths: LabPaths, node: Node) -> Path:
    return paths.node(node.name) / "ssh_host_ed25519_key"


def make_disk(state: LabState, node: Node, image: Image) -> None:
    """A private copy of the image with the node's identity in it, and an empty overlay above."""
    directory = state.paths.node(node.name)
    directory.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(directory).free
    if free < NEEDED_BYTES:
        raise LabError(f"{directory} has {free / 1024**3:.1f} GiB free; a node needs {NEEDED_BYTES / 1024**3:.0f}")
    base, overlay = directory / "base.img", directory / "disk.qcow2"
    overlay.unlink(missing_ok=True)
    tools.run_tool(["cp", "--reflink=auto", "--sparse=auto", str(image.disk), str(base)], timeout=600)
    base.chmod(0o600)
    _inject(base, directory, _files(state, node), state.offset)
    tools.run_tool(["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(base), "-F", "raw", str(overlay)])
    if state.hardware.secure_boot:
        # qcow2, as a snapshot of a machine has all that the machine can write to.
        tools.run_tool(["qemu-img", "convert", "-q", "-f", "raw", "-O", "qcow2", str(machine.OVMF / "OVMF_VARS_4M.ms.fd"),
                        str(machine.variables(state, node))])  # fmt: skip


def _files(state: LabState, node: Node) -> dict[str, tuple[str, int]]:
    host_key = _host_key(state.paths, node)
    public = keypair(host_key, f"root@{node.name}")
    login = keypair(state.paths.ssh_key, "railwright-lab")
    return {
        "/etc/hostname": (f"{node.name}\n", 0o644),
        "/etc/hosts": (f"127.0.0.1 localhost\n127.0.1.1 {node.name}\n::1 localhost ip6-localhost\n", 0o644),
        # A fixed identity also keeps systemd from treating the boot as a first one, which costs time under emulation.
        "/etc/machine-id": (uuid.uuid4().hex + "\n", 0o444),
        "/etc/ssh/ssh_host_ed25519_key": (host_key.read_text(encoding="ascii"), 0o600),
        "/etc/ssh/ssh_host_ed25519_key.pub": (public + "\n", 0o644),
        "/root/.ssh/authorized_keys": (login + "\n", 0o600),
    }


def script(files: dict[str, tuple[str, int]], sources: dict[str, Path]) -> str:
    """The debugfs commands that put files into place with the right owner and mode."""
    lines = ["mkdir /root/.ssh", "set_inode_field /root/.ssh mode 040700"]
    for target, (_, mode) in files.items():
        lines.append(f"rm {target}")
        lines.append(f'write "{sources[target]}" {target}')
        lines.append(f"set_inode_field {target} mode 0100{mode:03o}")
        lines += [f"set_inode_field {target} uid 0", f"set_inode_field {target} gid 0"]
    return "\n".join(lines) + "\n"


def _inject(base: Path, directory: Path, files: dict[str, tuple[str, int]], offset: int = 0) -> None:
    # How e2fsprogs names a file system inside a larger disk.
    system = f"{base}?offset={offset}" if offset else str(base)
    work = directory / "seed"
    work.mkdir(mode=0o700, exist_ok=True)
    try:
        sources: dict[str, Path] = {}
        for number, (target, (text, _)) in enumerate(files.items()):
            sources[target] = work / str(number)
            sources[target].write_text(text, encoding="utf-8")
        (work / "script").write_text(script(files, sources), encoding="utf-8")
        tools.run_tool(["debugfs", "-w", "-f", str(work / "script"), system])
        target, (text, _mode) = list(files.items())[-1]
        if tools.run_tool(["debugfs", "-R", f"cat {target}", system]).strip() != text.strip():  # debugfs exits 0 whatever happens
            raise LabError(f"debugfs could not write {target} into {system}")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def private_directory(path: Path) -> None:
    """Keys and sockets are for the owner only."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
