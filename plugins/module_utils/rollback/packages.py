# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages as they were: every one before and after a package step is written down beside the journals, and a rollback restores them.

``/var/lib/railwright/restore/<run>/packages.json``: ``before`` is on disk before the step begins,
``after`` when it has ended, well or not. Where the controller died in between there is no ``after``:
then everything that differs from the next record, or from the node as it is, counts as the run's.

The package steps of an apply remove, then install. Here the end is known exactly, so the resolver gets all of it at once, in one
transaction, and what it proposes is held against it, in an overlay first: a package more or another version is a refusal.
"""

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..apply.journal import PACKAGES, ROOT, Journal, Point, next_number, unused, write_document
from ..areas.common.package_changes import package_change
from ..areas.stack.repositories import REPAIR
from ..errors import RailwrightError
from ..formats.outside import lines_in
from ..formats.text import grouped
from ..formats.versions import compare
from ..host.host import Host
from ..observe.package_locks import wait_for_locks
from ..observe.packages import DPKG_LIMIT, DPKG_STATUS, unfinished
from ..plan.packages.dry_run import Case, Transaction, one_line, overlay
from ..plan.packages.dry_run_apt import LIKE_THE_ROLE, AptProver, one_request, simulated
from ..plan.packages.dry_run_dnf import DnfProver
from ..types import Change, Identity, heaviest

RPM_QUERY = ("rpm", "-qa", "--qf", "%{NAME}.%{ARCH} %|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\\n")
RPM_SECONDS = 120.0
APT_MARKS = "/var/lib/apt/extended_states"
MANAGERS = {"apt": "debian", "dnf": "redhat"}  # those whose packages can be restored, and whose order of versions it is
APT_OPTIONS = ("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold")  # as ansible.builtin.apt has it
TRANSACTION_SECONDS = 7200.0  # DKMS builds modules in it
UPDATE_SECONDS = 900.0
NEVER_MORE = "; nothing was changed"
_FIELD = re.compile(r"^(Package|Status|Version|Architecture|Auto-Installed): (.+)$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._:-]*")  # of dpkg and rpm; it becomes a word of a command
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.~^:_-]*")


class Row(NamedTuple):
    """A package that the undone runs changed. Versions: "" is none, several (kernels of rpm) are parted by blanks."""

    name: str
    wanted: str  # before the oldest of those runs
    left: str  # as the newest of them left it
    now: str
    area: str
    disruption: str
    run: str  # the newest of them that changed it
    assumed: bool  # that run has no record of how it left the packages

    @property
    def differs(self) -> bool:
        return self.now != self.wanted

    @property
    def foreign(self) -> bool:
        """Somebody else has changed it since."""
        return self.differs and self.now != self.left


def observe_packages(host: Host, manager: str) -> Dict[str, Any]:
    """versions by name, and of dpkg: automatic, held, residual (removed, with its configuration left). Raises RailwrightError."""
    if manager == "apt":
        return _from_dpkg(host)
    answer = host.run(RPM_QUERY, RPM_SECONDS)
    rows = (line.split() for line in lines_in(answer.out) if len(line.split()) == 2)
    found = grouped((name, version) for name, version in rows if not name.startswith("gpg-pubkey."))  # a trusted key is no package
    if not answer.ok or not found:
        raise RailwrightError("rpm does not say which packages there are: %s" % (answer.err.strip()[-300:] or "exit %d" % answer.rc))
    return {"versions": {name: " ".join(sorted(versions)) for name, versions in found.items()}, "automatic": [], "held": [], "residual": []}


def _from_dpkg(host: Host) -> Dict[str, Any]:
    rows = [dict(_FIELD.findall(stanza)) for stanza in (host.read(DPKG_STATUS, DPKG_LIMIT) or "").split("\n\n")]
    rows = [row for row in rows if "Package" in row]
    if not rows:
        raise RailwrightError("%s cannot be read, so what is installed is not known" % DPKG_STATUS)
    native = next((row.get("Architecture", "") for row in rows if row["Package"] == "dpkg"), "")
    versions: Dict[str, str] = {}
    held: List[str] = []
    residual: List[str] = []
    for row in rows:
        want, _error, state = (row.get("Status", "") + " . .").split()[:3]
        name = _dpkg_name(row, native)
        if state == "config-files":
            residual.append(name)
        elif state != "not-installed" and row.get("Version"):
            versions[name] = row["Version"]
        if want == "hold":
            held.append(name)
    marks = [dict(_FIELD.findall(stanza)) for stanza in (host.read(APT_MARKS, DPKG_LIMIT) or "").split("\n\n")]
    marked = {_dpkg_name(row, native) for row in marks if row.get("Auto-Installed") == "1" and "Package" in row}
    return {"versions": versions, "automatic": sorted(marked & set(versions)), "held": sorted(held), "residual": sorted(residual)}


def _dpkg_name(row: Mapping[str, str], native: str) -> str:
    """As apt takes it: with its architecture where that is a foreign one."""
    architecture = row.get("Architecture", "")
    own = not native or architecture in ("", "all", native)
    return row["Package"] if own else "%s:%s" % (row["Package"], architecture)


def record_before(
    host: Host, manager: str, run: str, rows: Mapping[str, Sequence[str]], beside: Optional[Journal] = None
) -> Dict[str, Any]:
    """Write down every package. ``rows``: package -> area and disruption class of the plan; ``beside``: the journal of a rollback."""
    number, name, base = (next_number(host), unused(host, run), run) if beside is None else (beside.number, beside.run_id, beside.base)
    document: Dict[str, Any] = {
        "version": 1, "run": name, "base": base, "number": number, "manager": manager,
        "plan": {key: list(rows[key]) for key in rows}, "before": observe_packages(host, manager), "after": None}
    write_document(host, record_path(name), document)
    return document


def record_path(name: str) -> str:
    return "%s/%s/%s" % (ROOT, name, PACKAGES)


def record_after(host: Host, point: Point) -> Tuple[str, ...]:
    """Complete a record; the names that differ. One in which nothing does is taken away, unless there is a journal beside it."""
    after = observe_packages(host, str(point.packages.get("manager")))
    changed = changed_names(point.packages["before"]["versions"], after["versions"])
    if changed or point.document:
        write_document(host, record_path(point.name), dict(point.packages, after=after))
    else:
        host.remove(record_path(point.name))
        host.rmdir("%s/%s" % (ROOT, point.name))
    return changed


def changed_names(before: Mapping[str, str], after: Mapping[str, str]) -> Tuple[str, ...]:
    return tuple(sorted(name for name in set(before) | set(after) if before.get(name) != after.get(name)))


def left_by(point: Point, history: Sequence[Point], now: Mapping[str, str]) -> Tuple[Mapping[str, str], bool]:
    """The packages after a point's step, and whether that is an assumption. ``history``: every point, the oldest first."""
    after = point.packages.get("after")
    if after is not None:
        return after["versions"], False
    later = [other for other in history[list(history).index(point) + 1:] if other.packages]
    return (later[0].packages["before"]["versions"] if later else now), True


