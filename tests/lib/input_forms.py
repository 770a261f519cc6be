# SPDX-License-Identifier: GPL-3.0-or-later
"""The inputs of a captured tree, and the forms that each may have: wrong, unreadable, zero, a counter at its ceiling.

An input is a file, or one value in the answer of a command or in a file of several lines.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.counters import BY_NAME
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import READ_LIMIT, TreeHost

# Each input is given the first two, and two of the others by its name. None: the file cannot be read (EINVAL, EACCES).
TEXTS = ("", "N/A", "[N/A]", "[Not Supported]", "not supported", "Unknown Error", "\x01\x7f")
CONTENTS = (b"", b"N/A\n", None, b"[Not Supported]\n", b"not supported\n", b"\xff\xfe\x00\x01", b"{", b"<nvidia_smi_log>")
# A value of a healthy node, and those of another that is not.
OPPOSITES = {
    "No": "Yes", "Yes": "No", "Not Active": "Active", "Enabled": "Disabled", "Disabled": "Enabled", "None": "Drain and Reset",
    "Completed": "In Progress", "Success": "Insufficient Resources", "Healthy": "Unhealthy", "Full": "Degraded", "False": "True",
    "active": "failed", "yes": "no", "RS": "None", "Standard_RS-FEC - (544,514)": "No FEC", "InfiniBand": "Ethernet",
    "Ethernet": "InfiniBand", "4: ACTIVE": "1: DOWN", "5: LinkUp": "3: Disabled", "infinity": "65536", "identity": "DMA",
    "0x00 (850 nm VCSEL)": "0x0a (Copper cable, unequalized)", "0x0c (MPO Parallel Optic)": "0x21 (Copper pigtail)",
    "1310 nm EML": "Copper cable, passive, unequalized", "Optical Module (separated)": "Passive copper cable", "0xffff": "0x7fff",
    "400 Gb/sec (4X NDR)": "100 Gb/sec (1X NDR)"}
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
WITH_UNIT = re.compile(rf"(?P<number>{NUMBER.pattern})(?P<unit>(?: ?[A-Za-z%/\[\]].*)?)\Z")
_RECORD = re.compile(r"[0-9]+,([0-9]+),([0-9]+),")
_XML = re.compile(r"<(?P<close>/?)(?P<name>[a-zA-Z_]\w*)[^<>]*?(?P<empty>/?)>(?P<text>[^<]*)")
_JSON = re.compile(r'"(?P<text>[^"]*)"(?P<key>\s*:)?|(?P<word>\btrue\b|\bfalse\b|-?[0-9]+(?:\.[0-9]+)?)')
_LINE = re.compile(r"^[ \t]*(?P<name>[A-Za-z][\w .,()/#-]*?)[ \t]*(?:[:=][ \t]*|[ \t]+(?=-?[0-9]+$))(?P<value>\S.*?)[ \t]*$", re.MULTILINE)
_COLUMNS = re.compile(r"(?P<value>[^,\n]+)(?:, |$)", re.MULTILINE)
_ALIKE = ((re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|pci[0-9a-f]{4}:[0-9a-f]{2}"), "PCI"), (re.compile("(?:PCI/)+"), "PCI/"),
          (re.compile(r"(?<=generic_)(?:ib_|rdma_|mlx_|mlx5_ib)\w*|(?<=sys/module/)(?:ib_|rdma_|mlx_|mlx5_ib)\w*"), "MODULE"),
          (re.compile(r"(?<!gids/)(?<!types/)(?<!ndevs/)[0-9]+"), "#"))
CLASSES = {b"0x0604": "bridge", b"0x0302": "gpu", b"0x1200": "gpu", b"0x0200": "nic", b"0x0207": "nic"}
_FUNCTION = re.compile(r"(sys/devices/.*[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/")
LOG_FAULTS = (
    "NVRM: Xid (PCI:0000:14:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "nvidia-peermem nv_get_p2p_free_callback:139 ERROR detected invalid context, skipping",
    "DMAR: [DMA Write NO_PASID] Request device [13:00.0] fault addr 0xfe000000",
    "mlx5_core 0000:13:00.0: poll_health:964:(pid 0): device's health compromised - reached miss count",
    "mlx5_core 0000:13:00.0: Port: 1 Link DOWN", "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400",
    "Out of memory: Killed process 4711 (python3) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0",
    "INFO: task python3:4711 blocked for more than 122 seconds.", "Oops: 0002 [#1] PREEMPT SMP NOPTI",
    "EXT4-fs (nvme0n1p2): Remounting filesystem read-only")


class Input(NamedTuple):
    """``path``: in the tree. ``span``: the value's place in its text; None: the whole file. ``name``: the same for alike parts."""

    path: str
    span: tuple[int, int] | None
    name: str
    value: str


