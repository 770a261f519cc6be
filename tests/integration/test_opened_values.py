# SPDX-License-Identifier: GPL-3.0-or-later
"""What came out of a vault stands in no output of any verb, in any form: every verb that takes an inventory, and every form of it.

The verbs and their forms are those of the command line itself, so that one which is new and not in ``WORDS`` fails here. Three inventories
hold the same secrets: one with every kind of finding, one whose node cannot be reached, and one whose node is this machine.
"""

import base64
import inspect
import os
import sys
import typing
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from opened_site import NUMBER, OPENS, new_secrets, right_site, wrong_site
from quiet_machine import run_there
from railwright.cli.main import FILES, VERBS
from repo import ROOT
from verb_said import said_by

BIN = Path(sys.executable).parent
AWAY = {"ansible_host": "127.0.0.1", "ansible_port": 1}
HERE = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
# The words after `-i INVENTORY` of each verb that takes one; several rows where a verb does several things. OUT: a new file or directory.
WORDS: dict[str, tuple[str, ...]] = {
    "plan": ("", "--diff", "-o OUT", "--transport ansible", "--debug --transport ansible", "--recorded LAST"),
    "apply": ("--yes", "--yes --debug"),
    "remediate": ("--yes",),
    "upgrade": ("--yes --to release.yml", "--to release.yml --dry-run", "--status"),
    "rollback": ("--list", "--yes --to 20260101T120000Z-apply-1a2b3c4d"),
    "drift": ("", "-o OUT"),
    "validate": ("", "-o OUT"),
    "bench": ("--launcher local",),
    "isolate": ("--rounds 1 --yes",),
    "agent status": ("",),
    "agent drain": ("--yes",),
    "agent hold": ("--reason test", "--end"),
    "agent trial": ("",),
    "agent promote": ("gpu.ecc", "gpu.ecc --reason test --by test"),
    "agent demote": ("gpu.ecc",),
    "top": ("--for 1",),
    "lint": ("", "--debug"),
    "artifacts": ("",),
    "explain": ("host n1", "host n1 --all", "rdma_stack_repository_url", "nccl_tests_environment", "upgrade_drain_command", "profile",
                "NCCL_DEBUG_FILE", "gpudirect", "speed", "affinity", "path n1:rail0 n1:rail0"),
    "diagnose": ("4711", "--process none-such"),
    "facts": ("",),
    "report": ("-o OUT", "--list"),
    "nccl lint": ("",),
    "switch hints": ("--os sonic",),
    "switch check": ("--os sonic export.json",),
    "switch pauses": ("--switch leaf1=sonic:export.json:export.json",),
    "switch read": ("-o OUT",),
    "cabling": ("", "-o OUT"),
    "container flags": ("",),
    "env make": ("--check", ""),
}
UNOPENED = "takes no inventory"  # so nothing of a vault gets there


def verbs() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every verb of the table with its function, those in groups among them."""
    for name in (name for rows in VERBS.values() for name, _text in rows):
        module = FILES[name]
        if hasattr(module, "VERBS"):
            yield from ((f"{name} {inner}", function) for inner, (function, _text) in module.VERBS.items())
        else:
            yield name, module.command


def forms(function: Callable[..., Any]) -> list[str]:
    """The values of --format, as the verb's own signature has them."""
    hint = typing.get_type_hints(function)["form"]
    kind = next(one for one in (hint, *typing.get_args(hint)) if inspect.isclass(one) and issubclass(one, StrEnum))
    return [f"--format {form.value}" for form in kind]


TAKERS = {name: function for name, function in verbs() if "inventory" in inspect.signature(function).parameters}


def test_every_verb_that_takes_an_inventory_is_here() -> None:
    assert set(WORDS) == set(TAKERS), "a verb without a row in WORDS shows its values unsearched"
    assert len(list(verbs())) > len(TAKERS)
    assert forms(TAKERS["lint"]) == [f"--format {form}" for form in ("text", "json", "sarif", "github")]
    assert all(map(forms, TAKERS.values()))
    outputs = {name for name, function in TAKERS.items() if {"output"} & set(inspect.signature(function).parameters)}
    assert not [name for name in outputs - {"explain"} if not any("OUT" in words for words in WORDS[name])]


def parts(planted: list[str]) -> list[bytes]:
    """Each secret as it is, and as a filter of the inventory has it; of the number its first nine digits, which the right site has."""
    found = [text[:9] if at == NUMBER else text for at, text in enumerate(planted)]
    return [text.encode() for text in (*found, base64.b64encode(planted[9].encode()).decode(), "77123")]


