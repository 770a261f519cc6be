# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's own Ansible settings stay in force; ours fill the gaps."""

import os
import sys
from pathlib import Path

import pytest

from railwright import ansible_env
from railwright.ansible_env import COLLECTION, SSH_ARGS, UserConfig, ansible_environment, collection_root
from railwright.exitcodes import RunError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without an ansible.cfg, whatever the real one holds."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def test_our_collection_and_our_ansible_playbook_come_first(tmp_path: Path) -> None:
    added = ansible_environment({"PATH": "/usr/bin", "ANSIBLE_COLLECTIONS_PATH": "/theirs"}, tmp_path)
    assert added["ANSIBLE_COLLECTIONS_PATH"] == f"{collection_root()}:/theirs"
    assert added["PATH"].split(":") == [str(Path(sys.executable).parent), "/usr/bin"]
    assert (collection_root() / COLLECTION / "playbooks").is_dir()


def test_defaults_of_collections_path_are_kept(tmp_path: Path) -> None:
    assert ansible_environment({}, tmp_path)["ANSIBLE_COLLECTIONS_PATH"].endswith(":~/.ansible/collections:/usr/share/ansible/collections")


def test_what_the_operator_did_not_set_is_set(tmp_path: Path) -> None:
    added = ansible_environment({}, tmp_path)
    assert added["ANSIBLE_SSH_ARGS"] == SSH_ARGS
    assert 5 <= int(added["ANSIBLE_FORKS"]) <= 50
    assert (added["SSH_ASKPASS"], added["SSH_ASKPASS_REQUIRE"]) == ("/bin/false", "force")
    assert "ANSIBLE_HOST_KEY_CHECKING" not in added
    assert "ANSIBLE_CONFIG" not in added


def test_nothing_waits_for_an_answer_that_nobody_can_give(tmp_path: Path) -> None:
    (tmp_path / "ansible.cfg").write_text("[defaults]\nask_pass = true\n[privilege_escalation]\nbecome_ask_pass = true\n")
    for environ in ({}, {"ANSIBLE_ASK_PASS": "1", "ANSIBLE_ASK_VAULT_PASS": "1", "ANSIBLE_BECOME_ASK_PASS": "1"}):
        added = ansible_environment(environ, tmp_path)
        assert [added[f"ANSIBLE_{what}"] for what in ("ASK_PASS", "BECOME_ASK_PASS", "ASK_VAULT_PASS")] == ["False"] * 3


def test_no_module_writes_its_arguments_into_a_nodes_syslog(tmp_path: Path) -> None:
    assert ansible_environment({"ANSIBLE_NO_TARGET_SYSLOG": "False"}, tmp_path)["ANSIBLE_NO_TARGET_SYSLOG"] == "True"


def test_a_callback_that_the_runner_cannot_build_on_is_not_used(tmp_path: Path) -> None:
    assert ansible_environment({"ANSIBLE_STDOUT_CALLBACK": "json"}, tmp_path)["ANSIBLE_STDOUT_CALLBACK"] == "default"


def test_no_diff_makes_a_plan_count_as_a_change(tmp_path: Path) -> None:
    assert ansible_environment({"ANSIBLE_DIFF_ALWAYS": "1"}, tmp_path)["ANSIBLE_DIFF_ALWAYS"] == "False"


@pytest.mark.parametrize(("locale", "wanted"), [("C", "C.UTF-8"), ("POSIX", "C.UTF-8"), ("de_DE.UTF-8", None), ("", None)])
def test_ansible_needs_utf8(tmp_path: Path, locale: str, wanted: str | None) -> None:
    assert ansible_environment({"LC_ALL": locale}, tmp_path).get("LC_ALL") == wanted


def test_the_operators_environment_wins(tmp_path: Path) -> None:
    added = ansible_environment({"ANSIBLE_SSH_ARGS": "-o X=1", "ANSIBLE_FORKS": "3", "SSH_ASKPASS_REQUIRE": "never"}, tmp_path)
    assert "ANSIBLE_SSH_ARGS" not in added
    assert "ANSIBLE_FORKS" not in added
    assert added["SSH_ASKPASS_REQUIRE"] == "never"


def test_the_operators_file_wins(tmp_path: Path) -> None:
    (tmp_path / "ansible.cfg").write_text(
        "[defaults]\nforks = 7 ; few\ncollections_path = ./mine:/opt/theirs\nlog_path = %(x)s\n[ssh_connection]\nssh_args = -o Y=2\n"
    )
    added = ansible_environment({}, tmp_path)
    assert "ANSIBLE_SSH_ARGS" not in added
    assert "ANSIBLE_FORKS" not in added
    assert added["ANSIBLE_COLLECTIONS_PATH"].split(":")[1:] == [f"{tmp_path}/mine", "/opt/theirs"]
    assert added["ANSIBLE_CONFIG"] == str(tmp_path / "ansible.cfg")


def test_the_file_is_found_by_ansibles_rules(tmp_path: Path, home: Path) -> None:
    (home / ".ansible.cfg").write_text("[defaults]\n")
    assert UserConfig.find({}, tmp_path).path == home / ".ansible.cfg"
    (tmp_path / "ansible.cfg").write_text("[defaults]\n")
    assert UserConfig.find({}, tmp_path).path == tmp_path / "ansible.cfg"
    tmp_path.chmod(0o777)
    assert UserConfig.find({}, tmp_path).path == home / ".ansible.cfg"
    assert UserConfig.find({"ANSIBLE_CONFIG": "/else/where.cfg"}, tmp_path).path == Path("/else/where.cfg")


def test_a_broken_file_is_left_to_ansible_to_report(tmp_path: Path) -> None:
    (tmp_path / "ansible.cfg").write_text("no section = here\n")
    assert ansible_environment({}, tmp_path)["ANSIBLE_CONFIG"] == str(tmp_path / "ansible.cfg")


def test_a_missing_collection_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ansible_env, "_roots", lambda: iter([tmp_path]))
    with pytest.raises(RunError, match=r"railwright\.rdma.*pip install"):
        collection_root()


def test_path_has_no_entry_twice(tmp_path: Path) -> None:
    own = str(Path(sys.executable).parent)
    assert ansible_environment({"PATH": os.pathsep.join(["/usr/bin", own])}, tmp_path)["PATH"].split(":") == [own, "/usr/bin"]


def test_ansibles_error_comes_without_its_colours() -> None:
    from railwright.run import explain

    output = ["\x1b[1;31m[ERROR]: Invalid play strategy specified: nope\x1b[0m"]
    assert explain(output) == "Invalid play strategy specified: nope"
