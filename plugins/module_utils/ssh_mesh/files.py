# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the ssh mesh as text: what is authorized, which host keys are trusted, what the client is told. Pure.

Everything that a node says about itself ends up in files of the other nodes, so each
pattern here is a gate: what does not match it as a whole is not written anywhere.
"""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..areas.common.files import HEADER, is_ours

KEY = "railwright_mesh"  # in the user's .ssh
CLIENT = "/etc/ssh/ssh_config.d/50-railwright-mesh.conf"
KNOWN_HOSTS = "/etc/ssh/railwright_mesh_known_hosts"
BEGIN = "# BEGIN railwright ssh_mesh: the next apply overwrites changes made in this block"
END = "# END railwright ssh_mesh"
FROM_PER_LINE = 64  # older sshd reads lines of 8 KiB; the same key may stand on several
USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
HOST_KEY = re.compile(r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]{40,2000}={0,2}")
PUBLIC = re.compile(
    r"(?P<blob>ssh-ed25519 [A-Za-z0-9+/]{60,80}={0,2}) railwright-mesh"
    r" generation=(?P<generation>[1-9][0-9]{0,8}) serial=(?P<serial>[1-9][0-9]{0,8})")
_NODES = "# nodes: "
_USER_LINE = re.compile(r"^# user: ([A-Za-z_][A-Za-z0-9_.-]{0,31})$", re.MULTILINE)
_OPTIONS = re.compile(r'restrict,pty,from="[0-9a-fA-F.:,]+" ')
_BLOCK = re.compile(r"^%s(?:\n|\Z)(?:(?:%s|%s.* railwright-mesh ).*(?:\n|\Z))*(?:%s(?:\n|\Z))?" % (
    re.escape(BEGIN), re.escape(_NODES), _OPTIONS.pattern, re.escape(END)), re.MULTILINE)


class Member(NamedTuple):
    """A node of the mesh as the others know it. The first name is the inventory's, the first address is where that leads."""

    names: Tuple[str, ...]
    addresses: Tuple[str, ...]
    port: int
    host_keys: Tuple[str, ...]

    @property
    def alias(self) -> str:
        """What its host keys are recorded under: they stay valid when an address changes, and no other file can speak for it."""
        return "railwright-mesh-" + self.names[0]


class Authorized(NamedTuple):
    """What the block of an authorized_keys file says: the key, and every node that was given it."""

    public_key: str
    nodes: Tuple[str, ...]


def member_from(fields: Dict[str, Any]) -> Member:
    """The inverse of ``_asdict`` after a journey as JSON."""
    return Member(tuple(fields["names"]), tuple(fields["addresses"]), int(fields["port"]), tuple(fields["host_keys"]))


def block(public_key: str, members: Sequence[Member], nodes: Sequence[str]) -> str:
    """The part of authorized_keys that is ours: the key from the members' addresses alone, without forwarding of any kind."""
    addresses = sorted({address for member in members for address in member.addresses})
    chunks = [addresses[at:at + FROM_PER_LINE] for at in range(0, len(addresses), FROM_PER_LINE)]
    lines = ['restrict,pty,from="%s" %s' % (",".join(chunk), public_key) for chunk in chunks]
    return "\n".join([BEGIN, _NODES + " ".join(sorted(nodes))] + lines + [END]) + "\n"


def split(text: str) -> Tuple[str, str, str]:
    """(before, our block, after); the block is empty where there is none. A block without its end is only the lines that we wrote."""
    found = _BLOCK.search(text)
    return (text, "", "") if found is None else (text[:found.start()], found.group(), text[found.end():])


def with_block(text: str, wanted: str) -> str:
    """authorized_keys with our block replaced, added at the end, or (``wanted`` empty) taken away; everything else as it is."""
    found = _BLOCK.search(text)
    if found is None:
        return text + ("\n" if wanted and text and not text.endswith("\n") else "") + wanted
    return text[:found.start()] + wanted + _BLOCK.sub("", text[found.end():])  # of several blocks the first one's place is ours


def authorized(text: str) -> Optional[Authorized]:
    """What our block says; None where there is none, or one that we did not write so."""
    _before, found, _after = split(text)
    key: Optional[str] = None
    nodes: Tuple[str, ...] = ()
    for line in found.split("\n"):
        if line.startswith(_NODES):
            nodes = tuple(name for name in line[len(_NODES):].split() if NAME.fullmatch(name))
        options = _OPTIONS.match(line)
        if options is not None and PUBLIC.fullmatch(line[options.end():]):
            key = line[options.end():]
    return None if key is None else Authorized(key, nodes)


def known_hosts(members: Sequence[Member]) -> str:
    return HEADER + "".join("%s %s\n" % (member.alias, key) for member in members for key in member.host_keys)


def client(user: str, members: Sequence[Member]) -> str:
    """ssh_config of the mesh: for this user and these hosts alone, nothing else on the node notices it."""
    parts = [HEADER, "# user: %s\n" % user]
    for member in members:
        leads = member.names + member.addresses
        parts.append("\nMatch localuser %s originalhost %s\n  HostName %s\n" % (user, ",".join(member.names), member.addresses[0]))
        parts.append("Match localuser %s originalhost %s\n  HostKeyAlias %s\n" % (user, ",".join(leads), member.alias))
        parts.append("  Port %d\n%s" % (member.port, _COMMON))
    return "".join(parts)


_COMMON = """  IdentityFile ~/.ssh/%s
  IdentitiesOnly yes
  PreferredAuthentications publickey
  StrictHostKeyChecking yes
  CheckHostIP no
  GlobalKnownHostsFile %s
  UserKnownHostsFile /dev/null
  UpdateHostKeys no
""" % (KEY, KNOWN_HOSTS)


def client_user(text: Optional[str]) -> Optional[str]:
    """Whom a client configuration of ours was written for."""
    found = _USER_LINE.search(text) if text is not None and is_ours(text) else None
    return None if found is None else found.group(1)


def good_host_keys(texts: Sequence[Any]) -> Tuple[str, ...]:
    """Type and key of those that are host keys, without the comment, sorted."""
    found: List[str] = []
    for text in texts:
        words = str(text).split()
        if len(words) >= 2 and HOST_KEY.fullmatch(" ".join(words[:2])):
            found.append(" ".join(words[:2]))
    return tuple(sorted(set(found)))
