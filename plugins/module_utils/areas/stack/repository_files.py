# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in the files that tell apt and dnf about a vendor's repository. Pure text.

Every repository has a keyring of its own: a vendor's key must not sign for anybody else's
packages. Conflicts between repositories are settled in files of ours, never in those of the
distribution: apt by preferences, dnf by excludepkgs and priority of our own definition.
"""

import re
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ...catalogue.repositories import Repository
from ...formats.outside import lines_in
from ..common.files import HEADER

PREFIX = "railwright-"
STAGED = "/var/cache/railwright/keys/%s"  # where the role downloads a signing key to
KEYRINGS = {"apt": "/etc/apt/keyrings", "dnf": "/etc/pki/rpm-gpg"}
DEFINITIONS = {"apt": "/etc/apt/sources.list.d", "dnf": "/etc/yum.repos.d"}
PREFERENCES = "/etc/apt/preferences.d"
# apt_preferences(5): below 0 never; 1000 wins over newer ones that are not installed, above it over an installed one too.
NEVER, KEEP, HOLD = -1, 1000, 1001
MODULES = "/etc/dnf/modules.d/%s.module"  # where dnf keeps which stream of a module is enabled
_WEB, _FILE = re.compile(r"\Ahttps?://"), re.compile(r"\Afile:(//)?")


class Held(NamedTuple):
    """A package that is kept at a version (or a glob of one)."""

    name: str
    version: str


def keyring_path(manager: str, name: str) -> str:
    file = "RPM-GPG-KEY-%s%s" % (PREFIX, name) if manager == "dnf" else "%s%s.asc" % (PREFIX, name)
    return "%s/%s" % (KEYRINGS[manager], file)


def definition_path(manager: str, name: str) -> str:
    return "%s/%s%s.%s" % (DEFINITIONS[manager], PREFIX, name, "repo" if manager == "dnf" else "sources")


def definition(manager: str, repository: Repository) -> str:
    if manager == "dnf":
        return _dnf_definition(repository)
    # deb822 (sources.list(5)): known to every apt since 1.1.
    lines = ["# " + repository.purpose, "Types: deb", "URIs: " + repository.url]
    lines += ["Suites: ./"] if repository.flat else ["Suites: " + repository.suite, "Components: main"]
    if repository.architectures:  # apt asks for no index that the vendor has not
        lines.append("Architectures: " + repository.architectures)
    return HEADER + "\n".join(lines + ["Signed-By: " + keyring_path("apt", repository.name), ""])


def _dnf_definition(repository: Repository) -> str:
    lines = [
        "[%s%s]" % (PREFIX, repository.name), "name=" + repository.purpose, "baseurl=" + repository.url, "enabled=1", "gpgcheck=1",
        "repo_gpgcheck=%d" % repository.index_signed, "gpgkey=file://" + keyring_path("dnf", repository.name),
        "skip_if_unavailable=0",
    ]
    if repository.excludes:
        lines.append("excludepkgs=" + " ".join(repository.excludes))
    if repository.priority is not None:
        lines.append("priority=%d" % repository.priority)
    return HEADER + "\n".join(lines + [""])


def preferences(repository: Repository) -> Optional[str]:
    """What apt may and may not take from this repository; None where nothing needs saying."""
    host = repository.url.split("/")[2] if "://" in repository.url else ""
    pin = "release l=" + repository.label if repository.label else 'origin "%s"' % host
    blocks = [_block(glob, pin, NEVER) for glob in repository.excludes]
    blocks += [_block(" ".join(row.packages), "version " + row.version, KEEP) for row in repository.pins]
    if repository.priority is not None:
        blocks.append(_block(" ".join(repository.supplies) or "*", pin, repository.priority))
    return HEADER + "\n".join(blocks) if blocks else None


def _block(package: str, pin: str, priority: int) -> str:
    return "Package: %s\nPin: %s\nPin-Priority: %d\n" % (package, pin, priority)


def apt_holds(held: Sequence[Held]) -> str:
    return HEADER + "\n".join(_block(row.name, "version " + row.version, HOLD) for row in held)


def module_file(stream: str) -> str:
    """What ``dnf module enable NAME:STREAM`` writes."""
    name, _colon, wanted = stream.partition(":")
    return "[%s]\nname=%s\nstream=%s\nprofiles=\nstate=enabled\n" % (name, name, wanted)


def enabled_stream(content: str) -> Optional[str]:
    """The stream that such a file enables, or None."""
    values = _pairs(content, "=")
    return values.get("stream") if values.get("state") == "enabled" else None


def dnf_locks(held: Sequence[Held]) -> List[str]:
    """Lines of the versionlock plugin; without an epoch they hold for any."""
    return ["%s-%s%s.*" % (row.name, row.version, "" if "-" in row.version else "-*") for row in held]


def urls_in(path: str, text: str) -> List[str]:
    """The URLs of repositories that a file of apt or dnf defines and does not switch off."""
    if not path.endswith((".repo", ".sources")):
        rows = [line.split() for line in lines_in(text) if line.startswith("deb ")]
        return [word for row in rows for word in row if "://" in word or word.startswith("file:/")]
    dnf = path.endswith(".repo")
    found: List[str] = []
    for section in text.split("[")[1:] if dnf else text.split("\n\n"):
        values = _pairs(section, "=" if dnf else ":")
        if values.get("enabled", "yes").lower() not in ("0", "no", "false"):
            found += values.get("baseurl", "").replace(",", " ").split() if dnf else values.get("uris", "").split()
    return found


def _pairs(text: str, joint: str) -> Dict[str, str]:
    rows: List[Tuple[str, str, str]] = [line.partition(joint) for line in lines_in(text) if joint in line and not line.startswith("#")]
    return {name.strip().lower(): value.strip() for name, _joint, value in rows}


def same_place(one: str, other: str) -> bool:
    """http and https lead to the same repository; so do ``…/x86_64``, ``…/x86_64/`` and ``…/x86_64/./``."""
    places = []
    for url in (one, other):
        place = _WEB.sub("", _FILE.sub("file:", url.strip().replace("$basearch", "x86_64")))
        while place.endswith(("/", "/.")):
            place = place[:-1]
        places.append(place)
    return places[0] == places[1]
