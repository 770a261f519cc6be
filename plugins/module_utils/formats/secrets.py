# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a node's files and answers may leave it in a bundle: which are never taken, and which values are hidden. Pure.

Names tell, as in ``masking``; here also the known forms of tokens and keys, for a bundle is sent to others. Where an environment or a
shell's startup file is read, only the variables of NCCL, UCX, SHARP and Open MPI are kept: any other may be a secret whatever its name.
"""

import json
import re
from typing import Optional, Sequence

from .masking import HIDDEN, masked, masked_text
from .outside import json_value

# Files that hold nothing else than keys, passwords or tokens.
NEVER = re.compile(
    r"/(?:g?shadow-?|\.netrc|\.pgpass|munge\.key|krb5\.keytab|auth\.conf|id_[a-z0-9_]+|authorized_keys|ssh_host_[a-z0-9_]+key)\Z"
    r"|/(?:\.ssh|\.gnupg|\.aws|\.kube|\.docker|ssl/private|pki/tls/private|auth\.conf\.d|sudoers\.d)(?:/|\Z)"
    r"|\.(?:key|pem|p12|pfx|jks|keytab)\Z")
ENVIRONMENTS = re.compile(r"/proc/[^/]+/environ\Z|/etc/(?:environment|profile|bash\.?bashrc|bashrc)\Z|/etc/profile\.d/|/root/|/home/")
OURS = re.compile(r"(?:export +)?(?:NCCL|UCX|SHARP|OMPI_MCA)_[A-Z0-9_]+=|SSH_CONNECTION=|LD_LIBRARY_PATH=")
WORDS = ("/proc/cmdline", "/etc/default/grub", "/etc/kernel/cmdline")  # an argument ends with a blank, not with the line
_PRIVATE = "PRIVATE KEY-----"
_TOKEN = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,80}|gh[pousr]_[A-Za-z0-9]{16,255}|github_pat_[A-Za-z0-9_]{16,255}|glpat-[A-Za-z0-9_-]{16,64}"
    r"|nvapi-[A-Za-z0-9_-]{16,128}|sk-[A-Za-z0-9_-]{20,200}|xox[abprs]-[A-Za-z0-9-]{10,200}|A[KS]IA[0-9A-Z]{16}"
    r"|eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,4000})|(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{43}=(?![A-Za-z0-9+/=])")  # the last: WireGuard's


def fit_to_leave(path: str, data: bytes) -> Optional[bytes]:
    """The content without its secrets; None where all of it is one. What is no text is kept: the kernel's tables, PCI's configuration."""
    if NEVER.search(path) is not None:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None if _PRIVATE.encode("ascii") in data else data
    if _PRIVATE in text:
        return None
    environment = ENVIRONMENTS.search(path) is not None
    return fit_text(text, environment, path in WORDS).encode("utf-8")


def fit_answer(argv: Sequence[str], text: str) -> str:
    """What a command printed. ``env -0`` and systemd's show-environment are environments."""
    return HIDDEN if _PRIVATE in text else fit_text(text, "show-environment" in argv or "env" in argv[:1], False)


def fit_text(text: str, environment: bool, words: bool) -> str:
    if environment:
        end = "\0" if "\0" in text else "\n"
        parts = text.split(end)  # the first and the last are nobody's: what is printed before and after
        return end.join(_TOKEN.sub(HIDDEN, part) if OURS.match(part.strip()) else "" for part in parts)
    if text.lstrip()[:1] in ("{", "["):
        value = json_value(text)
        if value is not None:
            return _TOKEN.sub(HIDDEN, json.dumps(masked(value)))
    if words:
        return _TOKEN.sub(HIDDEN, re.sub(r"[^\s\"']+", lambda word: masked_text(word.group(0)), text))
    return _TOKEN.sub(HIDDEN, masked_text(text))
