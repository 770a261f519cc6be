# SPDX-License-Identifier: GPL-3.0-or-later
"""The package steps on apt: real apt-get with private sources, lists and cache, on the node's own dpkg database.

Removals are simulated first; what they leave is written as a status file of the overlay, and the installs are simulated on that,
because that is the order in which the role works. Where an older meta package wants exact older versions, apt's resolver does not go
back by itself: those versions are then asked for by name, here and in the role.
"""

import re
from typing import Dict, Iterator, Optional, Sequence, Set, Tuple

from ...areas.stack.repository_files import same_place
from ...catalogue.repositories import Repository
from ...catalogue.stacks import marked
from ...errors import RailwrightError
from ...formats.outside import lines_in
from ...host.write import Result
from ...observe.packages import DPKG_LIMIT, DPKG_STATUS
from .dry_run import Prover, Transaction, check_room, copy, one_line, place_files, repository_of, run_checked, size_of

ARCHIVES = "/var/cache/apt/archives"
LISTS = "/var/lib/apt/lists"
UPDATE_SECONDS, RESOLVE_SECONDS, DOWNLOAD_SECONDS = 600.0, 300.0, 3600.0
ROUNDS = 12  # how deep exact dependencies of a meta package are followed
NETWORK = ("-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=30", "-o", "Acquire::https::Timeout=30")
# What the role's task says to apt-get, so that both resolve alike.
LIKE_THE_ROLE = ("-y", "--allow-downgrades", "--no-install-recommends")
_PACKAGE = re.compile(r"^Package: (\S+)$", re.MULTILINE)
_INST = re.compile(r"^Inst (\S+)(?: \[([^\]\n]+)\])? \((\S+) (.*?)\[[^\s\[\]]+\]\)", re.MULTILINE)
_REMV = re.compile(r"^(?:Remv|Purg) (\S+) \[([^\]\n]+)\]", re.MULTILINE)
# Nothing follows where another package provides the name (librdmacm1t64 does librdmacm1).
_EXACT = re.compile(
    r"Depends: (\S+) \(= ([^()\n]+)\)(?: but (?:\S+ is to be installed|it is not going to be installed|\S+ is installed)|[ \t]*$)",
    re.MULTILINE)
_SIZE = re.compile(r"^After this operation, ([0-9.,]+) ?([kMGT]?)B of additional disk space", re.MULTILINE)
_URI = re.compile(r"^'[^']+' \S+ ([0-9]{1,18}) ", re.MULTILINE)
_BAD_SIGNATURE = re.compile(r"NO_PUBKEY|BADSIG|EXPKEYSIG|REVKEYSIG|signature|is not signed|Clearsigned file", re.IGNORECASE)
_BAD_INDEX = re.compile(r"Hash Sum mismatch|unexpected size|Hashes of expected file", re.IGNORECASE)
_MISSING = re.compile(r"^E: (Version '[^']*' for '[^']*' was not found|Unable to locate package \S+|Package '[^']*' has no "
                      r"installation candidate)", re.MULTILINE)
# apt goes on with old indexes after some of these, and calls them warnings; other warnings (a key that a later policy will refuse,
# a download without the sandbox) stop nothing.
_TROUBLE = re.compile(
    r"^(?:E: .*|Err:.*|W: (?:Failed to fetch|GPG error|An error occurred during the signature|Some index files failed).*)$", re.MULTILINE)


