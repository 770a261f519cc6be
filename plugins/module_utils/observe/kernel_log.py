# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults in the kernel's log since boot: each kind and device once, with how often, since when, and the last message.

Sources, best first: the kernel's ring by ``/dev/kmsg``; the journal, for what the ring has lost or where it is hidden; dmesg's text, in
which any program can write lines, so that verdicts from it are at best unknown. A message about a PCI function counts only if this node
has the function or had it since boot. Messages are bounded, and so are the devices of each kind: a flood of one hides no other.
"""

import re
from collections import Counter
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ..catalogue.kernel_log import ENDS, EVIDENCE, OF_RAILS, RULES
from ..formats.outside import json_object, mapping, rows, whole
from ..formats.program_output import one_line
from ..formats.sysfs_values import is_name, pci_address
from ..host.host import Host
from ..host.kernel_ring import LINE, Record, believable, read_ring, uptime
from .devices import CLASS_INFINIBAND, CLASS_NET, PCI_DEVICES, entries, pci_attribute, pci_of

KMSG, JOURNALD, DMESG = "kmsg", "journal", "dmesg"
TRUSTED = (KMSG, JOURNALD)
LINES = 20000
JOURNAL = ("journalctl", "-k", "-b", "-q", "--no-pager", "-n", str(LINES), "-o", "json",
           "--output-fields=MESSAGE,SYSLOG_FACILITY,_TRANSPORT,_SOURCE_MONOTONIC_TIMESTAMP")
SECONDS = 5.0
TEXT = 200  # characters of a message that are kept
DEVICES, TIMES = 128, 16  # of one kind (GPUs times numbers of Xids); moments of one device
STRANGERS = 16  # events about functions that the node does not have: a forger must not fill the facts
FALLEN_OFF = 79
PEER = "peer"  # the word of an event about a NIC of the kind that has RDMA devices on this node
# The first of three lines of one message, and the others.
GPU_LINE, MORE_LINES = "NVRM: The NVIDIA GPU ", ("NVRM: (PCI ID: ", "NVRM: installed in this system ", "NVRM: fallen off the bus ")
QUIET = 30 * 60.0  # seconds after boot in which links may come and go
AGENT, AGENT_LIMIT = "/run/railwright/agent/last.json", 8 * 1024 * 1024  # root's: which functions the agent saw since boot
_LINE = re.compile(r"\[ {0,11}([0-9]{1,12}\.[0-9]{1,9})\](?:\[ {0,8}[TC][0-9]{1,10}\])? (.{0,%d})" % LINE)
_ENUMERATED = re.compile(r"pci ([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): \[([0-9a-f]{4}:[0-9a-f]{4})\] type ")
_UNPRINTABLE = re.compile(r"[^ -\[\]-~]")
_WORD = re.compile(r"\b(Nonfatal|Fatal)\b|\bto 0x[0-9a-fA-F]{1,4} \(([A-Za-z0-9 ]{1,40})\)")
_SHORT_BUS = re.compile(r"[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?\Z")
_LONG_DOMAIN = re.compile(r"0000([0-9a-fA-F]{4}:.*)\Z")


class Log(NamedTuple):
    """``source``: None where nobody may read it, with the reason in ``why``. ``complete``: from the boot on."""

    source: Optional[str]
    why: Optional[str]
    complete: bool
    records: List[Record]


def read_log(host: Host) -> Log:
    """Return the messages since boot from the best sources."""
    ring = read_ring(host)
    complete = bool(ring) and ring[0].number == 0
    if not complete and host.which(JOURNAL[0]) is not None:
        stored = [record for record in map(_of_journal, host.run(JOURNAL, SECONDS).out.split("\n")) if record is not None]
        older = [record for record in believable(host, stored) if not ring or record.at < ring[0].at]
        if older:
            return Log(JOURNALD, None, older[0].at == 0.0, older + ring)
    if ring:
        return Log(KMSG, None, complete, ring)
    answer = host.run((DMESG,), SECONDS)
    lines = [_LINE.match(line) for line in answer.out.split("\n")] if answer.ok else []
    text = believable(host, [Record(float(line.group(1)), _escaped(line.group(2))) for line in lines if line is not None])
    if text:
        return Log(DMESG, None, text[0].at == 0.0, text)
    return Log(None, one_line(answer.err or "dmesg printed nothing", TEXT), False, [])


def observe_log(host: Host) -> Dict[str, Any]:
    """Return ``Log`` without its messages, ``since`` and ``until`` (stamps of the first and last one, seconds since boot), ``number`` of
    the last one, and ``events`` (see ``events_of``)."""
    log = read_log(host)
    last = log.records[-1] if log.records else None
    events = events_of(log.records, log.source in TRUSTED, known_functions(host, log.records), (), function_of(host))
    return {"source": log.source, "why": log.why, "complete": log.complete, "since": log.records[0].at if last else None,
            "until": last.at if last else None, "number": last.number if last else -1,
            "events": with_peers(host, log.records, events)}


def newer_log(host: Host, log: Mapping[str, Any]) -> Dict[str, Any]:
    """Return ``log`` (of ``observe_log``) with the events since then. An unreadable log is returned unchanged; one of text begins again
    where records can be read now, and text adds nothing to records."""
    if not log.get("source"):
        return dict(log)
    number, until = whole(log.get("number"), -1) or 0, min(log.get("until") or 0.0, uptime(host))
    found = read_log(host) if number < 0 else Log(KMSG, None, False, read_ring(host))
    if found.source in TRUSTED and log["source"] not in TRUSTED:
        return observe_log(host)
    records = [record for record in found.records if (record.number > number if min(record.number, number) >= 0 else record.at > until)]
    if not records or (found.source in TRUSTED) != (log["source"] in TRUSTED):
        return dict(log, until=until)
    events = events_of(records, found.source in TRUSTED, known_functions(host, found.records), log["events"], function_of(host))
    return dict(log, events=with_peers(host, found.records, events), until=records[-1].at, number=records[-1].number)


def _of_journal(line: str) -> Optional[Record]:
    row = json_object(line) or {}
    stamp, message = whole(row.get("_SOURCE_MONOTONIC_TIMESTAMP"), 0), row.get("MESSAGE")
    if row.get("_TRANSPORT") != "kernel" or row.get("SYSLOG_FACILITY") != "0" or stamp is None:
        return None
    if isinstance(message, list):  # journald's form of a message with unprintable bytes
        message = bytes(byte for byte in message if isinstance(byte, int) and 0 <= byte < 256).decode("utf-8", "replace")
    return Record(stamp / 1e6, _escaped(message)) if isinstance(message, str) else None


def _escaped(text: str) -> str:
    """Escape a message as ``/dev/kmsg`` does, so that it reads the same from each source."""
    data = text[:LINE].encode("utf-8", "replace").decode("latin-1")
    return _UNPRINTABLE.sub(lambda found: "\\x%02x" % ord(found.group()), data)[:LINE]


def known_functions(host: Host, records: Sequence[Record]) -> Callable[[str], bool]:
    """Return whether a PCI function is in sysfs, was enumerated since boot, or was seen by the agent since boot."""
    names = set(host.listdir(PCI_DEVICES)) | set(enumerated(records))
    kept: List[Set[str]] = []  # read for the first function that is not among them: it is some megabytes

    def known(name: str) -> bool:
        if name not in names and not kept:
            kept.append(agent_functions(host))
        return name in names or name in kept[0]

    return known


def enumerated(records: Iterable[Record]) -> Dict[str, str]:
    """Return vendor and device of the PCI functions that the kernel found on a bus, at boot or when they were plugged in."""
    return {match.group(1): match.group(2) for match in (_ENUMERATED.match(record.text) for record in records) if match is not None}


def function_of(host: Host) -> Callable[[str], str]:
    """Return what names the PCI function of an interface; an interface without one keeps its name."""
    return lambda name: (pci_of(host, "%s/%s" % (CLASS_NET, name)) if is_name(name) else None) or name


def with_peers(host: Host, records: Sequence[Record], events: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Set the word of events about NICs that carry jobs: physical functions of the vendor and device of one that has an RDMA device now,
    and those that the agent saw with one. A NIC that failed may have none any more."""
    failed = [event for event in events if event["event"] in OF_RAILS and not event["word"]]
    if failed:
        found, seen = enumerated(records), agent_functions(host)
        hcas = [pci_of(host, "%s/%s" % (CLASS_INFINIBAND, name)) for name in entries(host, CLASS_INFINIBAND)]
        working = {_kind(host, pci, found) for pci in hcas if pci is not None}
        for event in failed:
            kind = _kind(host, event["device"], found)
            virtual = host.readlink("%s/%s/physfn" % (PCI_DEVICES, event["device"])) is not None
            if event["device"] in seen or (kind is not None and kind in working and not virtual):
                event["word"] = PEER
    return events


