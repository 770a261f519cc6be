# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages as they were, in one transaction of apt or dnf that changes nothing else: proved in an overlay, then made.

The package steps of an apply remove, then install. Here the end is known exactly, so the resolver gets
all of it at once, and what it proposes is held against it: a package more or another version is a refusal.
"""

import re
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from ..areas.stack.repositories import REPAIR
from ..errors import RailwrightError
from ..host.host import Host
from ..observe.package_locks import wait_for_locks
from ..observe.package_state import unfinished
from ..plan.packages.dry_run import Case, check_room, one_line, overlay, size_of
from ..plan.packages.dry_run_apt import LIKE_THE_ROLE, AptProver, Simulated, simulated
from ..plan.packages.dry_run_dnf import CACHE, DnfProver, parse_table
from ..types import Change, Identity
from .package_records import MANAGERS, Names, observe_packages

APT_OPTIONS = ("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold")  # as ansible.builtin.apt has it
TRANSACTION_SECONDS = 7200.0  # DKMS builds modules in it
UPDATE_SECONDS = 900.0
NEVER_MORE = "; nothing was changed"
_SIZES = re.compile(r"^(Total download|Installed) size: ([0-9.]+) ?([kMGT]?)", re.MULTILINE)


def case_of(identity: Identity, files: Sequence[Change]) -> Case:
    """The repositories are those of the files that come back: they need no keys that were not trusted then."""
    return Case(identity, (), (), tuple(files), {}, ())


def prove(host: Host, identity: Identity, names: Names, files: Sequence[Change], wait: float) -> None:
    """``files``: changes whose ops put the files of repositories back. Raises RailwrightError with one line; downloads what comes."""
    manager = identity.platform.package_manager
    if manager not in MANAGERS:
        raise RailwrightError("packages of %s cannot be put back%s" % (manager, NEVER_MORE))
    wait_for_locks(host, manager, wait)
    with overlay(host) as root:
        (prove_apt if manager == "apt" else prove_dnf)(host, case_of(identity, files), root, names)


def prove_apt(host: Host, case: Case, root: str, names: Names) -> None:
    prover = AptProver(host, case, root)
    prover.prepare()
    prover.refresh()
    hold_simulated(names, prover.install(apt_words(names)))
    if names.install:
        prover.fetch()


def apt_words(names: Names) -> Tuple[str, ...]:
    """All of it in one request: apt takes ``name-`` for a removal."""
    return names.install + tuple("%s-" % name for name in names.remove)


def hold_simulated(names: Names, found: Simulated) -> None:
    coming = {name: after for name, (_before, after, _origin) in found.installs.items()}
    hold_against(names, coming, [name for name in found.removals if name not in coming])


def prove_dnf(host: Host, case: Case, root: str, names: Names) -> None:
    prover = DnfProver(host, case, root)
    prover.prepare()
    prover.gone = list(names.remove)
    result = prover.transaction("--assumeno", names.install) if names.install else prover.dnf("--assumeno", "remove", *names.remove)
    table = parse_table(result.out)
    if not (table.incoming or table.outgoing):
        raise RailwrightError(prover.explain(result))
    hold_against(names, {name: version for name, (version, _origin) in table.incoming.items()},
                 [name for name in table.outgoing if name not in table.incoming])
    if names.install:
        sizes = {name: size_of(number, unit) for name, number, unit in _SIZES.findall(result.out)}
        check_room(host, sizes.get("Total download", 0), sizes.get("Installed", 0), CACHE if host.exists(CACHE) else "/var")
        prover.fetch(names.install)


def hold_against(names: Names, coming: Mapping[str, str], going: Sequence[str]) -> None:
    """Raises RailwrightError where the resolver would change anything else, or leave something as it is."""
    found: Dict[str, Optional[str]] = dict(coming)
    found.update(dict.fromkeys(going))
    more = ["%s (%s)" % (name, version or "removed") for name, version in sorted(found.items()) if name not in names.wanted]
    less = ["%s (%s)" % (name, version or "removed") for name, version in sorted(names.wanted.items())
            if name not in found or found[name] != version]
    if more:
        raise RailwrightError("to put the packages back, %s would have to change too, which the undone runs did not%s" % (
            ", ".join(more), NEVER_MORE))
    if less:
        raise RailwrightError("the package manager does not bring back %s%s" % (", ".join(less), NEVER_MORE))


def change(host: Host, manager: str, names: Names, wait: float, script: str) -> None:
    """The transaction itself. Raises RailwrightError; packages may be half changed then. ``script``: a file of the restore point's."""
    wait_for_locks(host, manager, wait)
    if manager == "apt":
        change_apt(host, names, wait, script)
    else:
        change_dnf(host, names, script)


