# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel arguments for the next boot, through the boot loader's own tool; part of the area pci_tuning.

Debian and Ubuntu: a file of ours in /etc/default/grub.d and update-grub. EL: grubby, with a record of what we added. Only
arguments that nobody else sets are ours, and only ours are ever taken away again. What counts is the boot loader's own
configuration: a later file may undo what ours says. Whether the running kernel has them is a second question; a reboot is the answer.
"""

import re
from typing import List, NamedTuple, Optional, Tuple

from ...formats.outside import lines_in
from ...host.host import Host
from ...observe.pci import TABLES, command_line
from ...types import AT_BOOT, Change, Op, Problem, remove_file, run, write_file
from ..common.files import HEADER, FileState, observe_file

GRUB_FILE = "/etc/default/grub.d/railwright.cfg"
GRUB_CFG = "/boot/grub/grub.cfg"
RECORD = "/etc/railwright/kernel-arguments"
WHAT = "kernel arguments at boot"
SOURCE = "grub-mkconfig reads /etc/default/grub.d/*.cfg; grubby(8)"
MKCONFIG_SECONDS = 600.0  # os-prober looks into every disk
_LINUX_LINE = re.compile(r"^[ \t]*linux(?:efi|16)?[ \t]+\S+[ \t]+(.*)$", re.MULTILINE)
_GRUB_LINE = re.compile(r'^GRUB_CMDLINE_LINUX="\$GRUB_CMDLINE_LINUX ([^"]*)"$', re.MULTILINE)
_GRUBBY_ARGS = re.compile(r'^args="(.*)"$', re.MULTILINE)
# Arguments that the kernel adds up; every other one must not be given twice with different values.
_REPEATED = ("console", "earlycon", "hugepages", "hugepagesz", "pci", "memmap", "isolcpus", "netconsole", "ip", "rd.luks.uuid", "rd.lvm.lv")
_OTHER_LOADERS = (("/etc/zipl.conf", "zipl"), ("/boot/efi/loader/loader.conf", "systemd-boot"), ("/efi/loader/loader.conf", "systemd-boot"),
                  ("/boot/loader/loader.conf", "systemd-boot"), ("/boot/extlinux/extlinux.conf", "extlinux"),
                  ("/boot/grub2/grub.cfg", "GRUB without grubby"), ("/boot/grub/grub.cfg", "GRUB without update-grub"),
                  ("/boot/firmware/cmdline.txt", "Raspberry Pi firmware"))


class Wanted(NamedTuple):
    """``passthrough``: IOMMU passthrough, spelt for this architecture; ``extra``: what the inventory names itself."""

    passthrough: bool
    extra: Tuple[str, ...]
    arch: str


class State(NamedTuple):
    """``loader`` is grub, grubby or None; ``boot`` are the arguments of its default entry, ``running`` those of the kernel that runs."""

    loader: Optional[str]
    other: str  # what it is instead
    intel: bool
    file: FileState  # ours: the drop-in of GRUB, or the record beside grubby
    boot: Tuple[str, ...]
    running: Tuple[str, ...]


def observe(host: Host, wanted: Wanted) -> State:
    """A node on which nothing is wanted and nothing is ours is not asked about its boot loader."""
    intel = host.exists(TABLES + "/DMAR") or "GenuineIntel" in (host.read("/proc/cpuinfo", 8192) or "")
    running = command_line(host)
    if not (wanted.passthrough or wanted.extra or host.exists(GRUB_FILE) or host.exists(RECORD)):
        return State(None, "not asked", intel, observe_file(host, GRUB_FILE), (), running)
    if host.which("grubby") is not None:
        found = _GRUBBY_ARGS.search(host.run(("grubby", "--info=DEFAULT"), timeout=60.0).out)
        if found is not None:
            return State("grubby", "", intel, observe_file(host, RECORD), tuple(found.group(1).split()), running)
    config = host.read(GRUB_CFG)
    line = _LINUX_LINE.search(config or "")
    if line is not None and host.which("update-grub") is not None:
        return State("grub", "", intel, observe_file(host, GRUB_FILE), tuple(line.group(1).split()), running)
    other = next((name for path, name in _OTHER_LOADERS if host.exists(path)), "unknown")
    return State(None, other, intel, observe_file(host, GRUB_FILE), (), running)


def arguments(wanted: Wanted, state: State) -> Tuple[str, ...]:
    """In the kernel's spelling, each once."""
    words: List[str] = []
    if wanted.passthrough and wanted.arch in ("aarch64", "arm64"):
        words.append("iommu.passthrough=1")
    elif wanted.passthrough:
        # AMD's IOMMU is on wherever the firmware has it; Intel's depends on how the kernel was configured.
        words += (["intel_iommu=on"] if state.intel else []) + ["iommu=pt"]
    words += [word for word in wanted.extra if word not in words]
    return tuple(words)


