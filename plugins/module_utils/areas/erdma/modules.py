# SPDX-License-Identifier: GPL-3.0-or-later
"""The mode of eRDMA's driver: at boot by an options file, now by loading the module, again where it runs in the other mode.

The parameter is read at loading only, so another mode is a reload, which cuts every RDMA user: rmmod, then modprobe, which
obeys the options file. Undone, the driver comes back in the mode that it ran in, whatever the files said.
"""

import re
from typing import List, NamedTuple, Optional, Sequence, Tuple

from ...host.host import Host
from ...observe.erdma_driver import MODULE, PARAMETER
from ...rules.erdma_mode import WORDS
from ...types import Change, Op, run
from ..common.files import HEADER
from ..common.modules import loaded_module
from ..kernel.kernel_modules import MODPROBE_DIRS

AREA = "erdma"
OPTIONS_FILE = "/etc/modprobe.d/railwright-erdma.conf"
BOOT_FILE = "/etc/modules-load.d/railwright-erdma.conf"
SOFTDEP = "softdep erdma pre: ib_uverbs\n"
BOOT_TEXT = HEADER + "ib_core\nib_uverbs\nerdma\n"
LOAD_SECONDS = 120.0
SOURCE = "ERD (conf/erdma.conf, conf/erdma-modprobe.conf, erdma_compat.c), ERC (internal/drivers/compat.go)"
WHY_OPTIONS = "without it the next load takes the driver's own mode, which depends on how it was built"
WHY_BOOT = "a module that is loaded by hand is gone after a reboot"
WHY_LOADED = "without its driver the node has no eRDMA device"
WHY_MODE = "nodes in another mode cannot talk RDMA to this one; the driver reads the mode at loading only, so every RDMA user is cut"
WHY_DRIVER = "the loaded driver is not the one that the inventory wants; every RDMA user is cut"
_OPTION = re.compile(r"^[ \t]*options[ \t]+erdma[ \t](.*)$", re.MULTILINE)
_VALUE = re.compile(r"(?:^|\s)%s(?:=(\S+))?(?=\s|$)" % PARAMETER)
_TRUE = ("Y", "y", "1", "on", "true", None)
# What stands before the exchange of a driver and is undone behind it: only then the old one is on disk again.
COMES_BACK = ("true",)


class Overruling(NamedTuple):
    """Another place that sets the mode at boot, and is read after our file."""

    place: str
    letter: str


def options_text(letter: str) -> str:
    return HEADER + SOFTDEP + "options %s %s=%s\n" % (MODULE, PARAMETER, letter)


def overruling(host: Host) -> List[Overruling]:
    """Files that modprobe reads after ours (by name, whatever the directory), and the kernel's command line, which comes last."""
    found: List[Overruling] = []
    seen: List[str] = []
    ours = OPTIONS_FILE.rpartition("/")[2]
    for directory in MODPROBE_DIRS:
        for name in host.listdir(directory):
            if name.endswith(".conf") and name not in seen:
                seen.append(name)
                path = "%s/%s" % (directory, name)
                found += [Overruling(path, letter) for letter in letters_in(host.read(path) or "") if name > ours]
    for word in (host.line("/proc/cmdline") or "").split():
        if word.startswith(MODULE + "."):
            found += [Overruling("the kernel's command line", letter) for letter in _letters(word[len(MODULE) + 1:])]
    return found


def letters_in(text: str) -> List[str]:
    """The last word of each ``options erdma`` line about the mode."""
    return [letters[-1] for letters in (_letters(options) for options in _OPTION.findall(text)) if letters]


def _letters(options: str) -> List[str]:
    return ["Y" if (found.group(1) in _TRUE) else "N" for found in _VALUE.finditer(options)]


def plan_loaded(loaded: bool, before: Optional[str], after: Optional[str], exchanged: bool) -> List[Change]:
    """``before``/``after``: letters, None for a driver without modes. ``exchanged``: the loaded driver is not the one on disk."""
    if not loaded:
        return [loaded_module(AREA, MODULE, WHY_LOADED, SOURCE, LOAD_SECONDS)]
    if before == after and not exchanged:
        return []
    back = (COMES_BACK,) if exchanged else (load_command(before),)
    ops = (run(("rmmod", MODULE), back, LOAD_SECONDS), run(("modprobe", MODULE), (("rmmod", MODULE),), LOAD_SECONDS))
    what = "driver of eRDMA in use" if exchanged else "mode of the eRDMA driver"
    return [Change(AREA, what, words(before), words(after), "reload", WHY_DRIVER if exchanged else WHY_MODE, SOURCE, ops)]


def load_command(letter: Optional[str]) -> Tuple[str, ...]:
    """Words on modprobe's command line come after those of its files, and so win."""
    return ("modprobe", MODULE) + (("%s=%s" % (PARAMETER, letter),) if letter is not None else ())


def comes_back(letter: Optional[str]) -> Op:
    """Stands first in a plan that exchanges the driver: does nothing, and its undo, the last of all, loads the old one again."""
    return run(COMES_BACK, (load_command(letter),), LOAD_SECONDS)


def words(letter: Optional[str]) -> str:
    return "no modes" if letter is None else "%s=%s, %s" % (PARAMETER, letter, WORDS[letter])


def heavier(changes: Sequence[Change], storage: Sequence[str]) -> List[Change]:
    """A reload under what is mounted over RDMA is another class, and says what it is."""
    if not storage:
        return list(changes)
    why = "; in use over RDMA: " + ", ".join(storage)
    return [change._replace(disruption="storage", why=change.why + why) if change.disruption == "reload" else change for change in changes]
