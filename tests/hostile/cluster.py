# SPDX-License-Identifier: GPL-3.0-or-later
"""A play over honest nodes and liars, and what it left: real ansible-playbook, real action plugins, and nodes that the test answers for.

An audit hook in every controller process writes down what is executed and written, and which keys are read.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from railwright.events import item_failed

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
HONEST = ("honest1", "honest2")
CALLBACK = "recorder"

Answers = Mapping[str, str | list[str]]  # by "module:mode" what the node's Python prints, or the lies that it tells one after the other


# How often an upgrade asks a node again that says it is busy.
NOT_FOR_MINUTES = json.dumps({"__upgrade_busy_tries": 1, "__upgrade_busy_delay_s": 0})


class Asked(NamedTuple):
    """What a node was asked for, and the number of the lie that it was to tell (connection/liar.py)."""

    host: str
    key: str
    lie: int


class Outcome(NamedTuple):
    """Of one play. ``hosts``: by host its results and the messages of its failures; ``audit``: what the controller did here."""

    code: int
    output: str
    hosts: dict[str, dict[str, Any]]
    asked: list[Asked]
    audit: list[tuple[str, str]]

    def of(self, host: str) -> list[tuple[str, dict[str, Any]]]:
        """Its tasks in order, each with its result."""
        found: list[tuple[str, dict[str, Any]]] = self.hosts.get(host, {"results": []})["results"]
        return found

    def failures(self, host: str) -> list[str]:
        found: list[str] = self.hosts.get(host, {"failed": []})["failed"]
        return found


class Cluster:
    """One directory; every ``play`` begins anew."""

    def __init__(self, directory: Path, *, inject: bool = True, interpreter: Path | None = None) -> None:
        self.directory, self.inject = directory, inject
        self.bin = (interpreter or Path(sys.executable)).parent
        self.home = directory / "operator_home"
        (self.home / ".ssh").mkdir(parents=True)
        (self.home / ".ssh" / "id_ed25519").write_text("the controller's private key\n")

    def play(
        self, play: Any, variables: Mapping[str, Any], honest: dict[str, Answers], lies: dict[str, Answers], *options: str,
        first: bool = False,
    ) -> Outcome:
        """``play``: a playbook's name, or plays as data. ``honest``: answers of all ("") and of single hosts. ``first``: liars are."""
        place = self.directory / "world"
        subprocess.run(("rm", "-rf", str(place)), check=True)
        for name in ("lies", "honest", "run"):
            (place / name).mkdir(parents=True)
        (place / "honest.json").write_text(json.dumps(honest[""]))
        for kind, table in (("honest", honest), ("lies", lies)):
            for host, answers in table.items():
                if host:
                    (place / kind / f"{host}.json").write_text(json.dumps(answers))
        (place / "hosts.json").write_text(json.dumps(inventory([*lies, *HONEST] if first else [*HONEST, *lies], variables)))
        if not isinstance(play, str):
            (place / "play.json").write_text(json.dumps(play))
        done = subprocess.run(
            (str(self.bin / "ansible-playbook"), "-i", str(place / "hosts.json"), "-e", NOT_FOR_MINUTES, *options,
             f"railwright.rdma.{play}" if isinstance(play, str) else str(place / "play.json")),
            cwd=place / "run", env=self.environment(place), capture_output=True, text=True, timeout=900, check=False)
        return Outcome(done.returncode, done.stdout + done.stderr, read_hosts(place), read_asked(place), read_audit(place))

    def environment(self, place: Path) -> dict[str, str]:
        """The interpreter's own files are no part of what is watched: they are the same with and without a liar."""
        return {
            "PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.directory / "operator_home"), "LANG": "C.UTF-8", "HOSTILE": str(place),
            "TMPDIR": str(place / "run"), "PYTHONPATH": str(HERE / "audit"), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1",
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".dev"), "ANSIBLE_LOCAL_TEMP": str(place / "run" / "ansible"),
            "ANSIBLE_CONNECTION_PLUGINS": str(HERE / "connection"), "ANSIBLE_CALLBACK_PLUGINS": str(HERE / "callback"),
            "ANSIBLE_CALLBACKS_ENABLED": CALLBACK, "ANSIBLE_INJECT_FACT_VARS": str(self.inject), "ANSIBLE_PIPELINING": "True",
            "ANSIBLE_FORKS": "12", "ANSIBLE_NOCOLOR": "1", "ANSIBLE_RETRY_FILES_ENABLED": "False", "RAILWRIGHT_ANSWER_SECONDS": "20",
            "XDG_CACHE_HOME": str(place / "run" / "cache"),
        }


