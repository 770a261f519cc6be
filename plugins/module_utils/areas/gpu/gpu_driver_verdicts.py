# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on the GPUs of one node: how many, which driver, and whether what must run beside it does. Pure."""

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ...catalogue.drivers import find_branch
from ...rules.comparisons import Inspection, Where, equal, unreadable, verdict
from ...spec.model import Spec
from ...types import Verdict

PASSED_THROUGH = "vfio-pci"  # a GPU that belongs to a virtual machine on this host
UP = "Completed"
NO_ANSWER = ("N/A", "[N/A]", "Not Supported")  # GPUs before Hopper say nothing of the fabric
_NUMBERS = re.compile(r"(?:[0-9]+:)?([0-9]{3,4}(?:\.[0-9]+)+)")


def judge_gpus(seen: Inspection) -> List[Verdict]:
    """Nothing is said where there is no GPU and the inventory speaks of none."""
    node, spec, facts = seen.node, seen.spec, seen.facts
    gpus, expected = facts.get("gpus"), spec.expect.get("gpus")
    whole = Where(node, None, None, "GPUs")
    if not gpus and expected is None:
        if spec["gpu_driver_branch"] is None and spec["cuda_version"] is None:
            return []
        return [verdict("gpu.count", whole, "skipped", None, 0, "no NVIDIA GPU on this node: neither driver nor CUDA is installed")]
    count = equal("gpu.count", whole, expected, None if gpus is None else len(gpus), "rdma_expect.gpus", "number of GPUs")
    if not gpus:
        return [count]
    where = Where(node, None, None, "GPU driver")
    if all(gpu.get("driver") == PASSED_THROUGH for gpu in gpus):
        why = "every GPU is bound to %s: it belongs to a virtual machine" % PASSED_THROUGH
        return [count, verdict("gpu.driver", where, "skipped", None, PASSED_THROUGH, why)]
    driver: Dict[str, Any] = facts.get("gpu_driver") or {}
    return [
        count, _version(where, spec, driver), _loaded(where, gpus, driver, facts.get("virtual") == "container"), _nouveau(where, driver),
        _fabricmanager(node, spec, driver, seen.identity.nvswitches), _persistence(node, spec, driver),
    ]


def _version(where: Where, spec: Spec, driver: Mapping[str, Any]) -> Verdict:
    """The loaded driver against ``rdma_expect.gpu_driver`` (a branch or a version), else against what the inventory installs."""
    expected = spec.expect.get("gpu_driver") or _wanted(spec)
    found = driver.get("version")
    if expected is None or (found is None and driver.get("modules") is None):
        return equal("gpu.driver", where, expected, found, "rdma_expect.gpu_driver", "driver")
    if found is not None and (found + ".").startswith(expected + "."):
        return verdict("gpu.driver", where, "pass", expected, found, "driver is %s" % found)
    said = "driver is %s, not %s" % (found, expected) if found is not None else "no NVIDIA driver is loaded, expected is %s" % expected
    return verdict("gpu.driver", where, "fail", expected, found, said)


def _wanted(spec: Spec) -> Optional[str]:
    branch: Optional[str] = spec["gpu_driver_branch"]
    if branch is None:
        return None
    version = _numbers(spec["gpu_driver_version"])
    row = find_branch(branch)
    if version is None and row is not None and spec["gpu_driver_source"] == "cuda_repository":
        return row.version
    return version or branch


def _loaded(where: Where, gpus: Sequence[Mapping[str, Any]], driver: Mapping[str, Any], container: bool) -> Verdict:
    """Loaded is what is installed, and it drives every GPU."""
    check, disk, found = "gpu.driver_loaded", driver.get("disk_version"), driver.get("version")
    if found is None and driver.get("modules") is None:
        return unreadable(check, where, disk, "the list of loaded modules")
    if found is None:
        return verdict(check, where, "fail", disk, None, "no NVIDIA driver is loaded: nothing can use the %d GPUs" % len(gpus))
    idle = [str(gpu.get("pci")) for gpu in gpus if gpu.get("driver") not in ("nvidia", PASSED_THROUGH)]
    if idle:
        return verdict(check, where, "fail", "nvidia", found, "the driver is loaded and does not drive %s" % ", ".join(idle))
    if container:
        return verdict(check, where, "skipped", None, found, "a container: what is on disk belongs to the machine below")
    if disk is None:
        return unreadable(check, where, None, "the version of the nvidia module on disk (modinfo)")
    if disk != found:
        return verdict(check, where, "fail", disk, found, "driver %s is loaded and %s is installed: new programs fail with a "
                       "driver/library version mismatch until the module is reloaded or the node reboots" % (found, disk))
    return verdict(check, where, "pass", disk, found, "driver %s is loaded and installed" % found)


