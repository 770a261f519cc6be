# SPDX-License-Identifier: GPL-3.0-or-later
"""Every command that a page shows. railwright's lines are parsed by its own command line; those that ask no node are run, here; of the
others a table says which test runs that verb on nodes. Lines of other programs are run, checked, or named with why not.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import install_page
import repo
import switch_exports
from node_trees import NODES
from railwright.cli import ansible_options
from railwright.cli.main import USAGE_ERRORS, command, run
from railwright.runs import save_run
from report_pages import run as record

PAGES = ["README.md", "README.zh-CN.md", *repo.matching("docs/", suffix=".md")]
ROOT_PROMPT = re.compile(r"# (?=(?:railwright|useradd|install|setfacl|systemctl) )")
PROGRAM = re.compile(r"(\S*/)?railwright")

# A verb that asks nodes, or waits for them -> a test that runs it on machines, containers or ssh servers.
ON_NODES = {
    "agent ack": "tests/lab/test_agent.py",
    "agent drain": "molecule/drain/tests/test_3_agent.py",
    "agent events": "tests/lab/test_agent.py",
    "agent demote": "tests/unit/agent/test_trial.py",
    "agent hold": "molecule/drain/tests/test_3_agent.py",
    "agent promote": "molecule/drain/tests/test_3_agent.py",
    "agent status": "molecule/drain/tests/test_3_agent.py",
    "agent trial": "molecule/drain/tests/test_3_agent.py",
    "apply": "molecule/remediate/tests/test_saved_plans.py",
    "bench": "molecule/mpi/tests/test_bench.py",
    "bundle": "tests/integration/test_check.py",
    "cabling": "tests/lab/test_cabling.py",
    "check": "tests/integration/test_check.py",
    "container flags": "tests/lab/test_containers.py",
    "diagnose": "molecule/diagnose/tests/test_1_named.py",
    "drift": "tests/lab/test_drift.py",
    "env make": "molecule/ai_environment/tests/test_ai_environment.py",
    "facts": "tests/integration/test_cli_runs.py",
    "init": "tests/integration/test_check.py",
    "isolate": "molecule/isolate/tests/test_isolate.py",
    "plan": "molecule/remediate/tests/test_saved_plans.py",
    "remediate": "molecule/remediate/tests/test_remediate.py",
    "rollback": "molecule/rollback/tests/test_rollback.py",
    "switch read": "tests/integration/test_switch_read.py",
    "top": "tests/lab/test_top.py",
    "upgrade": "molecule/upgrade/tests/test_upgrade.py",
    "validate": "tests/lab/test_rails.py",
}
# A verb whose lines are run elsewhere for another reason.
ELSEWHERE = {
    "lab": ("makes virtual machines", "tools/demo"),
    "artifacts --mirror": ("downloads", "tests/integration/test_mirror_alone.py"),
    "top --replay": ("needs what top recorded", "tests/lab/test_top.py"),
    "switch pauses": ("needs counters that belong together", "tests/unit/switch_check/test_pauses.py"),
}
# Lines of other programs that no test runs as they stand.
OTHERS = {
    "pip": "installs from an index, or what make release made: tests/containers/test_release.py",
    "pipx": "the same, in its own environment",
    "tar": "unpacks what the line before made",
    "uv": "resolves on the internet",
    "printf": "writes the file of the next line",
    "python3": "a copied file on a node: tests/integration/test_check.py",
    "awk": "of the example's output",
    "sort": "of the example's output",
    "ip": "shows what a node then has: tests/lab/test_rails.py",
    "useradd": "as root on a controller: tests/containers/test_schedules.py",
    "install": "as root on a controller: tests/containers/test_schedules.py",
    "setfacl": "as root on a controller",
    "systemctl": "as root on a controller: tests/containers/test_schedules.py",
    "export": "of the next line",
    "curl": "asks a server that is not here: AWX's",
    "tools/rotate": "writes a file of the checkout: tests/contract/test_ci_run.py",
    ".venv/bin/python": "tools/freshness writes a table: tests/contract/test_freshness.py",
    "railwright-offline-0.1.0/install.sh": "tests/containers/test_release.py",
}
LOCAL = 'ansible_connection: local\n          ansible_python_interpreter: "{{ ansible_playbook_python }}"'  # both nodes are this machine
# A verdict or a lint's finding is an answer, too; nothing was upgraded and no plan is stored here.
EXITS = {
    "nccl log": (0, 1, 4),
    "switch check": (0, 1),
    "explain": (0, 1),
    "check": (0, 1),
    "nccl lint": (0, 1),
    "upgrade": (64,),
    "plan": (64,),
}


class Line(NamedTuple):
    page: str
    number: int
    text: str


def lines(text: str, page: str = "") -> Iterator[Line]:
    """Each command of blocks of console, whole where a backslash goes on."""
    console, whole, start = False, "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            console = line.strip() == "```console"
        elif console and (whole or line.lstrip().startswith("$ ") or ROOT_PROMPT.match(line.lstrip())):
            start = start if whole else number
            whole += line.strip() if whole else line.strip()[2:]
            if whole.endswith("\\"):
                whole = whole[:-1]
                continue
            yield Line(page, start, whole)
            whole = ""


def commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a line of shell, less where its output goes."""
    words = shlex.shlex(text, posix=True, punctuation_chars="();<>|&")
    words.whitespace_split, words.commenters = True, "#"
    found: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif set(word) <= set("<>"):
            skip = True
        elif set(word) <= set("();|&"):
            yield found
            found = []
        else:
            found.append(word)
    yield found


