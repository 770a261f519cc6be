# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible's own options: which verbs have them, what is asked and refused. That they mean the same: tests/integration."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest
from ansible.parsing.vault import VaultLib, VaultSecret

from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import BY_NAME
from node_trees import NODES
from railwright.ansible_env import ansible_environment
from railwright.cli import console, one_line
from railwright.cli.ansible_options import ours
from railwright.cli.main import command, run
from railwright.cli.options import Format
from railwright.cli.session import Session
from railwright.exitcodes import InputError
from railwright.given import OURS, Given, given, in_memory
from railwright.inventory import connection_variables, load_inventory
from railwright.run import answers
from repo import ROOT

ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / '.dev'}:{ROOT / 'src'}", "NO_COLOR": "1"}
PROGRAM = [sys.executable, "-m", "railwright"]


@pytest.fixture(autouse=True)
def nothing_given() -> Any:
    yield
    vars(given).update(vars(Given()))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    hosts = {"gpu1": {"ansible_host": "192.0.2.1"}, "gpu2": {"ansible_host": "192.0.2.2", "rdma_mtu": 9000}}
    site = {"all": {"vars": {"rdma_fabric": "roce", "rdma_mtu": 9000}, "children": {"rdma": {"hosts": hosts}}}}
    (tmp_path / "hosts.json").write_text(json.dumps(site))
    return tmp_path / "hosts.json"


def leaves() -> dict[str, Any]:
    found = {}
    for name, verb in command().commands.items():
        found |= {f"{name} {inner}": child for inner, child in getattr(verb, "commands", {"": verb}).items()}
    return found


def test_every_verb_that_has_an_inventory_or_hosts_has_them() -> None:
    for name, verb in leaves().items():
        names = [option.name for option in verb.params]
        contacts = bool({"inventory", "hosts", "sudo"} & {*names})
        assert ("ask_become_pass" in names) == ("extra_vars" in names) == contacts, name
        assert ("one_line" in names) == (name.strip() in ("plan", "drift", "validate", "check", "agent status", "agent drain")), name
        assert "no_color" in names, name
        spelt = [word for option in verb.params for word in (*option.opts, *option.secondary_opts)]
        assert len(spelt) == len(set(spelt)), name


@pytest.mark.parametrize(("given_words", "meant"), [
    ("-f json", "-f json"), ("-fjson", "-fjson"), ("--format json -f 20", "--format json --forks 20"),
    ("-f20 -f json", "--forks=20 -f json"), ("-bkKf 7", "-bkK --forks 7"),
    ("-vf7", "-v --forks=7"), ("-f", "-f"), ("-l f5", "-l f5"), ("-lf 5", "-lf 5"),
    ("-f 3 -- torchrun -f 4", "--forks 3 -- torchrun -f 4"), ("--subset a --key-file=k", "--limit a --private-key=k"), ("-f ٣", "-f ٣"),
])  # fmt: skip
def test_f_with_a_number_is_ansibles(given_words: str, meant: str) -> None:
    assert " ".join(ours(given_words.split())) == meant


@pytest.mark.parametrize(("words", "allowed"), [
    ("-K", "--become-password-file FILE"), ("-bk", "--connection-password-file FILE"), ("-J", "--vault-password-file FILE"),
    ("--vault-id dev@prompt", "--vault-id LABEL@FILE"), ("--vault-id prompt", "--vault-id LABEL@FILE"),
])  # fmt: skip
def test_without_a_terminal_nothing_is_asked(site: Path, words: str, allowed: str) -> None:
    """Not even where standard input would give an answer."""
    done = subprocess.run([*PROGRAM, "plan", "-i", str(site), *words.split()], env=ENVIRONMENT, input="secret\n", text=True,
                          capture_output=True, start_new_session=True, timeout=60, check=False)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (64, "", 1)
    assert re.fullmatch(rf"railwright: error: .*: there is no terminal to ask on; allowed: .*{allowed}.*\n", done.stderr)


def test_each_password_is_asked_for_once_and_not_shown(site: Path) -> None:
    argv = [*PROGRAM[1:], "lint", "-i", str(site), "-kK", "--vault-id", "dev@prompt", "-J"]
    child = pexpect.spawn(PROGRAM[0], argv, env=ENVIRONMENT, encoding="utf-8", timeout=60)
    for prompt in ("SSH password: ", "BECOME password[defaults to SSH password]: ", "Vault password (dev): ", "Vault password: "):
        child.expect_exact(prompt)
        assert child.before.strip() == ""
        child.sendline("open sesame")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "sesame" not in child.before


