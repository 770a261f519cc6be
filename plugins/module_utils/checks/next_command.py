# SPDX-License-Identifier: GPL-3.0-or-later
"""The command that shows more of what a verdict is about, by the table of all checks. Pure."""

import re
from typing import Any, List, Mapping

from ..catalogue.checks import command_of

_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,32}\Z")


def next_command(item: Mapping[str, Any]) -> str:
    """Of a verdict's JSON form. What a node calls its devices is put in only where it is a plain name."""
    hca, port, pci = str(item.get("hca")), item.get("port"), _PCI.search(str(item.get("subject")))
    values = {"{hca}": hca if item.get("hca") and _PLAIN.match(hca) else "", "{port}": "%d" % port if isinstance(port, int) else "",
              "{pci}": pci.group(0) if pci else ""}
    return "; ".join(_filled(part, values) for part in command_of(str(item.get("check"))).split("; "))


def _filled(part: str, values: Mapping[str, str]) -> str:
    words: List[str] = []
    for word in part.split(" "):
        if any(name in word and not value for name, value in values.items()):
            del words[len(words) - (1 if words[-1].startswith("-") else 0):]
            continue
        words.append(word.replace("{hca}", values["{hca}"]).replace("{port}", values["{port}"]).replace("{pci}", values["{pci}"]))
    return " ".join(words)