EVERY = {line.text: line for page in PAGES for line in lines(repo.text(page), page)}
OURS = {" ".join(words[1:]): words[1:] for text in EVERY for words in commands(text) if words and PROGRAM.fullmatch(words[0])}


def parsed(words: list[str]) -> tuple[str, dict[str, Any]]:
    """The verb's name and its values. Raises click's UsageError."""
    words = ansible_options.ours(list(words))
    context = command().make_context("railwright", words, resilient_parsing=False)
    names: list[str] = []
    while getattr(context.command, "commands", None) and (rest := [*context._protected_args, *context.args]):
        name, found, rest = context.command.resolve_command(context, rest)
        names.append(name)
        context = found.make_context(name, rest, parent=context)
    return " ".join(names), context.params


def asks_nodes(verb: str, words: list[str]) -> bool:
    offline = {"--sysroot", "--emit", "--recorded", "--status", "--list", "--replay"}
    if offline & set(words) and verb != "rollback":
        return False
    return verb in ON_NODES and not (verb == "init" and "--from-facts" not in words)


def elsewhere(verb: str, words: list[str]) -> str | None:
    for name, (_why, where) in ELSEWHERE.items():
        its, _, option = name.partition(" --")
        if (verb == its or verb.startswith(f"{its} ")) and (not option or f"--{option}" in words):
            return where
    return None


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with all that the examples name."""
    here = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(here / "state"))
        patch.chdir(here)
        assert run(["init", "mycluster", "--fabric", "roce"]) == 0
        hosts = Path("mycluster/hosts.yml")
        text = re.sub(r"ansible_host: \S+", LOCAL, hosts.read_text(encoding="utf-8"))
        hosts.write_text(f"{text}    rack3: {{hosts: {{node1: {{}}, node2: {{}}}}}}\n", encoding="utf-8")
        exports = {"leaf1.json": json.dumps(switch_exports.sonic()), "leaf2.json": json.dumps(switch_exports.sonic()),
                   "leaf3.json": json.dumps(switch_exports.nvue()["list"]), "leaf4.txt": switch_exports.eos(),
                   "leaf5.txt": switch_exports.nxos(),
                   "exports/leaf1.json": json.dumps(switch_exports.sonic())}  # fmt: skip
        log = (repo.ROOT / "tests/fixtures/nccl_logs/two_h100_nccl_2.28.9_sockets.txt").read_text(encoding="utf-8")
        logs = dict.fromkeys(("train.log", "all_reduce.log", "nccl.node1.1.log", "nccl.node2.2.log"), log)
        for name, text in {**exports, **logs, "train.sh": "export NCCL_DEBUG=INFO\n"}.items():
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).write_text(text, encoding="utf-8")
        for name in ("capture/node1", "tree/gpu017", "gpu017"):
            Path(name).parent.mkdir(exist_ok=True)
            Path(name).symlink_to(NODES / "hgx-skew")
        for line in EVERY.values():
            for identity in re.findall(r"2026\d{4}T\d{6}Z-validate-[0-9a-f]{8}", line.text):
                one = record("validate", {"node1": {"status": "ok"}})
                one.id, one.inventory = identity, str(here / "mycluster")
                save_run(one)
        yield here


def expanded(words: list[str], place: Path) -> list[str]:
    """As a shell would, and with a file and a node of ours for those of the examples."""
    found: list[str] = []
    for word in ({"/etc/nccl.conf": "train.sh", "gpu001": "node1"}.get(word, word) for word in words):
        found += sorted(str(path.relative_to(place)) for path in place.glob(word)) or [word] if "*" in word else [word]
    return [str(repo.ROOT / word) if word.startswith("inventories/") else word for word in found]


@pytest.mark.parametrize("text", sorted(OURS))
def test_an_example_of_ours_is_parsed_and_run_where_it_asks_no_node(text: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = expanded(OURS[text], place)
    if words in (["--version"], ["--install-completion"]):
        return
    verb, _values = parsed(words)
    if (where := elsewhere(verb, words)) is not None:
        assert verb.split(" ")[0] in repo.text(where)
        return
    if asks_nodes(verb, words):
        assert verb.split(" ")[-1] in repo.text(ON_NODES[verb]), f"{ON_NODES[verb]} no longer runs {verb}"
        return
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    if verb == "init":
        words[1] = re.sub(r"\W+", "-", text)
    assert run(words) in EXITS.get(verb, (0,)), text


# tests/lab/test_three_ways.py types all of docs/install.md's ways.
TYPED = [line.split() for lines_of_a_way in install_page.ways().values() for line in lines_of_a_way]
FOREIGN = sorted({shlex.join(words) for text in EVERY if text.split() not in TYPED for words in commands(text)
                  if words and not PROGRAM.fullmatch(words[0])})


@pytest.mark.parametrize("text", FOREIGN)
def test_a_line_of_another_program_is_good_or_says_why_nobody_runs_it(text: str) -> None:
    words = shlex.split(text)
    if words[0] == "make":
        assert re.search(rf"(?m)^{re.escape(words[1])}:", repo.text("Makefile")), f"no target {words[1]}"
    elif words[0] == "molecule":
        assert words[1] in ("test", "create", "converge", "verify", "destroy") and words[2] == "-s"
        assert (repo.ROOT / "molecule" / words[3] / "molecule.yml").is_file()
    elif words[0] == "ansible-playbook":
        (playbook,) = [word for word in words if word.startswith("railwright.rdma.")]
        assert (repo.ROOT / "playbooks" / f"{playbook.rpartition('.')[2]}.yml").is_file()
    else:
        assert words[0] in OTHERS


def test_what_is_misspelt_is_found() -> None:
    page = ("```console\n$ railwright plan -i mycluster --aera nccl   # no\nit says\n$ railwright \\\n  lint | sort > x\n```\n"
            "$ railwright no\n")  # fmt: skip
    found = list(lines(page, "p"))
    assert [(line.number, list(commands(line.text))) for line in found] == [
        (2, [["railwright", "plan", "-i", "mycluster", "--aera", "nccl"]]), (4, [["railwright", "lint"], ["sort"]])]
    with pytest.raises(USAGE_ERRORS):
        parsed(["plan", "-i", "mycluster", "--aera", "nccl"])
    with pytest.raises(USAGE_ERRORS):
        parsed(["plam", "-i", "mycluster"])
