# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on the GPUs of one node: how many, which driver, and whether what must run beside it does. Pure."""

from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ...catalogue.drivers import FABRIC_TOOLS, hides_nvswitches, in_rack_fabric, numbers_of, tells_fabric, wanted_driver
from ...formats.text import first_of
from ...rules.comparisons import UNREADABLE, Inspection, VerdictSubject, decided, equal, verdict
from ...spec.model import Spec
from ...types import Gpu, Verdict

PASSED_THROUGH = "vfio-pci"  # a GPU that belongs to a virtual machine on this host
UP, GOOD = "Completed", "Success"
NO_ANSWER = ("N/A", "[N/A]", "Not Supported")  # GPUs before Hopper say nothing of the fabric, nor do those that are part of none
CONSEQUENCE = "; while it is so CUDA ends with error 802 (system not yet initialized)"
UMAD = "ib_umad"


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
    boards = [Gpu(str(gpu.get("pci")), str(gpu.get("device_id")), None) for gpu in gpus]
    return [
        count, _version(where, spec, driver), _loaded(where, gpus, driver, facts.get("virtual") == "container"), decided(
            "gpu.nouveau", where,
            (nouveau is None, "unknown", False, None, UNREADABLE % "the list of loaded modules"),
            (nouveau, "fail", False, True, "nouveau is loaded: it keeps the GPUs from the NVIDIA driver"),
            (True, "pass", False, False, "nouveau is not loaded")),
        _fabricmanager(seen, driver, boards), *_imex(node, spec, driver, boards), _persistence(node, spec, driver),
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


def _fabricmanager(seen: Inspection, driver: Mapping[str, Any], boards: Sequence[Gpu]) -> Verdict:
    """Needed where this node has or manages an NVSwitch, or where the inventory says so: running, in the driver's version, with what it
    starts. And wherever GPUs are part of a fabric, of this node's, of a rack's or of the machine below a virtual one, they are to agree.
    """
    identity, state, asked = seen.identity, driver.get("fabricmanager") or {}, seen.spec["gpu_driver_fabricmanager"]
    here = bool(asked or identity.nvswitches or identity.switch_functions)
    told = [word for word in state.get("states") or [] if word not in NO_ANSWER]
    elsewhere = hides_nvswitches(boards) or in_rack_fabric(boards) or bool(told)
    expected: Dict[str, Any] = {"running": True, "version": driver.get("version")} if here else {}
    tells = tells_fabric(boards)
    if tells or told:
        expected["states"] = [UP]
    found = {key: state.get(key) for key in expected}
    wrong, unread = _daemon_faults(seen, driver, state) if here else ([], "")
    if not here and hides_nvswitches(boards) and identity.unread_functions:
        unread = "whether this node manages NVSwitches (VPD of %s)" % first_of(identity.unread_functions, 4)
    bad, silent = _fabric_faults(state, tells)
    text = "; ".join(wrong + bad) + ("" if state.get("states") == [UP] and not bad else CONSEQUENCE)
    good = "the fabric manager runs in the driver's version" if here else "the GPUs are part of an NVLink fabric that is managed elsewhere"
    return decided(
        "gpu.fabricmanager", VerdictSubject(seen.node, None, None, "fabric manager"),
        (asked is False, "skipped", None, state.get("running"), "the inventory says gpu_driver_fabricmanager: false"),
        (not here and not elsewhere, "skipped", None, state.get("running"), "no NVSwitch on this node"),
        (wrong or bad, "fail", expected, found, text),
        (unread or silent, "unknown", expected, None, UNREADABLE % (unread or silent)),
        (True, "pass", expected, found, good))


def _daemon_faults(seen: Inspection, driver: Mapping[str, Any], state: Mapping[str, Any]) -> Tuple[List[str], str]:
    """(what is wrong with the fabric manager and what it needs on this node, what of it cannot be read)."""
    wrong, unread = [], ""
    if state.get("installed") is False and state.get("running") is None:
        wrong.append("the fabric manager is not installed")
    elif state.get("running") is None:
        unread = "whether the fabric manager runs"
    elif not state["running"]:
        wrong.append("the fabric manager does not run")
    version, loaded = numbers_of(state.get("version")), driver.get("version")
    if version is not None and loaded is not None and version != loaded:
        wrong.append("its version is %s, the driver's %s" % (version, loaded))
    if version is None or loaded is None:
        unread = unread or "the version of fabric manager and driver"
    if seen.identity.switch_functions:  # NVLink 5: the switches are told over management datagrams what to do
        packages, modules = driver.get("packages"), seen.facts.get("modules")
        missing = [name for name in FABRIC_TOOLS if packages is not None and name not in packages]
        wrong += ["%s is not installed: %s" % (name, FABRIC_TOOLS[name]) for name in missing]
        if modules is not None and UMAD not in modules:
            wrong.append("module %s is not loaded: the NVLink subnet manager reaches the NVSwitches through it" % UMAD)
        if packages is None or modules is None:
            unread = unread or "the list of installed packages or of loaded modules"
    return wrong, unread


def _fabric_faults(state: Mapping[str, Any], tells: bool) -> Tuple[List[str], str]:
    """(what GPUs say that is wrong, what they should say and do not). ``tells``: GPUs of their kind do."""
    states, statuses = state.get("states"), state.get("statuses")
    bad = [word for word in states or [] if word not in (UP, *NO_ANSWER)]
    bad += ["%s with error %s" % (UP, word) for word in statuses or [] if UP in (states or []) and word not in (GOOD, *NO_ANSWER)]
    silent = tells and (not states or not statuses or any(word in NO_ANSWER for word in [*states, *statuses]))
    unread = "what the GPUs say of the NVLink fabric (nvidia-smi)" if silent else ""
    return ["GPUs say of the fabric: %s" % ", ".join(bad)] if bad else [], unread


def _imex(node: str, spec: Spec, driver: Mapping[str, Any], boards: Sequence[Gpu]) -> List[Verdict]:
    """Only GPUs of a rack's fabric have it. A site whose jobs or pods bring their own says so."""
    if not in_rack_fabric(boards):
        return []
    state, packages = driver.get("imex") or {}, driver.get("packages")
    version = numbers_of(state.get("version"))
    expected = {"running": True, "version": driver.get("version"), "channels": 1}
    wrong = []
    if packages is not None and version is None:
        wrong.append("nvidia-imex is not installed")
    elif state.get("running") is False:
        wrong.append("nvidia-imex does not run")
    if version is not None and driver.get("version") not in (None, version):
        wrong.append("nvidia-imex is of version %s, the driver of %s" % (version, driver.get("version")))
    if state.get("channels") == 0:
        wrong.append("there is no channel of it (NVreg_CreateImexChannel0=1 of module nvidia makes one)")
    unread = packages is None or None in (driver.get("version"), state.get("running"), state.get("channels"))
    text = "; ".join(wrong) + ": CUDA refuses memory of the rack's other nodes"
    return [decided(
        "gpu.imex", VerdictSubject(node, None, None, "nvidia-imex"),
        (spec["gpu_driver_imex"] is False, "skipped", None, state, "the inventory says gpu_driver_imex: false"),
        (wrong, "fail", expected, state, text),
        (unread, "unknown", expected, None, UNREADABLE % "nvidia-imex, its version or the driver's"),
        (True, "pass", expected, state, "nvidia-imex runs in the driver's version and has channels"))]


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
