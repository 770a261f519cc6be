# SPDX-License-Identifier: GPL-3.0-or-later
"""Usage errors as a stranger makes them: `python -m railwright`, exit 64, one line on stderr, no traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.ages import comparisons
from railwright.cli.main import HALF, MOVED, command, run
from railwright.cli.main import VERBS as VERBS_BY_GROUP
from railwright.lint import LintFinding
from repo import ROOT


def railwright(*argv: str, state: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = os.environ | {"PYTHONPATH": f"{ROOT / '.dev'}:{ROOT / 'src'}", "XDG_STATE_HOME": str(state)} | environment
    return subprocess.run(
        [sys.executable, "-m", "railwright", *argv], env=variables, cwd=state, capture_output=True, text=True, timeout=60, check=False
    )


USAGE_ERRORS = {
    "no option i": ["plan"],
    "no such inventory": ["plan", "-i", "missing"],
    "no such inventory for apply": ["apply", "-i", "missing"],
    "no such inventory for validate": ["validate", "-i", "missing"],
    "no such inventory for facts": ["facts", "-i", "missing"],
    "no such inventory for lint": ["lint", "-i", "missing"],
    "unknown verb": ["paln"],
    "unknown option": ["plan", "--inventroy", "x"],
    "option without its value": ["plan", "-i"],
    "unknown format": ["plan", "-i", "x", "--format", "yaml"],
    "no fabric": ["init", "new"],
    "unknown fabric": ["init", "new", "--fabric", "omnipath"],
    "nothing to observe": ["facts"],
    "no such sysroot": ["facts", "--sysroot", "missing"],
    "no captured tree": ["facts", "--sysroot", "."],
    "no captured tree to explain": ["explain", "gpudirect", "--sysroot", "."],
    "check of no captured tree": ["check", "--sysroot", "."],
    "check of a tree and a host": ["check", "n1", "--sysroot", "."],
    "check of what is no host": ["check", "-oProxyCommand=x"],
    "check of an empty name": ["check", "root@"],
    "bundle into no directory": ["bundle", "-o", "missing/x.tar.gz"],
    "emit into no directory": ["check", "--emit", "missing/x.pyz"],
    "sysroot and inventory": ["facts", "--sysroot", ".", "-i", "."],
    "sysroot and limit": ["facts", "--sysroot", ".", "--limit", "n1"],
    "unknown disruption class": ["apply", "-i", ".", "--consent", "everything"],
    "no run to report": ["report"],
    "no nodes": ["lab", "up", "--nodes", "0"],
    "not a number": ["lab", "up", "--nodes", "two"],
    "unknown lab verb": ["lab", "fly"],
    "limit from an unset variable": ["apply", "-i", ".", "--limit", ""],
    "limit from an unset variable, joined": ["apply", "-i", ".", "--limit="],
    "inventory from an unset variable": ["lint", "-i", ""],
    "directory from an unset variable": ["init", "", "--fabric", "roce"],
    "nothing to explain": ["explain"],
    "two names to explain": ["explain", "profile", "scnet"],
    "switch-hints, the old name": ["switch-hints", "-i", ".", "--os", "eos"],
    "container-flags, the old name": ["container-flags", "--help"],
    "ai-environment, the old name": ["ai-environment"],
    "watch, the old name": ["watch", "-i", ".", "--drain"],
    "events, the old name": ["events", "gpu017"],
    "ack without a reason": ["agent", "ack", "3fa90c1e"],
    "ack with two lines": ["agent", "ack", "3fa90c1e", "--reason", "a\nb"],
    "ack of two findings": ["agent", "ack", "3fa90c1e", "3fa90c1f", "--reason", "x"],
    "drain of some nodes": ["agent", "drain", "-i", ".", "--limit", "n1"],
    "too many arguments": ["lint", "-i", ".", "more"],
}


@pytest.mark.parametrize("argv", USAGE_ERRORS.values(), ids=USAGE_ERRORS.keys())
def test_usage_errors_are_64_and_one_line(
    argv: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    code = run(argv)
    out, err = capsys.readouterr()
    assert (code, out) == (64, "")
    assert err.startswith("railwright: error: ")
    assert err.count("\n") == 1


# One of each kind of error in a process of its own: nothing between the code and the shell changes it.
@pytest.mark.parametrize("kind", ["no option i", "no such inventory", "unknown verb", "no such sysroot", "no run to report"])
def test_usage_errors_reach_the_shell(kind: str, tmp_path: Path) -> None:
    done = railwright(*USAGE_ERRORS[kind], state=tmp_path)
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith("railwright: error: ")
    assert done.stderr.count("\n") == 1


def test_no_arguments_shows_the_help_and_is_64(tmp_path: Path) -> None:
    done = railwright(state=tmp_path)
    assert done.returncode == 64
    assert "Usage: railwright" in done.stdout + done.stderr


def test_debug_shows_the_traceback_wherever_it_stands(tmp_path: Path) -> None:
    for argv in (["--debug", "plan", "-i", "missing"], ["plan", "-i", "missing", "--debug"]):
        done = railwright(*argv, state=tmp_path)
        assert done.returncode == 64
        assert "Traceback" in done.stderr
        assert done.stderr.splitlines()[-1].startswith("railwright: error: inventory missing does not exist")


@pytest.mark.parametrize("switches", [[], ["--debug"]])
def test_what_the_user_typed_cannot_reach_the_terminal_raw(tmp_path: Path, switches: list[str]) -> None:
    done = railwright(*switches, "lint", "-i", "a\x1b[31mb", state=tmp_path)
    assert "\x1b" not in done.stderr
    assert "a\\u001b[31mb" in done.stderr


def test_version(tmp_path: Path) -> None:
    done = railwright("--version", state=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("railwright ")


def test_verbose_version_says_when_each_table_was_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """In either order; by itself --verbose is refused."""
    for argv in (["--version", "--verbose"], ["--verbose", "--version"]):
        assert run(argv) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("railwright ")
        assert lines[2:] == [f"{row.compared} {row.table}: {row.against}" for row in comparisons()]
    assert run(["--verbose", "plan", "-i", "."]) == 64
    assert "railwright --version --verbose" in capsys.readouterr().err


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_name_names_the_new_ones(old: str, new: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([old, "-i", "."]) == 64
    names = " or ".join(f"railwright {name}" for name in new)
    assert capsys.readouterr().err == f"railwright: error: {old} has another name now; allowed: {names}\n"
    assert [run([*name.split(), "--help"]) for name in new] == [0] * len(new)


def test_the_help_is_one_screen_with_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """24 lines of 80 columns, the prompt below included; each verb stands in one group."""
    assert run(["--help"]) == 0
    lines = capsys.readouterr().out.rstrip("\n").split("\n")
    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    rows = [line[10:] for line in lines if line.startswith((*VERBS_BY_GROUP, " " * 10))]
    shown = [half.split()[0] for row in rows for half in (row, row[HALF:] if row[HALF - 2 : HALF] == "  " else "") if half]
    assert sorted(shown) == sorted(command().commands)


VERBS = [
    ["check"],
    ["bundle"],
    ["init"],
    ["lint"],
    ["facts"],
    ["plan"],
    ["apply"],
    ["validate"],
    ["report"],
    ["explain"],
    ["switch", "hints"],
    ["container", "flags"],
    ["env", "make"],
    *(["agent", verb] for verb in ("status", "events", "ack", "drain")),
    *(["lab", verb] for verb in ("up", "status", "ssh", "down")),
]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_verb_has_help_with_an_example(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*verb, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Example" in shown
    assert f"railwright {' '.join(verb)}" in shown.split("Example")[1]


def verbs_with_options() -> list[Any]:
    inner = [verb for group in command().commands.values() for verb in getattr(group, "commands", {"": group}).values()]
    return [pytest.param(verb, id=verb.name) for verb in inner]


@pytest.mark.parametrize("verb", verbs_with_options())
def test_options_stand_in_the_order_of_use_and_name_their_values(verb: Any) -> None:
    """Inventory and limit, the verb's own, its form, what is rare. An option that takes a word says which."""
    rank = {"inventory": 0, "limit": 1, "transport": 3, "debug": 4, "no_color": 4}
    own = [param for param in verb.params if param.param_type_name == "option" and getattr(param, "rich_help_panel", None) is None]
    ranks = [rank.get(param.name, 2) for param in own]
    assert ranks == sorted(ranks)
    wordless = {param.name for param in verb.params if getattr(param, "is_flag", False) or getattr(param, "count", False)}
    assert [param.name for param in verb.params if not param.metavar and param.name not in wordless] == []


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_help_fits_80_columns_but_leaves_examples_whole(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*verb, "--help"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert [line for line in lines if len(line) > 80 and not line.startswith("    railwright ")] == []
    written = [line.strip() for line in command_of(verb).help.split("\n") if line.startswith("  railwright ")]
    assert written
    assert [example for example in written if f"    {example}" not in lines] == []
    assert "<" not in "".join(lines)  # <bool>, <str>: a type's name is no help


def command_of(verb: list[str]) -> Any:
    found: Any = command()
    for word in verb:
        found = found.commands[word]
    return found


def test_shell_completion_is_offered(tmp_path: Path) -> None:
    done = railwright(state=tmp_path, _RAILWRIGHT_COMPLETE="complete_bash", COMP_WORDS="railwright va", COMP_CWORD="1")
    assert done.stdout.split() == ["validate"]


def test_a_state_directory_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "railwright").write_text("a file where a directory belongs")
    done = railwright("report", state=tmp_path)
    assert done.returncode in (1, 64)
    assert "Traceback" not in done.stderr


