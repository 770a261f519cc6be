# SPDX-License-Identifier: GPL-3.0-or-later
"""What OpenSSH makes of its configuration for one node: asked of ``ssh -G``, so that Match, Include, canonical names and every
default mean here what they mean to Ansible, which runs ssh.

``ssh -G`` costs 8 ms. Hosts that the same ``Host`` lines match, and no ``Match`` line could tell apart, share one answer.
"""

import fnmatch
import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in

Settings = Mapping[str, tuple[str, ...]]  # keyword in small letters -> its values, a line each

SECONDS = 60.0  # a Match exec may look something up
PROBE = "railwright-probe.invalid"  # a name that no Host line is about, to learn what does not depend on the name
# What is honoured (connection.py), and what says nothing about who is reached and who asks.
HONOURED = {
    "host", "user", "hostname", "port", "addressfamily", "bindaddress", "connecttimeout", "ciphers", "macs", "kexalgorithms",
    "hostkeyalgorithms", "pubkeyacceptedalgorithms", "casignaturealgorithms", "stricthostkeychecking", "userknownhostsfile",
    "globalknownhostsfile", "hostkeyalias", "identityfile", "identitiesonly", "identityagent", "certificatefile", "proxyjump",
    "proxycommand", "preferredauthentications", "pubkeyauthentication", "passwordauthentication", "kbdinteractiveauthentication",
    "gssapiauthentication",
}  # fmt: skip
INDIFFERENT = {
    "addkeystoagent", "batchmode", "canonicaldomains", "canonicalizefallbacklocal", "canonicalizehostname", "canonicalizemaxdots",
    "canonicalizepermittedcnames", "channeltimeout", "checkhostip", "clearallforwardings", "compression", "connectionattempts",
    "controlmaster", "controlpath", "controlpersist", "dynamicforward", "enableescapecommandline", "enablesshkeysign", "escapechar",
    "exitonforwardfailure", "fingerprinthash", "forkafterauthentication", "forwardagent", "forwardx11", "forwardx11timeout",
    "forwardx11trusted", "gatewayports", "gssapidelegatecredentials", "gssapikexalgorithms", "gssapikeyexchange",
    "gssapirenewalforcesrekey", "gssapitrustdns", "hashknownhosts", "hostbasedacceptedalgorithms", "ignoreunknown", "include", "ipqos",
    "localcommand", "localforward", "loglevel", "logverbose", "nohostauthenticationforlocalhost", "numberofpasswordprompts",
    "obscurekeystroketiming", "permitlocalcommand", "permitremoteopen", "proxyusefdpass", "rekeylimit", "remoteforward", "requiredrsasize",
    "securitykeyprovider", "sendenv", "serveralivecountmax", "serveraliveinterval", "streamlocalbindmask", "streamlocalbindunlink",
    "syslogfacility", "tag", "tcpkeepalive", "tunnel", "tunneldevice", "updatehostkeys", "visualhostkey", "warnweakcrypto", "xauthlocation",
}  # fmt: skip
_LINE = re.compile(r"\s*([A-Za-z]+)(?:\s*=\s*|\s+)(.*)")


class Unreadable(Exception):
    """ssh does not take its own configuration, or is not there; the text says why."""


class _Text(NamedTuple):
    """What all configuration files say about which hosts."""

    hosts: tuple[str, ...]  # the patterns of each Host line
    distinguishes: bool  # a line may tell apart hosts that the Host lines do not


class Resolved(NamedTuple):
    """What holds for one host. Hosts of which the same holds have the very same ``shared``."""

    shared: Settings
    hostname: str  # to connect to
    file: str | None  # of ``-F``: what jump hosts are looked up in too