def change_apt(host: Host, names: Names, wait: float, pins: str) -> None:
    """The indexes first: those of repositories that have come back may be missing. What fails there is somebody else's, or fails below."""
    if unfinished(host).any:
        # What it cannot finish (a package waits for a version that was never unpacked) the transaction changes, and apt has its say there.
        repair = host.run(REPAIR.argv, REPAIR.seconds)
        if not repair.ok and unfinished(host).journal:
            raise RailwrightError("%s: exit %d: %s" % (" ".join(REPAIR.argv), repair.rc, telling(repair.out + "\n" + repair.err)))
        names = still_to_change(names, observe_packages(host, "apt")["versions"])  # dpkg's journal may have held some of it
    host.run(("apt-get", "-q", "-o", "DPkg::Lock::Timeout=%d" % wait, "update"), UPDATE_SECONDS)
    torn = preferences(names, [name for name, _state in unfinished(host).packages])
    if torn:
        host.write(pins, torn, 0o644)
    try:
        transact_apt(host, names, wait, ("-o", "Dir::Etc::Preferences=" + pins) if torn else ())
    finally:
        host.remove(pins)


def still_to_change(names: Names, now: Mapping[str, str]) -> Names:
    left = {name: version for name, version in names.wanted.items() if now.get(name) != version}
    coming = tuple(word for word in names.install if word.partition("=")[0] in left)
    return Names(coming, tuple(name for name in names.remove if name in left), left)


def preferences(names: Names, unfinished_names: Sequence[str]) -> str:
    """apt refuses everything while a torn package's candidate is in no repository, and the newer version that lies in pieces is one. So
    the candidate is the version that comes."""
    rows = [word.partition("=") for word in names.install]
    return "".join("Package: %s\nPin: version %s\nPin-Priority: 1001\n\n" % (name, version)
                   for name, _equals, version in rows if name.partition(":")[0] in unfinished_names)


def transact_apt(host: Host, names: Names, wait: float, options: Sequence[str]) -> None:
    asked = tuple(options) + LIKE_THE_ROLE + ("install",) + apt_words(names)
    dry = host.run(("apt-get", "-s") + asked, UPDATE_SECONDS)
    if not dry.ok:
        raise RailwrightError("apt cannot put the packages back%s: %s" % (NEVER_MORE, one_line(dry.err or dry.out)))
    hold_simulated(names, simulated(dry.out))
    patient = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=%d" % wait)
    result = host.run(patient + APT_OPTIONS + asked, TRANSACTION_SECONDS)
    if not result.ok:
        raise RailwrightError("apt-get: exit %d: %s" % (result.rc, telling(result.out + "\n" + result.err)))


def change_dnf(host: Host, names: Names, script: str) -> None:
    """One transaction by dnf's shell: the words of a command line can only install or remove."""
    lines = ["%s %s" % (verb, " ".join(words)) for verb, words in (("remove", names.remove), ("install", names.install)) if words]
    host.write(script, "\n".join(lines + ["run", ""]), 0o600)
    try:
        result = host.run(("dnf", "-y", "--setopt=clean_requirements_on_remove=0", "shell", script), TRANSACTION_SECONDS)
    finally:
        host.remove(script)
    if not result.ok:
        raise RailwrightError("dnf: exit %d: %s" % (result.rc, telling(result.out + "\n" + result.err)))


def telling(text: str) -> str:
    """What of a long answer says what was wrong."""
    lines = [line for line in text.splitlines() if line.startswith(("E: ", "Error", "dpkg: error", "Failed", "  - "))]
    return one_line("; ".join(lines) or text[-400:], 600)


def settle_marks(host: Host, names: Names, before: Mapping[str, Any]) -> Sequence[str]:
    """dpkg and apt: what was gone without a trace is so again, and who asked for a package. Returns what did not work."""
    troubles = []
    gone = [name for name in names.remove if name not in before["residual"]]
    known = [name for name, version in sorted(names.wanted.items()) if version is not None]
    for argv in (
        ("dpkg", "--purge") + tuple(gone) if gone else (),
        ("apt-mark", "auto") + tuple(name for name in known if name in before["automatic"]),
        ("apt-mark", "manual") + tuple(name for name in known if name not in before["automatic"]),
    ):
        if len(argv) < 3:
            continue
        result = host.run(argv, UPDATE_SECONDS)
        if not result.ok:
            troubles.append("%s: %s" % (" ".join(argv[:2]), one_line(result.err or result.out)))
    return troubles