class AptProver(Prover):
    joint, local = "=", "local-deb"
    updated = False
    names: Sequence[str] = ()  # what apt-get is asked to install

    def prepare(self) -> None:
        host, root = self.host, self.root
        self.etc, self.lists, self.status, self.archives = root + "/etc", root + "/lists", root + "/status", root + "/cache/archives"
        self.before: Dict[str, str] = {}
        copy(host, "/etc/apt", self.etc)
        place_files(host, self.case, {"/etc/apt": self.etc})
        copy(host, LISTS, self.lists)
        for directory in (self.archives + "/partial", self.root + "/ours", self.lists + "/partial"):
            run_checked(host, ("install", "-d", "-m", "0755", directory))
        # A copy in any case: beside the real one may lie the journal of an interrupted dpkg, which is repaired before the step.
        self.host.write(self.status, self.host.read(DPKG_STATUS, DPKG_LIMIT) or "")

    def refresh(self) -> None:
        """The indexes. After the removals, as in the role: with the new ones apt would rather upgrade what stands on a removed package."""
        host = self.host
        ours = [name for name in host.listdir(self.etc + "/sources.list.d") if name.startswith("railwright-")]
        for name in ours:
            run_checked(host, ("cp", "-a", "%s/sources.list.d/%s" % (self.etc, name), self.root + "/ours/"))
        if not any("_Packages" in name for name in host.listdir(self.lists)):
            self.update_all()
        if ours:  # judged alone, also after an update of everything: somebody else's broken source is not our business
            self.update(("-o", "Dir::Etc::sourcelist=/dev/null", "-o", "Dir::Etc::sourceparts=%s/ours" % self.root), strict=True)

    def options(self) -> Tuple[str, ...]:
        values = {
            "Dir::Etc::sourcelist": self.etc + "/sources.list", "Dir::Etc::sourceparts": self.etc + "/sources.list.d",
            "Dir::Etc::preferences": self.etc + "/preferences", "Dir::Etc::preferencesparts": self.etc + "/preferences.d",
            "Dir::State::lists": self.lists, "Dir::Cache": self.root + "/cache", "Debug::NoLocking": "1", "APT::Get::List-Cleanup": "0",
            "Dir::State::status": self.status,
        }
        return tuple(part for name in sorted(values) for part in ("-o", "%s=%s" % (name, values[name])))

    def apt(self, *argv: str, seconds: float = RESOLVE_SECONDS) -> Result:
        return self.host.run(("apt-get",) + self.options() + argv, seconds)

    def update(self, extra: Sequence[str], strict: bool) -> None:
        result = self.apt("-q", *(NETWORK + tuple(extra) + ("update",)), seconds=UPDATE_SECONDS)
        troubles = _TROUBLE.findall(result.out + "\n" + result.err)
        if strict and (troubles or not result.ok):
            raise RailwrightError(self.explain_update("\n".join(troubles) or result.err or result.out))

    def update_all(self) -> None:
        if not self.updated:
            self.updated = True
            self.update((), strict=False)

    def explain_update(self, text: str) -> str:
        place = repository_of(self.case, text)
        first = one_line(next((line for line in lines_in(text) if _BAD_SIGNATURE.search(line) or _BAD_INDEX.search(line)), text))
        if _BAD_SIGNATURE.search(text):
            return "%s: its index is not signed by the pinned key; nothing was changed. apt: %s" % (place, first)
        if _BAD_INDEX.search(text):
            return "%s: its index is not the one that was signed; nothing was changed. apt: %s" % (place, first)
        return "%s cannot be read; nothing was changed. apt: %s" % (place, first)

    def remove(self) -> Dict[str, str]:
        """The overlay's status file is what they leave."""
        text = self.host.read(DPKG_STATUS, DPKG_LIMIT) or ""
        there = set(_PACKAGE.findall(text))
        names = [name for name in self.case.names("absent") if name in there]
        if not names:
            return {}
        result = self.apt("-s", "-y", "remove", *names)
        if not result.ok:
            raise RailwrightError(self.explain(result))
        gone = dict(_REMV.findall(result.out))
        stanzas = [stanza for stanza in text.split("\n\n") if not gone.keys() & set(_PACKAGE.findall(stanza))]
        self.host.write(self.status, "\n\n".join(stanzas))
        return gone

    def offered(self, name: str, supplier: Optional[Repository]) -> Iterator[str]:
        if supplier is None:
            self.update_all()
        result = self.host.run(("apt-cache",) + self.options() + ("madison", name), RESOLVE_SECONDS)
        rows = [[cell.strip() for cell in line.split("|")] for line in lines_in(result.out)]
        for row in (row for row in rows if len(row) == 3 and row[0] == name):
            if not marked(row[1]) if supplier is None else same_place(row[2].partition(" ")[0], supplier.url):
                yield row[1]

    def install(self, names: Sequence[str]) -> Transaction:
        """Follow exact dependencies on older versions; inspect again with fresh indexes before giving up."""
        self.names = names
        if not names:
            return Transaction({}, {})
        for _round in range(ROUNDS):
            result = self.apt("-s", *LIKE_THE_ROLE, "install", *names, *self.exact)
            if result.ok and "held packages will be changed" not in result.out:
                self.before = {name: before for name, before, _after, _origin in _INST.findall(result.out) if before}
                return simulated(result.out)
            if not self.follow(result.out):
                if self.updated or result.ok:
                    break
                self.update_all()
        raise RailwrightError(self.explain(result))

    def replace(self, coming: Sequence[str], going: Sequence[str]) -> Transaction:
        return self.install(one_request(coming, going))

    def installed(self, names: Sequence[str]) -> Dict[str, str]:
        return {name: self.before[name] for name in names if name in self.before}

    def follow(self, text: str) -> bool:
        known: Set[str] = {name.partition("=")[0] for name in list(self.names) + self.exact}
        rows = [(name.partition(":")[0], version) for name, version in _EXACT.findall(text)]
        more = {"%s=%s" % (name, version) for name, version in rows if name not in known}
        self.exact += sorted(more)
        return bool(more)

    def fetch(self, names: Sequence[str], found: Transaction) -> None:
        if not self.names:
            return
        asked = LIKE_THE_ROLE + ("install", *self.names, *self.exact)
        sizes = self.apt("--print-uris", "-q", *asked).out
        size = _SIZE.search(sizes)
        needed = size_of(size.group(1), size.group(2)) if size is not None else 0
        for cache in ("/var/cache", ARCHIVES) if self.host.exists(ARCHIVES) else ("/var/cache",):  # fetched to one, kept in the other
            check_room(self.host, sum(int(size) for size in _URI.findall(sizes)), needed, cache)
        if not self.case.download:
            return
        kept = ["%s/%s" % (ARCHIVES, name) for name in self.host.listdir(ARCHIVES) if name.endswith(".deb")]
        if kept:  # downloaded already (links); apt compares them with the index all the same
            self.host.run(["cp", "-al", "--"] + kept + [self.archives + "/"], 300.0)
        result = self.apt("-q", "--download-only", *(NETWORK + asked), seconds=DOWNLOAD_SECONDS)
        if not result.ok:
            text = "\n".join(_TROUBLE.findall(result.out + "\n" + result.err)) or result.err
            bad = _BAD_INDEX.search(text) is not None
            why = "a package is not the file that the signed index describes" if bad else "a package cannot be downloaded"
            raise RailwrightError("%s: %s; nothing was changed. apt: %s" % (repository_of(self.case, text), why, one_line(text)))
        debs = ["%s/%s" % (self.archives, name) for name in self.host.listdir(self.archives) if name.endswith(".deb")]
        if debs:
            run_checked(self.host, ("install", "-d", "-m", "0755", ARCHIVES))
            run_checked(self.host, ["mv", "-n", "--"] + debs + [ARCHIVES + "/"], 300.0)

    def explain(self, result: Result) -> str:
        text = result.out + "\n" + result.err
        held = re.search(r"held packages will be changed:\n((?:  .+\n)+)", text)
        if held is not None:
            names = held.group(1).split()
            return "held packages would have to change: %s; nothing was changed. Lift the hold: apt-mark unhold %s" % (
                ", ".join(names), " ".join(names))
        missing = _MISSING.search(text)
        if missing is not None:
            return "%s in any repository of this node; nothing was changed" % one_line(missing.group(1))
        unmet = re.findall(r"^ (\S+) : (.+)$", text, re.MULTILINE)
        if unmet:
            return "unmet dependencies: %s; nothing was changed" % "; ".join(one_line("%s: %s" % row) for row in unmet[:3])
        lines = [line for line in lines_in(text) if line.startswith("E: ")]
        return "apt cannot do the package step; nothing was changed: %s" % one_line(" ".join(lines) or text[-400:])


def one_request(coming: Sequence[str], going: Sequence[str]) -> Tuple[str, ...]:
    """apt takes ``name-`` for a removal."""
    return tuple(coming) + tuple("%s-" % name for name in going)


def simulated(text: str) -> Transaction:
    """What ``apt-get -s`` says it would do."""
    installs = {name: (after, one_line(origin, 80)) for name, _before, after, origin in _INST.findall(text)}
    return Transaction(installs, dict(_REMV.findall(text)))