def leaks(planted: list[str], places: dict[str, bytes]) -> list[tuple[str, int, bytes]]:
    """(place, number of the secret, what stands around it)."""
    return [(place, at, content[max(0, content.find(part) - 60):][:160]) for place, content in sorted(places.items())
            for at, part in enumerate(parts(planted)) if part in content]


def written(*roots: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for root in roots for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the verbs run, with files that some of them need."""
    monkeypatch.chdir(tmp_path)
    for name in ("state", "home", "cache", "written"):
        (tmp_path / name).mkdir()
    for name, value in (("XDG_STATE_HOME", "state"), ("XDG_CACHE_HOME", "cache"), ("HOME", "home")):
        monkeypatch.setenv(name, str(tmp_path / value))
    (tmp_path / "password").write_text(OPENS)
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(tmp_path / "password"))
    (tmp_path / "release.yml").write_text("name: next\npins: {kernel_release: 6.8.0-60-generic}\n")
    (tmp_path / "export.json").write_text("{}")
    return tmp_path


def lines(name: str, inventory: str) -> Iterator[list[str]]:
    """Each row of a verb in each of its forms."""
    for number, words in enumerate(WORDS[name]):
        for form in forms(TAKERS[name]):
            out = f"written/{name.replace(' ', '-')}-{number}-{form.rpartition(' ')[2]}"
            yield [*name.split(), "-i", inventory, "--vault-password-file", "password", *words.replace("OUT", out).split(), *form.split()]


# Verbs that end before they judge the inventory, or go on with findings.
EARLIER = ("report", "rollback", "upgrade", "switch check", "switch pauses", "switch read", "explain", "artifacts", "nccl lint")


@pytest.mark.parametrize("name", TAKERS)
def test_no_finding_holds_a_secret(name: str, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    planted = new_secrets()
    wrong_site(place / "inv", planted, AWAY)
    said = {}
    for argv in lines(name, "inv"):
        answer = said_by(capfd, *(word for word in argv if word not in ("--recorded", "LAST")))
        said[" ".join(argv)] = f"{answer.out}{answer.err}".encode()
        if name not in EARLIER and "-o" not in argv:
            assert (answer.code, "(hidden)" in answer.out + answer.err) == (64, True), answer
    assert leaks(planted, said | written(place / "state", place / "written", place / "home")) == []


@pytest.mark.parametrize("name", TAKERS)
def test_no_answer_of_a_node_that_is_away_holds_a_secret(name: str, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    planted = new_secrets()
    right_site(place / "inv", planted, AWAY)
    said_by(capfd, *next(lines("plan", "inv")))  # a run for what shows one again
    said = {}
    for argv in lines(name, "inv"):
        answer = said_by(capfd, *(("plan", *argv[3:]) if "LAST" in argv else argv))
        said[" ".join(argv)] = f"{answer.out}{answer.err}".encode()
    assert leaks(planted, said | written(place / "state", place / "written", place / "home")) == []


REAL = (
    "plan -i inv", "plan -i inv --diff --format json", "plan -i inv -o written/saved --format markdown", "drift -i inv --format json",
    "plan -i inv --transport ansible --debug", "plan --recorded written/saved --diff", "apply -i inv --yes", "apply written/saved --yes",
    "report -o written/report", "facts -i inv --format json", "drift -i inv -o written/drift --format junit",
)  # fmt: skip
PLAIN = (("bad", "drift"), ("bad", "site"), ("inv", "drift"), ("inv", "site"))


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces with a syslog of their own")
def test_no_run_on_a_real_node_holds_a_secret(place: Path) -> None:
    planted = new_secrets()
    right_site(place / "inv", planted, HERE)
    wrong_site(place / "bad", planted, HERE)
    environment = {**os.environ, "TMPDIR": str(place), "PYTHONPATH": f"{ROOT / '.dev'}:{ROOT / 'src'}", "ANSIBLE_NOCOLOR": "1",
                   "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".dev"), "LANG": "C.UTF-8"}
    program, plays = [sys.executable, "-m", "railwright"], [str(BIN / "ansible-playbook")]
    commands = [
        *([*program, *words.split()] for words in REAL),
        *([*plays, "-i", which, f"railwright.rdma.{play}", "--check", "--diff", "-vvv"] for which, play in PLAIN),
    ]
    answers = run_there(place, [{"argv": argv, "env": environment, "cwd": str(place)} for argv in commands])
    said = {" ".join(argv): answer.output.encode() for argv, answer in zip(commands, answers, strict=True)}
    assert any(b"kernel.domainname" in text for text in said.values()), said
    assert leaks(planted, said | written(place / "state", place / "written", place / "home", place / "run")) == []