def test_an_empty_vault_password_is_refused(site: Path) -> None:
    child = pexpect.spawn(PROGRAM[0], [*PROGRAM[1:], "lint", "-i", str(site), "-J"], env=ENVIRONMENT, encoding="utf-8", timeout=60)
    child.expect_exact("Vault password: ")
    child.sendline("")
    child.expect_exact("railwright: error: Vault password: an empty one opens nothing")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 64


@pytest.mark.parametrize(("words", "said"), [
    (("-e", "mtu"), "-e: are no variables; allowed: KEY=VALUE"), (("-e", "[1, 2]"), "-e: are no variables; allowed: KEY=VALUE"),
    (("-e", "{a: ["), "-e: are no variables"), (("-e", "@missing.yml"), "-e @missing.yml: is no file that can be read"),
    (("-e", "rdma_run_id=x"), "-e rdma_run_id: a run says that itself"),
    (("--private-key", "missing"), "--private-key missing: is no file"), (("--vault-id", "dev@missing"), "--vault-id missing: is no file"),
    (("--become-password-file", "."), "--become-password-file .: is no file"), (("-f", "0"), "--forks"),
])  # fmt: skip
def test_what_is_refused(site: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lint", "-i", str(site), *words]) == 64
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_what_cannot_be_read_twice_is_no_file_of_variables(site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert run(["lint", "-i", str(site), "-e", f"@{tmp_path}/pipe"]) == 64
    assert "can be read but once; allowed: a file" in capsys.readouterr().err


@pytest.mark.core
def test_a_bad_value_names_the_option_as_its_place(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a host that says otherwise, too; a misspelt one as well."""
    assert run(["lint", "-i", str(site), "-e", "rdma_mtu=900", "-e", "rdma_mut=1"]) == 64
    out = capsys.readouterr().out.splitlines()
    assert "-e rdma_mtu: rdma_mtu: 900: is out of range; allowed: an integer from 1280 to 65520" in out
    assert any(line.startswith("-e rdma_mut: rdma_mut: ") for line in out)
    assert run(["lint", "-i", str(site), "-e", "rdma_mtu='{{ nothing }}'"]) == 64
    assert capsys.readouterr().err.startswith("railwright: error: -e rdma_mtu: on gpu1: ")


def test_names_that_a_run_says_itself_are_known() -> None:
    """Every other variable that the command line hands to its playbooks is a key of the inventory."""
    said = set()
    for path in [*ROOT.glob("src/railwright/**/*.py"), ROOT / "plugins/plugin_utils/scanned.py"]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                said |= {node.value} if re.fullmatch(r"(__railwright|rdma|burn_in)_[a-z_]*[a-z]", node.value) else set()
    modules = {path.stem for path in ROOT.glob("plugins/modules/*.py")}
    playbooks = {path.stem for path in ROOT.glob("playbooks/*.yml")}
    unknown = {name for name in said - BY_NAME.keys() - modules - playbooks if not OURS.fullmatch(name)}
    assert unknown <= {"rdma_write", "rdma_read", "rdma_cm", "rdma_switches"}, unknown  # the last one is a group
    assert not [name for name in BY_NAME if OURS.fullmatch(name)]


def test_an_option_of_the_verb_lies_over_e_and_says_so(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given.extra_vars = ("rdma_consent=link", "rdma_mtu=4200")
    session = Session("apply", [site], None, Format.TEXT)
    judged = session.judge({"rdma_consent": ["restart"]}, {"rdma_consent": "--consent"})
    assert capsys.readouterr().err.count("railwright: note: -e rdma_consent does not count: apply sets rdma_consent itself\n") == 1
    assert [(spec.consent, spec["mtu"]) for spec in judged.specs.values()] == [(("restart",), 4200)] * 2
    session.judge({"rdma_consent": ["restart"]}, {"rdma_consent": "--consent"})
    assert "does not count" not in capsys.readouterr().err


def test_without_an_inventory_only_the_way_can_be_meant() -> None:
    given.extra_vars = ("ansible_user=ops ansible_port=2222",)
    assert connection_variables() == {"ansible_user": "ops", "ansible_port": "2222"}
    given.extra_vars = ("rdma_mtu=9000",)
    with pytest.raises(InputError, match=r"^-e rdma_mtu: there is no inventory that it could change; allowed: ansible_\*"):
        connection_variables()


@pytest.mark.core
def test_a_process_reads_vaulted_inventories_more_than_once(site: Path, tmp_path: Path) -> None:
    """And vaults of several labels, whose passwords are in memory."""
    for label in ("one", "two"):
        secret = VaultSecret(f"{label} word".encode())
        text = VaultLib([(label, secret)]).encrypt(f"rdma_{'mtu' if label == 'one' else 'qos_profile'}: none", secret, vault_id=label)
        (tmp_path / f"{label}.yml").write_bytes(text)
    given.vault_ids = tuple(f"{label}@{in_memory(f'{label} word'.encode())}" for label in ("one", "two"))
    given.extra_vars = tuple(f"@{tmp_path}/{label}.yml" for label in ("one", "two"))
    for _ in range(2):
        values = load_inventory(site).hosts["gpu2"]
        assert (values["rdma_mtu"], values["rdma_qos_profile"]) == ("none", "none")


def test_ansible_playbook_is_answered_only_what_it_asks(tmp_path: Path) -> None:
    assert answers() == {}
    given.password, given.become_password = "one", "two"
    asked = {"SSH password: ": "one", "BECOME password: ": "two", "BECOME password[defaults to SSH password]: ": "two"}
    for prompt, answer in asked.items():
        assert [text for pattern, text in answers().items() if pattern.search(f"\r\n{prompt}")] == [answer]
    assert not any(pattern.search('ok: [n] => {"msg": "SSH password: "}') for pattern in answers())
    added = ansible_environment({}, tmp_path)
    assert (added["ANSIBLE_ASK_PASS"], added["ANSIBLE_BECOME_ASK_PASS"], added["ANSIBLE_ASK_VAULT_PASS"]) == ("True", "True", "False")
    assert "one" not in added.values()


def test_a_secret_in_memory_is_not_executable_and_gone_with_the_process(tmp_path: Path) -> None:
    code = "import sys, railwright.given as g; print(g.in_memory(b'open sesame'), flush=True); sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", code], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    path = Path(child.stdout.readline().strip())
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("open sesame", 0o400)
    child.kill()
    child.communicate()
    assert not path.exists()


def test_another_railwright_is_told_all_of_it() -> None:
    given.extra_vars, given.vault_files, given.become_password = ("a=1",), ("/v",), "word"
    *words, option, path = given.for_ourselves()
    assert words == ["-e", "a=1", "--vault-password-file", "/v"]
    assert (option, Path(path).read_text()) == ("--become-password-file", "word")


@pytest.mark.parametrize(("more", "environment"), [(["--no-color"], {}), ([], {"NO_COLOR": "1"})])
def test_no_colours(more: list[str], environment: dict[str, str]) -> None:
    plain = {name: value for name, value in ENVIRONMENT.items() if name != "NO_COLOR"} | {"FORCE_COLOR": "1"}
    argv = [*PROGRAM, "check", "--sysroot", str(NODES / "doca8")]
    colour = r"\x1b\[(?:[0-9]+;)*[349][0-7]m"
    before, after = (
        subprocess.run([*argv, *words], env=plain | own, capture_output=True, text=True, timeout=60, check=False).stdout
        for words, own in (([], {}), (more, environment)))
    assert re.search(colour, before)
    assert not re.search(colour, after)


def test_a_line_for_each_node_or_finding(capsys: pytest.CaptureFixture[str]) -> None:
    change = {"area": "network", "what": "MTU of rail0", "before": 1500, "after": "a\nb", "disruption": "link"}
    finding = {"severity": "major", "area": "nccl", "what": "file /etc/nccl.conf", "expected": "x", "found": None, "why": "somebody"}
    nodes = {"n1": {"status": "ok", "changes": [change], "findings": [finding]}, "n2": {"status": "ok"},
             "n3": {"status": "failed", "message": "no\nPython", "task": "probe"}}  # fmt: skip
    verdicts = [{"node": "", "check": "mtu.same", "status": "fail", "message": "differs"},
                {"node": "n2", "check": "port.state", "hca": "mlx5_0", "port": 1, "status": "warn", "expected": 1, "found": 2},
                {"node": "n2", "check": "gid", "status": "pass"}]  # fmt: skip
    one_line.show(nodes, verdicts, [("n2", "silent", "for long")])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["n1", "change"], ["n1", "major"], ["n2", "warn"], ["n2", "silent"], ["n3", "failed"], ["cluster", "fail"]]
    assert lines[2] == "n2 warn port.state; mlx5_0; port 1; expected 1, found 2"
    console.out.cache_clear()
    one_line.show({"n2": {"status": "ok"}}, verdicts, passes=True)
    assert capsys.readouterr().out.splitlines()[1] == "n2 pass gid"


def test_one_line_of_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--sysroot", str(NODES / "hgx-skew"), "--one-line"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len({line.split()[0] for line in lines}) == 1
    assert sum(line.split()[1] == "fail" for line in lines) == 3
    assert run(["check", "--sysroot", str(NODES / "hgx-skew")]) == 1
    assert capsys.readouterr().out.splitlines() != lines
