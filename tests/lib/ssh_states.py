# SPDX-License-Identifier: GPL-3.0-or-later
"""A site whose nodes are in every state that a scan meets: real sshds on this machine, each node with what is wrong with it.

Needs root and Debian's sudo: users, files and Pythons are changed in mount namespaces (ssh_world.py).
"""

from __future__ import annotations

import json
import shlex
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ssh_world import LISTEN, World, address, free_port

PASSWORD = "correct horse"  # noqa: S105 - of a user that is only in a mount namespace; crypt(3) of it follows
HASH = "$6$railwright$2nEQh9/7EfPwKMumGnIpb59O2FM0WD0J3Mirv4DR6f9aGtDR236yR9pwdOMoS4APJdw4G00KAu4ODEUr7oKTw1"
USER = "rwtest"
PYTHON = "/usr/bin/python3"
LIBRARY = f"/usr/lib/{Path(PYTHON).resolve().name}"  # has the bytecode of sitecustomize: one for all liars would be one's
# What a login shell of the user runs first.
PROFILES = {"slow": "sleep 4", "noisy": "head -c 100000 /dev/zero | tr '\\0' x; echo; echo trouble >&2"}
# The node's own Python says something else than what the module's program wanted it to; whichever way that program came there.
LIAR = """
import json, os, sys
_dumps, _pid = json.dumps, os.getpid()
def dumps(value, *args, **kwargs):
    text = _dumps(value, *args, **kwargs)
    if not isinstance(value, dict) or not {"findings", "plan", "facts"} & set(value):
        return text
    KIND
json.dumps = dumps
"""
LIES = {
    "garbage": 'return "<html><body>captive portal</body></html>"',
    "toomuch": 'return _dumps(dict(value, more="a" * (40 << 20)))',
    "form": 'return _dumps({key: {"a": [1]} if key in ("findings", "plan", "facts") else own for key, own in value.items()})',
    "facts": 'return _dumps(dict(value, ansible_facts={"rdma_consent": ["reboot"], "rdma_mtu": 1}))',
    "gone": "return _dumps(dict(value, unreachable=True))",
    "dies": "sys.stdout.write(text[:len(text) // 2]); sys.stdout.flush(); os.kill(_pid, 9)",
    "old": "return text",
}
OLD = "import sys\nsys.version_info = type(sys.flags) and (3, 4, 0, 'final', 0)\n"
WITHOUT_PYTHON = "rm -f /usr/bin/python* /usr/bin/pypy*"
# On every node: the machine's own root may have a profile that sets a PATH, and its first process may not be systemd.
EVERYWHERE = """sed -i 's,^root:.*,root:x:0:0::{}:/bin/bash,' /etc/passwd
echo systemd >/etc/comm; mount --bind /etc/comm /proc/1/comm
"""
BROKEN = "#!/bin/sh\n[ -t 0 ] || timeout 1 cat >/dev/null\necho 'error while loading shared libraries: libz.so.1' >&2\nexit 127\n"
# By the kind of a finding what makes it go away on a node whose sshd has copies of the places of ``clean``.
CURES = {
    "file": "mkdir -p $(dirname {name}); cat >{name}",
    "package": "printf 'Package: {name}\\nStatus: install ok installed\\nVersion: 99\\nArchitecture: amd64\\n"
               "Maintainer: x\\nDescription: x\\n\\n' >>/var/lib/dpkg/status",
    # Only where the kernel has modules at all: it says so by the file.
    "module": "cat >/dev/null; list=/etc/modules.seen; [ -e $list ] || {{ cat /proc/modules >$list; mount --bind $list /proc/modules; }}; "
              "echo '{name} 16384 0 - Live 0x0' >>$list",
    "sysctl": "cat >/etc/sysctl.{name}; mount --bind /etc/sysctl.{name} $(echo /proc/sys/{name} | tr . /)",
}


class Node(NamedTuple):
    """``setup``: what its own sshd does first, in private copies of directories; without one it shares an sshd with others."""

    variables: Mapping[str, Any]
    setup: str = ""
    places: tuple[str, ...] = ()


