# SPDX-License-Identifier: GPL-3.0-or-later
"""The package steps on dnf: the real dnf with private repository files, caches and plugin settings, on the node's rpm database.

Nothing is ever answered with yes but the import of a pinned key into the overlay's own
key ring, and downloads. The signatures of what comes from our repositories are checked
against that key alone.
"""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ...areas.stack.repository_files import KEYRINGS, keyring_path
from ...areas.stack.stack_packages import marked
from ...errors import RailwrightError
from ...host.host import Host
from ...host.write import Result
from ...observe.package_state import VERSIONLOCK
from ...types import Op
from .dry_run import (
    Case,
    Proof,
    Resolved,
    check_removals,
    check_room,
    copy,
    moved,
    one_line,
    place_files,
    repository_of,
    run_checked,
    size_of,
)

REPOS, PLUGINS, CACHE, PERSIST = "/etc/yum.repos.d", "/etc/dnf/plugins", "/var/cache/dnf", "/var/lib/dnf"
REFRESH_SECONDS, RESOLVE_SECONDS, DOWNLOAD_SECONDS = 900.0, 600.0, 3600.0
COMMAND_LINE = "@commandline"  # dnf's repository of the files that it is told of
_SECTIONS = {
    "Installing": "in", "Installing dependencies": "in", "Installing weak dependencies": "in", "Upgrading": "in", "Downgrading": "in",
    "Reinstalling": "in", "Removing": "out", "Removing dependent packages": "out", "Removing unused dependencies": "out",
}
_REPLACING = re.compile(r"^ +replacing +(\S+)\.[^. ]+ (\S+)")
_SIZES = re.compile(r"^(Total download size|Installed size): ([0-9.]+) ?([kMGT]?)", re.MULTILINE)
_MISSING = re.compile(r"(?:No match for argument|Unable to find a match): (.+)$", re.MULTILINE)
_BAD_PACKAGE = re.compile(
    r"(?:Failing package is: |Public key for |^Package )(\S+?)(?: is not signed| is not installed|\.? *$)", re.MULTILINE)
_BAD_SIGNATURE = re.compile(r"GPG|signature|not signed", re.IGNORECASE)
_BAD_INDEX = re.compile(r"checksum doesn't match|Cannot download|All mirrors were tried|Failed to download metadata", re.IGNORECASE)


class Table(NamedTuple):
    """The transaction that dnf proposes."""

    incoming: Dict[str, Tuple[str, str]]  # name: version, repository
    outgoing: Dict[str, str]


def prove_dnf(host: Host, case: Case, root: str) -> Proof:
    prover = DnfProver(host, case, root)
    prover.prepare()
    removed = prover.remove()
    names = prover.wanted()
    found, sizes = prover.install(names, removed)
    if case.names("unsigned"):
        found, sizes, names = prover.install_unsigned(found, names, removed)
    lost = {name: version for name, version in list(removed.items()) + list(found.outgoing.items()) if name not in found.incoming}
    check_removals(case, list(lost.items()))
    if found.incoming:
        check_room(host, sizes[0], sizes[1], CACHE if host.exists(CACHE) else "/var")
    if found.incoming and names and case.download:
        prover.fetch(names)
    before = prover.installed(list(found.incoming))
    resolved = [Resolved(name, before.get(name), version, origin) for name, (version, origin) in found.incoming.items()]
    resolved += [Resolved(name, version, None, "") for name, version in sorted(lost.items())]
    return Proof(tuple(prover.steps()), tuple(resolved))


