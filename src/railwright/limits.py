# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of --limit that are not Ansible's: Slurm's and pdsh's host lists, and ``slurm:job=ID`` and the like. Pure.

``gpu[1-16]`` is a host list, and to Ansible hosts 1 to 16 of group gpu. Where only one of the two has hosts it is that one. Where both
have, and not the same, numbers with leading zeros are a host list, one number alone is Ansible's, and all else is refused with both spelt
out. Signs work as Ansible's: all parts together, less what is outside of a part with ``&``, less the parts with ``!``, in any order.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import is_address
from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import first_of
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.slurm import expand
from railwright.exitcodes import InputError

SLURM = r"slurm:(?=[a-z]+=)"  # without the = it is a group of this name
NODES = "slurm:nodes="  # a host list in Slurm's names; Slurm itself is not asked
SHOWN = 5  # names in a message
_BRACKETS = r"\[[^\[\]]*\]"
_AT_COMMAS = re.compile(rf"(?:[^,\[\]]|{_BRACKETS})+")
_AT_COLONS = re.compile(rf"[!&]?(?:{SLURM})?(?:[^:\[\]]|{_BRACKETS})+")


class Part(NamedTuple):
    """One part of a limit. ``sign``: ``!``, ``&`` or nothing."""

    sign: str
    text: str


def parts(limit: str | None) -> list[Part]:
    """Empty where nothing can be ours: without brackets and ``slurm:KIND=``, or where brackets do not match."""
    if limit is None or re.search(rf"\[|{SLURM}", limit) is None or set("[]") & set(re.sub(_BRACKETS, "", limit)):
        return []
    found = []
    for part in map(str.strip, _AT_COMMAS.findall(limit)):
        for text in [part] if is_address(part.lstrip("!&")) else _AT_COLONS.findall(part):
            sign = text[:1] if text[:1] in ("!", "&") else ""
            found.append(Part(sign, text[len(sign):].strip()))
    return found


def slurm_parts(limit: str | None) -> list[str]:
    return [part.text for part in parts(limit) if re.match(SLURM, part.text)]


def settled(limit: str | None, nodes: Collection[str]) -> str | None:
    """The limit of a run that goes on: what Slurm was asked for may have changed, and its nodes are known."""
    return ",".join(nodes) if slurm_parts(limit) else limit


def chosen(
    limit: str | None, hosts: Collection[str], match: Callable[[str], set[str]], check: Callable[[str], None],
    slurm: Mapping[str, Collection[str]],
) -> set[str] | None:  # fmt: skip
    """The hosts of a limit; None where it has no part of ours. ``match``: the hosts of a pattern of Ansible's, ``check``: whether its names
    exist, ``slurm``: of each ``slurm:`` part the hosts. Raises InputError.
    """
    own = [(part, slurm[part.text] if part.text in slurm else _listed(part.text, hosts, match)) for part in parts(limit)]
    if all(found is None for _part, found in own):
        return None
    sets: dict[str, list[set[str]]] = {"": [], "&": [], "!": []}
    for part, found in own:
        if found is None:
            check(part.text)
        sets[part.sign].append(match(part.text) if found is None else set(found))
    return (set().union(*sets[""]) if sets[""] else set(hosts)).intersection(*sets["&"]).difference(*sets["!"])


def _listed(text: str, hosts: Collection[str], match: Callable[[str], set[str]]) -> set[str] | None:
    """The hosts of a host list; None of what is Ansible's."""
    if "[" not in text or text[0] in "~@" or set(text) & set("*?"):
        return None
    try:
        names = expand(text)
    except ValueError:
        return None
    missing = [name for name in names if name not in hosts]
    ansible = set() if "," in text else match(text)  # Ansible splits at every comma
    leading_zeros = re.search(r"[\[,-]0[0-9]", text) is not None
    if "," not in text and (len(missing) == len(names) or (ansible and "-" not in text and not leading_zeros)):
        return None
    if ansible and ansible != set(names) and not leading_zeros:
        other = re.sub(r"\[([0-9]{1,15})-([0-9]{1,15})\]$", r"[\1:\2]", text)
        raise InputError(
            f"--limit {text}: is {first_of(sorted(ansible), SHOWN)} to Ansible, and {first_of(names, SHOWN)} as a host list; allowed: "
            f"{','.join(sorted(ansible)) if other == text else other} for the one, {NODES}{text} for the other")
    if missing:
        raise InputError(f"--limit {text}: {first_of(missing, SHOWN)}: no host of the inventory; allowed: {first_of(sorted(hosts), SHOWN)}")
    return set(names)
