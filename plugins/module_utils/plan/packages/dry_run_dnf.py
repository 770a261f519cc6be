# SPDX-License-Identifier: GPL-3.0-or-later
"""The package steps on dnf: the real dnf with private repository files, caches and plugin settings, on the node's rpm database.

Nothing is ever answered with yes but the import of a pinned key into the overlay's own key ring, and downloads. The signatures of
what comes from our repositories are checked against that key alone.
"""

import re
from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple

from ...areas.stack.repository_files import KEYRINGS, keyring_path
from ...catalogue.repositories import Repository
from ...catalogue.stacks import marked
from ...errors import RailwrightError
from ...formats.outside import lines_in
from ...host.write import Result
from ...observe.packages import VERSIONLOCK
from .dry_run import Prover, Transaction, check_room, copy, one_line, place_files, repository_of, run_checked, size_of

REPOS, PLUGINS, CACHE, PERSIST = "/etc/yum.repos.d", "/etc/dnf/plugins", "/var/cache/dnf", "/var/lib/dnf"
REFRESH_SECONDS, RESOLVE_SECONDS, DOWNLOAD_SECONDS = 900.0, 600.0, 3600.0
_SECTIONS = {
    "Installing": "in", "Installing dependencies": "in", "Installing weak dependencies": "in", "Upgrading": "in", "Downgrading": "in",
    "Reinstalling": "in", "Removing": "out", "Removing dependent packages": "out", "Removing unused dependencies": "out",
}
_REPLACING = re.compile(r"^ +replacing +(\S+)\.[^. ]+ (\S+)")
_SIZES = re.compile(r"^(Total download|Installed) size: ([0-9.]+) ?([kMGT]?)", re.MULTILINE)
_MISSING = re.compile(r"(?:No match for argument|Unable to find a match): (.+)$", re.MULTILINE)
_BAD_PACKAGE = re.compile(
    r"(?:Failing package is: |Public key for |^Package )(\S+?)(?: is not signed| is not installed|\.? *$)", re.MULTILINE)
_BAD_SIGNATURE = re.compile(r"GPG|signature|not signed", re.IGNORECASE)
_BAD_INDEX = re.compile(r"checksum doesn't match|Cannot download|All mirrors were tried|Failed to download metadata", re.IGNORECASE)


