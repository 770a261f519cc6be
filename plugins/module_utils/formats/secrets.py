# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a node's files and answers may leave it in a bundle: which are never taken, and which values are hidden. Pure.

Names tell, as in ``masking``; here also the known forms of tokens and keys, for a bundle is sent to others. A variable of an environment is
somebody's own, and may be a secret whatever its name: wherever one is set, only the variables of NCCL, UCX, SHARP and Open MPI keep their
values, and no others' names are taken from an environment or a shell's startup file.
"""

import json
import re
from functools import partial
from typing import Callable, Match, Optional, Sequence

from .masking import HIDDEN, masked, masked_text, secret_name
from .outside import json_value

# Files that hold nothing else than keys, passwords or tokens.
NEVER = re.compile(
    r"/(?:g?shadow-?|\.netrc|\.pgpass|munge\.key|krb5\.keytab|auth\.conf|id_[a-z0-9_]+|authorized_keys|ssh_host_[a-z0-9_]+key)\Z"
    r"|/(?:\.ssh|\.gnupg|\.aws|\.kube|\.docker|ssl/private|pki/tls/private|auth\.conf\.d|sudoers\.d)(?:/|\Z)"
    r"|\.(?:key|pem|p12|pfx|jks|keytab)\Z")
ENVIRONMENTS = re.compile(
    r"/proc/[^/]+/environ\Z|/etc/(?:environment|profile|bash\.?bashrc|bashrc|security/pam_env\.conf)\Z|/etc/profile\.d/|/root/|/home/"
    r"|/cmd/(?:env_|systemctl_show-environment)")
# Where NAME=VALUE is the system's; in any other file it may be an environment, as in what NCCL_CONF_FILE names.
_SYSTEM = re.compile(r"/(?:sys|proc|dev|boot|usr/(?!local/)|lib|var/lib|cmd)/|/etc/(?:os-release\Z|default/grub|kernel/|railwright/)")
_OURS = re.compile(r"(?:NCCL|UCX|SHARP|OMPI_MCA)_[A-Z0-9_]+\Z|SSH_CONNECTION\Z|LD_LIBRARY_PATH\Z")
_SETTING = re.compile(r"([#;\s]*(?:export +)?([A-Za-z_][A-Za-z0-9_]*)\s*=)(.*)", re.DOTALL)
_BEHIND = re.compile(r"[\s;&|](?s:.*)")  # another variable or command, perhaps; none of our values has such a sign
_SYSTEMD = re.compile(r"(?m)^[#; \t]*(?:(?:Default|Manager)?Environment|SetCredential(?:Encrypted)?)[ \t]*=(?:.*\\\n)*.*")
_WORD = re.compile(r"(?:\"[^\"]*\"?|'[^']*'?|[^\s\"'\\])+")
_USER = re.compile(r"(?m)^(?!root\s)[A-Za-z_]\S*(?=[ \t]+(?:soft|hard|-)[ \t])")  # of limits.conf; * and @group name nobody
WORDS = ("/proc/cmdline", "/etc/default/grub", "/etc/kernel/cmdline")  # an argument ends with a blank, not with the line
_SOCKETS, _LLDPAD = "/proc/net/unix", "/lldpad"  # the only socket that a check looks for; the others are named by their users
_PRIVATE = "PRIVATE KEY-----"
_TOKEN = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,80}|gh[pousr]_[A-Za-z0-9]{16,255}|github_pat_[A-Za-z0-9_]{16,255}|glpat-[A-Za-z0-9_-]{16,64}"
    r"|nvapi-[A-Za-z0-9_-]{16,128}|sk-[A-Za-z0-9_-]{20,200}|xox[abprs]-[A-Za-z0-9-]{10,200}|A[KS]IA[0-9A-Z]{16}"
    r"|eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,4000})|(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{43}=(?![A-Za-z0-9+/=])"  # WireGuard's
    r"|grub\.pbkdf2\.\S{1,2000}|(?<=iscsi:)[^@\s\"']{1,200}@")


Known = Callable[[str], bool]


def known_variable(name: str) -> bool:
    """Whether the value of a variable may leave the node: it configures NCCL, UCX, SHARP or Open MPI, and its name is no secret's."""
    return _OURS.match(name) is not None and not secret_name(name)


def fit_value(name: str, value: str, known: Known = known_variable) -> str:
    """The value of one variable, without what stands behind it on its line."""
    return _BEHIND.sub(" " + HIDDEN, value.rstrip()) if known(name) else HIDDEN


def fit_to_leave(path: str, data: bytes, known: Known = known_variable) -> Optional[bytes]:
    """The content without its secrets; None where all of it is one. What is no text is kept: the kernel's tables, PCI's configuration."""
    if NEVER.search(path) is not None:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None if _PRIVATE.encode("ascii") in data else data
    if _PRIVATE in text:
        return None
    if ENVIRONMENTS.search(path) is not None:
        text = fit_environment(text, known)
    elif path == _SOCKETS:
        text = "\n".join(line for line in text.split("\n") if line.endswith(_LLDPAD))
    elif _SYSTEM.match(path) is None or path.endswith(".conf"):
        text = fit_settings(_USER.sub(HIDDEN, text), known, path.endswith("nccl.conf"))
    return fit_text(text, path in WORDS).encode("utf-8")


def fit_answer(argv: Sequence[str], text: str) -> str:
    """What a command printed. ``env -0`` and systemd's show-environment are environments."""
    environment = "show-environment" in argv or "env" in argv[:1]
    return HIDDEN if _PRIVATE in text else fit_text(fit_environment(text, known_variable) if environment else text, False)


def fit_text(text: str, words: bool) -> str:
    if text.lstrip()[:1] in ("{", "["):
        value = json_value(text)
        if value is not None:
            return _TOKEN.sub(HIDDEN, json.dumps(masked(value)))
    if words:
        return _TOKEN.sub(HIDDEN, re.sub(r"[^\s\"']+", lambda word: masked_text(word.group(0)), text))
    return _TOKEN.sub(HIDDEN, masked_text(text))


def fit_environment(text: str, known: Known) -> str:
    """Only our variables; a line stays where it was."""
    end = "\0" if "\0" in text else "\n"
    found = map(_SETTING.match, text.split(end))  # the first and the last are what is printed before and after
    return end.join(
        _fit_setting(each, known, end == "\0" and known(each.group(2))) if each and _OURS.match(each.group(2)) else "" for each in found)


def fit_settings(text: str, known: Known, conf: bool) -> str:
    """A file that may set variables. ``conf``: it does nothing else, as nccl.conf."""
    lines = []
    for line in _SYSTEMD.sub(partial(_fit_systemd, known), text).split("\n"):
        found = _SETTING.match(line)
        if found is None:
            lines.append(line[:line[0] == "#"] + HIDDEN if conf and line else line)
        else:
            lines.append(_fit_setting(found, known, not conf and not found.group(2).isupper()))
    return "\n".join(lines)


def _fit_setting(found: Match[str], known: Known, whole: bool) -> str:
    """``whole``: return the setting unchanged, with all that follows."""
    return found.group() if whole else found.group(1) + fit_value(found.group(2), found.group(3), known)


def _fit_systemd(known: Known, lines: Match[str]) -> str:
    head, equals, words = lines.group().partition("=")
    return head + equals + _WORD.sub(partial(_fit_word, known), words)


def _fit_word(known: Known, word: Match[str]) -> str:
    """Systemd takes quotes around a whole assignment, too."""
    name, equals, _value = word.group().strip("\"'").partition("=")
    return word.group() if equals and known(name) else (name + equals if equals and name.isidentifier() else "") + HIDDEN
