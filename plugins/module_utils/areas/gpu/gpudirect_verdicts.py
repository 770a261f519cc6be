# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on GPUDirect RDMA: the path that the table chose, and whether the node has what that path needs. Pure.

A peer memory module that is loaded and not registered fails on every path: NCCL looks only for the loaded module, takes
it for a working path and leaves DMA-BUF aside. Traffic, the only real proof, is ``measure/gdr.py``'s.
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ...formats.text import spoken
from ...observe.peermem_build import FITS, OTHER_STACK, WITHOUT_CLIENT
from ...rules.comparisons import Inspection, Where, verdict
from ...rules.gpudirect import AUTO, DMABUF, NONE, NV_PEER_MEM, PEERMEM, Choice, Evidence, choose
from ...spec.model import Spec
from ...types import Identity, Verdict
from .gpudirect_evidence import evidence_of, wants_of

MODULES = {PEERMEM: "nvidia_peermem", NV_PEER_MEM: "nv_peer_mem"}
SUBJECT = "GPU memory"
BUILT = {
    FITS: ("pass", "is built against this RDMA stack"),
    WITHOUT_CLIENT: ("fail", "was built before OFED was there: it cannot register with ib_core; apply builds it again"),
    OTHER_STACK: ("fail", "was built against another RDMA stack (checksum of ib_register_peer_memory_client); apply builds it again"),
}


def judge_gpudirect(seen: Inspection) -> List[Verdict]:
    """Nothing where there is no GPU, or nothing to connect it to; the plan's notes say so."""
    evidence, choice = chosen(seen.spec, seen.identity, seen.facts)
    where = Where(seen.node, None, None, SUBJECT)
    found = seen.facts.get("gpudirect") or {}
    if not evidence.gpus or not evidence.hcas:
        return []
    verdicts = [_path(where, seen.spec, evidence, choice, found)] + _peermem(where, choice, found)
    if choice.path == DMABUF:
        verdicts += _dmabuf(seen.node, evidence, found)
    if choice.path in MODULES:
        verdicts.append(_built(where, choice, found))
    return verdicts


def chosen(spec: Spec, identity: Identity, facts: Mapping[str, Any]) -> Tuple[Evidence, Choice]:
    """The same computation as the plan's: verdict and plan cannot disagree."""
    wants = wants_of(spec, identity)
    evidence = evidence_of(wants, facts)[0]
    return evidence, choose(evidence, wants.path)


def _path(where: Where, spec: Spec, evidence: Evidence, choice: Choice, seen: Mapping[str, Any]) -> Verdict:
    """What the table expects against what is set up."""
    check = "gpudirect.path"
    if choice.problem is not None:
        return verdict(check, where, "fail", choice.path, None, choice.problem)
    if choice.path == NONE:
        status = "warn" if spec["gpudirect_path"] == AUTO and choice.refused else "skipped"
        return verdict(check, where, status, NONE, None, choice.reason)
    working = _working(evidence, seen)
    if working.get(choice.path):
        return verdict(check, where, "pass", choice.path, choice.path, choice.reason)
    if choice.path == DMABUF and working.get(DMABUF, False) is None:
        return verdict(check, where, "unknown", DMABUF, None, "set up by its versions (%s)" % choice.reason)
    found = spoken([path for path in working if working[path]]) if any(working.values()) else NONE
    return verdict(check, where, "fail", choice.path, found, "%s is not set up; it was chosen because %s" % (choice.path, choice.reason))


def _working(evidence: Evidence, seen: Mapping[str, Any]) -> Dict[str, Optional[bool]]:
    """Paths that are there by all that can be asked; DMA-BUF with None where somebody has not answered."""
    found: Dict[str, Optional[bool]] = {}
    answers = [hca.dmabuf for hca in evidence.hcas] + [evidence.cuda_dmabuf]
    if all(answers):
        found[DMABUF] = True
    for path, module in MODULES.items():
        if seen.get("peermem_module") == module and seen.get("peermem_registered"):
            found[path] = True
    if DMABUF not in found and False not in answers:
        found[DMABUF] = None
    return found


