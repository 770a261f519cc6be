# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one playbook of the collection; the only file that imports ansible_runner.
Import it where a run begins: ansible_runner takes half a second.

The operator's own Ansible configuration stays in force: what the runner would override
(host key checking, above all) is handed back, and what we add (time limits of ssh, forks)
is added only where the operator said nothing. Nothing of a run is left on disk: the
runner's working directory, which holds the environment, is private and removed.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_runner.interface import init_runner

from railwright.ansible_env import NAMESPACE, environment
from railwright.events import Collector, Echo, Listener, RunOutcome
from railwright.exitcodes import InputError, RunError
from railwright.stopping import Stop, stoppable

# The runner looks at its child this often; a Ctrl-C waits at most so long.
POLL_SECONDS = 0.5
# Phrases of ansible-core for "nothing to run on"; they come as plain output, not as events.
NO_HOSTS = ("leaves us with no hosts to target", "no hosts matched", "Could not match supplied host pattern")


def run_playbook(
    playbook: str,
    inventory: Path,
    limit: str | None = None,
    extra_vars: Mapping[str, Any] | None = None,
    listener: Listener | None = None,
    echo: Echo | None = None,
) -> RunOutcome:
    """Run ``railwright.rdma.<playbook>``. Raises InputError or RunError when no host was reached at all,
    KeyboardInterrupt when the operator stopped it."""
    collector = Collector(listener, echo)
    with tempfile.TemporaryDirectory(prefix="railwright-") as private, stoppable() as stop:
        status = _run(Path(private), f"{NAMESPACE}.{playbook}", inventory, limit, dict(extra_vars or {}), collector, stop)
    outcome = collector.finish()
    outcome.canceled = status == "canceled" or stop.asked
    if outcome.canceled:
        raise KeyboardInterrupt
    _judge(outcome, playbook, inventory, limit)
    if not outcome.finished:
        _cut_off(outcome)
    return outcome


def _run(
    private: Path,
    playbook: str,
    inventory: Path,
    limit: str | None,
    extra_vars: dict[str, Any],
    collector: Collector,
    stop: Stop,
) -> str:
    private.chmod(0o700)
    runner = init_runner(
        private_data_dir=str(private),
        project_dir=str(Path.cwd()),  # relative paths in the inventory mean what they mean to ansible-playbook
        playbook=playbook,
        inventory=[str(inventory.absolute())],
        limit=limit,
        extravars=extra_vars,
        envvars=environment(os.environ, Path.cwd()),
        settings={"suppress_output_file": True, "pexpect_timeout": POLL_SECONDS},
        fact_cache_type="",  # the operator's own cache, if any
        quiet=True,
        event_handler=collector.handle,
        cancel_callback=stop.now,
    )
    if "ANSIBLE_HOST_KEY_CHECKING" not in os.environ:
        # The runner switches host key checking off unless told otherwise; Ansible's default, and the operator's file, decide.
        runner.config.env.pop("ANSIBLE_HOST_KEY_CHECKING", None)
    runner.run()
    return str(runner.status)


def _judge(outcome: RunOutcome, playbook: str, inventory: Path, limit: str | None) -> None:
    """A run without any per-host result is about the input or the playbook, never about a node."""
    if any(host.seen for host in outcome.hosts.values()):
        return
    text = " ".join(outcome.output)
    if outcome.no_hosts or any(phrase in text for phrase in NO_HOSTS):
        wanted = f"--limit {limit} matches" if limit else "the group rdma holds"
        raise InputError(f"{wanted} no host of {inventory}")
    raise RunError(f"playbook {NAMESPACE}.{playbook} could not be run: {explain(outcome.output)}")


def _cut_off(outcome: RunOutcome) -> None:
    """ansible-playbook died (the kernel took it for its memory, somebody killed it): what no task failed on has not passed for that."""
    for host in outcome.hosts.values():
        if host.seen and host.status == "ok":
            host.status, host.message = "failed", f"ansible-playbook ended in the middle of the run: {explain(outcome.output)}"


COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def explain(coloured: list[str]) -> str:
    """Ansible's own error out of its output, on one line."""
    output = [COLOUR.sub("", line) for line in coloured]
    for index, line in enumerate(output):
        head, mark, rest = line.partition("ERROR")
        if mark and not head.strip(" ["):
            first = rest.lstrip("!]: ").strip()
            following = " ".join(part.strip() for part in output[index + 1 : index + 3])
            return (first + " " + following).strip() if len(first) < 30 else first
    return " ".join(line.strip() for line in output[-3:]) or "Ansible ended without a word; run again with --debug"
