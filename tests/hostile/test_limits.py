# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers without an end, of 100 MB, and none at all, over Ansible's own ssh plugin with a client that the test wrote in ssh's place."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from tests.hostile.cluster import HONEST, Cluster, Outcome
from tests.hostile.honest import texts
from tests.hostile.scenarios import role

SECONDS = 20  # a slow machine reads 32 MiB in less
# What stands at the other end of the wire: {} is the honest answer's file. The module comes in by standard input, and is read first.
ENDINGS = {
    "endless": "cat >/dev/null; exec yes '{\"changed\": false}'",
    "endless_errors": "cat >/dev/null; exec yes >&2",
    "endless_line": "cat >/dev/null; exec cat /dev/zero",
    "never": "cat >/dev/null; exec sleep 1000",
    "never_reads": "exec sleep 1000",
    "trickle": "cat >/dev/null; while :; do printf x; sleep 1; done",
    "large": "cat >/dev/null; printf '{\"changed\": false, \"msg\": \"'; head -c 100000000 /dev/zero | tr '\\0' a; printf '\"}'",
    "half": "cat >/dev/null; printf '{\"changed\": false, '; exit 0",
}
PLAYS = {"facts": "facts", "get_url": role("erdma", "driver"), "restore_points": "restore_points"}


def ssh(directory: Path, name: str, ending: str) -> Path:
    client = directory / f"ssh-{name}"
    client.write_text(f"#!/bin/sh\n{ending}\n")
    client.chmod(client.stat().st_mode | stat.S_IXUSR)
    return client


class Wire(Cluster):
    """Liars are reached by the ssh plugin, whose client is theirs."""

    def environment(self, place: Path) -> dict[str, str]:
        hosts = json.loads((place / "hosts.json").read_text())
        rdma = hosts["all"]["children"]["rdma"]["hosts"]
        for name, own in rdma.items():
            if name not in HONEST:
                client = str(self.directory / f"ssh-{name}")
                own.update(ansible_connection="ssh", ansible_ssh_executable=client, ansible_host="192.0.2.1", ansible_ssh_args="")
        (place / "hosts.json").write_text(json.dumps(hosts))
        return {**super().environment(place), "RAILWRIGHT_ANSWER_SECONDS": str(SECONDS)}


@pytest.mark.parametrize("name", PLAYS)
def test_what_has_no_end_is_ended_and_the_others_go_on(name: str, tmp_path: Path) -> None:
    cluster = Wire(tmp_path)
    for kind, ending in ENDINGS.items():
        ssh(tmp_path, kind, ending)
    quiet = cluster.play(PLAYS[name], {}, {"": texts()}, {})
    outcome: Outcome = cluster.play(PLAYS[name], {}, {"": texts()}, {kind: {} for kind in ENDINGS})
    said = {kind: " ".join(outcome.failures(kind)) for kind in ENDINGS}
    for kind in ("endless", "endless_errors", "endless_line", "large"):
        assert "the node answered more than 32 MiB; the connection was closed" in said[kind]
    for kind in ("never", "never_reads", "trickle"):
        assert f"the node gave no answer within {SECONDS} s; the connection was closed" in said[kind]
    assert said["half"]
    for honest in HONEST:
        assert [(task, result.get("failed")) for task, result in outcome.of(honest)] == [
            (task, result.get("failed")) for task, result in quiet.of(honest)]
    assert outcome.code != 0
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path) in read(path)], "nobody is left behind"


def read(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


