# SPDX-License-Identifier: GPL-3.0-or-later
"""The grammar that systemd units and NetworkManager keyfiles share: sections of key=value lines."""

from typing import List, NamedTuple, Optional

from ....formats.outside import lines_in


class Entry(NamedTuple):
    section: str
    key: str
    value: str


def parse(text: str) -> List[Entry]:
    """Every assignment in order; keys may repeat, which configparser would refuse."""
    entries: List[Entry] = []
    section = ""
    for raw in lines_in(text):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
            continue
        key, equals, value = line.partition("=")
        if equals:
            entries.append(Entry(section, key.strip(), value.strip()))
    return entries


def value(entries: List[Entry], section: str, key: str) -> Optional[str]:
    """The last value of a key, as both readers take it."""
    found = [entry.value for entry in entries if entry.section == section and entry.key == key]
    return found[-1] if found else None


def list_values(entries: List[Entry], section: str, key: str) -> List[str]:
    """All words of a list that may be spread over lines; an empty assignment starts it anew."""
    found: List[str] = []
    for entry in entries:
        if entry.section == section and entry.key == key:
            found = found + entry.value.split() if entry.value else []
    return found
