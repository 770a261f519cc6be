# SPDX-License-Identifier: GPL-3.0-or-later
"""``apply FILE`` and the inventory that FILE names: who could have written both, what is in it, and what it would run on this controller.

Real files, real inventories, a real terminal; the nodes do not answer, so nothing is changed.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from railwright import __version__, saved_plan
from railwright.events import RunOutcome
from railwright.exitcodes import InputError
from railwright.inventories import Inventories
from railwright.inventory_content import content_of
from railwright.inventory_programs import programs
from verb_said import Said, said_by

NOBODY = 65534
HOSTS = {"n1": {"ansible_host": "127.0.0.1", "ansible_port": 1, "rdma_rails": []}}  # nothing listens there
SITE = Inventories((Path("site"),))
Call = Callable[..., Said]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home directory of the operator, with a site in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("ANSIBLE_CONFIG", raising=False)
    tmp_path.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site").mkdir(mode=0o755)
    site()
    return tmp_path


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Call:
    def command(*words: str) -> Said:
        return said_by(capfd, *words)

    return command


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> int:
    """A user who is neither we nor root. Only root can give a file away; for everybody else it is we who are somebody else."""
    if os.geteuid() == 0:
        return NOBODY
    real = os.getuid()
    monkeypatch.setattr("railwright.ownership.os.geteuid", lambda: real + 1)
    return real


def give_away(path: Path, uid: int) -> None:
    if os.geteuid() != uid and os.getuid() == 0:
        os.chown(path, uid, -1, follow_symlinks=False)


def site(**values: object) -> None:
    document = {"all": {"vars": {"rdma_fabric": "roce", "rdma_mtu": 9000, **values}, "children": {"rdma": {"hosts": HOSTS}}}}
    Path("site/hosts.yml").write_text(json.dumps(document))


def executable(path: Path) -> Path:
    """A dynamic inventory that leaves a mark when it runs."""
    path.write_text(f"#!/bin/sh\ntouch {path.parent}/ran\necho '{json.dumps({'rdma': {'hosts': list(HOSTS)}})}'\n")
    path.chmod(0o755)
    return path.parent / "ran"


def forged(path: Path, inventory: str) -> Path:
    """A plan as anybody can write it, with a digest that fits."""
    node = {"status": "ok", "message": "", "planned": True, "changes": [], "problems": [], "notes": [], "wire": {}, "wish": ""}
    document = {"kind": saved_plan.KIND, "schema": saved_plan.SCHEMA, "railwright": __version__, "inventory": [inventory], "areas": [],
                "batches": [None] * 4, "created": "2026-01-01T00:00:00+00:00", "nodes": {"n1": node}, "files": ""}  # fmt: skip
    path.write_text(json.dumps(document | {"sha256": saved_plan.digest(document)}))
    return path


def saved(call: Call) -> Path:
    ran = call("plan", "-i", "site", "-o", "friday.plan")
    assert (ran.code, Path("friday.plan").is_file()) == (3, True), ran.err
    return Path("friday.plan")


def test_a_plan_of_another_user_runs_nothing_on_the_controller(home: Path, call: Call, stranger: int) -> None:
    mark = executable(home / "evil.sh")
    file = forged(home / "friday.plan", str(home / "evil.sh"))
    file.chmod(0o666)
    give_away(file, stranger)
    ran = call("apply", "friday.plan", "--yes")
    assert (ran.code, mark.exists()) == (64, False), ran
    assert "friday.plan" in ran.err
    assert "-i INVENTORY" in ran.err


@pytest.mark.parametrize("where", ["file", "directory", "home", "tmp"])
def test_who_else_can_write_the_plan_is_found_on_its_real_path(home: Path, call: Call, where: str) -> None:
    saved(call)
    place = home / "plans"
    place.mkdir(mode=0o700)
    file = place / "friday.plan"
    (home / "friday.plan").rename(file)
    Path("link.plan").symlink_to(file)
    path, mode = {"file": (file, 0o620), "directory": (place, 0o770), "home": (home, 0o775), "tmp": (place, 0o1777)}[where]
    path.chmod(mode)
    for name in (str(file), "link.plan"):
        ran = call("apply", name, "--yes")
        assert (ran.code, f"{path} is writable by others" in ran.err, f"mode {mode:04o}" in ran.err) == (64, True, True), ran.err
        assert (f"chmod go-w {path}" in ran.err) is (where != "tmp"), ran.err
    assert call("apply", str(file), "-i", "site", "--yes").code == 3
    path.chmod(mode & 0o700)
    assert call("apply", "link.plan", "--yes").code == 3


def test_a_link_of_another_user_is_not_followed(home: Path, call: Call, stranger: int) -> None:
    saved(call)
    Path("link.plan").symlink_to("friday.plan")
    give_away(Path("link.plan"), stranger)
    ran = call("apply", "link.plan", "--yes")
    assert (ran.code, "link.plan is a link of" in ran.err) == (64, True) if os.getuid() == 0 else (64, False), ran.err


def test_files_that_differ_are_found_before_anything_is_loaded(home: Path, call: Call) -> None:
    saved(call)
    mark = executable(home / "site/more.sh")
    ran = call("apply", "friday.plan", "--yes")
    assert (ran.code, mark.exists()) == (64, False), ran
    assert "is not as it was when friday.plan was made" in ran.err
    (home / "site/more.sh").unlink()
    assert call("apply", "friday.plan", "--yes").code == 3
    for name in ("site/group_vars/all.yml", "site/host_vars/n1.yml", "site/filter_plugins/x.py", "ansible.cfg"):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("[defaults]\n" if name == "ansible.cfg" else "# nothing\n")
        assert "is not as it was" in call("apply", "friday.plan", "--yes").err, name
        path.unlink()
        if path.parent != home:
            path.parent.rmdir()
    assert call("apply", "friday.plan", "--yes").code == 3
    (home / "site/hosts.yml").chmod(0o666)
    assert f"{home}/site/hosts.yml is writable by others" in call("apply", "friday.plan", "--yes").err


def test_plugins_that_ansible_cfg_names_belong_to_it(home: Path, call: Call) -> None:
    (home / "own").mkdir()
    (home / "own/keep.py").write_text("class FilterModule:\n    def filters(self):\n        return {'keep': str}\n")
    (home / "ansible.cfg").write_text("[defaults]\nfilter_plugins = ./own\n")
    saved(call)
    ran = call("apply", "friday.plan", "--yes")
    assert (ran.code, f"{home}/own/keep.py: a plugin that ansible.cfg names" in ran.err) == (64, True), ran.err
    (home / "own/keep.py").write_text("# another\n")
    assert "is not as it was" in call("apply", "friday.plan", "--yes").err


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"rdma_mtu": "{{ lookup('pipe', 'touch ran; echo 9000') }}"}, "line 1: a lookup"),
        ({"other": {"deep": ["{% set l = query %}{{ l('pipe', 'touch ran') }}"]}}, "line 1: a lookup"),
        ({"ansible_ssh_common_args": "-o ProxyCommand='touch ran'"}, "line 1: ansible_ssh_common_args"),
        ({"ansible_connection": "local"}, "line 1: ansible_connection"),
    ],
)
def test_what_the_inventory_runs_here_is_named_and_asked_for(home: Path, call: Call, values: dict[str, object], named: str) -> None:
    site(**values)
    files = content_of(SITE).sealed()
    write(files)
    (home / "ran").unlink(missing_ok=True)
    ran = call("apply", "friday.plan", "--yes")
    assert (ran.code, (home / "ran").exists()) == (64, False), ran
    assert f"site/hosts.yml: {named}" in ran.err
    assert "railwright apply friday.plan -i INVENTORY" in ran.err
    assert on_terminal("n", "apply", "friday.plan") == (1, "not agreed to; nothing was changed")
    assert not (home / "ran").exists()


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("hosts", "[rdma]\nn1\n[rdma:vars]\nx='{{ loo' 'kup(\"pipe\", \"id\") }}'\n", ["line 4: a lookup"]),
        ("hosts", "[rdma:vars]\nx='\\x7b{ \\154ookup(1) }}'\ny={#\nz={{ q(1) }}\nu=#}\n", ["line 2: a lookup", "line 4: a lookup"]),
        ("hosts", "[rdma]\nn1 x=\"{{ loo\"\"kup('pipe', 'id') }}\" ansi\"ble_connection\"=local\n",
         ["line 2: a lookup", "line 2: ansible_connection"]),
        ("hosts", "rdma:\n  vars:\n    x: \"{{ l\\x6fokup('pipe', 'id') }}\"\n", ["line 3: a lookup"]),
        ("hosts.yml", 'rdma:\n  vars:\n    x: "{{ loo\\\n     kup(1) }}"\n', ["line 3: a lookup"]),
        ("hosts.yml", "x: |\n  [rdma:vars]\n  a={#\n  b={{ query(1) }}\n  c=#}\n", ["line 4: a lookup"]),
        ("hosts.json", '{"rdma": {"vars": {"x": "\\u007b{ lookup(1) }}"}}}', ["line 1: a lookup"]),
        ("hosts.yml", "rdma:\n  vars:\n    x: \"#jinja2: variable_start_string:'[['\\n[[ lookup(1) ]]\"\n", ["line 3: a lookup"]),
        ("hosts.yml", "rdma:\n  vars: &x\n    y: ['{{ x is defined and (x | map(lookup)) }}', {'{{ q }}': 1}]\n",
         ["line 3: a lookup"]),
        ("aws.yml", "<<: {plugin: amazon.aws.aws_ec2}\n", ["an inventory plugin"]),
        ("hosts.yml", "x: " + "[" * 200, ["values nested too deeply to be read"]),
        ("hosts.yml", "rdma:\n  vars:\n    ansible_ssh_executable: x\n    ansible_connection: ssh\n", ["line 3: ansible_ssh_executable"]),
        ("hosts.yml", "rdma:\n  vars:\n    a: '{{ x | default(1) }} of a lookup'\n    b: !vault |\n      $ANSIBLE_VAULT\n      61\n", []),
        ("hosts", '[rdma]\n."."/../tmp/x\n[../x:vars]\ny=z\n', ["line 2: a path that leads out of the inventory",
                                                                   "line 3: a path that leads out of the inventory"]),
        ("hosts.yml", 'rdma:\n  hosts:\n    "..\\x2f..\\x2ftmp/x": {a: ../b}\n', ["line 3: a path that leads out of the inventory"]),
        ("host_vars/.x.yml", "rdma_mtu: '{{ q(1) }}'\n", ["line 1: a lookup"]),
        ("hosts.toml", '[all.vars]\n"ansible_ssh_common\\u005fargs" = "-o X"\na = {"b" = "{\\u007b q(1) }}"}\n',
         ["line 1: a lookup", "line 1: ansible_ssh_common_args"]),
        ("hosts.yml", "rdma:\n  vars:\n    ansible_ssh_pkcs11_provider: /x.so\n", ["line 3: ansible_ssh_pkcs11_provider"]),
        ("__pycache__/hosts.yml", "rdma:\n  vars:\n    x: '{{ q(1) }}'\n", ["line 3: a lookup"]),
        ("hosts", "[rdma]\nn[1:4] ansible_host=10.0.0.1 x='{{ y }}' # lookup\n", []),
    ],
)  # fmt: skip
def test_a_program_is_found_in_every_form_that_ansible_reads(home: Path, name: str, text: str, named: list[str]) -> None:
    (home / "site/hosts.yml").unlink()
    path = Path("site") / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    found = {line.removeprefix(f"{path}: ") for line in programs(content_of(SITE))}
    assert found == set(named)


def test_templates_of_plain_variables_run_nothing(home: Path, call: Call) -> None:
    site(rdma_mtu="{{ own_mtu | default(9000) }}", own_mtu=4200, text="how to query a node: lookup")
    saved(call)
    assert call("apply", "friday.plan", "--yes").code == 3


def test_a_plan_for_another_checkout(home: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of CI: the same files in another place are the same; other ones are named with -i, and then the nodes' values count."""
    saved(call)
    other = home / "other"
    (home / "site").rename(home / "moved")
    other.mkdir(mode=0o700)
    (home / "moved").rename(other / "site")
    monkeypatch.chdir(other)
    assert call("apply", "../friday.plan", "--yes").code == 3
    (other / "site/README.md").write_text("another file\n")
    assert call("apply", "../friday.plan", "--yes").code == 64
    assert call("apply", "../friday.plan", "-i", "site", "--yes").code == 3
    site(rdma_mtu=4200)
    assert "says something else of n1" in call("apply", "../friday.plan", "-i", "site", "--yes").err


