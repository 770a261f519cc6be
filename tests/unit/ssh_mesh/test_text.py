# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a mesh: what was there stays, what is ours is found again, and ssh itself reads the configuration."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.ssh_mesh import files as texts
from ansible_collections.railwright.rdma.plugins.module_utils.ssh_mesh.node import Account, expanded

KEY = "ssh-ed25519 " + "B" * 68 + " railwright-mesh generation=1 serial=1"
MEMBERS = [
    texts.Member(("n1", "n1.example.com"), ("192.0.2.11", "198.18.0.11"), 22, ("ssh-ed25519 " + "A" * 68,)),
    texts.Member(("n2",), ("192.0.2.12",), 2222, ("ssh-ed25519 " + "C" * 68,)),
]
BLOCK = texts.block(KEY, MEMBERS, ["n2", "n1"])


@pytest.mark.parametrize("before", ["", "ssh-rsa AAAA me\n", "# a comment\n\nssh-rsa AAAA me\n"])
def test_the_block_comes_and_goes_without_a_trace(before: str) -> None:
    added = texts.with_block(before, BLOCK)
    assert added == before + BLOCK
    assert texts.with_block(added, BLOCK) == added
    assert texts.with_block(added, "") == before


def test_a_last_line_without_its_end_is_not_joined() -> None:
    assert texts.with_block("ssh-rsa AAAA me", BLOCK) == "ssh-rsa AAAA me\n" + BLOCK


def test_what_stands_after_the_block_stays() -> None:
    other = BLOCK.replace("B" * 68, "D" * 68)
    assert texts.with_block("one\n" + BLOCK + "two\n", other) == "one\n" + other + "two\n"
    assert texts.with_block("one\n" + BLOCK + "two\n" + BLOCK + "three\n", other) == "one\n" + other + "two\nthree\n"


def test_a_block_without_its_end_takes_no_foreign_line_along() -> None:
    torn = BLOCK.replace(texts.END + "\n", "") + "ssh-rsa AAAA me\n"
    assert texts.with_block(torn, "") == "ssh-rsa AAAA me\n"


def test_who_had_the_key_is_read_back() -> None:
    assert texts.authorized("x\n" + BLOCK) == texts.Authorized(KEY, ("n1", "n2"))
    assert texts.authorized("x\n") is None
    assert 'restrict,pty,from="192.0.2.11,192.0.2.12,198.18.0.11" ' + KEY in BLOCK.splitlines()


def test_many_nodes_stay_within_what_sshd_reads() -> None:
    many = [texts.Member((f"n{number}",), (f"2001:db8:1234:5678:90ab:cdef:1234:{number:x}",), 22, ()) for number in range(1000, 2000)]
    lines = texts.block(KEY, many, [item.names[0] for item in many]).splitlines()
    assert max(len(line) for line in lines if not line.startswith("#")) < 4096
    assert texts.authorized("\n".join(lines) + "\n") == texts.Authorized(KEY, tuple(sorted(item.names[0] for item in many)))


def test_the_user_of_a_client_file_is_found_again() -> None:
    assert texts.client_user(texts.client("mpi", MEMBERS)) == "mpi"
    assert texts.client_user("# user: mpi\n") is None


def effective(tmp_path: Path, user: str, target: str) -> dict[str, str]:
    path = tmp_path / "config"
    path.write_text(texts.client(user, MEMBERS), encoding="utf-8")
    done = subprocess.run(("ssh", "-G", "-F", str(path), target), capture_output=True, text=True, check=True)
    rows = [line.partition(" ") for line in done.stdout.splitlines()]
    return {name: value for name, _blank, value in rows}


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs the ssh client, which setup installs")
@pytest.mark.parametrize(("target", "address", "alias", "port"), [
    ("n1", "192.0.2.11", "railwright-mesh-n1", "22"),
    ("n1.example.com", "192.0.2.11", "railwright-mesh-n1", "22"),
    ("198.18.0.11", "198.18.0.11", "railwright-mesh-n1", "22"),
    ("n2", "192.0.2.12", "railwright-mesh-n2", "2222"),
])
def test_ssh_itself_reads_it(tmp_path: Path, target: str, address: str, alias: str, port: str) -> None:
    user = subprocess.run(("id", "-un"), capture_output=True, text=True, check=True).stdout.strip()
    found = effective(tmp_path, user, target)
    assert (found["hostname"], found["hostkeyalias"], found["port"]) == (address, alias, port)
    assert found["stricthostkeychecking"] in ("true", "yes")
    assert found["globalknownhostsfile"] == texts.KNOWN_HOSTS
    assert found["identityfile"] == "~/.ssh/railwright_mesh"


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs the ssh client, which setup installs")
@pytest.mark.parametrize(("user", "target"), [("nobody-else", "n1"), (None, "n3"), (None, "xn1")])
def test_other_users_and_other_hosts_do_not_notice(tmp_path: Path, user: str | None, target: str) -> None:
    own = subprocess.run(("id", "-un"), capture_output=True, text=True, check=True).stdout.strip()
    found = effective(tmp_path, user or own, target)
    assert "railwright" not in str(found)
    assert found["hostname"] == target


def test_where_sshd_looks_for_keys() -> None:
    who = Account("mpi", 1000, 1000, "/home/mpi")
    paths = {pattern: expanded(pattern, who) for pattern in (".ssh/authorized_keys", "/etc/ssh/keys/%u", "%h/a%%b", "/k/%U")}
    assert list(paths.values()) == ["/home/mpi/.ssh/authorized_keys", "/etc/ssh/keys/mpi", "/home/mpi/a%b", "/k/1000"]


def test_host_keys_of_files_become_lines() -> None:
    given = ["ssh-ed25519 " + "A" * 68 + " root@n1\n", "ssh-dss " + "A" * 68, "", "garbage"]
    assert texts.good_host_keys(given) == ("ssh-ed25519 " + "A" * 68,)
    assert texts.known_hosts(MEMBERS).splitlines()[1] == "railwright-mesh-n1 ssh-ed25519 " + "A" * 68
