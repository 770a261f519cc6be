# SPDX-License-Identifier: GPL-3.0-or-later
"""What an agent found, until it is cured or somebody says that it is known. Pure.

A finding is a check and a part (its serial number, where it has one). It is cured when the check passes and has not failed for ``CALM``
seconds, and not while the check is unknown for that part; one that a reboot would only hide (``STAYS``) needs a word, or a part with
another serial number.
"""

import zlib
from collections import Counter
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..catalogue.counters import BY_NAME, LINK_DOWNED, full_text
from ..catalogue.health import BY_CHECK, CHECKS, FLAP_HOURS
from ..catalogue.needed import NEEDED
from ..formats.program_output import one_line
from ..rules.check_modes import ENFORCE, OFF, CheckModes, is_held
from ..rules.comparisons import VerdictSubject, verdict
from ..types import Verdict
from .counters import DOWNS, Part, beyond
from .counters import ERRORS as LIMITS
from .history import HOUR, Moment, is_stamped, is_time

CALM = 600.0
STAYS = ("node.machine_check", "node.memory", "pci.aer")
BAD = ("fail", "warn")
OK, SHARED, REFUSE, UNJUDGED, HELD = "ok", "shared", "refuse", "unjudged", "held"
HANGS = "node.hangs"
# Of the node's own health. A link may be the switch's fault, NFS the server's, and what `check` alone finds the site's; but no site takes a
# GPU or an HCA off the bus.
REFUSING = {row.check for row in CHECKS if row.check.startswith(("gpu.", "pci.", "hca.", "node."))} - {"node.nfs"} | {
    HANGS, "hca.device", "pci.switch"}
COUNTED = STAYS + ("gpu.xid", "gpu.ecc")  # whoever knew of one error did not know of the next
SHOWN = ("id", "check", "subject", "part", "status", "text")
TEXT = 400  # characters
MOST = 200  # findings that are kept; cured ones go first
FLAPS, ERRORS = "port.flaps", "port.growth"


class Acting(NamedTuple):
    """The modes, holds and upgrades by which a finding acts or does not.

    ``held``: codes of the hold file. ``upgraded``: when the node's driver, firmware or railwright changed, in seconds since the epoch, as
    long as its window lasts; None after it.
    """

    modes: CheckModes = CheckModes()
    held: Sequence[str] = ()
    upgraded: Optional[float] = None

    def mode(self, finding: Mapping[str, Any]) -> str:
        return self.modes.of(finding["check"], finding["subject"])

    def is_fresh(self, finding: Mapping[str, Any]) -> bool:
        """Return whether the check first failed after an upgrade of which nobody knows yet whether it made the check wrong."""
        return self.upgraded is not None and float(finding["first"]) >= self.upgraded


class News(NamedTuple):
    """``kind``: found, worse, better, cured, known; ``finding``: as it is now."""

    kind: str
    finding: Dict[str, Any]


def is_shown(row: Any) -> bool:
    """Return whether a row of a file has the fields of a finding that are published, each of its type."""
    if not isinstance(row, dict) or not is_time(row.get("first")) or not all(isinstance(row.get(name), str) for name in SHOWN):
        return False
    known = row.get("known")
    return known is None or (isinstance(known, dict) and is_time(known.get("t")) and all(
        isinstance(known.get(name), str) for name in ("by", "reason")))


def is_finding(row: Any) -> bool:
    """Return whether a row of a file has all fields of a finding, each of its type."""
    return is_shown(row) and isinstance(row.get("key"), str) and is_stamped(row.get("seen")) and (
        row.get("cured") is None or is_time(row["cured"]))


def flap_verdicts(node: str, parts: Sequence[Part], downs: Sequence[Mapping[str, Any]], moment: Moment, limit: int) -> List[Verdict]:
    """``downs``: records of links that went down, but for those of our own applies and after boot. One verdict a port that is there."""
    found = []
    for part in (part for part in parts if DOWNS in part.counters):
        recent = [row for row in downs if row.get("part") == part.key and moment.since(dict(row)) <= FLAP_HOURS * HOUR]
        times = sum(int(row.get("n", 1)) for row in recent)
        full = LINK_DOWNED in part.full
        status = "fail" if times >= limit else "warn" if times else "unknown" if full else "pass"
        text = ("its link went down %d times in %d hours; %s" % (times, FLAP_HOURS, BY_CHECK[FLAPS].todo) if times else
                full_text(LINK_DOWNED) if full else "its link stays up")
        found.append(verdict(FLAPS, VerdictSubject(node, None, None, part.name), status, BY_CHECK[FLAPS].what, "%d downs" % times, text))
    return found