def _kind(host: Host, pci: str, found: Mapping[str, str]) -> Optional[str]:
    """Return vendor and device of a PCI function, from sysfs or, after it left the bus, from the kernel's log."""
    ids = [(pci_attribute(host, pci, name) or "").strip()[2:] for name in ("vendor", "device")]
    return ":".join(ids).lower() if all(ids) else found.get(pci)


def agent_functions(host: Host) -> Set[str]:
    """Return the PCI functions that the agent has seen since boot; none from a file that is not root's."""
    status = host.status(AGENT)
    if status is None or (host.live and status.st_uid):
        return set()
    return functions_of(mapping(json_object(host.read(AGENT, AGENT_LIMIT))))


def functions_of(look: Mapping[str, Any]) -> Set[str]:
    """Return the PCI functions of GPUs and HCAs in a look of the agent (``facts``) and in those before it (``functions``)."""
    facts, before = mapping(look.get("facts")), look.get("functions")
    found = [row.get("pci") or row.get("pci_address") for name in ("gpus", "hcas") for row in rows(facts.get(name))]
    return {name for name in found + (before if isinstance(before, list) else []) if isinstance(name, str)}


def events_of(
    records: Sequence[Record], trusted: bool, known: Callable[[str], bool], before: Sequence[Mapping[str, Any]] = (),
    function: Callable[[str], str] = str,
) -> List[Dict[str, Any]]:
    """Group messages by rule and device, in the order of the log: ``event``, ``device``, ``number``, ``word``, ``count``, ``first``,
    ``last``, ``times`` (the last ones), ``text`` of the last message, and ``listed`` (it is about no PCI function, or about a known one).
    ``before``: events of earlier messages; ``function``: names the PCI function of an interface. The end of a fault counts only from a
    trusted source and from the driver that reported it."""
    found: Dict[Tuple[str, str, Optional[int]], Dict[str, Any]] = {
        (event["event"], event["device"], event["number"]): dict(event) for event in before}
    devices = Counter(event["event"] if event.get("listed") else "" for event in before)
    for record in joined(records):
        for rule in RULES:
            match = rule.pattern.match(record.text) if rule.needle in record.text else None
            if match is None:
                continue
            groups = match.groupdict()
            name, number = rule.event, int(groups["number"]) if groups.get("number") else None
            if name == "gpu_lost":
                name, number = "xid", FALLEN_OFF
            device = _device(next((groups[part] for part in ("device", "device2", "device3") if groups.get(part)), ""))
            key = (name, function(device) if name == "tx_timeout" and pci_address(device) is None else device, number)
            faults = [found.get((fault, key[1], None)) for fault in ENDS.get(name, ())]
            if name in ENDS and not (trusted and (name in EVIDENCE or _ends(record, faults))):
                break
            listed = pci_address(key[1]) is None or known(key[1])
            if key not in found:
                kind = name if listed else ""
                devices[kind] += 1
                if devices[kind] > (DEVICES if listed else STRANGERS):
                    break
                found[key] = {"event": name, "device": key[1], "number": number, "word": "", "count": 0, "first": record.at, "times": []}
            _add(found[key], record, listed)
            break
    return list(found.values())