def package_rows(undone: Sequence[Point], history: Sequence[Point], now: Mapping[str, str]) -> List[Row]:
    """What the undone points (the newest first) changed of packages, and how it was before."""
    found: Dict[str, Row] = {}
    for point in (point for point in undone if point.packages):
        before = point.packages["before"]["versions"]
        after, assumed = left_by(point, history, now)
        for name in changed_names(before, after):
            plain = name if point.packages.get("manager") == "apt" else name.rpartition(".")[0]
            area, disruption = (point.packages.get("plan") or {}).get(plain) or ("packages", "none")
            row = found.get(name) or Row(name, "", after.get(name, ""), now.get(name, ""), area, disruption, point.name, assumed)
            found[name] = row._replace(wanted=before.get(name, ""), disruption=heaviest((row.disruption, disruption)))
    for row in found.values():
        words = [row.name] + row.wanted.split() + row.now.split()
        if not _NAME.fullmatch(row.name) or not all(_VERSION.fullmatch(word) for word in words[1:]):
            raise RailwrightError("a record of packages holds %r, which is no name or version of a package" % (words,))
    return [found[name] for name in sorted(found)]


def row_change(row: Row, manager: str) -> Change:
    family = MANAGERS.get(manager, "redhat")
    goes_back = row.wanted and row.now and compare(row.wanted.split()[-1], row.now.split()[-1], family) < 0
    disruption = heaviest((row.disruption, "downgrade")) if goes_back else row.disruption
    why = "run %s changed it%s" % (row.run, " (assumed: it has not written down how it left the packages)" if row.assumed else "")
    return package_change(row.area, row.name, row.now or None, row.wanted or None, why, record_path(row.run), disruption)


def going(row: Row) -> List[str]:
    """Versions that are taken away. Of most packages one replaces the other; of kernels of rpm several are there at once."""
    now, then = row.now.split(), row.wanted.split()
    several = len(now) > 1 or len(then) > 1
    return [version for version in now if version not in then] if several or not then else []


def stays(row: Row, kernel: str) -> List[str]:
    """Versions that would go, but are the kernel's that runs: it is not taken away under its own feet.

    dpkg's packages have its release in their names. rpm's are kernel-core and the like for every kernel, and VERSION-RELEASE.ARCH is
    the release; the word behind a plus is a variant (+debug, +rt).
    """
    plain, _dot, architecture = row.name.rpartition(".")
    running = kernel.partition("+")[0]
    return [version for version in going(row) if kernel in row.name
            or (plain.startswith("kernel") and "%s.%s" % (version.rpartition(":")[2], architecture) == running)]


class Names(NamedTuple):
    """What the package manager is told, in one transaction."""

    install: Tuple[str, ...]
    remove: Tuple[str, ...]
    wanted: Dict[str, Optional[str]]  # name as its answer has it -> version afterwards, None: gone; nothing else may change