def test_facts_of_a_tree_is_one_json_document_and_imports_no_ansible(tmp_path: Path) -> None:
    (tmp_path / "tree" / "sys").mkdir(parents=True)
    done = railwright("facts", "--sysroot", "tree", "--format", "json", state=tmp_path, PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0
    assert json.loads(done.stdout)["hcas"] == []
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time")}
    assert "railwright.cli.main" in imported
    slow = ("ansible", "ansible_runner", "yaml", "jinja2", "pexpect", "matplotlib", "numpy")
    assert not {name for name in imported if name.split(".")[0] in slow}


def test_facts_of_a_tree_as_text(tmp_path: Path) -> None:
    (tmp_path / "tree" / "proc").mkdir(parents=True)
    done = railwright("facts", "--sysroot", "tree", state=tmp_path)
    assert done.returncode == 0
    assert "no RDMA device" in done.stdout


def test_facts_work_after_ansible_replaced_the_collection_importer(tmp_path: Path) -> None:
    """As in `facts -i`: from the first inventory on Ansible imports collections, and refuses ours where it had not loaded it itself."""
    assert railwright("init", "site", "--fabric", "roce", state=tmp_path).returncode == 0
    script = ("from pathlib import Path; import railwright.cli.facts as facts; from railwright.inventory import load_inventory; "
              "load_inventory(Path('site'), None); facts.show_facts({})")
    variables = os.environ | {"PYTHONPATH": f"{ROOT / '.dev'}:{ROOT / 'src'}"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "no RDMA device" in done.stdout


@pytest.mark.parametrize("fabric", ["roce", "infiniband", "erdma"])
def test_init_writes_what_lint_accepts_and_never_overwrites(fabric: str, tmp_path: Path) -> None:
    done = railwright("init", "site", "--fabric", fabric, state=tmp_path)
    assert done.returncode == 0
    written = done.stdout.split()
    assert written
    assert all((tmp_path / name).is_file() for name in written)
    judged = railwright("lint", "-i", "site", state=tmp_path)
    assert judged.returncode == 0, judged.stdout
    again = railwright("init", "site", "--fabric", fabric, state=tmp_path)
    assert (again.returncode, again.stdout) == (64, "")
    assert again.stderr.startswith("railwright: error: ")


def test_a_locale_without_our_characters_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "tree" / "etc").mkdir(parents=True)
    (tmp_path / "tree" / "etc" / "os-release").write_text('ID=debian\nPRETTY_NAME="Debian Köln"\n')
    done = railwright("facts", "--sysroot", "tree", state=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("closed", "code"), [("<&-", 0), (">&-", 1), ("2>&-", 1)])
def test_a_stream_that_is_closed_is_the_null_device(closed: str, code: int, tmp_path: Path) -> None:
    """Standard input that is closed has no settings in it; the file has one that is wrong."""
    (tmp_path / "job.sh").write_text("export NCCL_NCHANNELS=4\n")
    file = "-" if closed == "<&-" else "job.sh"
    variables = os.environ | {"PYTHONPATH": f"{ROOT / '.dev'}:{ROOT / 'src'}", "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(["sh", "-c", f'"$0" -m railwright nccl lint {file} {closed}', sys.executable], env=variables, cwd=tmp_path,
                          capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode == code


BAD_CONFIGURATION = {
    "a home that cannot be written": ("plan", {"HOME": "/proc/nobody"}, "", "Unable to create local directories"),
    "a value of the wrong type": ("lint", {"ANSIBLE_FORKS": "banana"}, "", "ANSIBLE_FORKS"),
    "a file that is no ini file": ("lint", {}, "garbage [[[\n", "no section headers"),
}


@pytest.mark.parametrize(("verb", "environment", "config", "reason"), BAD_CONFIGURATION.values(), ids=BAD_CONFIGURATION.keys())
def test_a_configuration_that_ansible_refuses_is_one_line(
    verb: str, environment: dict[str, str], config: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "hosts.yml").write_text("rdma: {hosts: {n1: {}}}\n", encoding="utf-8")
    if config:
        (tmp_path / "ansible.cfg").write_text(config, encoding="utf-8")
    done = railwright(verb, "-i", "hosts.yml", "--format", "json", state=tmp_path, **environment)
    assert done.returncode == 64
    assert reason in json.loads(done.stdout)["findings"][0]["message"]
    assert done.stderr.startswith("railwright: error: Ansible's configuration: ")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("verb", "text"), [("lint", None), ("facts", None), ("lint", "rdma: [\n"), ("plan", "rdma: [\n")])
def test_json_is_a_document_also_when_the_inventory_cannot_be_read(verb: str, text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "hosts.yml").write_text(text, encoding="utf-8")
    done = railwright(verb, "-i", "hosts.yml", "--format", "json", state=tmp_path)
    assert done.returncode == 64
    document = json.loads(done.stdout)
    assert set(document["findings"][0]) == set(LintFinding._fields) - {"everywhere"}
    assert document["summary"] == {"errors": 1, "warnings": 0}
    assert [finding["severity"] for finding in document["findings"]] == ["error"]
    assert done.stderr == f"railwright: error: {document['findings'][0]['message']}\n"


def test_no_consent_at_all_can_be_said(tmp_path: Path) -> None:
    done = railwright("apply", "-i", "missing", "--yes", "--consent", "", state=tmp_path)
    assert "missing does not exist" in done.stderr


def test_init_lists_its_files_as_json_too(tmp_path: Path) -> None:
    done = railwright("init", "site", "--fabric", "roce", "--format", "json", state=tmp_path)
    files = json.loads(done.stdout)["files"]
    assert [Path(name).name for name in files] == ["hosts.yml", "site.yml"]
    assert all((tmp_path / name).is_file() for name in files)


def test_the_hint_of_init_can_be_pasted(tmp_path: Path) -> None:
    done = railwright("init", "my cluster", "--fabric", "roce", state=tmp_path)
    assert done.stderr.endswith("railwright lint -i 'my cluster'\n")
