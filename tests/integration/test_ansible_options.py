# SPDX-License-Identifier: GPL-3.0-or-later
"""Usual invocations of ansible-playbook mean the same with railwright: real sshds, a real sudo, typed passwords, vaults.

One playbook tells what it was given. It stands where our own of `facts` stands, so that railwright runs the very same.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pexpect
import pytest
from ansible.parsing.vault import VaultLib, VaultSecret

from ssh_states import EVERYWHERE, PASSWORD, PYTHON, USER, users
from ssh_world import World, address

ROOT = Path(__file__).resolve().parents[2]
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give an sshd a mount namespace of its own")
pytestmark = [NEEDS_ROOT, pytest.mark.slow]
SECONDS = 240
COLLECTION = "ansible_collections/railwright/rdma"
PLAY = """
- hosts: rdma
  gather_facts: false
  tasks:
    - ansible.builtin.raw: 'id -un; echo "${SUDO_USER:-$(id -un)}"'
      become: true
      register: who
    - ansible.builtin.copy:
        content: "{{ {'mtu': rdma_mtu, 'qos': rdma_qos_profile, 'forks': ansible_forks, 'who': who.stdout_lines} | to_json }}"
        dest: "{{ lookup('env', 'TOLD') }}/{{ inventory_hostname }}"
        mode: "0600"
      delegate_to: localhost
      vars: {ansible_connection: local}
"""
# What lint judges: the real verb, with a look at the inventory that it reads.
LINT = """
import json, sys
from railwright import lint
from railwright.cli.main import run
judge = lint.judge_with_specs
def told(inventory):
    for host, values in inventory.hosts.items():
        open(f"{sys.argv[1]}/{host}", "w").write(json.dumps([values.get("rdma_mtu"), values.get("rdma_qos_profile")]))
    return judge(inventory)