class DnfProver(Prover):
    joint, local = "-", "@commandline"
    gone: Sequence[str] = ()  # what the transaction removes: no package of that name comes

    def prepare(self) -> None:
        host, root = self.host, self.root
        self.repos, self.keys, self.plugins, self.cache = root + "/repos", root + "/keys", root + "/plugins", root + "/cache"
        for source, target in ((REPOS, self.repos), (PLUGINS, self.plugins), (CACHE, self.cache), (PERSIST, root + "/persist")):
            copy(host, source, target)
        copy(host, KEYRINGS["dnf"], self.keys)  # a definition may change whose key stays
        place_files(host, self.case, {REPOS: self.repos, KEYRINGS["dnf"]: self.keys, PLUGINS: self.plugins})
        settings = self.plugins + "/versionlock.conf"  # so that the plugin reads the list as it will be
        text = host.read(settings)
        if text is not None:
            host.write(settings, text.replace(VERSIONLOCK["dnf"][0], self.plugins + "/versionlock.list"))
        for row in self.case.repositories:
            if row.stream is not None:  # the enabled stream is the node's, not the overlay's: look past it
                path = "%s/railwright-%s.repo" % (self.repos, row.name)
                host.write(path, (host.read(path) or "") + "module_hotfixes=1\n")
        ours = ["--repo=railwright-" + row.name for row in self.case.repositories]
        # Then every repository, in one go and with yes: one whose index is signed needs its key in the overlay's own key ring.
        for asked in ([["--refresh"] + ours] if ours else []) + [[]]:
            result = self.dnf("-y", *asked, "makecache", seconds=REFRESH_SECONDS)
            if not result.ok:
                raise RailwrightError(self.explain_refresh(result))

    def refresh(self) -> None:
        """Done before the removals."""

    def dnf(self, *argv: str, seconds: float = RESOLVE_SECONDS) -> Result:
        values = ("reposdir=" + self.repos, "cachedir=" + self.cache, "pluginconfpath=" + self.plugins, "persistdir=%s/persist" % self.root,
                  "logdir=%s/log" % self.root, "keepcache=1", "clean_requirements_on_remove=0", "install_weak_deps=1")
        return self.host.run(("dnf",) + tuple("--setopt=" + value for value in values) + argv, seconds)

    def explain_refresh(self, result: Result) -> str:
        text = result.err + "\n" + result.out
        place = self.place_of(text)
        lines = [line for line in lines_in(text) if line.startswith(("Error", "  - ", "Failed")) or "GPG signature" in line]
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
        names = [name for name in self.case.names("absent") if name in self.installed(self.case.names("absent"))]
        if not names:
            return {}
        result = self.dnf("--assumeno", "remove", *names)
        table = parse_table(result.out)
        if not table.outgoing:
            raise RailwrightError(self.explain(result))
        return table.outgoing

    def offered(self, name: str, supplier: Optional[Repository]) -> Iterator[str]:
        from_it = ("--repo=railwright-" + supplier.name,) if supplier is not None else ()
        result = self.dnf("-q", "repoquery", "--available", *from_it, "--qf", "%{name} %{evr}", "--latest-limit=1", name)
        for row in (line.split() for line in lines_in(result.out)):
            if len(row) == 2 and row[0] == name and (supplier is not None or not marked(row[1])):
                yield row[1]

    def install(self, names: Sequence[str]) -> Transaction:
        if not names:
            return Transaction({}, {})
        returning = self.returning()
        while True:
            self.gone = ["%s-%s" % row for row in sorted(self.removed.items()) if row[0] not in returning]
            result = self.transaction("--assumeno", names)
            found = parse_table(result.out)
            staying = returning - set(found.incoming) if found.incoming else set()
            if not staying:
                break
            returning -= staying
        text = result.out + "\n" + result.err
        nothing = not (found.incoming or found.outgoing or "Nothing to do" in result.out)
        if _MISSING.search(text) or nothing or ("Problem" in text and not found.incoming):
            raise RailwrightError(self.explain(result))
        return found

    def replace(self, coming: Sequence[str], going: Sequence[str]) -> Transaction:
        self.gone = going
        result = self.transaction("--assumeno", coming) if coming else self.dnf("--assumeno", "remove", *going)
        found = parse_table(result.out)
        if not (found.incoming or found.outgoing):
            raise RailwrightError(self.explain(result))
        return found

    def returning(self) -> Set[str]:
        """Names that the new stack has too. dnf takes no other version of a name that the same transaction removes (the role has two), so
        these are replaced instead, which comes to the same."""
        ours = ["--repo=railwright-" + row.name for row in self.case.repositories]
        if not self.removed or not ours:
            return set()
        result = self.dnf("-q", "repoquery", "--qf", "%{name}", *(ours + sorted(self.removed)))
        return set(result.out.split()) & set(self.removed)

    def transaction(self, answer: str, names: Sequence[str]) -> Result:
        """One command, or one with the removals before it, as the role makes them one after the other."""
        seconds = RESOLVE_SECONDS if answer == "--assumeno" else DOWNLOAD_SECONDS
        flags = [answer] if answer == "--assumeno" else ["-y", answer]
        if not self.gone:
            return self.dnf(*(flags + ["install"] + list(names)), seconds=seconds)
        script = self.root + "/transaction"
        self.host.write(script, "remove %s\ninstall %s\nrun\n" % (" ".join(self.gone), " ".join(names)))
        return self.dnf(*(flags + ["shell", script]), seconds=seconds)

    def fetch(self, names: Sequence[str], found: Transaction) -> None:
        """Signatures too, with the pinned key."""
        if found.incoming:
            check_room(self.host, found.room[0], found.room[1], CACHE if self.host.exists(CACHE) else "/var")
        if not (found.incoming and names and self.case.download):
            return
        before = self.trusted_keys()
        result = self.transaction("--downloadonly", names)
        for key in sorted(self.trusted_keys() - before):  # dnf trusts a repository's key on the way; the dry run leaves none behind
            self.host.run(("rpm", "-e", "gpg-pubkey-" + key), 60.0)
        text = result.err + "\n" + result.out
        if not result.ok and _BAD_INDEX.search(text):
            raise RailwrightError("%s: a package cannot be downloaded, or is not the file that the index describes; nothing was changed. "
                                  "dnf: %s" % (repository_of(self.case, text), one_line(_errors(text))))
        if not result.ok:
            raise RailwrightError(self.explain(result))
        for row in self.case.repositories:
            self.verify("railwright-" + row.name, "%s/%s" % (self.keys, keyring_path("dnf", row.name).rpartition("/")[2]))
        for place in self.host.listdir(self.cache):
            if self.host.listdir("%s/%s/packages" % (self.cache, place)):
                copy(self.host, "%s/%s/packages" % (self.cache, place), "%s/%s/packages" % (CACHE, place))

    def trusted_keys(self) -> Set[str]:
        out = self.host.run(("rpm", "-q", "gpg-pubkey", "--qf", "%{VERSION}-%{RELEASE}\\n"), 60.0).out
        return {line for line in lines_in(out) if re.match(r"[0-9a-f]+-[0-9a-f]+$", line)}

    def verify(self, repository: str, key: str) -> None:
        places = [name for name in self.host.listdir(self.cache) if name.startswith(repository + "-")]
        files = ["%s/%s/packages/%s" % (self.cache, place, name) for place in places
                 for name in self.host.listdir("%s/%s/packages" % (self.cache, place)) if name.endswith(".rpm")]
        if not files:
            return
        database = "%s/rpmdb-%s" % (self.root, repository)
        run_checked(self.host, ("rpmkeys", "--dbpath", database, "--import", key))
        result = self.host.run(["rpmkeys", "--dbpath", database, "--checksig"] + files, RESOLVE_SECONDS)
        bad = [line.rpartition("/")[2] for line in lines_in(result.out) if not re.search(r": digests signatures OK$", line)]
        if bad or not result.ok:
            raise RailwrightError("%s: %s is not signed by the pinned key; nothing was changed" % (
                repository, ", ".join(line.partition(":")[0] for line in bad) or one_line(result.err)))

    def installed(self, names: Sequence[str]) -> Dict[str, str]:
        out = self.host.run(["rpm", "-q", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n"] + list(names), 60.0).out if names else ""
        rows = [line.split() for line in lines_in(out)]
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


def parse_table(text: str) -> Transaction:
    """dnf's table: ``name arch version repository size``, with long names on a line of their own."""
    incoming: Dict[str, Tuple[str, str]] = {}
    outgoing: Dict[str, str] = {}
    section: Optional[str] = None
    words: List[str] = []
    for line in lines_in(text):
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
    sizes = {name: size_of(number, unit) for name, number, unit in _SIZES.findall(text)}
    return Transaction(incoming, outgoing, (sizes.get("Total download", 0), sizes.get("Installed", 0)))


def _errors(text: str) -> str:
    """What dnf says is wrong, without progress and tables."""
    lines = lines_in(text)
    start = next((index for index, line in enumerate(lines) if line.startswith("Error")), None)
    return " ".join(lines[start:start + 6]) if start is not None else text[-400:]