def states(room: Path, closed: int) -> dict[str, Node]:
    root = {"ansible_user": "root", "ansible_become": False}
    user = {"ansible_user": USER, "ansible_become": True}
    password = {**user, "ansible_become_password": PASSWORD}
    own = {"ansible_host": None}
    stay = shlex.quote("# somebody's own\nNCCL_DEBUG=TRACE\n")
    return {
        "clean": Node(root, "true", ("/var/lib/dpkg",)),
        "drift-sysctl": Node({**root, "host_tuning_sysctls": {"vm.swappiness": "10", "vm.max_map_count": "1048576"}}),
        "drift-files": Node(root, f"printf %s {stay} >/etc/nccl.conf; rm /etc/os-release; echo 'ID=debian' >/etc/os-release"),
        "drift-rails": Node({**root, "rdma_rails": [{"name": "rail0", "match": {"mac": "02:00:00:00:00:01"}, "address": "198.18.0.1/24"}]}),
        "closed": Node({**root, "ansible_port": closed}),
        "silent": Node({**root, **own}),
        "foreign-key": Node(root),
        "refused": Node({**root, "ansible_user": "rwnobody"}),
        "no-python": Node({**root, "ansible_python_interpreter": "auto_silent"}, WITHOUT_PYTHON, ("/usr/bin",)),
        "no-interpreter": Node({**root, "ansible_python_interpreter": "/usr/bin/python3.99"}),
        "broken-python": Node({**root, "ansible_python_interpreter": f"{room}/broken"}),
        "sudo": Node(password, users(room, "ALL")),
        "sudo-free": Node(user, users(room, "NOPASSWD: ALL")),
        "sudo-missing": Node(user, users(room, "ALL")),
        "sudo-wrong": Node({**password, "ansible_become_password": "wrong"}, users(room, "ALL")),
        "sudo-never": Node(password, users(room, "")),
        **{name: Node({**user, "ansible_become": False}, users(room, "", name)) for name in PROFILES},
        **{f"liar-{name}": Node(root, liar(room, name), (LIBRARY,)) for name in LIES if name != "old"},
        "old-python": Node(root, liar(room, "old"), (LIBRARY,)),
    }


def users(room: Path, may: str, profile: str = "") -> str:
    """A user with a password, who may do that by sudo, and whose shell begins with that."""
    home = room / f"home-{USER}{profile}"
    lines = [f"{USER}:x:4711:4711::{home}:/bin/bash", f"{USER}:{HASH}:19000:0:99999:7:::", f"{USER}:x:4711:"]
    script = [f"echo {shlex.quote(line)} >>/etc/{file}" for line, file in zip(lines, ("passwd", "shadow", "group"), strict=True)]
    if may:
        script.append(f"echo {shlex.quote(f'{USER} ALL=(ALL) {may}')} >/etc/sudoers.d/{USER}; chmod 440 /etc/sudoers.d/{USER}")
    home.mkdir(exist_ok=True)
    home.chmod(0o755)
    (home / ".bashrc").write_text(PROFILES.get(profile, "") + "\n", encoding="ascii")
    return "\n".join(script)


def liar(room: Path, kind: str) -> str:
    code = room / f"{kind}.py"
    code.write_text(OLD if kind == "old" else LIAR.replace("KIND", LIES[kind]), encoding="ascii")
    return f"for file in /etc/python3*/sitecustomize.py; do cat {code} >>$file; done"


@contextmanager
def site(directory: Path) -> Iterator[tuple[World, Path]]:
    """The world and its inventory, while the nodes run. The directory has to be open to all users."""
    (directory / "broken").write_text(BROKEN, encoding="ascii")
    (directory / "broken").chmod(0o755)
    with World(directory) as world, ExitStack() as stack:
        found = states(directory, free_port())
        hosts = {name: address(number) for number, name in enumerate(found, 1)}
        (directory / "home").mkdir()
        first = EVERYWHERE.format(shlex.quote(str(directory / "home")))
        shared = [hosts[name] for name, node in found.items() if not node.setup and name != "silent"]
        for begin in range(0, len(shared), LISTEN):
            world.serve(shared[begin : begin + LISTEN], places=["/etc"], setup=first, known=False)
        for name, node in found.items():
            if node.setup:
                world.serve([hosts[name]], places=["/etc", *node.places], setup=first + node.setup, known=False)
        stack.enter_context(full(hosts["silent"], world.port))
        world.key("other")
        for name, host in hosts.items():
            world.know([host], "other" if name == "foreign-key" else "host")
        world.wait(host for name, host in hosts.items() if name != "silent")
        yield world, inventory(world, {name: {**node.variables, "ansible_host": hosts[name]} for name, node in found.items()})


def cure(world: World, host: str, findings: Iterable[Mapping[str, Any]]) -> None:
    """What drift finds on a node goes away. Its sshd's namespace is changed, and nothing else."""
    for finding in findings:
        kind, _, name = finding["what"].partition(" ")
        world.run(host, CURES[kind].format(name=name), str(finding["expected"]))


@contextmanager
def full(host: str, port: int) -> Iterator[None]:
    """An address where nobody takes connections and none is refused: the kernel drops what exceeds the queue."""
    with socket.socket() as listener, ExitStack() as stack:
        listener.bind((host, port))
        listener.listen(0)
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((host, port))
        yield


def inventory(world: World, hosts: Mapping[str, Mapping[str, Any]]) -> Path:
    options = f"-F none -o UserKnownHostsFile={world.known_hosts} -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes"
    common = {
        "rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_keep_code": False, "ansible_port": world.port,
        "ansible_python_interpreter": PYTHON,
        "ansible_ssh_private_key_file": str(world.directory / "client"), "ansible_ssh_common_args": f"{options} -o IdentitiesOnly=yes",
        "ansible_timeout": 15,
    }
    path = world.directory / "hosts.yml"
    path.write_text(json.dumps({"all": {"vars": common, "children": {"rdma": {"hosts": hosts}}}}, indent=1), encoding="utf-8")
    return path
