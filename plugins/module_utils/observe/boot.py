# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernel runs, which are installed, which one the next boot starts, and whether Secure Boot lets a module in.

The next boot: the default entry of the menu that update-grub wrote (/boot/grub/grub.cfg: what /etc/default/grub says counts only once
that has run), what GRUB was told by name (next_entry, saved_entry, GRUB_DEFAULT), else the newest installed kernel as GRUB sorts
them. Flavours (6.1.0-18-amd64, 6.1.0-18-cloud-amd64) are sorted into one list there, so they are here too. The Red Hat family has
no such menu: its entries are files (BLS), and ``saved_entry`` names one.
"""

import re
import zlib
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..formats import sysfs_values
from ..formats.outside import is_digits, lines_in
from ..formats.text import shell_words
from ..host.host import Host
from ..types import as_dicts

BOOT = "/boot"
IMAGES = ("vmlinuz-", "vmlinux-", "Image-")
GRUB_ENV = ("/boot/grub2/grubenv", "/boot/grub/grubenv")
GRUB_DEFAULTS = "/etc/default/grub"
EFI = "/sys/firmware/efi"
SECURE_BOOT = EFI + "/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SHIM_OFF = EFI + "/efivars/MokSBStateRT-605dab50-e046-4300-abb6-3dd810dd8b23"  # shim's own switch; 1: it verifies nothing
# The key that DKMS signs modules with: DKMS's own, or the one that Ubuntu's shim-signed made.
MOK_KEYS = ("/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.der")
_VARIABLE = 5  # four bytes of attributes, then the value
_SEGMENT = re.compile(r"[0-9]+|[A-Za-z]+")


class Kernel(NamedTuple):
    """An installed kernel. ``headers``: a module can be built for it."""

    release: str
    image: bool
    modules: bool
    headers: bool


class Boot(NamedTuple):
    """``next`` is None when no kernel is installed here (a container); None elsewhere: cannot be read."""

    running: str
    kernels: Tuple[Kernel, ...]  # oldest first
    newest: Optional[str]
    next: Optional[str]
    next_source: str
    cmdline: Tuple[str, ...]
    secure_boot: Optional[bool]
    mok_key: Optional[str]
    mok_enrolled: Optional[bool]  # None where Secure Boot is off, too
    mok_pending: Optional[bool] = None  # it waits for its confirmation at the console

    @property
    def running_is_newest(self) -> Optional[bool]:
        """Whether a reboot would come up with the kernel that runs now."""
        return None if self.next is None else self.next == self.running

    def kernel(self, release: Optional[str]) -> Optional[Kernel]:
        return next((kernel for kernel in self.kernels if kernel.release == release), None)


class Mok(NamedTuple):
    """The certificate of the key that DKMS signs with (None: there is none), and what shim knows of it: None where that cannot be told, or
    Secure Boot is off."""

    key: Optional[str]
    enrolled: Optional[bool]
    pending: Optional[bool]


def observe_boot(host: Host, running: str) -> Boot:
    """``running``: the release of the running kernel."""
    kernels = installed_kernels(host)
    newest = kernels[-1].release if kernels else None
    chosen, source = _chosen(host, kernels)
    secure = secure_boot(host)
    return Boot(
        running, kernels, newest, chosen or newest, source if chosen else "newest installed kernel",
        tuple((host.line("/proc/cmdline") or "").split()), secure, *observe_mok(host, secure))


def boot_facts(boot: Boot) -> Dict[str, Any]:
    running = boot.kernel(boot.running)
    headers = running.headers if running is not None else None
    plain = {name: getattr(boot, name) for name in (
        "newest", "next", "next_source", "running_is_newest", "secure_boot", "mok_enrolled", "mok_pending")}
    return dict(plain, kernels=as_dicts(boot.kernels), headers=headers, cmdline=list(boot.cmdline))


def installed_kernels(host: Host) -> Tuple[Kernel, ...]:
    """Kernels with an image to boot, oldest first; where /boot shows none (booted from outside), those with modules.

    A directory below /lib/modules alone is no kernel: DKMS leaves one behind when the kernel's package goes.
    """
    images = {name[len(prefix):] for name in host.listdir(BOOT) for prefix in IMAGES if name.startswith(prefix)}
    images = {release for release in images if sysfs_values.is_name(release) and "rescue" not in release and not release.endswith(".old")}
    modules = {
        name for name in host.listdir("/lib/modules") if sysfs_values.is_name(name) and host.exists("/lib/modules/%s/modules.dep" % name)}
    images.update(name for name in modules if host.exists("/lib/modules/%s/vmlinuz" % name))
    return tuple(
        Kernel(release, release in images, release in modules, has_headers(host, release))
        for release in sorted(images or modules, key=release_key))


def has_headers(host: Host, release: str) -> bool:
    """``build`` leads to a configured source tree: without its Makefile no module can be built."""
    return sysfs_values.is_name(release) and host.exists("/lib/modules/%s/build/Makefile" % release)


def release_key(release: str) -> List[Tuple[int, int, str]]:
    """Sort key of kernel releases: numbers as numbers, and a number after a word (570.12 after 570.el9), as rpm and GRUB do."""
    return [(1, int(part), "") if is_digits(part) else (0, 0, part) for part in _SEGMENT.findall(release)]


def _chosen(host: Host, kernels: Sequence[Kernel]) -> Tuple[Optional[str], str]:
    """The kernel that GRUB's menu starts, or that GRUB was told to start by name, and where."""
    menu = observe_menu(host)
    if menu is not None:
        release, place = starts(menu)
        if any(kernel.release == release for kernel in kernels):
            return release, place
    default = _grub_default(host)
    for path in GRUB_ENV:
        variables = sysfs_values.key_values(host.read(path))
        # Debian's GRUB obeys saved_entry only with GRUB_DEFAULT=saved; the Red Hat family's always does.
        for key in ("next_entry", "saved_entry") if path != GRUB_ENV[1] or default == "saved" else ("next_entry",):
            found = _named(variables.get(key), kernels)
            if found is not None:
                return found, "%s in %s" % (key, path)
    return _named(default, kernels), "GRUB_DEFAULT in %s" % GRUB_DEFAULTS


