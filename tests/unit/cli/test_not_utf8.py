# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths that are no UTF-8, which Linux allows: a verb takes them, or refuses them in one line; none ends with a traceback."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from verb_said import said_by

NAME = os.fsdecode(b"s\xffite")
HOSTS = {"n1": {"ansible_host": "127.0.0.1", "ansible_port": 1, "rdma_rails": []}}  # nothing listens there
VALUES = {"rdma_fabric": "roce", "rdma_mtu": 9000, "own": "{{ inventory_dir }}"}
SITE = json.dumps({"all": {"children": {"rdma": {"hosts": HOSTS}}}})
VARIABLES = json.dumps(VALUES)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """NAME: an inventory, as a directory and below ``file`` as a file; ``plain``: one with a name of ASCII."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for directory in (tmp_path / NAME, tmp_path / "plain", tmp_path / "file"):
        (directory / "group_vars").mkdir(parents=True)
        (directory / "group_vars/all.yml").write_text(VARIABLES)
        (directory / (NAME if directory.name == "file" else "hosts.yml")).write_text(SITE)
    return tmp_path


Call = Callable[..., tuple[int, str]]


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Call:
    """A mistake of ours is raised here, where the command line would show its traceback. What is printed is text."""

    def command(*words: str) -> tuple[int, str]:
        ran = said_by(capfd, *words)
        return ran.code, (ran.out + ran.err).encode().decode()

    return command


@pytest.mark.parametrize("path", [NAME, f"./{NAME}/hosts.yml", f"file/{NAME}"])
def test_a_verb_over_ssh_takes_such_an_inventory(place: Path, call: Call, path: str) -> None:
    code, text = call("plan", "-i", path, "-o", "x.plan")
    assert (code, "n1" in text, "s\\udcffite" in text) == (3, True, True), text
    assert "-i INVENTORY" in call("apply", "x.plan", "--yes")[1]
    code, text = call("apply", "x.plan", "-i", path, "--yes")
    assert (code, "n1" in text) == (3, True), text
    code, text = call("report", "-i", path)
    assert (code, "report.html" in text) == (0, True), text


@pytest.mark.parametrize("words", ["plan --transport ansible -i", "env make -i", "rollback --yes --to x -i"])
def test_a_run_of_ansible_refuses_it_in_one_line(place: Path, call: Call, words: str) -> None:
    code, text = call(*words.split(), NAME)
    last = "railwright: error: s\\udcffite is not UTF-8, and ansible-runner takes nothing else; rename or unset it"
    assert (code, text.split("\n")[-2]) == (64, last)


def test_so_it_does_in_such_a_directory_or_environment(place: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("plan", "--transport", "ansible", "-i")
    code, text = call(*words, "plain", "-e", f"x={NAME}")
    assert (code, "an option's value is not UTF-8" in text) == (64, True), text
    monkeypatch.setenv("SOMETHING", NAME)
    code, text = call(*words, "plain")
    assert (code, "variable SOMETHING of the environment is not UTF-8" in text) == (64, True), text
    monkeypatch.delenv("SOMETHING")
    monkeypatch.chdir(place / NAME)
    code, text = call(*words, "hosts.yml")
    assert (code, "the working directory is not UTF-8" in text) == (64, True), text


OTHERS = """
apply --yes {}
apply --yes -i plain {}
plan --recorded {}
plan -i plain -o {}
plan -i plain -o {}/x
plan --transport ansible -i plain --private-key {}
plan --transport ansible -i plain --connection-password-file {}
plan --transport ansible -i plain --become-password-file {}
plan --transport ansible -i plain --vault-password-file {}
plan --transport ansible -i plain --vault-id {}
plan --transport ansible -i plain -e @{}
plan --transport ansible -i plain -e x={}
plan --transport ansible -i plain --limit {}
upgrade --yes -i plain --to {}
rollback --yes -i plain --to {}
check --sysroot {}
check --sysroot {} --emit x
check --emit {}
check --format json -o {}
drift -i plain --format json -o {}
drift -i {} --format junit -o x
validate -i plain --format junit -o {}
bench -i plain --save-baseline {}
isolate -i {}
agent status -i {}
top --replay {}
top -i plain --record {}
init {}
init x{} --fabric roce
lint -i {} --format json
lint -i {} --format sarif
lint -i {} --format github
artifacts -i {}
artifacts --mirror {}
explain mtu -i {}
explain host n1 -i {}
explain gpudirect --sysroot {}
explain path -i plain -o {} n1:a n1:b
diagnose -i plain --ras {}
facts --sysroot {}
report -o {}
report -i {}
report --run {}
bundle -o {}/x
cabling -i plain -o {}
nccl lint {}
nccl log {}
nccl parse {}
switch hints --os sonic -i {}
switch hints --os sonic -i plain --diff {}
switch check --os sonic -i plain {}
switch read -i plain -o {}
switch pauses -i plain --switch x --hosts {}
container flags --sysroot {}
"""


@pytest.mark.parametrize("line", OTHERS.split("\n")[1:-1])
def test_no_verb_ends_with_a_traceback(place: Path, call: Call, line: str) -> None:
    (place / os.fsdecode(b"d\xff")).mkdir()
    (place / os.fsdecode(b"f\xff")).write_text("x")
    for name in (os.fsdecode(b"none\xff"), os.fsdecode(b"d\xff"), os.fsdecode(b"f\xff"), *([NAME] if "-i {}" in line else [])):
        call(*(word.replace("{}", name) for word in shlex.split(line)))
