# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules that are loaded now; that they are at boot is a file's business."""

from ...types import MODULE, Change, Op, Subject, run


def load_module(name: str, seconds: float = 120.0) -> Op:
    return run(("modprobe", name), (("modprobe", "-r", name),), seconds)


def loaded_module(area: str, name: str, why: str, source: str, seconds: float = 120.0) -> Change:
    return Change(area, "module %s loaded" % name, False, True, "none", why, source, (load_module(name, seconds),), Subject(MODULE, name))
