# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on the GPUs of one node: how many, which driver, and whether what must run beside it does. Pure."""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ...catalogue.drivers import numbers_of, wanted_driver
from ...rules.comparisons import UNREADABLE, Inspection, VerdictSubject, decided, equal, verdict
from ...spec.model import Spec
from ...types import Verdict

PASSED_THROUGH = "vfio-pci"  # a GPU that belongs to a virtual machine on this host
UP = "Completed"
NO_ANSWER = ("N/A", "[N/A]", "Not Supported")  # GPUs before Hopper say nothing of the fabric


def judge_gpus(seen: Inspection) -> List[Verdict]:
    """Nothing is said where there is no GPU and the inventory speaks of none."""
    node, spec, facts = seen.node, seen.spec, seen.facts
    gpus, expected = facts.get("gpus"), spec.expect.get("gpus")
    whole = VerdictSubject(node, None, None, "GPUs")
    if not gpus and expected is None:
        if spec["gpu_driver_branch"] is None and spec["cuda_version"] is None:
            return []
        return [verdict("gpu.count", whole, "skipped", None, 0, "no NVIDIA GPU on this node: neither driver nor CUDA is installed")]
    count = equal("gpu.count", whole, expected, None if gpus is None else len(gpus), "rdma_expect.gpus", "number of GPUs")
    if not gpus:
        return [count]
    where = VerdictSubject(node, None, None, "GPU driver")
    if all(gpu.get("driver") == PASSED_THROUGH for gpu in gpus):
        why = "every GPU is bound to %s: it belongs to a virtual machine" % PASSED_THROUGH
        return [count, verdict("gpu.driver", where, "skipped", None, PASSED_THROUGH, why)]
    driver: Dict[str, Any] = facts.get("gpu_driver") or {}
    nouveau = driver.get("nouveau_loaded")
    return [
        count, _version(where, spec, driver), _loaded(where, gpus, driver, facts.get("virtual") == "container"), decided(
            "gpu.nouveau", where,
            (nouveau is None, "unknown", False, None, UNREADABLE % "the list of loaded modules"),
            (nouveau, "fail", False, True, "nouveau is loaded: it keeps the GPUs from the NVIDIA driver"),
            (True, "pass", False, False, "nouveau is not loaded")),
        _fabricmanager(node, spec, driver, seen.identity.nvswitches), _persistence(node, spec, driver),
    ]


def _version(where: VerdictSubject, spec: Spec, driver: Mapping[str, Any]) -> Verdict:
    """The loaded driver against ``rdma_expect.gpu_driver`` (a branch or a version), else against what the inventory installs."""
    expected = spec.expect.get("gpu_driver") or wanted_driver(spec.as_dict()) or spec["gpu_driver_branch"]
    found = driver.get("version")
    if expected is None or (found is None and driver.get("modules") is None):
        return equal("gpu.driver", where, expected, found, "rdma_expect.gpu_driver", "driver")
    return decided(
        "gpu.driver", where,
        (found is None, "fail", expected, found, "no NVIDIA driver is loaded, expected is %s" % expected),
        (("%s." % found).startswith(expected + "."), "pass", expected, found, "driver is %s" % found),
        (True, "fail", expected, found, "driver is %s, not %s" % (found, expected)))


def _loaded(where: VerdictSubject, gpus: Sequence[Mapping[str, Any]], driver: Mapping[str, Any], container: bool) -> Verdict:
    """Loaded is what is installed, and it drives every GPU."""
    disk, found = driver.get("disk_version"), driver.get("version")
    idle = ", ".join(str(gpu.get("pci")) for gpu in gpus if gpu.get("driver") not in ("nvidia", PASSED_THROUGH))
    return decided(
        "gpu.driver_loaded", where,
        (found is None and driver.get("modules") is None, "unknown", disk, None, UNREADABLE % "the list of loaded modules"),
        (found is None, "fail", disk, None, "no NVIDIA driver is loaded: nothing can use the %d GPUs" % len(gpus)),
        (idle, "fail", "nvidia", found, "the driver is loaded and does not drive %s" % idle),
        (container, "skipped", None, found, "a container: what is on disk belongs to the machine below"),
        (disk is None, "unknown", None, None, UNREADABLE % "the version of the nvidia module on disk (modinfo)"),
        (disk == found, "pass", disk, found, "driver %s is loaded and installed" % found),
        (True, "fail", disk, found, "driver %s is loaded and %s is installed: new programs fail with a driver/library version mismatch "
                                    "until the module is reloaded or the node reboots" % (found, disk)))


def _fabricmanager(node: str, spec: Spec, driver: Mapping[str, Any], nvswitches: Sequence[str]) -> Verdict:
    """Needed where there is an NVSwitch, or where the inventory says so: running, in the driver's version, and the GPUs agree."""
    state = driver.get("fabricmanager") or {}
    asked = spec["gpu_driver_fabricmanager"]
    expected = {"running": True, "version": driver.get("version"), "states": [UP]}
    found = {"running": state.get("running"), "version": state.get("version"), "states": state.get("states")}
    wrong, unread = _fabric_faults(driver.get("version"), state)
    return decided(
        "gpu.fabricmanager", VerdictSubject(node, None, None, "fabric manager"),
        (asked is False, "skipped", None, state.get("running"), "the inventory says gpu_driver_fabricmanager: false"),
        (asked is None and not nvswitches, "skipped", None, state.get("running"), "no NVSwitch on this node"),
        (wrong, "fail", expected, found, "; ".join(wrong)),
        (unread, "unknown", expected, None, UNREADABLE % unread),
        (True, "pass", expected, found, "the fabric manager runs in the driver's version"))


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
    version = numbers_of(state.get("version"))
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
    modes = (driver.get("persistence") or {}).get("mode")
    off = sorted(pci for pci, mode in (modes or {}).items() if mode != "Enabled")
    status = "fail" if spec["gpu_driver_branch"] is not None else "warn"
    return decided(
        "gpu.persistence", VerdictSubject(node, None, None, "persistence mode"),
        (not spec["gpu_driver_persistence"], "skipped", None, None, "the inventory says gpu_driver_persistence: false"),
        (modes is None, "unknown", "Enabled", None, UNREADABLE % "persistence mode (nvidia-smi)"),
        (not off, "pass", "Enabled", "Enabled", "persistence mode is on for %d GPUs" % len(modes or ())),
        (True, status, "Enabled", (modes or {}).get(off[0] if off else ""), "persistence mode is off on %s" % ", ".join(off)))