def names_for(rows: Sequence[Row], manager: str) -> Names:
    install: List[str] = []
    remove: List[str] = []
    wanted: Dict[str, Optional[str]] = {}
    for row in (row for row in rows if row.differs):
        now, then = row.now.split(), row.wanted.split()
        coming = [version for version in then if version not in now]
        plain, _dot, architecture = row.name.rpartition(".")
        if manager == "apt":
            install += ["%s=%s" % (row.name, version) for version in coming]
            remove += [row.name] if going(row) else []
            wanted[row.name] = coming[0] if coming else None
        else:
            install += ["%s-%s.%s" % (plain, version, architecture) for version in coming]
            remove += ["%s-%s.%s" % (plain, version, architecture) for version in going(row)]
            wanted[plain] = coming[0] if coming else None
    return Names(tuple(install), tuple(remove), wanted)


def dry_run_rollback(host: Host, identity: Identity, names: Names, files: Sequence[Change], wait: float) -> None:
    """``files``: changes whose ops put the files of repositories back. Raises RailwrightError with one line; downloads what comes."""
    manager = identity.platform.package_manager
    if manager not in MANAGERS:
        raise RailwrightError("packages of %s cannot be restored%s" % (manager, NEVER_MORE))
    wait_for_locks(host, manager, wait)
    # The repositories are those of the files that come back: they need no keys that were not trusted then.
    case = Case(identity, (), (), tuple(files), {}, ())
    with overlay(host) as root:
        prover = (AptProver if manager == "apt" else DnfProver)(host, case, root)
        prover.prepare()
        prover.refresh()
        found = prover.replace(names.install, names.remove)
        hold_against(names, found)
        if names.install:
            prover.fetch(names.install, found)


def hold_against(names: Names, proposed: Transaction) -> None:
    """Raises RailwrightError where the resolver would change anything else, or leave something as it is."""
    found: Dict[str, Optional[str]] = {name: version for name, (version, _origin) in proposed.incoming.items()}
    found.update(dict.fromkeys(proposed.lost))
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
        return change_apt(host, names, wait, script)
    # By dnf's shell: the words of a command line can only install or remove.
    lines = ["%s %s" % (verb, " ".join(words)) for verb, words in (("remove", names.remove), ("install", names.install)) if words]
    host.write(script, "\n".join(lines + ["run", ""]), 0o600)
    try:
        result = host.run(("dnf", "-y", "--setopt=clean_requirements_on_remove=0", "shell", script), TRANSACTION_SECONDS)
    finally:
        host.remove(script)
    if not result.ok:
        raise RailwrightError("dnf: exit %d: %s" % (result.rc, telling(result.out + "\n" + result.err)))
    return None


def change_apt(host: Host, names: Names, wait: float, pins: str) -> None:
    """The indexes first: those of repositories that have come back may be missing. What fails there is somebody else's, or fails below."""
    if unfinished(host).any:
        # What it cannot finish (a package waits for a version that was never unpacked) the transaction changes, and apt has its say there.
        repair = host.run(REPAIR.argv, REPAIR.seconds)
        if not repair.ok and unfinished(host).journal:
            raise RailwrightError("%s: exit %d: %s" % (" ".join(REPAIR.argv), repair.rc, telling(repair.out + "\n" + repair.err)))
        now = observe_packages(host, "apt")["versions"]  # dpkg's journal may have held some of it
        left = {name: version for name, version in names.wanted.items() if now.get(name) != version}
        names = Names(tuple(word for word in names.install if word.partition("=")[0] in left),
                      tuple(name for name in names.remove if name in left), left)
    host.run(("apt-get", "-q", "-o", "DPkg::Lock::Timeout=%d" % wait, "update"), UPDATE_SECONDS)
    # apt refuses everything while a torn package's candidate is in no repository, and the newer version that lies in pieces is one. So
    # the candidate is the version that comes.
    torn = [name for name, _state in unfinished(host).packages]
    rows = [word.partition("=") for word in names.install]
    text = "".join("Package: %s\nPin: version %s\nPin-Priority: 1001\n\n" % (name, version)
                   for name, _equals, version in rows if name.partition(":")[0] in torn)
    if text:
        host.write(pins, text, 0o644)
    try:
        transact_apt(host, names, wait, ("-o", "Dir::Etc::Preferences=" + pins) if text else ())
    finally:
        host.remove(pins)


def transact_apt(host: Host, names: Names, wait: float, options: Sequence[str]) -> None:
    asked = tuple(options) + LIKE_THE_ROLE + ("install",) + one_request(names.install, names.remove)
    dry = host.run(("apt-get", "-s") + asked, UPDATE_SECONDS)
    if not dry.ok:
        raise RailwrightError("apt cannot put the packages back%s: %s" % (NEVER_MORE, one_line(dry.err or dry.out)))
    hold_against(names, simulated(dry.out))
    patient = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=%d" % wait)
    result = host.run(patient + APT_OPTIONS + asked, TRANSACTION_SECONDS)
    if not result.ok:
        raise RailwrightError("apt-get: exit %d: %s" % (result.rc, telling(result.out + "\n" + result.err)))


def telling(text: str) -> str:
    """What of a long answer says what was wrong."""
    lines = [line for line in lines_in(text) if line.startswith(("E: ", "Error", "dpkg: error", "Failed", "  - "))]
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