def test_the_digest_is_of_names_rights_and_contents(home: Path) -> None:
    def now() -> bytes:
        return bytes(content_of(SITE).hash.digest())

    seen = [now()]
    (home / "site/hosts.yml").chmod(0o755)
    seen.append(now())
    (home / "site/hosts.yml").rename(home / "site/other.yml")
    seen.append(now())
    (home / "site/deep").mkdir()
    (home / "site/other.yml").rename(home / "site/deep/other.yml")
    seen.append(now())
    (home / "site/deep/other.yml").write_text("")
    seen.append(now())
    assert len(set(seen)) == len(seen)
    (home / "site/.git").mkdir()
    (home / "site/.git/index").write_text("of no inventory")
    assert now() == seen[-1]
    (home / "site/loop").symlink_to(home / "site")
    with pytest.raises(InputError, match="above it"):
        now()


def write(files: str) -> None:
    saved_plan.write_plan(Path("friday.plan"), SITE, [], "", RunOutcome({}), {}, [None] * 4,
                          files)  # fmt: skip


def on_terminal(answer: str, *words: str) -> tuple[int, str]:
    """A process of its own with a terminal of its own: its exit code, and its last line."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-m", "railwright", *words], stdin=theirs, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        process.communicate(timeout=120)
        last = [line for line in os.read(ours, 1 << 16).decode().split("\n") if line.strip()][-1]
    os.close(ours)
    return process.returncode, last.rpartition("error: ")[2].strip()
