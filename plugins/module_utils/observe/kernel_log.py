# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel logged since it booted that tells of a fault, each kind and device once: how often, since when, the last line.

dmesg where the ring still holds the first line of the boot, else the journal of this boot too, its newest lines. Both count seconds from
the boot, so a clock that jumps moves nothing. Lines are bounded, and so are the devices of each kind: a flood of one hides no other.
"""

import re
from collections import Counter
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..catalogue.kernel_log import ENDS, RULES
from ..formats.program_output import one_line
from ..formats.sysfs_values import pci_address
from ..host.host import Host

DMESG = ("dmesg",)  # as host/disk.py asks for it: one inspection runs it once
LINES = 20000
JOURNAL = ("journalctl", "-k", "-b", "-q", "--no-pager", "-n", str(LINES), "-o", "short-monotonic")
SECONDS = 5.0
LINE, TEXT = 600, 200  # letters of a line that are read, and kept
DEVICES, TIMES = 128, 16  # of one kind (GPUs times numbers of Xids); moments of one device
FALLEN_OFF = 79
QUIET = 30 * 60.0  # seconds after boot in which links may come and go
_STAMP = re.compile(r"\[ {0,11}([0-9]{1,12})\.([0-9]{1,9})\](?:\[ {0,8}[TC][0-9]{1,10}\])? (?:[^ ]{1,255} kernel: )?")
_WORD = re.compile(r"\b(Nonfatal|Fatal)\b|\bto 0x[0-9a-fA-F]{1,4} \(([A-Za-z0-9 ]{1,40})\)")
_SHORT_BUS = re.compile(r"[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?\Z")
_LONG_DOMAIN = re.compile(r"0000([0-9a-fA-F]{4}:.*)\Z")


class Line(NamedTuple):
    """One line. ``at``: seconds since boot."""

    at: float
    text: str


def observe_log(host: Host) -> Dict[str, Any]:
    """``source``: None where nobody may read it, with ``why``. ``complete``: from the boot on. ``events``: see ``events_of``."""
    answer = host.run(DMESG, SECONDS)
    lines = lines_of(answer.out) if answer.ok else []
    source, why = "dmesg" if lines else None, None if lines else one_line(answer.err or "dmesg said nothing", TEXT)
    complete = bool(lines) and lines[0].at == 0.0
    if not complete and host.which(JOURNAL[0]) is not None:
        older = lines_of(host.run(JOURNAL, SECONDS).out)
        if older and (not lines or older[0].at < lines[0].at):
            newer = [line for line in lines if line.at > older[-1].at]
            lines, source, why, complete = older + newer, "journalctl", None, older[0].at == 0.0
    return {"source": source, "why": why, "complete": complete, "since": lines[0].at if lines else None,
            "until": lines[-1].at if lines else None, "events": events_of(lines)}


def lines_of(text: str) -> List[Line]:
    """Those with a time; what is none (a line break in somebody's name) is nobody's word."""
    stamps = [(_STAMP.match(row), row) for row in text.splitlines()]
    return [Line(float("%s.%s" % stamp.groups()), row[stamp.end():stamp.end() + LINE]) for stamp, row in stamps if stamp is not None]


def events_of(lines: Sequence[Line], before: Sequence[Mapping[str, Any]] = ()) -> List[Dict[str, Any]]:
    """By the rule and the device, in the order of the log: ``event``, ``device``, ``number``, ``word``, ``count``, ``first``, ``last``,
    ``times`` (the last ones) and ``text`` of the last line. ``before``: those of earlier lines."""
    found: Dict[Tuple[str, str, Optional[int]], Dict[str, Any]] = {
        (event["event"], event["device"], event["number"]): dict(event) for event in before}
    devices = Counter(event["event"] for event in before)
    for line in lines:
        for rule in RULES:
            match = rule.pattern.match(line.text) if rule.needle in line.text else None
            if match is None:
                continue
            groups = match.groupdict()
            name, number = rule.event, int(groups["number"]) if groups.get("number") else None
            if name == "gpu_lost":
                name, number = "xid", FALLEN_OFF
            key = (name, _device(next((groups[part] for part in ("device", "device2", "device3") if groups.get(part)), "")), number)
            if name in ENDS and (ENDS[name], key[1], None) not in found:
                break
            if key not in found:
                devices[name] += 1
                if devices[name] > DEVICES:
                    break
                found[key] = {"event": name, "device": key[1], "number": number, "word": "", "count": 0, "first": line.at, "times": []}
            _add(found[key], line)
            break
    return list(found.values())


def _add(event: Dict[str, Any], line: Line) -> None:
    event.update(count=event["count"] + 1, last=line.at, text=one_line(line.text, TEXT), times=(event["times"] + [line.at])[-TIMES:])
    word = _WORD.search(line.text) if event["event"] == "xid" else None
    if word is not None and event["word"] != "Fatal":  # one fatal line makes the whole burst fatal
        event["word"] = word.group(1) or word.group(2)


def _device(text: str) -> str:
    """A PCI function as the facts name it; the driver leaves out the function, and at times the domain."""
    if _SHORT_BUS.match(text):
        text = "0000:" + text
    text = _LONG_DOMAIN.sub(r"\1", text)
    return pci_address(text) or pci_address(text + ".0") or text
