# SPDX-License-Identifier: GPL-3.0-or-later
"""What GRUB will start, by the menu that update-grub wrote (/boot/grub/grub.cfg): Debian and Ubuntu.

What /etc/default/grub says counts only once update-grub has run, so the menu is asked and not the wishes. An entry is named as
GRUB names it: by number, id or title, level by level (``gnulinux-advanced-UUID>gnulinux-RELEASE-advanced-UUID``). The Red Hat family
has no such menu: its entries are files (BLS), and ``saved_entry`` names one.
"""

import re
import shlex
from typing import List, NamedTuple, Optional, Tuple

from ..formats import sysfs_values
from ..formats.outside import is_digits
from ..host.host import Host

MENU = "/boot/grub/grub.cfg"
ENVIRONMENT = "/boot/grub/grubenv"
SAVED = "${saved_entry}"
ONCE = "${next_entry}"
_ID = "$menuentry_id_option"
_DEFAULT = re.compile(r'^[ \t]*set default="(.*)"[ \t]*$', re.MULTILINE)
_LINUX = re.compile(r"^linux(?:efi|16)?\s+\S*?(?:vmlinu[xz]|Image)-(\S+)")


class Item(NamedTuple):
    """An entry or a submenu. ``release``: of the kernel that it starts; of a submenu, that of its first entry."""

    names: Tuple[str, ...]  # id, title
    release: Optional[str]
    items: Tuple["Item", ...]


class Menu(NamedTuple):
    """``default`` is what the menu starts; ``once`` and ``saved`` stand in GRUB's environment."""

    items: Tuple[Item, ...]
    default: str
    once: str
    saved: str


class _Open(NamedTuple):
    kind: str
    names: Tuple[str, ...]
    lines: List[str]
    items: List[Item]


def observe_menu(host: Host) -> Optional[Menu]:
    """None where there is no menu with a kernel in it."""
    text = host.read(MENU)
    items = parse_menu(text) if text is not None else ()
    if text is None or not any(item.release for item in items):
        return None
    variables = sysfs_values.key_values(host.read(ENVIRONMENT))
    defaults = [found for found in _DEFAULT.findall(text) if found != ONCE]
    return Menu(items, defaults[-1] if defaults else "0", variables.get("next_entry", ""), variables.get("saved_entry", ""))


def parse_menu(text: str) -> Tuple[Item, ...]:
    """Braces open and close menus, entries and functions; if and fi need none."""
    top = _Open("top", (), [], [])
    stack = [top]
    for line in (line.strip() for line in text.splitlines()):
        if line.endswith("{"):
            stack.append(_opened(line))
        elif line == "}" and len(stack) > 1:
            done = stack.pop()
            if done.kind in ("menuentry", "submenu"):
                stack[-1].items.append(_item(done))
        else:
            stack[-1].lines.append(line)
    return tuple(top.items)


def _opened(line: str) -> _Open:
    try:
        words = shlex.split(line)
    except ValueError:  # a function with quotes over several lines: no menu
        words = line.split()
    title = words[1:2]
    own = words[words.index(_ID) + 1:words.index(_ID) + 2] if _ID in words else []
    return _Open(words[0], tuple(own + title), [], [])


def _item(block: _Open) -> Item:
    if block.kind == "submenu":
        return Item(block.names, block.items[0].release if block.items else None, tuple(block.items))
    found = [match.group(1) for match in (_LINUX.match(line) for line in block.lines) if match is not None]
    return Item(block.names, found[0] if found and sysfs_values.is_name(found[0]) else None, ())


def starts(menu: Menu) -> Tuple[Optional[str], str]:
    """The release that the next boot starts, and what says so."""
    if menu.once:
        return _resolve(menu.items, menu.once), "next_entry in " + ENVIRONMENT
    if menu.default == SAVED:
        return _resolve(menu.items, menu.saved), "saved_entry in " + ENVIRONMENT
    return _resolve(menu.items, menu.default), "default entry of " + MENU


def _resolve(items: Tuple[Item, ...], text: str) -> Optional[str]:
    """An entry that is not there is the first one, as in GRUB."""
    word, _joint, rest = text.partition(">")
    found = next((item for item in items if word in item.names), None)
    if found is None and is_digits(word) and int(word) < len(items):
        found = items[int(word)]
    if found is None:
        return items[0].release if items else None
    return _resolve(found.items, rest) if rest and found.items else found.release


def entry_of(menu: Menu, release: str) -> Optional[str]:
    """The name of the entry that starts exactly this kernel, whatever is installed later; None where there is none.

    Never the first entry of the menu, which is whatever kernel is newest, and no recovery mode.
    """
    return _find(menu.items, "gnulinux-%s-" % release, release)


def _find(items: Tuple[Item, ...], start: str, release: str) -> Optional[str]:
    for item in items:
        own = item.names[0] if item.names else ""
        if item.items:
            below = _find(item.items, start, release)
            if below is not None:
                return "%s>%s" % (own, below)
        elif item.release == release and own.startswith(start) and "-recovery-" not in own:
            return own
    return None
