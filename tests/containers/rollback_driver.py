# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs inside a container: two runs that change a file and packages, and rollbacks of them, with the real core; one is killed in dpkg.

``python3 rollback_driver.py first | second | back RUN NAME | killed RUN NAME``; what came of it as JSON.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, "/opt/railwright")

from module_utils.apply import apply, journal
from module_utils.host.host import Host
from module_utils.observe.identity import observe_identity
from module_utils.observe.package_locks import wait_for_locks
from module_utils.rollback.apply import carry_out
from module_utils.rollback.packages import dry_run_rollback, names_for, record_after, record_before
from module_utils.rollback.plan import plan_rollback, refused, repository_changes
from module_utils.types import Change, write_file

SOURCES = "/etc/apt/sources.list.d/railwright-doca.sources"
FILE = "/etc/security/limits.d/90-railwright.conf"
DPKG_LOG = "/var/log/dpkg.log"
KEPT = ["perftest", "rdma-core", "infiniband-diags", "ibverbs-utils", "rdmacm-utils", "mstflint"]
CHANGED = {"first": ["mft"], "second": ["mft-", "ucx"]}  # one goes, one is new
RELEASES = {"first": "3.2.2", "second": "3.2.3"}
LOCK_SECONDS = 120.0
host = Host()


def definition(release):
    return f"Types: deb\nURIs: file:/srv/standin/doca-{release}\nSuites: ./\nSigned-By: /srv/standin/right.asc\n"


def run(name):
    """A run as an apply makes it: repositories and files in its journal, then the packages between their records."""
    ops = (write_file(SOURCES, definition(RELEASES[name])), write_file(FILE, f"# by {name}\n"))
    log = journal.Journal(host, name)
    apply.carry_out(host, [Change("repositories", "files", None, None, "none", "", "", ops)], log)
    log.close(journal.APPLIED)
    record = record_before(host, "apt", name, {})["run"]
    subprocess.check_call(["apt-get", "-q", "update"], stdout=subprocess.DEVNULL)
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    subprocess.check_call(["apt-get", "-q", "-y", "--no-install-recommends", "install"] + KEPT + CHANGED[name],
                          stdout=subprocess.DEVNULL, env=environment)
    return list(record_after(host, next(point for point in journal.points(host) if point.name == record)))


def back(to, name):
    wait_for_locks(host, "apt", LOCK_SECONDS)
    identity = observe_identity(host, None)
    rollback = plan_rollback(host, identity, to)
    why = refused(rollback, None)
    assert why is None, why
    dry_run_rollback(host, identity, names_for(rollback.rows, "apt"), repository_changes(rollback.undone), LOCK_SECONDS)
    with apply.exclusive(host):
        carry_out(host, rollback, name, "apt", LOCK_SECONDS)
    return {"undone": [point.name for point in rollback.undone], "changes": [change.what for change in rollback.changes],
            "notes": list(rollback.notes)}


def killed(to, name):
    """SIGKILL for it, apt and dpkg, as when the power goes, at the first package that dpkg has begun to replace.

    By then dpkg has a row of them to do; a package that is only taken away would be gone before the signal comes.
    """
    said = ""
    with Path(DPKG_LOG).open() as stream:
        stream.seek(0, os.SEEK_END)
        child = subprocess.Popen([sys.executable, __file__, "back", to, name], stdout=subprocess.DEVNULL, start_new_session=True)
        while child.poll() is None:
            said += stream.read()
            if " half-installed " in said.partition(" upgrade ")[2]:
                for group in (child.pid, *commands_of(child.pid)):
                    os.killpg(group, signal.SIGKILL)
                break
            time.sleep(0.005)
    return {"rc": child.wait()}


def commands_of(pid):
    """The process groups of the commands that it runs: each has a session of its own."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            _state, parent, group = path.read_text().rpartition(") ")[2].split()[:3]
            found += [int(group)] if int(parent) == pid else []
    return found


words = sys.argv[1:]
answer = run(words[0]) if words[0] in RELEASES else {"back": back, "killed": killed}[words[0]](*words[1:])
json.dump(answer, sys.stdout)