def _grub_default(host: Host) -> str:
    """Later files win: /etc/default/grub, then /etc/default/grub.d/*.cfg in order (Debian, Ubuntu)."""
    value = ""
    directory = GRUB_DEFAULTS + ".d"
    for path in [GRUB_DEFAULTS] + ["%s/%s" % (directory, name) for name in host.listdir(directory) if name.endswith(".cfg")]:
        value = sysfs_values.key_values(host.read(path)).get("GRUB_DEFAULT", value)
    return value


def _named(text: Optional[str], kernels: Sequence[Kernel]) -> Optional[str]:
    """The installed kernel whose release stands in a menu entry's title or id; the longest where one is part of another."""
    entry = (text or "").rpartition(">")[2]
    hits = [kernel.release for kernel in kernels
            if re.search(r"(?:^|[^A-Za-z0-9.])%s(?:$|[^A-Za-z0-9.])" % re.escape(kernel.release), entry)]
    return max(hits, key=len, default=None)


def secure_boot(host: Host) -> Optional[bool]:
    """Whether the kernel refuses unsigned modules; None when the firmware has UEFI and does not tell, or a capture left it out."""
    if not host.exists(EFI):
        return False if host.live or host.exists("/sys/firmware") else None
    value = host.read_bytes(SECURE_BOOT, 64)
    if value is None or len(value) != _VARIABLE:
        return None
    shim = host.read_bytes(SHIM_OFF, 64)
    return value[4] == 1 and not (shim is not None and len(shim) == _VARIABLE and shim[4] == 1)


def observe_mok(host: Host, secure: Optional[bool]) -> Mok:
    """mokutil's exit status has changed over its versions; its words have not. A key that waits for the next boot is not enrolled yet."""
    key = next((path for path in MOK_KEYS if host.exists(path)), None)
    if not secure or key is None:
        return Mok(key, False if secure else None, False if secure else None)
    answer = host.run(("mokutil", "--test-key", key), 10.0)
    text = answer.out + answer.err
    if "is already enrolled" in text or "is already in db" in text:
        return Mok(key, True, False)
    pending = "is already in the enrollment request" in text
    told = pending or "is not enrolled" in text or "is blocked in" in text
    return Mok(key, False if told else None, pending if told else None)


# Options that the running kernel was built with: from /boot, its modules' directory, or the kernel itself.

_LIMIT = 4 * 1024 * 1024  # a configuration has 300 KiB
_GZIP = 31  # zlib: window of 32 KiB, gzip header


def kernel_options(host: Host, kernel: Optional[str], names: Sequence[str]) -> Dict[str, Optional[str]]:
    """y, m or n for each option; None where the kernel's configuration is not there."""
    text = _configuration(host, kernel)
    built = dict(re.findall(r"^(\w+)=([ym])$", text or "", re.MULTILINE))
    return {name: built.get(name, "n" if text else None) for name in names}


def _configuration(host: Host, kernel: Optional[str]) -> Optional[str]:
    paths = ("/boot/config-" + kernel, "/lib/modules/%s/config" % kernel) if kernel is not None and sysfs_values.is_name(kernel) else ()
    text = next((text for text in map(host.read, paths) if text is not None), None)
    if text is not None:
        return text
    packed = host.read_bytes("/proc/config.gz", _LIMIT)
    if not packed:
        return None
    try:
        return zlib.decompressobj(_GZIP).decompress(packed, _LIMIT).decode("ascii", "replace")
    except zlib.error:
        return None


# A menu entry is named as GRUB names it: by number, id or title, level by level
# (``gnulinux-advanced-UUID>gnulinux-RELEASE-advanced-UUID``).
MENU = "/boot/grub/grub.cfg"
ENVIRONMENT = "/boot/grub/grubenv"
SAVED = "${saved_entry}"
ONCE = "${next_entry}"
_MENU_ID = "$menuentry_id_option"
_SET_DEFAULT = re.compile(r'^[ \t]*set default="(.*)"[ \t]*$', re.MULTILINE)
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
    defaults = [found for found in _SET_DEFAULT.findall(text) if found != ONCE]
    return Menu(items, defaults[-1] if defaults else "0", variables.get("next_entry", ""), variables.get("saved_entry", ""))


def parse_menu(text: str) -> Tuple[Item, ...]:
    """Braces open and close menus, entries and functions; if and fi need none."""
    top = _Open("top", (), [], [])
    stack = [top]
    for line in (line.strip() for line in lines_in(text)):
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
    words = shell_words(line)
    title = words[1:2]
    own = words[words.index(_MENU_ID) + 1:words.index(_MENU_ID) + 2] if _MENU_ID in words else []
    return _Open(words[0], tuple(own + title), [], [])


def _item(block: _Open) -> Item:
    if block.kind == "submenu":
        return Item(block.names, block.items[0].release if block.items else None, tuple(block.items))
    found = [match.group(1) for match in map(_LINUX.match, block.lines) if match is not None]
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
        below = _find(item.items, start, release)
        if below is not None:
            return "%s>%s" % (own, below)
        if not item.items and item.release == release and own.startswith(start) and "-recovery-" not in own:
            return own
    return None
