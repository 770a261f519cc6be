# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdict ``erdma.mode``: the driver of every node runs in the wanted mode, and all nodes in modes that talk to each other. Pure.

What runs is told by the driver's parameter; of the kernel's own driver, which has none, by the kind of its devices. Both are
asked where there are both: a device that does not follow the parameter was made by another driver than the loaded one.
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ...rules.comparisons import Inspection, Where, verdict
from ...rules.erdma_mode import LEAVE, LETTERS, NODE_TYPES, RAW_TYPES, WORDS, letter_of_type, mode_of
from ...types import Verdict

CHECK = "erdma.mode"
DRIVER = "erdma"


def judge_mode(seen: Inspection) -> List[Verdict]:
    node, spec, facts = seen.node, seen.spec, seen.facts
    mode = mode_of(spec, seen.identity)
    if mode is None:
        return []
    where, expected = Where(node, None, None, "eRDMA driver"), "%s (compat_mode=%s)" % (mode, LETTERS[mode])
    loaded = parameters(facts)
    if loaded is None:
        return [verdict(CHECK, where, "unknown", expected, None, "which kernel modules are loaded cannot be read on this node")]
    if loaded == {}:
        return [verdict(CHECK, where, "fail", expected, "not loaded", "the driver erdma is not loaded: this node has no eRDMA device")]
    odd = odd_devices(facts, loaded.get("compat_mode"))
    if odd:
        why = "the devices and the driver's parameter disagree: %s; load the driver again" % odd
        return [verdict(CHECK, where, "fail", expected, odd, why)]
    letter = wire_letter(facts)
    if letter is None:
        return [verdict(CHECK, where, "unknown", expected, None, "the kernel's own driver has no modes, and there is no device to tell by")]
    found = said(letter, loaded.get("compat_mode") is not None, facts)
    if letter == LETTERS[mode]:
        return [verdict(CHECK, where, "pass", expected, found, "the driver runs as %s" % found)]
    more = "erdma_driver is leave, so railwright does not change it" if spec["erdma_driver"] == LEAVE else "apply reloads it, with consent"
    return [verdict(CHECK, where, "fail", expected, found, "the driver runs as %s, not in mode %s; %s" % (found, mode, more))]


def said(letter: str, parameter: bool, facts: Mapping[str, Any]) -> str:
    """What runs, and what tells it."""
    tool = (facts.get("erdma") or {}).get("eadm_version")
    sign = "compat_mode=%s" % letter if parameter else "node_type %s, the kernel's own driver" % RAW_TYPES[NODE_TYPES[letter]]
    return "%s (%s%s)" % (WORDS[letter].partition(" (")[0], sign, "; eadm: %s" % tool if tool else "")


def parameters(facts: Mapping[str, Any]) -> Optional[Mapping[str, Any]]:
    """Of the loaded driver, {"compat_mode": letter or None}; {} where it is not loaded, None where nothing tells."""
    modules = facts.get("modules")
    if modules is None:
        return None
    module = modules.get(DRIVER)
    return {"compat_mode": (module.get("parameters") or {}).get("compat_mode")} if module is not None else {}


def types_of(facts: Mapping[str, Any]) -> Dict[str, Optional[str]]:
    """Letter by device of the driver, as its node_type tells."""
    return {str(hca.get("name")): letter_of_type(hca.get("node_type")) for hca in facts.get("hcas") or [] if hca.get("driver") == DRIVER}


def odd_devices(facts: Mapping[str, Any], letter: Optional[str]) -> str:
    """Devices whose kind is not what the parameter says, in words."""
    if letter is None:
        return ""
    wrong = sorted((name, RAW_TYPES[NODE_TYPES[other]]) for name, other in types_of(facts).items() if other is not None and other != letter)
    return ", ".join("%s is `%s`, compat_mode is %s" % (name, kind, letter) for name, kind in wrong)


def wire_letter(facts: Mapping[str, Any]) -> Optional[str]:
    """N or Y: what a node talks on the wire, whoever's driver it has. None: unknown, or its devices disagree."""
    loaded = parameters(facts)
    if loaded and loaded.get("compat_mode") in WORDS:
        return str(loaded["compat_mode"])
    letters = set(types_of(facts).values())
    return letters.pop() if len(letters) == 1 else None


def judge_modes(nodes: Mapping[str, Mapping[str, Any]]) -> List[Verdict]:
    """Over all nodes that have the driver: one kind of wire. A node by itself is judged above; here only the mix."""
    letters = {node: wire_letter(view["facts"]) for node, view in nodes.items() if parameters(view["facts"])}
    known = {node: letter for node, letter in letters.items() if letter is not None}
    if not letters:
        return []
    where = Where("", None, None, "eRDMA modes")
    if len(known) < 2:
        return [verdict(CHECK, where, "skipped", None, len(known), "%d node tells its mode: nothing to compare" % len(known))]
    camps = "; ".join("%s on %s" % (WORDS[letter], ", ".join(members)) for letter, members in camps_of(known))
    if len(set(known.values())) == 1:
        alike = "%d nodes run as %s" % (len(known), WORDS[next(iter(known.values()))])
        return [verdict(CHECK, where, "pass", "one wire mode", camps, alike)]
    return [verdict(CHECK, where, "fail", "one wire mode", camps, "nodes in different modes cannot talk RDMA to each other: " + camps)]


def camps_of(letters: Mapping[str, str]) -> Sequence[Any]:
    """(letter, nodes), the larger camp first."""
    found = {letter: sorted(node for node in letters if letters[node] == letter) for letter in set(letters.values())}
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