def _peermem(where: Where, choice: Choice, seen: Mapping[str, Any]) -> List[Verdict]:
    """Loaded AND registered, where it is needed; and where it is not, not half."""
    check, wanted = "gpudirect.peermem", MODULES.get(choice.path)
    loaded, registered = seen.get("peermem_module"), seen.get("peermem_registered")
    expected = "%s loaded and registered with ib_core" % (wanted or loaded)
    if registered is None and (wanted is not None or loaded is not None):
        return [verdict(check, where, "unknown", expected, None, "/proc/modules does not tell who uses ib_core on this node")]
    if loaded is None:
        return [verdict(check, where, "fail", expected, "not loaded", "%s is not loaded" % wanted)] if wanted is not None else []
    if not registered:
        return [verdict(check, where, "fail", expected, "loaded, not registered", "%s is loaded, but ib_core does not count it among its "
                        "users: NCCL takes it for a working path, and every registration of GPU memory fails" % loaded)]
    if wanted not in (None, loaded):
        return [verdict(check, where, "fail", expected, loaded, "%s is loaded in place of %s" % (loaded, wanted))]
    return [verdict(check, where, "pass", expected, "loaded and registered", "%s is loaded and registered with ib_core" % loaded)]


def _dmabuf(node: str, evidence: Evidence, seen: Mapping[str, Any]) -> List[Verdict]:
    """One for every HCA, by its own answer, and one for CUDA."""
    answers = seen.get("dmabuf") or {}
    said = answers.get("hcas_said") or {}
    verdicts = []
    for hca in evidence.hcas:
        text = "answered %s to ibv_reg_dmabuf_mr" % said[hca.name] if hca.name in said else "could not be asked: %s" % (
            answers.get("hcas_error") or "verbs does not know it")
        verdicts.append(_answer(Where(node, hca.name, None, "dma-buf of " + hca.name), hca.dmabuf, "%s %s" % (hca.name, text)))
    text = "CUDA says that every GPU exports dma-buf" if evidence.cuda_dmabuf else "CUDA says that a GPU exports no dma-buf"
    if evidence.cuda_dmabuf is None:
        text = "CUDA could not be asked: %s" % (answers.get("gpus_error") or "not every GPU answered")
    return verdicts + [_answer(Where(node, None, None, "dma-buf of the GPUs"), evidence.cuda_dmabuf, text)]


def _answer(where: Where, value: Optional[bool], text: str) -> Verdict:
    status = "unknown" if value is None else "pass" if value else "fail"
    return verdict("gpudirect.dmabuf", where, status, "supported", {True: "supported", False: "not supported"}.get(bool(value))
                   if value is not None else None, text)


def _built(where: Where, choice: Choice, seen: Mapping[str, Any]) -> Verdict:
    """In the right order: found on disk, before anybody loads it."""
    check, module = "gpudirect.built", MODULES[choice.path]
    build = seen.get("peermem_build")
    if build is None or build.get("module") != module:
        return verdict(check, where, "fail", FITS, None, "the running kernel has no module %s on disk" % module)
    if build.get("state") not in BUILT:
        return verdict(check, where, "unknown", FITS, None, "whether %s fits the RDMA stack cannot be read: no checksums to compare" % (
            build.get("file")))
    status, text = BUILT[build["state"]]
    return verdict(check, where, status, FITS, build["state"], "%s %s" % (build.get("file"), text))


def expects_traffic(spec: Spec, choice: Choice, verdicts: Sequence[Verdict]) -> Optional[str]:
    """Why no traffic is measured; None when it is."""
    if choice.path == NONE:
        return choice.reason
    if not spec["gpudirect_traffic"] or not spec["validate_perftest"]:
        return "the inventory switches it off (%s: false)" % ("validate_perftest" if spec["gpudirect_traffic"] else "gpudirect_traffic")
    failed = [item for item in verdicts if item.check.startswith("gpudirect.") and item.status == "fail"]
    return "the path is not set up (%s)" % spoken(sorted({item.check for item in failed})) if failed else None
