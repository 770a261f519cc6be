# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes lie about to a scan over our own ssh: answers that are none, and lines that are not those of the dialogue.

The lies are those of the plays (lies.py). A liar is alone with its lie and named, and nothing of it happens on the controller.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.hostile.cluster import HONEST, ROOT, Cluster, Outcome, changed_files, inventory, read_audit, unexpected
from tests.hostile.honest import texts
from tests.hostile.lies import Lie
from tests.hostile.test_modules import told

SEND, MARK = "\n#railwright WORD send\n", "\n#railwright WORD "
KEYS = {"check": "rdma_check:check", "agent events": "rdma_check:agent", "drift": "rdma_check:drift", "facts": "rdma_facts:facts",
        "plan": "rdma_state:plan"}
# What OpenSSH is asked, and where it and we read how: no key is.
USUAL = ("subprocess.Popen ('ssh', ['ssh', ", "read ~/.ssh/config")
SEARCH = re.compile(r"'(/usr/bin/)?(gcc|ld|cc)'.*-l(lib)?oqs'")  # asyncssh looks for a library of key exchanges when it is imported
# Not an answer among them.
LINES = {
    "nothing": "", "no question": "hello\n", "another word": "\n#railwright 0123456789abcdef send\n", "cut": MARK + "se",
    "no answer": SEND, "too long": SEND + MARK + "500\n{}", "too short": SEND + MARK + '3\n{"changed": false}\n',
    "negative": SEND + MARK + "-5\n{}\n", "a word": SEND + MARK + "many\n{}\n", "digits": SEND + MARK + "9" * 5000 + "\n{}\n",
    "other digits": SEND + MARK + "٣\n{}\n", "no number": SEND + MARK + "\n{}\n", "twice": SEND + SEND + SEND,
    "none": SEND + MARK + "none\n",
    "a heading without end": SEND + MARK + "x" * 1_000_000, "NUL": SEND + MARK + "2\n\0\0\n", "never ends": "x" * (33 << 20),
}


class Scans(Cluster):
    """As of the plays, with the command line in place of ansible-playbook."""

    def scan(self, verb: str, sent: dict[str, str]) -> tuple[Outcome, str]:
        """What the controller did here, and its stdout."""
        place = self.directory / "world"
        subprocess.run(("rm", "-rf", str(place)), check=True)
        (place / "run").mkdir(parents=True)
        (place / "hosts.json").write_text(json.dumps(inventory(list(sent), {"ansible_connection": "ssh"})))
        (place / "sent.json").write_text(json.dumps(sent))
        environment = {**self.environment(place), "XDG_STATE_HOME": str(place / "state")}
        environment["PYTHONPATH"] += f":{ROOT}:{ROOT / 'src'}:{ROOT / '.dev'}"
        asked = list(sent) if verb in ("check", "agent events") else ["-i", str(place / "hosts.json")]  # that one has no inventory
        command = (sys.executable, "-m", "tests.hostile.scanned", str(place), *verb.split(), *asked, "--format", "json")
        done = subprocess.run(command, cwd=place / "run", env=environment, capture_output=True, text=True, timeout=900, check=False)
        audit = [(event, what) for event, what in read_audit(place)
                 if not f"{event} {what}".replace(str(self.home), "~").startswith(USUAL) and not SEARCH.search(what)]
        assert "Traceback" not in done.stderr
        return Outcome(done.returncode, done.stderr, {}, [], audit), done.stdout


def line(verb: str, text: str) -> str:
    """The lines of a node that answers so."""
    probe = texts()["probe:"] + "\n" if verb == "plan" else ""
    return f"{probe}{SEND}{MARK}{len(text.encode('utf-8', 'surrogateescape'))}\n{text}\n"


def statuses(verb: str, outcome: Outcome, out: str) -> dict[str, str]:
    """Of each node. Facts print those that answered, and say on stderr what befell the others."""
    document: dict[str, Any] = json.loads(out)
    if verb != "facts":
        return {name: node["status"] for name, node in document["nodes"].items()}
    words = [row.split(": ") for row in outcome.output.splitlines()]
    return dict.fromkeys(document, "ok") | {parts[0]: parts[1] for parts in words if parts[1:2] in (["failed"], ["unreachable"])}


def honest(verb: str) -> str:
    known = texts()
    return known.get(KEYS[verb]) or known[f"{KEYS[verb].partition(':')[0]}:*"]


@pytest.mark.parametrize("verb", KEYS)
def test_a_liar_stays_alone_and_is_named(verb: str, tmp_path: Path) -> None:
    lies: list[Lie] = told(KEYS[verb])
    sent = {f"liar{number:05}": line(verb, lie.text) for number, lie in enumerate(lies)} | dict.fromkeys(HONEST, line(verb, honest(verb)))
    found = judged(verb, sent, tmp_path)
    assert [lie.label for number, lie in enumerate(lies) if lie.named and found.get(f"liar{number:05}") != "failed"] == []


@pytest.mark.parametrize("verb", KEYS)
def test_lines_that_are_no_answer(verb: str, tmp_path: Path) -> None:
    probe = texts()["probe:"] + "\n" if verb == "plan" else ""
    names = {f"liar{number:05}": name for number, name in enumerate(LINES)}
    sent = {host: probe + LINES[name] for host, name in names.items()} | dict.fromkeys(HONEST, line(verb, honest(verb)))
    found = judged(verb, sent, tmp_path)
    assert {names[host] for host in names if found.get(host) != "failed"} == set()


def judged(verb: str, sent: dict[str, str], directory: Path) -> dict[str, str]:
    """The status of each node, after all that holds for every lie."""
    cluster = Scans(directory)
    before = changed_files(cluster.home)
    outcome, out = cluster.scan(verb, sent)
    assert unexpected(cluster, outcome, before) == []
    found = statuses(verb, outcome, out)
    assert outcome.code == 1
    assert {found[name] for name in HONEST} == {"ok"}
    assert set(found) <= set(sent)
    assert "\x1b" not in outcome.output
    return found
