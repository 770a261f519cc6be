# SPDX-License-Identifier: GPL-3.0-or-later
"""The account of the job user, where the inventory has it created. An existing account is never changed, wherever it comes from.

Only getent knows all accounts of a node: a local one would shadow one of LDAP's (SSSD) with the same name, and own the files of one with
the same number. So both must be unknown, and a directory that does not answer is no answer.
"""

from typing import List, NamedTuple, Optional, Tuple

from ...formats.text import first_of
from ...host.host import Host
from ...spec.model import Spec
from ...types import Change, Identity, Problem, run

NAME = "job_user"
NOT_FOUND = 2  # getent(1)
DATABASES = ("passwd", "group")
DIRECTORIES = {"sss": ("/etc/sssd/sssd.conf", "sssd"), "ldap": ("/etc/nslcd.conf", "nslcd")}  # of nsswitch.conf
WHY = "benchmarks, trainings and the ssh mesh run as this user (rdma_job_user)"
SOURCE = "inventory: rdma_job_user_create"


class Desired(NamedTuple):
    """``name`` is None where no account is created."""

    name: Optional[str]
    uid: int


class Observed(NamedTuple):
    """``there``: the account exists. ``taken``: what stands in its way. ``silent``: what did not answer."""

    there: bool
    taken: Tuple[str, ...] = ()
    silent: Tuple[str, ...] = ()


def desired(spec: Spec, identity: Identity) -> Desired:
    create = spec["job_user_create"]
    return Desired(spec["job_user"] if create else None, int(spec["job_user_uid"] or 0))


def observe(host: Host, desired: Desired) -> Observed:
    if desired.name is None:
        return Observed(True)
    keys = [(database, key) for database in DATABASES for key in (desired.name, str(desired.uid))]
    answers = {key: host.run(("getent",) + key) for key in keys}
    if answers[keys[0]].ok:
        return Observed(True)
    taken = ["%s %s (%s)" % (key + (answer.out[:32].partition(":")[0],)) for key, answer in answers.items() if answer.ok]
    silent = [daemon for source, (path, daemon) in sorted(DIRECTORIES.items())
              if source in sources(host) and host.exists(path) and not host.run(("systemctl", "is-active", daemon)).ok]
    silent += ["getent %s %s" % key for key, answer in answers.items() if answer.rc not in (0, NOT_FOUND)]
    return Observed(False, tuple(taken), tuple(silent))


def sources(host: Host) -> List[str]:
    """Return the sources of users that nsswitch.conf names."""
    lines = (line.partition("#")[0].split() for line in (host.read("/etc/nsswitch.conf") or "").split("\n"))
    return next((words[1:] for words in lines if words[:1] == ["passwd:"]), [])


def plan(desired: Desired, observed: Observed) -> List[Change]:
    """``--password '*'`` matches no password and, unlike the default, is no locked account, which some sshd refuse."""
    if observed.there or observed.taken or observed.silent or desired.name is None:
        return []
    add = run(("useradd", "--uid", str(desired.uid), "--user-group", "--create-home", "--password", "*", desired.name),
              (("userdel", desired.name),))  # the home stays: files of later jobs may be in it
    return [Change(NAME, "account %s" % desired.name, None, "uid %d" % desired.uid, "none", WHY, SOURCE, (add,))]


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    found = []
    if observed.taken:
        found.append(Problem(NAME, "rdma_job_user_uid", "getent finds %s; set another number or name, or name an existing account" % (
            first_of(observed.taken))))
    if observed.silent:
        found.append(Problem(NAME, "rdma_job_user_create", "whether %s exists is unknown, as %s does not answer; start it, or create the "
                             "account yourself" % (desired.name, first_of(observed.silent))))
    return found