lint.judge_with_specs = told
sys.exit(run(["lint", *sys.argv[2:]]))
"""
KEY = "-i base --private-key client"
# The words after the program, and what is typed at each question.
USUAL: dict[str, tuple[str, tuple[str, ...]]] = {
    "two inventories": (f"-i base -i over {KEY.removeprefix('-i base ')}", ()),
    "a variable": (f"{KEY} -e rdma_mtu=8000", ()),
    "a file and a variable": (f"{KEY} -e @vars.yml --extra-vars rdma_mtu=4200", ()),
    "JSON with a template": (f"""{KEY} -e '{{"rdma_mtu": 4100, "chosen": "none", "rdma_qos_profile": "{{{{ chosen }}}}"}}'""", ()),
    "a vaulted file": (f"{KEY} -e @secret.yml --vault-id dev@pw.dev", ()),
    "a vaulted inventory": (f"{KEY} -i vaulted --vault-password-file pw.prod", ()),
    "a vault's password is typed": (f"{KEY} -i vaulted --ask-vault-pass", ("prod word",)),
    "two vaults": (f"{KEY} -i vaulted -e @secret.yml --vault-id dev@prompt --vault-id prod@pw.prod", ("dev word",)),
    "a vault's client": (f"{KEY} -e @secret.yml --vault-id dev@pw-client.sh", ()),
    "sudo's password is typed": (f"{KEY} -u {USER} -K", (PASSWORD,)),
    "both passwords are typed": (f"-i base --user {USER} --ask-pass --ask-become-pass", (PASSWORD, "")),
    "letters in one word": (f"-i base -bkKf 7 -u {USER}", (PASSWORD, PASSWORD)),
    "sudo's password in a file": (f"{KEY} -u {USER} -b --become-pass-file pw.sudo", ()),
    "a variable beats -u": (f"{KEY} -u rwnobody -e ansible_user=root", ()),
    "the inventory beats -u and -K": (f"{KEY} -i person -u rwnobody -K", ("no word of his",)),
    "forks and a limit": (f"{KEY} -f 1 -l n1 -vv", ()),
}


class Said(NamedTuple):
    """``told``: of each node, what it was given or judged by. ``logins``: how somebody came in."""

    code: int
    output: str
    told: dict[str, Any]
    logins: set[tuple[str, str]]


class Site:
    def __init__(self, directory: Path, world: World, log: Path) -> None:
        self.directory, self._world, self._log = directory, world, log
        self.leaks: set[str] = set()
        target = directory / "lib" / COLLECTION
        shutil.copytree(ROOT / "playbooks", target / "playbooks")
        for name in ("plugins", "roles", "meta"):
            (target / name).symlink_to(ROOT / name)
        (target / "playbooks" / "facts.yml").write_text(PLAY)

    def say(self, argv: Sequence[str], answers: Sequence[str] = ()) -> Said:
        """Run a program on a terminal of its own, type the answers to its questions, and look what came of it."""
        self.leaks.clear()
        told = Path(tempfile.mkdtemp(dir=self.directory))
        (told / "tmp").mkdir()
        before = self._log.stat().st_size
        library = f"{self.directory / 'lib'}:{ROOT / 'src'}"
        environment = {**os.environ, "PYTHONPATH": library, "ANSIBLE_COLLECTIONS_PATH": str(self.directory / "lib"), "TOLD": str(told),
                       "TMPDIR": str(told / "tmp"), "XDG_STATE_HOME": str(told / "state"), "ANSIBLE_SSH_ARGS": "-o ControlMaster=no",
                       "ANSIBLE_NOCOLOR": "1"}  # fmt: skip
        argv = [word.replace("TOLD", str(told)) for word in argv]
        child = pexpect.spawn(argv[0], argv[1:], cwd=self.directory, env=environment, encoding="utf-8", timeout=SECONDS, echo=False)
        output = ""
        for answer in answers:
            child.expect(r"password[^\r\n]*: $")
            output += child.before
            child.sendline(answer)
        deadline = time.monotonic() + SECONDS
        while child.expect([pexpect.EOF, pexpect.TIMEOUT], timeout=0.05) and time.monotonic() < deadline:
            self.leaks |= leaks([answer for answer in answers if answer], told)
        output += child.before
        child.close()
        self.leaks |= leaks([answer for answer in answers if answer], told)
        found = {path.name: json.loads(path.read_text()) for path in sorted(told.iterdir()) if path.is_file()}
        with self._log.open(encoding="utf-8", errors="replace") as log:
            log.seek(before)
            logins = set(re.findall(r"Accepted (\w+) for (\w+)", log.read()))
        shutil.rmtree(told)
        return Said(int(child.exitstatus or 0), output, found, logins)

    def railwright(self, *argv: str, answers: Sequence[str] = ()) -> Said:
        found = self.say([sys.executable, "-m", "railwright", *argv], answers)
        assert not self.leaks
        return found


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """pytest's own directories are closed to the node's user."""
    directory = Path(tempfile.mkdtemp(prefix="railwright-test-", dir="/opt"))
    directory.chmod(0o755)
    try:
        with World(directory) as world:
            (directory / "home").mkdir()
            setup = EVERYWHERE.format(shlex.quote(str(directory / "home"))) + users(directory, "ALL")
            nodes = {"n1": address(1), "n2": address(2)}
            world.serve([*nodes.values()], "LogLevel VERBOSE", "PasswordAuthentication yes", places=["/etc"], setup=setup)
            world.wait(nodes.values())
            write(directory, world, nodes)
            yield Site(directory, world, directory / f"sshd_{address(1)}.log")
    finally:
        shutil.rmtree(directory)


def leaks(secrets: Sequence[str], directory: Path) -> set[str]:
    """Where one of them stands now: command lines and environments of all processes, and files of a run. Who is killed leaves no more."""
    found = set()
    files = [Path(place, name) for place, _directories, names in os.walk(directory) for name in names]  # rglob falls over what goes
    for path in [*Path("/proc").glob("[0-9]*/cmdline"), *Path("/proc").glob("[0-9]*/environ"), *files]:
        try:
            text = path.read_bytes() if path.is_file() else b""
        except OSError:  # it has ended
            continue
        found |= {f"{path}: {text[:2000]!r}"} if any(secret.encode() in text for secret in secrets) else set()
    return found


def write(directory: Path, world: World, nodes: dict[str, str]) -> None:
    known = f"-F none -o UserKnownHostsFile={world.known_hosts} -o GlobalKnownHostsFile=/dev/null -o StrictHostKeyChecking=yes"
    common = {"rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_qos_profile": "none", "rdma_keep_code": False, "ansible_port": world.port,
              "ansible_python_interpreter": PYTHON, "ansible_ssh_common_args": f"{known} -o IdentitiesOnly=yes",
              "ansible_timeout": 20}  # fmt: skip
    hosts: dict[str, dict[str, Any]] = {name: {"ansible_host": place} for name, place in nodes.items()}
    hosts["n2"]["rdma_mtu"] = 9000  # a host's own, which -e beats too
    over = {name: {"rdma_mtu": 4400} for name in nodes}
    person = {"ansible_user": USER, "ansible_become_password": PASSWORD}
    for name, said, own in (("base", common, hosts), ("over", {}, over), ("vaulted", {}, {}), ("person", person, {})):
        (directory / name).mkdir()
        whole = {"all": {"vars": said, "children": {"rdma": {"hosts": own}}}}
        (directory / name / "hosts.json").write_text(json.dumps(whole))
    (directory / "vaulted" / "group_vars").mkdir()
    (directory / "vaulted" / "group_vars" / "all.yml").write_text(vaulted("prod", "rdma_qos_profile: dscp26-prio3\n"))
    (directory / "vars.yml").write_text("rdma_mtu: 4000\nrdma_qos_profile: oci-dscp10\n")
    (directory / "secret.yml").write_text(vaulted("dev", "rdma_mtu: 4300\n"))
    for name, word in {"pw.dev": "dev word", "pw.prod": "prod word", "pw.sudo": PASSWORD}.items():
        (directory / name).write_text(f"{word}\n")
    (directory / "pw-client.sh").write_text('#!/bin/sh\n[ "$1 $2" = "--vault-id dev" ] && cat pw.dev\n')
    (directory / "pw-client.sh").chmod(0o755)


def vaulted(label: str, text: str) -> str:
    secret = VaultSecret(f"{label} word".encode())
    return VaultLib([(label, secret)]).encrypt(text, secret, vault_id=label).decode()


@pytest.mark.parametrize("name", USUAL)
def test_a_usual_invocation_means_the_same(site: Site, name: str) -> None:
    words, answers = USUAL[name]
    argv = shlex.split(words)
    expected = site.say([str(Path(sys.executable).parent / "ansible-playbook"), *argv, "railwright.rdma.facts"], answers)
    assert expected.code == 0, expected.output
    nodes = ["n1"] if "-l" in argv else ["n1", "n2"]
    assert list(expected.told) == nodes

    own = site.railwright("facts", "--transport", "ansible", *argv, answers=answers)
    if not {"-f", "-bkKf"} & {*argv}:
        for told in (*own.told.values(), *expected.told.values()):
            told.pop("forks")  # ours go by the number of cores where nobody says one
    assert own.told == expected.told, own.output
    assert own.logins == expected.logins

    scanned = site.railwright("facts", "--format=json", *argv, answers=answers)
    assert scanned.code == 0, scanned.output
    assert f"nodes asked: {len(nodes)} by ssh" in scanned.output
    assert scanned.logins == expected.logins

    judged = site.say([sys.executable, "-c", LINT, "TOLD", *argv], answers)
    assert judged.code == 0, judged.output
    assert {node: [str(value) for value in values] for node, values in judged.told.items()} == {
        node: [str(told["mtu"]), told["qos"]] for node, told in expected.told.items()}


def test_a_leak_would_be_found(site: Site) -> None:
    child = pexpect.spawn("/bin/sh", ["-c", "read x; : open sesame"])
    assert [leak.partition(":")[0] for leak in leaks(["open sesame"], site.directory)] == [f"/proc/{child.pid}/cmdline"]
    child.sendline("")
    child.expect(pexpect.EOF)