class SshConfig:
    """The answers of one run."""

    def __init__(self, program: str = "ssh") -> None:
        self._program = program
        self._known: dict[tuple[object, ...], dict[str, tuple[str, ...]]] = {}
        self._default: Settings | None = None

    def resolve(self, arguments: Sequence[str], host: str) -> Resolved:
        """Of ``ssh ARGUMENTS HOST``. Raises Unreadable."""
        file = file_argument(arguments)
        text = configuration_text(file)
        key = (*arguments, host if text.distinguishes else tuple(matched(patterns, host) for patterns in text.hosts))
        if key not in self._known:
            found = self._asked(tuple(arguments), host)
            if text.distinguishes or found["hostname"] != (host.lower(),):  # HostName names one host, or is made of the name
                return Resolved(found, found["hostname"][0], file)
            self._known[key] = found
        return Resolved(self._known[key], host, file)

    def unhonoured(self, settings: Settings) -> list[str]:
        """Keywords that say something else than OpenSSH's own defaults and that nothing here does."""
        default = self.default()
        return sorted(key for key in settings.keys() - HONOURED - INDIFFERENT if settings[key] != default.get(key))

    def default(self) -> Settings:
        """OpenSSH's own, without any configuration file."""
        if self._default is None:
            self._default = self._asked(("-F", "none"), PROBE)
        return self._default

    def _asked(self, arguments: tuple[str, ...], host: str) -> dict[str, tuple[str, ...]]:
        command = [self._program, *arguments, "-G", "--", host]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unreadable(f"ssh -G: {error}") from error
        if done.returncode != 0:
            said = "; ".join(done.stderr.decode("utf-8", "replace").split("\r\n" if b"\r\n" in done.stderr else "\n")).strip("; ")
            raise Unreadable(said[:300] or f"ssh -G ended {done.returncode}")
        found: dict[str, tuple[str, ...]] = {}
        for line in lines_in(done.stdout.decode("utf-8", "replace")):
            keyword, _blank, value = line.partition(" ")
            found[keyword.lower()] = (*found.get(keyword.lower(), ()), value)
        return found


def file_argument(arguments: Sequence[str]) -> str | None:
    """The file of ``-F``; None for the usual two."""
    for number, word in enumerate(arguments):
        if word.startswith("-F"):
            return word[2:] or next(iter(arguments[number + 1 :]), None)
    return None


@lru_cache(maxsize=64)
def configuration_text(file: str | None) -> _Text:
    if file is not None and file.lower() == "none":
        return _Text((), False)
    own = Path("~/.ssh").expanduser()
    files = [own / "config", Path("/etc/ssh/ssh_config")] if file is None else [Path(file)]
    hosts: list[str] = []
    distinguishes = False
    for path in files:
        for keyword, value in _lines(path, own if path.parent == own else Path("/etc/ssh"), 0):
            if keyword == "host":
                hosts.append(value)
            distinguishes |= keyword == "match" or (keyword == "canonicalizehostname" and value.lower() != "no")
    return _Text(tuple(hosts), distinguishes)


def _lines(path: Path, base: Path, depth: int) -> Iterator[tuple[str, str]]:
    """Keyword and value of each line of a file and of those that it includes. One that cannot be read is ssh's to complain about."""
    try:
        lines = lines_in(path.read_bytes().decode("utf-8", "replace"))
    except OSError:
        return
    for line in lines:
        parts = _LINE.fullmatch(line)
        if parts is None or line.lstrip().startswith("#"):
            continue
        yield parts[1].lower(), parts[2].strip()
        if parts[1].lower() == "include" and depth < 16:  # OpenSSH's own limit
            for pattern in shlex.split(parts[2], comments=True):
                wanted = base / Path(pattern).expanduser()
                for found in sorted(Path(wanted.anchor).glob(str(wanted.relative_to(wanted.anchor)))):
                    yield from _lines(found, base, depth + 1)


def matched(patterns: str, host: str) -> bool:
    """Whether a Host line is about a host: one of its patterns fits, and none that is negated."""
    words = patterns.replace('"', "").replace("[", "[[]").split()  # to ssh a bracket is a letter
    if any(fnmatch.fnmatchcase(host, word[1:]) for word in words if word.startswith("!")):
        return False
    return any(fnmatch.fnmatchcase(host, word) for word in words if not word.startswith("!"))


TOKEN = re.compile(r"%(.)|\$\{([A-Za-z0-9_]{1,128})\}")


def expanded(value: str, tokens: Mapping[str, str]) -> str:
    """A value with its tokens (%h …), environment variables and ~. Raises Unreadable for a token that nobody knows here."""

    def one(found: re.Match[str]) -> str:
        if found[2] is not None:
            return os.environ.get(found[2], "")
        if found[1] not in tokens:
            raise Unreadable(f"%{found[1]} in {value}")
        return tokens[found[1]]

    found = TOKEN.sub(one, value)
    return str(Path(found).expanduser()) if found.startswith("~") else found