def inventory(hosts: list[str], variables: Mapping[str, Any]) -> dict[str, Any]:
    own = {
        name: {"rdma_rails": [{"name": "rail0", "match": {"mac": f"52:54:00:aa:{number // 256:02x}:{number % 256:02x}"},
                          "address": f"198.18.{number // 250}.{number % 250 + 1}/16"}],
               "ansible_host": f"198.18.{number // 250}.{number % 250 + 1}"}
        for number, name in enumerate(hosts)
    }
    common = {
        "ansible_connection": "liar", "ansible_python_interpreter": "/usr/bin/python3", "ansible_user": "root",
        "ansible_become_user": "root", "rdma_fabric": "roce", "rdma_mtu": 9000, "rdma_job_user": "mpi", **variables,
    }
    return {"all": {"vars": common, "children": {"rdma": {"hosts": own}, "rdma_switches": {"hosts": {name: {} for name in own}}}}}


def read_hosts(place: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for line in (place / "results.jsonl").read_text().splitlines() if (place / "results.jsonl").exists() else []:
        row = json.loads(line)
        host = found.setdefault(row["host"], {"failed": [], "results": []})
        host["results"].append((row["task"], row["result"]))
        if row["status"] == "failed":
            items = row["result"].get("results") or [row["result"]]
            host["failed"] += [str(item.get("msg")) for item in items if item_failed(item) or item is row["result"]]
    return found


def read_asked(place: Path) -> list[Asked]:
    lines = (place / "asked").read_text().splitlines() if (place / "asked").exists() else []
    return [Asked(host, f"{module}:{mode}", int(lie)) for host, module, mode, lie in (line.split(" ") for line in lines)]


def read_audit(place: Path) -> list[tuple[str, str]]:
    lines = (place / "audit").read_text().splitlines() if (place / "audit").exists() else []
    return [(event, what) for event, _tab, what in (line.partition("\t") for line in lines)]


def changed_files(directory: Path) -> dict[str, str]:
    """Of the operator's home: every file with its content."""
    return {str(path.relative_to(directory)): path.read_text() for path in sorted(directory.rglob("*")) if path.is_file()}


# What a play does here of itself, wherever it is: Ansible looks for the C library and makes its directory.
LDCONFIG = "('/sbin/ldconfig', ['/sbin/ldconfig', '-p'])"
USUAL = (("subprocess.Popen", LDCONFIG), ("os.posix_spawn", LDCONFIG), ("os.mkdir", "('/operator_home/.ansible', 448)"))


def unexpected(cluster: Cluster, outcome: Outcome, before: dict[str, str]) -> list[str]:
    """What happened on the controller that no play of ours does: commands, writing, the operator's keys read, a canary that was touched."""
    found = [f"{event} {what}" for event, what in outcome.audit if (event, what.replace(str(cluster.directory), "")) not in USUAL]
    after = {name: text for name, text in changed_files(cluster.home).items() if not name.startswith(".ansible/")}
    if after != before:
        found.append(f"files: {sorted(after)}")
    if (cluster.directory / "executed").exists():
        found.append("a template or a command of a node was executed")
    sent = cluster.directory / "world" / "sent"
    found += [line for line in (sent.read_text().splitlines() if sent.exists() else []) if "/.ssh/" in line.split(" ")[1]]
    if "Unexpected Exception" in outcome.output:
        found.append("the play died")
    return found