class DnfProver:
    """One overlay, from its files to the downloaded and verified packages."""

    def __init__(self, host: Host, case: Case, root: str) -> None:
        self.host, self.case, self.root = host, case, root
        self.repos, self.keys, self.plugins, self.cache = root + "/repos", root + "/keys", root + "/plugins", root + "/cache"
        self.versions: Dict[str, str] = {}  # of packages that go back to the distribution, or must come from one repository
        self.needed: List[str] = []  # by a package without a signature, which rpm alone puts into place
        self.gone: List[str] = []  # what the transaction removes: no package of that name comes

    def prepare(self) -> None:
        host = self.host
        for source, target in ((REPOS, self.repos), (PLUGINS, self.plugins), (CACHE, self.cache), (PERSIST, self.root + "/persist")):
            copy(host, source, target)
        copy(host, KEYRINGS["dnf"], self.keys)  # a definition may change whose key stays
        place_files(host, self.case, {REPOS: self.repos, KEYRINGS["dnf"]: self.keys})
        self.place_locks()
        ours = ["railwright-" + row.name for row in self.case.repositories]
        for row in self.case.repositories:
            if row.stream is not None:  # the enabled stream is the node's, not the overlay's: look past it
                path = "%s/railwright-%s.repo" % (self.repos, row.name)
                host.write(path, (host.read(path) or "") + "module_hotfixes=1\n")
        if ours:
            result = self.dnf("-y", "--refresh", *(["--repo=" + name for name in ours] + ["makecache"]), seconds=REFRESH_SECONDS)
            if not result.ok:
                raise RailwrightError(self.explain_refresh(result))
        # Every repository, in one go and with yes: a repository whose index is signed needs its key in the overlay's own key ring.
        result = self.dnf("-y", "makecache", seconds=REFRESH_SECONDS)
        if not result.ok:
            raise RailwrightError(self.explain_refresh(result))

    def place_locks(self) -> None:
        """The versionlock plugin reads the list as it will be."""
        path = VERSIONLOCK["dnf"][0]
        private = {path.rpartition("/")[0]: self.plugins}
        op: Op
        for op in (op for change in self.case.changes for op in change.ops):
            target = moved(op.path, private)
            if op.kind == "write" and target is not None:
                self.host.write(target, op.content, op.mode)
        settings = self.plugins + "/versionlock.conf"
        text = self.host.read(settings)
        if text is not None:
            self.host.write(settings, text.replace(path, self.plugins + "/versionlock.list"))

    def dnf(self, *argv: str, seconds: float = RESOLVE_SECONDS) -> Result:
        values = ("reposdir=" + self.repos, "cachedir=" + self.cache, "pluginconfpath=" + self.plugins, "persistdir=%s/persist" % self.root,
                  "logdir=%s/log" % self.root, "keepcache=1", "clean_requirements_on_remove=0", "install_weak_deps=1")
        return self.host.run(("dnf",) + tuple("--setopt=" + value for value in values) + argv, seconds)

    def explain_refresh(self, result: Result) -> str:
        text = result.err + "\n" + result.out
        place = self.place_of(text)
        lines = [line for line in text.splitlines() if line.startswith(("Error", "  - ", "Failed")) or "GPG signature" in line]
        said = one_line(" ".join(lines) or text)
        if _BAD_SIGNATURE.search(said):
            return "%s: its index is not signed by the key that it must be signed by; nothing was changed. dnf: %s" % (place, said)
        if "checksum" in said.lower():
            return "%s: its index is not the one that its repomd.xml names; nothing was changed. dnf: %s" % (place, said)
        return "%s cannot be read; nothing was changed. dnf: %s" % (place, said)

    def place_of(self, text: str) -> str:
        """Which repository dnf complains of: ours with its URL, somebody else's by its id."""
        found = re.search(r"repo(?:sitory)? '([^']+)'", text)
        place = repository_of(self.case, text)
        return place if found is None or place != "a repository" else "repository " + one_line(found.group(1), 80)

    def remove(self) -> Dict[str, str]:
        """What goes with the removals of the plan."""
        names = [name for name in self.case.names("absent") if name in self.installed(self.case.names("absent"))]
        if not names:
            return {}
        result = self.dnf("--assumeno", "remove", *names)
        table = parse_table(result.out)
        if not table.outgoing:
            raise RailwrightError(self.explain(result))
        return table.outgoing

    def wanted(self) -> List[str]:
        back = self.case.names("replaced")
        supplied = [name for name in self.case.names("present") if self.case.supplier(name) is not None]
        self.versions = {name: self.right_version(name) for name in back + supplied}
        return [self.exactly(name) for name in self.case.names("present", "file") + back]

    def exactly(self, name: str) -> str:
        return "%s-%s" % (name, self.versions[name]) if name in self.versions else name

    def right_version(self, name: str) -> str:
        """The newest of the repository that must have it, else of the distribution's."""
        supplier = self.case.supplier(name)
        from_it = ("--repo=railwright-" + supplier.name,) if supplier is not None else ()
        result = self.dnf("-q", "repoquery", "--available", *(from_it + ("--qf", "%{name} %{evr}", "--latest-limit=1", name)))
        for row in (line.split() for line in result.out.splitlines()):
            if len(row) == 2 and row[0] == name and (supplier is not None or not marked(row[1])):
                return row[1]
        if supplier is not None:
            raise RailwrightError("repository %s (%s) has no package %s for this system; nothing was changed" % (
                supplier.name, supplier.url, name))
        raise RailwrightError("%s cannot go back to the distribution's: no repository of this node has one; nothing was changed" % name)

    def install(self, names: Sequence[str], removed: Dict[str, str]) -> Tuple[Table, Tuple[int, int]]:
        if not names:
            return Table({}, {}), (0, 0)
        returning = self.returning(removed)
        while True:
            self.gone = ["%s-%s" % row for row in sorted(removed.items()) if row[0] not in returning]
            result = self.transaction("--assumeno", names)
            table = parse_table(result.out)
            staying = returning - set(table.incoming) if table.incoming else set()
            if not staying:
                break
            returning -= staying
        missing = _MISSING.search(result.out + "\n" + result.err)
        if missing is not None or not (table.incoming or table.outgoing or "Nothing to do" in result.out):
            raise RailwrightError(self.explain(result))
        if "Problem" in result.out + result.err and not table.incoming:
            raise RailwrightError(self.explain(result))
        sizes = {name: size_of(number, unit) for name, number, unit in _SIZES.findall(result.out)}
        return table, (sizes.get("Total download size", 0), sizes.get("Installed size", 0))

    def install_unsigned(self, found: Table, names: List[str], removed: Dict[str, str]) -> Tuple[Table, Tuple[int, int], List[str]]:
        """With the packages that such a file needs: they come before it, in a step of their own, with their signatures checked."""
        whole, sizes = self.install(names + self.case.names("unsigned"), removed)
        self.needed = ["%s-%s" % (name, version) for name, (version, origin) in sorted(whole.incoming.items())
                       if name not in found.incoming and origin != COMMAND_LINE]
        return whole, sizes, names + self.needed

    def returning(self, removed: Dict[str, str]) -> Set[str]:
        """Names that the new stack has too. dnf takes no other version of a name that the same transaction removes (the role has two), so
        these are replaced instead, which comes to the same."""
        ours = ["--repo=railwright-" + row.name for row in self.case.repositories]
        if not removed or not ours:
            return set()
        result = self.dnf("-q", "repoquery", "--qf", "%{name}", *(ours + sorted(removed)))
        return set(result.out.split()) & set(removed)

    def transaction(self, answer: str, names: Sequence[str]) -> Result:
        """One command, or one with the removals before it, as the role makes them one after the other."""
        seconds = RESOLVE_SECONDS if answer == "--assumeno" else DOWNLOAD_SECONDS
        flags = [answer] if answer == "--assumeno" else ["-y", answer]
        if not self.gone:
            return self.dnf(*(flags + ["install"] + list(names)), seconds=seconds)
        script = self.root + "/transaction"
        self.host.write(script, "remove %s\ninstall %s\nrun\n" % (" ".join(self.gone), " ".join(names)))
        return self.dnf(*(flags + ["shell", script]), seconds=seconds)

    def fetch(self, names: Sequence[str]) -> None:
        """Every package, compared with the index by dnf, and its signature with the pinned key; then handed to the real cache."""
        before = self.trusted_keys()
        result = self.transaction("--downloadonly", names)
        for key in sorted(self.trusted_keys() - before):  # dnf trusts a repository's key on the way; the proof leaves none behind
            self.host.run(("rpm", "-e", "gpg-pubkey-" + key), 60.0)
        text = result.err + "\n" + result.out
        if not result.ok and _BAD_INDEX.search(text):
            raise RailwrightError("%s: a package cannot be downloaded, or is not the file that the index describes; nothing was changed. "
                                  "dnf: %s" % (repository_of(self.case, text), one_line(_errors(text))))
        if not result.ok:
            raise RailwrightError(self.explain(result))
        for row in self.case.repositories:
            self.verify("railwright-" + row.name, self.key_of(row.name))
        for place in self.host.listdir(self.cache):
            if self.host.listdir("%s/%s/packages" % (self.cache, place)):
                copy(self.host, "%s/%s/packages" % (self.cache, place), "%s/%s/packages" % (CACHE, place))

    def trusted_keys(self) -> Set[str]:
        out = self.host.run(("rpm", "-q", "gpg-pubkey", "--qf", "%{VERSION}-%{RELEASE}\\n"), 60.0).out
        return {line for line in out.splitlines() if re.match(r"[0-9a-f]+-[0-9a-f]+$", line)}

    def key_of(self, name: str) -> str:
        return "%s/%s" % (self.keys, keyring_path("dnf", name).rpartition("/")[2])

    def verify(self, repository: str, key: str) -> None:
        places = [name for name in self.host.listdir(self.cache) if name.startswith(repository + "-")]
        files = ["%s/%s/packages/%s" % (self.cache, place, name) for place in places
                 for name in self.host.listdir("%s/%s/packages" % (self.cache, place)) if name.endswith(".rpm")]
        if not files:
            return
        database = "%s/rpmdb-%s" % (self.root, repository)
        run_checked(self.host, ("rpmkeys", "--dbpath", database, "--import", key))
        result = self.host.run(["rpmkeys", "--dbpath", database, "--checksig"] + files, RESOLVE_SECONDS)
        bad = [line.rpartition("/")[2] for line in result.out.splitlines() if not re.search(r": digests signatures OK$", line)]
        if bad or not result.ok:
            raise RailwrightError("%s: %s is not signed by the pinned key; nothing was changed" % (
                repository, ", ".join(line.partition(":")[0] for line in bad) or one_line(result.err)))

    def installed(self, names: Sequence[str]) -> Dict[str, str]:
        out = self.host.run(["rpm", "-q", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n"] + list(names), 60.0).out if names else ""
        rows = [line.split() for line in out.splitlines()]
        return {row[0]: row[1] for row in rows if len(row) == 2}

    def explain(self, result: Result) -> str:
        text = result.out + "\n" + result.err
        missing = _MISSING.search(text)
        if missing is not None:
            return "%s is in no repository of this node; nothing was changed" % one_line(missing.group(1))
        bad = _BAD_PACKAGE.findall(text)
        if bad:
            return "%s is not signed by the key of its repository; nothing was changed. dnf: %s" % (
                ", ".join(sorted(set(bad))), one_line(_errors(text)))
        if "versionlock" in text or "excluded by" in text or "filtered out by exclude filtering" in text:
            return "a needed version is excluded or locked (dnf versionlock list); nothing was changed. dnf: %s" % one_line(_errors(text))
        return "dnf cannot do the package step; nothing was changed: %s" % one_line(_errors(text))

    def steps(self) -> List[Dict[str, Any]]:
        found: List[Dict[str, Any]] = []
        for step in self.case.steps:
            back = step["state"] == "replaced"
            names = [self.exactly(name) for name in step["names"]] if back or step["state"] == "present" else list(step["names"])
            if step["state"] == "unsigned" and self.needed:
                found.append({"area": step["area"], "state": "present", "names": self.needed})
            found.append(dict(step, state="present" if back else step["state"], names=names))
        return found


def parse_table(text: str) -> Table:
    """dnf's table: ``name arch version repository size``, with long names on a line of their own."""
    incoming: Dict[str, Tuple[str, str]] = {}
    outgoing: Dict[str, str] = {}
    section: Optional[str] = None
    words: List[str] = []
    for line in text.splitlines():
        replaced = _REPLACING.match(line)
        if replaced is not None:
            outgoing[replaced.group(1)] = replaced.group(2)
        elif line.rstrip(":") in _SECTIONS and line.endswith(":"):
            section, words = _SECTIONS[line.rstrip(":")], []
        elif not line.startswith(" "):
            section = None if line.strip() else section
        elif section is not None:
            words += line.split()
            if len(words) >= 5:
                name, version, origin = words[0], words[2], words[3]
                if section == "in":
                    incoming[name] = (version, origin)
                else:
                    outgoing[name] = version
                words = []
    return Table(incoming, outgoing)


def _errors(text: str) -> str:
    """What dnf says is wrong, without progress and tables."""
    lines = text.splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith("Error")), None)
    return " ".join(lines[start:start + 6]) if start is not None else text[-400:]
