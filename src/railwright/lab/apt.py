# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller's own apt says: mirrors, proxy, extra CA certificates.

The nodes sit behind the controller, so what reaches a mirror from here is what reaches it from there.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

SUITE = "bookworm"
_SUITES = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
_COMPONENTS = ("main", "contrib", "non-free", "non-free-firmware")
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

# Proxies, and the date checks: a controller on a frozen mirror has them off, and so must its nodes.
_CONF = re.compile(r'^Acquire::((?:http|https)::Proxy(?:::[^ \n]+)?|Check-Valid-Until|Check-Date) "([^"\n]*)";$', re.MULTILINE)
# Translated descriptions are a third of what `apt-get update` downloads and parses, at emulation speed.
GUEST_CONF = ('Acquire::Languages "none";',)
# A proxy on the controller's loopback is the gateway's loopback for a guest of QEMU's user network.
_LOOPBACK = re.compile(r"//(?:127\.0\.0\.1|localhost|\[::1\])(?=[:/]|$)")


@dataclass(frozen=True)
class AptSetup:
    """sources: lines for sources.list, empty for mmdebstrap's default mirror; conf: apt.conf lines."""

    sources: tuple[str, ...] = ()
    conf: tuple[str, ...] = ()
    certificates: tuple[Path, ...] = ()

    @property
    def guest_conf(self) -> tuple[str, ...]:
        """The same configuration, as seen from inside a node."""
        return (*(_LOOPBACK.sub("//10.0.2.2", line) for line in self.conf), *GUEST_CONF)


def controller_setup(root: Path = Path("/")) -> AptSetup:
    """Read this machine's apt configuration."""
    certificates = tuple(sorted((root / "usr/local/share/ca-certificates").rglob("*.crt")))
    return AptSetup(sources=debian_sources(root), conf=apt_conf(_dump(), dict(os.environ)), certificates=certificates)


def debian_sources(root: Path) -> tuple[str, ...]:
    """This machine's Debian mirrors if it runs the same suite as the image; other vendors' repositories stay out."""
    if not _runs_suite(root):
        return ()
    etc = root / "etc/apt"
    lines: list[str] = []
    for file in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*.list"))]:
        lines += _from_list(_text(file))
    for file in sorted((etc / "sources.list.d").glob("*.sources")):
        lines += _from_deb822(_text(file))
    found = tuple(dict.fromkeys(lines))
    # Without the release suite itself (a machine with only a partial mirror list) the default is better.
    return found if any(f" {SUITE} " in line for line in found) else ()


def apt_conf(dump: str, environ: dict[str, str]) -> tuple[str, ...]:
    """Pick proxy and date-check settings from `apt-config dump`; apt also honours the proxy variables."""
    conf = {f"Acquire::{key}": value for key, value in _CONF.findall(dump) if value}
    for scheme in ("http", "https"):
        proxy = environ.get(f"{scheme}_proxy", "")
        if proxy:
            conf.setdefault(f"Acquire::{scheme}::Proxy", proxy)
    return tuple(f'{key} "{value}";' for key, value in sorted(conf.items()) if '"' not in value)


def _dump() -> str:
    try:
        done = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""  # Not a Debian controller: nothing to take over.
    return done.stdout


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _runs_suite(root: Path) -> bool:
    release = _text(root / "etc/os-release")
    fields = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', release, re.MULTILINE))
    return fields.get("ID") == "debian" and fields.get("VERSION_CODENAME") == SUITE


def _lines(uri: str, suites: list[str], components: list[str], signed_by: str, options: str = "") -> list[str]:
    """Render the Debian part of one source, or nothing."""
    mirror = uri.rstrip("/").rsplit("/", 1)[-1] in ("debian", "debian-security")
    debian = "debian-archive" in signed_by if signed_by else mirror
    if not debian or not uri.startswith(("http://", "https://")):
        return []  # Files and cdroms of the controller do not exist inside a node.
    kept = [name for name in components if name in _COMPONENTS]
    if "main" not in kept:
        return []
    option = f"[signed-by={_KEYRING}{options}]"
    return [f"deb {option} {uri} {suite} {' '.join(kept)}" for suite in suites if suite in _SUITES]


def _from_list(text: str) -> list[str]:
    found: list[str] = []
    pattern = re.compile(r"^deb[ \t]+(?:\[([^\]\n]*)\][ \t]+)?(\S+)[ \t]+(\S+)[ \t]+([^#\n]+)", re.MULTILINE)
    for options, uri, suite, components in pattern.findall(text):
        signed = re.search(r"signed-by=(\S+)", options)
        dates = " check-valid-until=no" if "check-valid-until=no" in options else ""
        found += _lines(uri, [suite], components.split(), signed.group(1) if signed else "", dates)
    return found


def _from_deb822(text: str) -> list[str]:
    found: list[str] = []
    body = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    for stanza in re.split(r"\n\s*\n", body):
        joined = re.sub(r"\n[ \t]+", " ", stanza)  # A folded line continues the one above.
        fields = {key.lower(): value.strip() for key, value in re.findall(r"^([\w-]+):(.*)$", joined, re.MULTILINE)}
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() == "no":
            continue
        dates = " check-valid-until=no" if fields.get("check-valid-until", "").lower() == "no" else ""
        for uri in fields.get("uris", "").split():
            suites, components = fields.get("suites", "").split(), fields.get("components", "").split()
            found += _lines(uri, suites, components, fields.get("signed-by", ""), dates)
    return found