def _nouveau(where: Where, driver: Mapping[str, Any]) -> Verdict:
    found = driver.get("nouveau_loaded")
    if found is None:
        return unreadable("gpu.nouveau", where, False, "the list of loaded modules")
    if found:
        return verdict("gpu.nouveau", where, "fail", False, True, "nouveau is loaded: it keeps the GPUs from the NVIDIA driver")
    return verdict("gpu.nouveau", where, "pass", False, False, "nouveau is not loaded")


def _fabricmanager(node: str, spec: Spec, driver: Mapping[str, Any], nvswitches: Sequence[str]) -> Verdict:
    """Needed where there is an NVSwitch, or where the inventory says so: running, in the driver's version, and the GPUs agree."""
    check, where, state = "gpu.fabricmanager", Where(node, None, None, "fabric manager"), driver.get("fabricmanager") or {}
    asked = spec["gpu_driver_fabricmanager"]
    if asked is False or (asked is None and not nvswitches):
        why = "the inventory says gpu_driver_fabricmanager: false" if asked is False else "no NVSwitch on this node"
        return verdict(check, where, "skipped", None, state.get("running"), why)
    expected = {"running": True, "version": driver.get("version"), "states": [UP]}
    found = {"running": state.get("running"), "version": state.get("version"), "states": state.get("states")}
    wrong, unread = _fabric_faults(driver.get("version"), state)
    if wrong:
        return verdict(check, where, "fail", expected, found, "; ".join(wrong))
    if unread:
        return unreadable(check, where, expected, unread)
    return verdict(check, where, "pass", expected, found, "the fabric manager runs in the driver's version")


def _fabric_faults(driver: Optional[str], state: Mapping[str, Any]) -> Tuple[List[str], str]:
    """(what is wrong, what cannot be read)."""
    wrong: List[str] = []
    unread: str = ""
    if state.get("installed") is False and state.get("running") is None:
        return ["the fabric manager is not installed"], ""
    if state.get("running") is None:
        unread = "whether the fabric manager runs"
    elif not state["running"]:
        wrong.append("the fabric manager does not run")
    version = _numbers(state.get("version"))
    if version is not None and driver is not None and version != driver:
        wrong.append("its version is %s, the driver's %s" % (version, driver))
    bad = [word for word in state.get("states") or [] if word not in (UP, *NO_ANSWER)]
    if bad:
        wrong.append("GPUs say of the fabric: %s" % ", ".join(bad))
    if version is None or driver is None:
        unread = unread or "the version of fabric manager and driver"
    return wrong, unread


def _persistence(node: str, spec: Spec, driver: Mapping[str, Any]) -> Verdict:
    """Only a warning where the inventory leaves the driver alone."""
    check, where = "gpu.persistence", Where(node, None, None, "persistence mode")
    if not spec["gpu_driver_persistence"]:
        return verdict(check, where, "skipped", None, None, "the inventory says gpu_driver_persistence: false")
    modes = (driver.get("persistence") or {}).get("mode")
    if modes is None:
        return unreadable(check, where, "Enabled", "persistence mode (nvidia-smi)")
    off = sorted(pci for pci, mode in modes.items() if mode != "Enabled")
    if not off:
        return verdict(check, where, "pass", "Enabled", "Enabled", "persistence mode is on for %d GPUs" % len(modes))
    status = "fail" if spec["gpu_driver_branch"] is not None else "warn"
    return verdict(check, where, status, "Enabled", modes[off[0]], "persistence mode is off on %s" % ", ".join(off))


def _numbers(version: Optional[str]) -> Optional[str]:
    """580.95.05 of a package's version."""
    found = _NUMBERS.match(version) if version is not None else None
    return found.group(1) if found is not None else None