def error_verdicts(node: str, parts: Sequence[Part], grown: Sequence[Mapping[str, Mapping[str, int]]]) -> List[Verdict]:
    """``grown``: how far the counters of each part grew in the last whole hour, and in this one so far."""
    found = []
    for part in (part for part in parts if part.key.startswith("port ")):
        bad = next(filter(None, (beyond(total.get(part.key) or {}) for total in grown)), [])
        full = [name for name in part.full if name in LIMITS]
        todo = "; ".join(dict.fromkeys(BY_NAME[row[0]].todo or BY_CHECK[ERRORS].todo for row in bad))
        text = (", ".join("%s grew by %d, beyond %d an hour" % row for row in bad) + ": " + todo if bad else
                "; ".join(map(full_text, full)) or "few errors")
        found.append(verdict(ERRORS, VerdictSubject(node, None, None, part.name), "warn" if bad else "unknown" if full else "pass",
                             BY_CHECK[ERRORS].what, bad[0][0] if bad else "", text))
    return found


def merge(known: Dict[str, Dict[str, Any]], verdicts: Sequence[Verdict], parts: Sequence[Part], moment: Moment) -> List[News]:
    """Change ``known`` (findings by id) to what these verdicts say; what none of them is about stays as it is."""
    serials = {part.name: part.key for part in parts}
    keyed = [("%s|%s" % (item.check, serials.get(item.subject, item.subject)), item) for item in verdicts]
    bad = {key: item for key, item in keyed if item.status in BAD}
    unclear = {key for key, item in keyed if item.status == "unknown"}
    looked = {item.check for item in verdicts if item.status in BAD + ("pass",)}
    open_keys = {finding["key"]: finding for finding in known.values() if not finding["cured"]}
    changes = [_seen_again(open_keys[key], item, moment) if key in open_keys else _found(known, key, item, serials, moment)
               for key, item in bad.items()]
    changes += [_calm(finding, moment, serials) for key, finding in open_keys.items()
                if key not in bad and key not in unclear and finding["check"] in looked and _there(finding, serials)]
    _forget(known)
    return [change for change in changes if change is not None]


def _there(finding: Mapping[str, Any], serials: Mapping[str, str]) -> bool:
    """Of a part that is gone nothing passes; where another one has its place, it was replaced."""
    return not finding["part"] or finding["part"] in serials.values() or finding["subject"] in serials


def _found(known: Dict[str, Dict[str, Any]], key: str, item: Verdict, serials: Mapping[str, str], moment: Moment) -> News:
    stamp = "%08x" % zlib.crc32(("%s %r" % (key, moment)).encode("utf-8"))
    finding = {
        "id": stamp, "key": key, "check": item.check, "subject": item.subject, "part": serials.get(item.subject, ""), "status": item.status,
        "text": one_line(item.message, TEXT),
        "first": moment.t, "seen": dict(moment._asdict()), "cured": None, "known": None,
    }
    known[stamp] = finding
    return News("found", finding)


def _seen_again(finding: Dict[str, Any], item: Verdict, moment: Moment) -> Optional[News]:
    """A finding that stays as bad as it was once is said to be no better: a warning of a part that failed is its failure's rest."""
    before = finding["status"]
    if finding["check"] in COUNTED and finding["text"] != one_line(item.message, TEXT):
        finding["known"] = None
    kept = before if finding["check"] in STAYS and item.status == "warn" else item.status
    finding.update(status=kept, text=one_line(item.message, TEXT), seen=dict(moment._asdict()))
    if kept == before:
        return None
    if kept == "fail":
        finding["known"] = None  # whoever knew of the warning did not know of this
    return News("worse" if kept == "fail" else "better", finding)


