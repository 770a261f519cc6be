# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernel the boot loader starts next, and how it is told another one; part of the area kernel.

Debian and Ubuntu: GRUB_DEFAULT in a file of ours in /etc/default/grub.d, and update-grub. EL: grubby, which writes saved_entry into
GRUB's environment. An entry for one boot only (next_entry) would win over both and is taken out. Every effect has its exact undo.
"""

from typing import List, NamedTuple, Optional, Tuple

from ...formats import sysfs_values
from ...host.host import Host
from ...observe.boot import GRUB_DEFAULTS, GRUB_ENV, Boot
from ...observe.grub import entry_of, observe_menu
from ...types import AT_BOOT, Change, Op, Problem, run, write_file
from ..common.files import HEADER, FileState, observe_file
from .kernel_args import MKCONFIG_SECONDS

# The last of its directory: the file that is read last wins.
DROP_IN = GRUB_DEFAULTS + ".d/zz-railwright-kernel.cfg"
WHAT = "kernel that the next boot starts"
SOURCE = "grub-mkconfig reads /etc/default/grub.d/*.cfg; grubby(8)"
GRUB, GRUBBY = "grub", "grubby"
TOOLS = {GRUB: (GRUB_ENV[1], ("grub-editenv", GRUB_ENV[1])), GRUBBY: (GRUB_ENV[0], ("grub2-editenv", "-"))}


class State(NamedTuple):
    """``loader`` is grub, grubby or None; ``entry`` names the pinned kernel in GRUB's menu; ``later``: a file that overrules ours."""

    loader: Optional[str]
    file: FileState
    entry: Optional[str]
    later: Optional[str]
    once: str
    saved: Optional[str]


def observe(host: Host, release: str) -> State:
    file = observe_file(host, DROP_IN)
    if host.which("grubby") is not None and host.exists(GRUB_ENV[0]):
        return State(GRUBBY, file, None, None, *_environment(host, GRUBBY))
    menu = observe_menu(host)
    if menu is None or host.which("update-grub") is None:
        return State(None, file, None, None, "", None)
    return State(GRUB, file, entry_of(menu, release), _later(host), *_environment(host, GRUB))


def _environment(host: Host, loader: str) -> Tuple[str, Optional[str]]:
    variables = sysfs_values.key_values(host.read(TOOLS[loader][0]))
    return variables.get("next_entry", ""), variables.get("saved_entry")


def _later(host: Host) -> Optional[str]:
    directory, _slash, own = DROP_IN.rpartition("/")
    paths = ["%s/%s" % (directory, name) for name in host.listdir(directory) if name.endswith(".cfg") and name > own]
    return next((path for path in paths if "GRUB_DEFAULT" in sysfs_values.key_values(host.read(path))), None)


def plan(area: str, release: str, boot: Boot, state: State, here: bool, why: str) -> List[Change]:
    """``here``: the kernel is installed. Before that its packages' scripts may choose it; what they leave is ours to do."""
    if boot.next == release:
        return []
    ops = _ops(release, state) if here else ()
    return [Change(area, WHAT, boot.next, release, "none", why, SOURCE, tuple(ops), when=AT_BOOT)]


def _ops(release: str, state: State) -> List[Op]:
    if state.loader is None:
        return []
    editor = TOOLS[state.loader][1]
    ops = [run(editor + ("unset", "next_entry"), (editor + ("set", "next_entry=" + state.once),))] if state.once else []
    if state.loader == GRUBBY:
        back = ("set", "saved_entry=" + state.saved) if state.saved is not None else ("unset", "saved_entry")
        return ops + [run(("grubby", "--set-default", "/boot/vmlinuz-" + release), (editor + back,))]
    return ops + [write_file(DROP_IN, text_of(state.entry or "")), run(("update-grub",), seconds=MKCONFIG_SECONDS)]


def text_of(entry: str) -> str:
    return HEADER + 'GRUB_DEFAULT="%s"\n' % entry


def conflicts(area: str, release: str, boot: Boot, state: State, here: bool) -> List[Problem]:
    """A boot loader that cannot be told; asked only where it has to be."""
    if boot.next == release:
        return []
    if state.loader is None:
        return [Problem(area, WHAT, "is %s and cannot be set: railwright knows GRUB through update-grub (Debian, Ubuntu) and through "
                        "grubby (EL), and this node has neither; choose %s by hand, or leave rdma_kernel_version out" % (
                            boot.next or "unknown", release))]
    if state.later is not None:
        return [Problem(area, WHAT, "%s sets GRUB_DEFAULT and is read after %s; take it out there" % (state.later, DROP_IN))]
    if here and state.loader == GRUB and state.entry is None:
        return [Problem(area, WHAT, "%s is installed and has no entry in GRUB's menu: run update-grub, and look why it leaves this "
                        "kernel out" % release)]
    return []