class ReplacingHost(TreeHost):
    """A captured tree of which some files have another content, None: unreadable. ``seen``: the files that were read."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.replaced: dict[str, bytes | None] = {}
        self.seen: dict[str, bytes] = {}

    def read_bytes(self, path: str, limit: int = READ_LIMIT) -> bytes | None:
        place = self.path(path)[len(self.root) + 1 :]
        if place in self.replaced:
            data = self.replaced[place]
            return None if data is None else data[:limit]
        data = super().read_bytes(path, limit)
        if data is not None:
            self.seen[place] = data
        return data


def general(text: str) -> str:
    """A path or name without what tells alike parts from each other: PCI addresses, numbers, modules of one stack."""
    for pattern, word in _ALIKE:
        text = pattern.sub(word, text)
    return text


def with_class(path: str, files: dict[str, bytes]) -> str:
    """The path with the class of its PCI function: bridges, GPUs and NICs are not alike."""
    found = _FUNCTION.match(path)
    kind = CLASSES.get(files.get(f"{found.group(1)}/class", b"")[:6], "other") if found is not None else ""
    return path if found is None else f"{path[: found.end(1)]}/{kind}{path[found.end(1) :]}"


def inputs_of(files: dict[str, bytes], only: str, each: int = 2) -> list[list[Input]]:
    """Of alike files whose path matches the first, and of each of them the values, of alike ones ``each``. The file itself comes last."""
    groups: dict[str, list[Input]] = {}
    for path, data in sorted(files.items()):
        if not re.search(only, path):
            continue
        name = general(with_class(path, files))
        if name in groups:
            continue
        text = data.decode("utf-8", "replace")
        often: dict[str, int] = {}
        groups[name] = []
        for part, start, end in values_in(text) if text.count("\n") > 1 or text[:1] in ("{", "[", "<") else ():
            often[part] = often.get(part, 0) + 1
            most = {"<": 1, "[": 10}.get(text[:1], each)  # of a document about alike GPUs the first; interfaces differ
            if often[part] <= most and text[start:end].strip():
                groups[name].append(Input(path, (start, end), f"{name} {part}", text[start:end]))
        groups[name].append(Input(path, None, name, text))
    return list(groups.values())


def values_in(text: str) -> Iterator[tuple[str, int, int]]:
    """(name, start, end) of each value in an XML or JSON document, in lines of names and values, or in columns."""
    if text.startswith("<"):
        yield from _xml(text)
    elif text[:1] in ("{", "["):
        yield from _json(text)
    elif _LINE.search(text):
        yield from ((general(match["name"]), *match.span("value")) for match in _LINE.finditer(text))
    else:
        yield from (("column", *match.span("value")) for match in _COLUMNS.finditer(text))


def _xml(text: str) -> Iterator[tuple[str, int, int]]:
    path: list[str] = []
    for match in _XML.finditer(text):
        if match["close"]:
            del path[len(path) - 1 - path[::-1].index(match["name"]) :]
        elif not match["empty"]:
            path.append(match["name"])
            if match["text"].strip():
                yield "/".join(path), *match.span("text")


def _json(text: str) -> Iterator[tuple[str, int, int]]:
    """Each number, word and text that is a value, by the key before it."""
    key = ""
    for match in _JSON.finditer(text):
        if match["key"]:
            key = match["text"]
        else:
            yield key, *match.span("word" if match["word"] else "text")


def with_text(items: list[tuple[Input, str]], text: str) -> bytes:
    """The file with other texts in the place of some of its values."""
    for item, form in sorted(items, key=lambda pair: pair[0].span or (0, 0), reverse=True):
        assert item.span is not None
        start, end = item.span
        bare = text[:1] in ("{", "[") and text[start - 1] != '"' and not re.fullmatch(r"true|false|" + NUMBER.pattern, form)
        plain = form if text[:1] not in ("{", "[") else form.replace("\x01", "")  # JSON has no control characters
        text = text[:start] + (f'"{plain}"' if bare else plain) + text[end:]
    return text.encode()


def unreadable_forms(item: Input, whole: str) -> list[bytes | None]:
    """What the file may hold instead so that the input cannot be read."""
    number = zlib.crc32(item.name.encode())
    if item.span is None:
        forms = [*CONTENTS[:3], CONTENTS[3 + number % 5]]
        return [form for form in forms if form != whole.encode()]
    texts = {*TEXTS[:2], TEXTS[2 + number % 5], TEXTS[2 + (number // 5) % 5]} - {item.value.strip()}
    return [with_text([(item, text)], whole) for text in sorted(texts)]


def wrong_values(item: Input) -> list[str]:
    """Other values of the same form."""
    value = item.value.strip()
    if value in OPPOSITES:
        return [OPPOSITES[value]] + ["Failure"] * (value == "Healthy")
    if len(value) > 200 or "\n" in value:
        return []
    number = WITH_UNIT.match(value)
    if number is None:
        return ["wrong", NUMBER.sub(lambda found: str(int(float(found[0])) + 1), value, count=1)]
    amount, unit = float(number["number"]), number["unit"]
    return [f"{new:g}{unit}" for new in (0, -1, amount + 1, 999999) if new != amount]


def wrong_contents(item: Input, whole: str) -> list[bytes]:
    """What the file holds on a node on which the input is wrong. Of a file of several values also what ``FAULTY`` knows."""
    if item.span is not None:
        return [with_text([(item, value)], whole) for value in wrong_values(item)]
    known = [change(whole).encode() for pattern, change in FAULTY if re.search(pattern, item.path)]
    return known + ([b"wrong\n"] if "\n" in item.value.strip() else [f"{value}\n".encode() for value in wrong_values(item)])


def zeroed(item: Input, whole: str) -> bytes | None:
    """The file with 0 in the place of another number; None for what is no number, or 0 already."""
    number = WITH_UNIT.match(item.value.strip())
    if number is None or not float(number["number"]):
        return None
    text = "0" + number["unit"]
    return with_text([(item, text)], whole) if item.span is not None else f"{text}\n".encode()


def at_ceiling(item: Input) -> bytes | None:
    """The file of a port's counter that stands at its largest value."""
    folder, _slash, name = item.path.rpartition("/")
    row = BY_NAME.get(name) if folder.endswith("counters") and item.span is None else None
    return f"{row.ceiling}\n".encode() if row is not None and row.ceiling else None


def with_faults(text: str) -> str:
    """The kernel's log with a line of each kind of fault, 11 hours after boot."""
    number = int(_RECORD.findall(text)[-1][0])
    return text + "".join(f"6,{number + place},{40000 + place}000000,-;{line}\n" for place, line in enumerate(LOG_FAULTS, 1))


def without_module(name: str) -> Callable[[str], str]:
    return lambda text: "".join(line for line in text.splitlines(True) if not line.startswith(name + " "))


# What a file of several lines holds on a faulty node, by its path.
FAULTY: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("dev/kmsg$", with_faults),
    ("proc/modules$", lambda text: text + "nouveau 2400000 0 - Live 0x0000000000000000\n"),
    ("proc/modules$", without_module("nvidia_peermem")),
    ("proc/modules$", without_module("mlx5_ib")),
    ("/resource$", lambda text: re.sub("0x000000[0-9a-f]{2}([0-9a-f]{8}) 0x000000[0-9a-f]{2}", r"0x00000000\1 0x00000000", text)),
)