def ours(state: State) -> Tuple[str, ...]:
    """What our own file says that we added."""
    text = state.file.text or ""
    if state.loader == "grubby":
        return tuple(word for line in lines_in(text) if not line.startswith("#") for word in line.split())
    found = _GRUB_LINE.search(text)
    return tuple(found.group(1).split()) if found is not None else ()


def needed(wanted: Wanted, state: State) -> Tuple[str, ...]:
    """What is wanted and comes from nobody else."""
    others = _others(state)
    return tuple(word for word in arguments(wanted, state) if word not in others)


def _others(state: State) -> List[str]:
    others = list(state.boot)
    for word in ours(state):
        if word in others:
            others.remove(word)
    return others


def grub_text(words: Tuple[str, ...]) -> str:
    return HEADER + 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX %s"\n' % " ".join(words)


def plan(area: str, wanted: Wanted, state: State, why: str) -> List[Change]:
    words = arguments(wanted, state)
    changes = _at_boot(area, state, needed(wanted, state), why) if state.loader is not None else []
    missing = [word for word in words if word not in state.running]
    if missing:
        changes.append(Change(
            area, "kernel arguments in effect", [word for word in words if word in state.running], list(words), "reboot",
            why + "; the kernel reads its arguments when it starts", SOURCE, ()))
    return changes


def _at_boot(area: str, state: State, need: Tuple[str, ...], why: str) -> List[Change]:
    """What our file and the boot loader's configuration say, where they do not agree with what is wanted."""
    record = HEADER + "# What grubby added for us, one a line.\n" + "".join(word + "\n" for word in need)
    text = (grub_text(need) if state.loader == "grub" else record) if need else None
    if state.file.text == text and ours(state) == need and all(word in state.boot for word in need):
        return []
    before = [word for word in ours(state) if word in state.boot]
    file = write_file(state.file.path, text) if text is not None else remove_file(state.file.path)
    if state.loader == "grub":
        ops = [file, run(("update-grub",), seconds=MKCONFIG_SECONDS)]  # no undo of its own: repeated after a roll back
    else:
        ops = _grubby([word for word in need if word not in state.boot], "--args", "--remove-args")
        ops += _grubby([word for word in before if word not in need], "--remove-args", "--args") + [file]
    return [Change(area, WHAT, before, list(need), "none", why, SOURCE, tuple(ops), when=AT_BOOT)]


def _grubby(words: List[str], do: str, undo: str) -> List[Op]:
    start, joined = ("grubby", "--update-kernel=ALL"), " ".join(words)
    return [run(start + ("%s=%s" % (do, joined),), (start + ("%s=%s" % (undo, joined),),))] if words else []


def conflicts(area: str, wanted: Wanted, state: State) -> List[Problem]:
    """A boot loader that we cannot tell, and arguments that somebody else sets otherwise."""
    words = arguments(wanted, state)
    if not words:
        return []
    if state.loader is None:
        if all(word in state.running for word in words):
            return []
        return [Problem(area, WHAT, "%s cannot be set: the boot loader is %s; railwright knows GRUB through update-grub "
                        "(Debian, Ubuntu) and through grubby (EL). Set them by hand, or leave pci_tuning_iommu and the like unset"
                        % (" ".join(words), state.other))]
    found: List[Problem] = []
    others = _others(state)
    for word in words:
        name = word.partition("=")[0]
        against = [other for other in others if other.partition("=")[0] == name and other != word]
        if against and word not in others and name not in _REPEATED:
            found.append(Problem(area, WHAT, "%s is wanted, but the boot loader's configuration has %s already, which is not ours; "
                                 "take it out there (/etc/default/grub, or grubby --remove-args)" % (word, " and ".join(against))))
    return found