def joined(records: Iterable[Record]) -> List[Record]:
    """Join the lines of one message of NVIDIA's driver, which dmesg prints apart: only the first has the GPU."""
    found: List[Record] = []
    for record in records:
        if record.text.startswith(MORE_LINES) and found and found[-1].text.startswith(GPU_LINE) and len(found[-1].text) < TEXT:
            found[-1] = found[-1]._replace(text="%s\\x0a%s" % (found[-1].text, record.text))
        else:
            found.append(record)
    return found


def _ends(record: Record, faults: Iterable[Optional[Mapping[str, Any]]]) -> bool:
    """Return whether a message is of the driver that reported one of the faults: its first word."""
    return any(fault is not None and fault["text"].split(" ")[0].rstrip(":") == record.text.split(" ")[0].rstrip(":") for fault in faults)


def _add(event: Dict[str, Any], record: Record, listed: bool) -> None:
    event.update(count=event["count"] + 1, last=record.at, text=one_line(record.text, TEXT), times=(event["times"] + [record.at])[-TIMES:],
                 listed=listed or bool(event.get("listed")))
    word = _WORD.search(record.text) if event["event"] == "xid" else None
    if word is not None and event["word"] != "Fatal":  # one fatal line makes the whole burst fatal
        event["word"] = word.group(1) or word.group(2)


def _device(text: str) -> str:
    """Return a PCI function as the facts name it; the driver leaves out the function, and at times the domain."""
    if _SHORT_BUS.match(text):
        text = "0000:" + text
    text = _LONG_DOMAIN.sub(r"\1", text)
    return pci_address(text) or pci_address(text + ".0") or text