def _calm(finding: Dict[str, Any], moment: Moment, serials: Mapping[str, str]) -> Optional[News]:
    replaced = bool(finding["part"]) and finding["part"] not in serials.values() and finding["subject"] in serials
    stays = finding["check"] in STAYS and finding["status"] == "fail" and not finding["known"]
    calm = moment.since(finding["seen"]) if finding["seen"]["boot"] == moment.boot else moment.up  # nobody looked while it was off
    if not replaced and (stays or calm < CALM):
        return None
    finding["cured"] = moment.t
    return News("cured", finding)


def acknowledge(known: Dict[str, Dict[str, Any]], stamp: str, reason: str, by: str, moment: Moment) -> Optional[News]:
    """None where no open finding has this id."""
    finding = known.get(stamp)
    if finding is None or finding["cured"]:
        return None
    finding["known"] = {"reason": reason, "by": by, "t": moment.t}
    return News("known", finding)


def _forget(known: Dict[str, Dict[str, Any]]) -> None:
    """The oldest cured ones, then the oldest warnings."""
    spare = sorted(known.values(), key=lambda finding: (not finding["cured"], finding["status"] == "fail", finding["first"]))
    for finding in spare[:max(len(known) - MOST, 0)]:
        del known[finding["id"]]


def open_findings(known: Mapping[str, Mapping[str, Any]]) -> List[Mapping[str, Any]]:
    """Those that count, the worst first, of equals the oldest."""
    found = [finding for finding in known.values() if not finding["cured"] and not finding["known"]]
    return sorted(found, key=lambda finding: (finding["status"] != "fail", finding["first"]))


def refused(known: Mapping[str, Mapping[str, Any]], acting: Acting) -> Tuple[str, str]:
    """Return the word (ok, shared, refuse or held) and why in one line. Only checks in mode enforce count.

    shared: only checks failed that may be the fleet's fault, so whoever sees all nodes decides: links, and a check that first failed after
    an upgrade of the node. held: all that failed is held.
    """
    bad = [finding for finding in open_findings(known) if finding["status"] == "fail" and acting.mode(finding) == ENFORCE]
    free = [finding for finding in bad if not is_held(finding["check"], acting.held)]
    own = [finding for finding in free if finding["check"] in REFUSING and not acting.is_fresh(finding)]
    if not bad:
        return OK, ""
    return REFUSE if own else SHARED if free else HELD, and_more(line_of((own or free or bad)[0]), len(bad))


def and_more(first: str, number: int) -> str:
    """Return the first of so many lines, and how many there are beside it."""
    return first + (" and %d more" % (number - 1) if number > 1 else "")


def line_of(finding: Mapping[str, Any]) -> str:
    return "%s %s: %s" % (finding["check"], finding["subject"], finding["text"])


def observed(known: Mapping[str, Mapping[str, Any]], acting: Acting) -> str:
    """Return what would act but for the mode of its check, in one line."""
    bad = [row for row in open_findings(known) if row["status"] == "fail" and acting.mode(row) not in (ENFORCE, OFF)]
    return and_more(line_of(bad[0]), len(bad)) if bad else ""


def missing_answers(verdicts: Sequence[Verdict], acting: Acting) -> List[str]:
    """Return the missing answers of the checks that `railwright check` needs and that act here, each as ``CHECK SUBJECT: text``."""
    return ["%s %s: %s" % (item.check, item.subject, item.message) for item in verdicts
            if item.status == "unknown" and item.check in NEEDED and acting.modes.of(item.check, item.subject) == ENFORCE
            and not is_held(item.check, acting.held)]


def word_of(known: Mapping[str, Mapping[str, Any]], missing: Sequence[str], acting: Acting) -> Tuple[str, str]:
    """The word that schedulers' hooks act on, and why: a fault comes before a missing answer."""
    word, reason = refused(known, acting)
    if word not in (OK, HELD) or not missing:
        return word, reason
    return UNJUDGED, and_more(missing[0], len(missing))


def offenders(known: Mapping[str, Mapping[str, Any]]) -> List[Tuple[str, int]]:
    """Parts that were found more than once, by serial number, the most often first."""
    times = Counter(finding["part"] for finding in known.values() if finding["part"])
    return sorted(((part, number) for part, number in times.items() if number > 1), key=lambda row: (-row[1], row[0]))
