# SPDX-License-Identifier: GPL-3.0-or-later
"""What the choice of the GPUDirect path rests on (the inventory, the node's identity, its facts), and the verdicts on that path. Pure.

What the inventory asks for comes first: a node that has no driver yet is planned for the driver that it will get, so
that the plan does not change under the installation. What the inventory leaves open is taken as it is found.

A peer memory module that is loaded and not registered fails on every path: NCCL looks only for the loaded module, takes
it for a working path and leaves DMA-BUF aside. Traffic, the only real proof, is ``measure/gdr.py``'s.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...catalogue.drivers import find_branch
from ...catalogue.stacks import has_nvidia_hca, stack_of, vendor_stack
from ...formats.text import join_names, turing_or_newer
from ...observe.gpudirect import FITS, OTHER_STACK, WITHOUT_CLIENT
from ...rules.comparisons import Inspection, VerdictSubject, decided, verdict
from ...rules.gpudirect import AUTO, DMABUF, ERDMA, MLX4, MLX5, MODULES, NONE, OFED_STACKS, SOFTWARE, Choice, Evidence, HcaSeen, choose_path
from ...spec.match import match_rails
from ...spec.model import Spec
from ...types import Identity, Verdict

INVENTORY = "inventory"
BUILT = {
    FITS: ("pass", "is built against this RDMA stack"),
    WITHOUT_CLIENT: ("fail", "was built before OFED was there: it cannot register with ib_core; apply builds it again"),
    OTHER_STACK: ("fail", "was built against another RDMA stack (checksum of ib_register_peer_memory_client); apply builds it again"),
}


class Wants(NamedTuple):
    """``known``: what the inventory and the identity say."""

    path: str
    known: Evidence
    hcas_by: str  # what chose its HCAs; an interface stands for one where there is no RDMA device yet


class Row(NamedTuple):
    """One piece of evidence for people, with where it was read."""

    what: str
    value: Any
    source: str


def wants_of(spec: Optional[Spec], identity: Identity) -> Wants:
    """``spec`` None: a captured node without an inventory, taken as it is."""
    hcas, by = _hcas(spec, identity)
    turing = turing_or_newer([gpu.device_id for gpu in identity.gpus])
    known = Evidence(len(identity.gpus), hcas, identity.kernel, turing=turing, virtual=identity.virtual)
    if spec is None:
        return Wants(AUTO, known, by)
    known = known._replace(cuda=spec["cuda_version"])
    if spec["gpu_driver_branch"] is not None and identity.gpus:
        row = find_branch(spec["gpu_driver_branch"])
        version = spec["gpu_driver_version"] or (row.version if row is not None else spec["gpu_driver_branch"])
        known = known._replace(driver=version, flavour=spec["gpu_driver_flavour"])
    vendor = vendor_stack(spec, identity)
    if vendor is not None:
        known = known._replace(stack=vendor.name, stack_version=vendor.release)
    # Of HCAs that are not NVIDIA's nobody here chooses the stack: eRDMA's own installer brings one.
    elif spec.rdma_stack != AUTO or has_nvidia_hca(identity):
        known = known._replace(stack=stack_of(spec, identity))
    return Wants(spec["gpudirect_path"], known, by)


def evidence_of(wants: Wants, facts: Mapping[str, Any]) -> Tuple[Evidence, List[Row]]:
    """``facts`` as ``observe_facts`` gives them; gpudirect, gpu_driver, gpus and stack are read."""
    gpudirect, known = facts.get("gpudirect") or {}, wants.known
    driver, flavour, driver_source = _driver(known, facts.get("gpu_driver") or {})
    found = facts.get("stack") or {}
    stack, stack_version, stack_source = _stack(known, found)
    dmabuf, build = gpudirect.get("dmabuf") or {}, gpudirect.get("peermem_build") or {}
    # What is about to be replaced does not answer for what comes.
    answers = (dmabuf.get("hcas") or {}) if known.stack is None or found.get("name") in (known.stack, None) else {}
    providers = gpudirect.get("efa_p2p") or {}
    hcas = tuple(hca._replace(dmabuf=answers.get(hca.name), provider=providers.get(hca.name)) for hca in known.hcas)
    options = gpudirect.get("kernel_options") or {}
    stays = known.driver is None or (gpudirect.get("nvidia_driver"), gpudirect.get("nvidia_flavour")) == (known.driver, known.flavour)
    own = [gpu.get("pci") for gpu in facts.get("gpus") or []]
    # An answer for an address that is no GPU of the node does not count. The plan's facts have no section gpus.
    said = {pci: value for pci, value in (dmabuf.get("gpus") or {}).items() if pci in own or "gpus" not in facts}
    cuda_dmabuf = _every(said if stays else {}, known.gpus)
    evidence = known._replace(hcas=hcas, driver=driver, flavour=flavour, stack=stack, stack_version=stack_version, options=options,
                              cuda_dmabuf=cuda_dmabuf)
    rows = [
        Row("GPUs", known.gpus, "/sys/bus/pci/devices"),
        Row("every GPU is Turing or newer", known.turing, "PCI device ids"),
        Row("GPU driver", driver, driver_source),
        Row("kernel modules of the driver", flavour, driver_source),
        Row("CUDA toolkit", known.cuda, INVENTORY + " (cuda_version)"),
        Row("CUDA says dma-buf", cuda_dmabuf, _asked("libcuda, attribute 124 of every GPU", dmabuf.get("gpus_error"))),
        Row("kernel", known.kernel, "/proc/sys/kernel/osrelease"),
        *(Row(name, options[name], "kernel configuration") for name in sorted(options)),
        Row("RDMA stack", " ".join(part for part in (stack, stack_version) if part) or None, stack_source),
        Row("HCAs that count", join_names([hca.name for hca in hcas]), wants.hcas_by),
        *(Row("HCA %s (%s) takes dma-buf" % (hca.name, hca.driver or "no driver"), hca.dmabuf,
              _asked("ibv_reg_dmabuf_mr with fd -1", dmabuf.get("hcas_error"))) for hca in hcas),
        Row("peer memory interface of ib_core", gpudirect.get("peer_memory_interface"), "/sys/kernel/mm/memory_peers"),
        Row("peer memory module loaded", gpudirect.get("peermem_module"), "/proc/modules"),
        Row("registered with ib_core", gpudirect.get("peermem_registered"), "/proc/modules (users of ib_core)"),
        Row("peer memory module on disk", build.get("state"), build.get("file") or "modules.dep"),
        Row("virtual", known.virtual, "CPU flags, DMI"),
    ]
    return evidence, rows


def _asked(how: str, error: Optional[str]) -> str:
    return "%s (no answer: %s)" % (how, error) if error else how


def _every(answers: Mapping[str, Optional[bool]], count: int) -> Optional[bool]:
    """True when every GPU answered yes, False when one said no; None while somebody has not answered."""
    if False in answers.values():
        return False
    return True if len(answers) >= count > 0 and all(answers.values()) else None


def _driver(known: Evidence, found: Mapping[str, Any]) -> Tuple[Optional[str], Optional[str], str]:
    """(version, flavour, where from). What lies on disk is what the next boot loads, so it comes before what is loaded."""
    if known.driver is not None:
        return known.driver, known.flavour, INVENTORY + " (gpu_driver_branch)"
    if found.get("disk_version"):
        same = found.get("version") == found.get("disk_version")
        return found["disk_version"], found.get("disk_flavour") or (found.get("flavour") if same else None), "modinfo nvidia"
    return found.get("version"), found.get("flavour"), "/proc/driver/nvidia/version"


def _stack(known: Evidence, found: Mapping[str, Any]) -> Tuple[Optional[str], Optional[str], str]:
    if known.stack is None:
        return found.get("name"), found.get("version"), found.get("source") or "no package and no module tells"
    return known.stack, known.stack_version if known.stack in OFED_STACKS else None, INVENTORY + " (rdma_stack)"


def _hcas(spec: Optional[Spec], identity: Identity) -> Tuple[Tuple[HcaSeen, ...], str]:
    """The devices that count: the rails', else the best kind that is there (an on-board NIC may do RDMA too, and nobody means it)."""
    if spec is not None and spec.rails:
        found: Dict[str, Optional[str]] = {}
        for target in match_rails(spec, identity)[0]:
            if target.hca is not None:
                found[target.hca.name] = target.hca.driver
            elif target.nic is not None and target.nic.driver in MLX5 + MLX4:
                found[target.nic.name] = target.nic.driver  # its RDMA device comes with the stack
        if found:
            return tuple(HcaSeen(name, driver) for name, driver in sorted(found.items())), "rails of the inventory"
    kinds = [[hca for hca in identity.hcas if hca.driver in drivers] for drivers in (MLX5, ERDMA, MLX4)]
    kinds.append([hca for hca in identity.hcas if hca.driver not in SOFTWARE])
    best = next((kind for kind in kinds if kind), identity.hcas)
    return tuple(HcaSeen(hca.name, hca.driver) for hca in best), "/sys/class/infiniband"


def judge_gpudirect(seen: Inspection) -> List[Verdict]:
    """Nothing where there is no GPU, or nothing to connect it to; the plan's notes say so."""
    evidence, choice = chosen(seen.spec, seen.identity, seen.facts)
    where = VerdictSubject(seen.node, None, None, "GPU memory")
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
    return evidence, choose_path(evidence, wants.path)


def _path(where: VerdictSubject, spec: Spec, evidence: Evidence, choice: Choice, seen: Mapping[str, Any]) -> Verdict:
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
    found = join_names([path for path in working if working[path]]) if any(working.values()) else NONE
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


def _peermem(where: VerdictSubject, choice: Choice, seen: Mapping[str, Any]) -> List[Verdict]:
    """Loaded AND registered, where it is needed; and where it is not, not half."""
    wanted = MODULES.get(choice.path)
    loaded, registered = seen.get("peermem_module"), seen.get("peermem_registered")
    if wanted is None and loaded is None:
        return []
    expected = "%s loaded and registered with ib_core" % (wanted or loaded)
    return [decided(
        "gpudirect.peermem", where,
        (registered is None, "unknown", expected, None, "/proc/modules does not tell who uses ib_core on this node"),
        (loaded is None, "fail", expected, "not loaded", "%s is not loaded" % wanted),
        (not registered, "fail", expected, "loaded, not registered", "%s is loaded, but ib_core does not count it among its users: NCCL "
         "takes it for a working path, and every registration of GPU memory fails" % loaded),
        (wanted not in (None, loaded), "fail", expected, loaded, "%s is loaded in place of %s" % (loaded, wanted)),
        (True, "pass", expected, "loaded and registered", "%s is loaded and registered with ib_core" % loaded))]


def _dmabuf(node: str, evidence: Evidence, seen: Mapping[str, Any]) -> List[Verdict]:
    """One for every HCA, by its own answer, and one for CUDA."""
    answers = seen.get("dmabuf") or {}
    said = answers.get("hcas_said") or {}
    verdicts = []
    for hca in evidence.hcas:
        text = "answered %s to ibv_reg_dmabuf_mr" % said[hca.name] if hca.name in said else "could not be asked: %s" % (
            answers.get("hcas_error") or "verbs does not know it")
        verdicts.append(_answer(VerdictSubject(node, hca.name, None, "dma-buf of " + hca.name), hca.dmabuf, "%s %s" % (hca.name, text)))
    text = "CUDA says that every GPU exports dma-buf" if evidence.cuda_dmabuf else "CUDA says that a GPU exports no dma-buf"
    if evidence.cuda_dmabuf is None:
        text = "CUDA could not be asked: %s" % (answers.get("gpus_error") or "not every GPU answered")
    return verdicts + [_answer(VerdictSubject(node, None, None, "dma-buf of the GPUs"), evidence.cuda_dmabuf, text)]


def _answer(where: VerdictSubject, value: Optional[bool], text: str) -> Verdict:
    return decided("gpudirect.dmabuf", where, (value is None, "unknown", "supported", None, text),
                   (value, "pass", "supported", "supported", text), (True, "fail", "supported", "not supported", text))


def _built(where: VerdictSubject, choice: Choice, seen: Mapping[str, Any]) -> Verdict:
    """In the right order: found on disk, before anybody loads it."""
    module, build = MODULES[choice.path], seen.get("peermem_build") or {}
    file, state = build.get("file"), build.get("state")
    status, text = BUILT.get(str(state), ("unknown", ""))
    return decided(
        "gpudirect.built", where,
        (build.get("module") != module, "fail", FITS, None, "the running kernel has no module %s on disk" % module),
        (state in BUILT, status, FITS, state, "%s %s" % (file, text)),
        (True, "unknown", FITS, None, "whether %s fits the RDMA stack cannot be read: no checksums to compare" % file))


def expects_traffic(spec: Spec, choice: Choice, verdicts: Sequence[Verdict]) -> Optional[str]:
    """Why no traffic is measured; None when it is."""
    if choice.path == NONE:
        return choice.reason
    if not spec["gpudirect_traffic"] or not spec["validate_perftest"]:
        return "the inventory switches it off (%s: false)" % ("validate_perftest" if spec["gpudirect_traffic"] else "gpudirect_traffic")
    failed = [item for item in verdicts if item.check.startswith("gpudirect.") and item.status == "fail"]
    return "the path is not set up (%s)" % join_names(sorted({item.check for item in failed})) if failed else None
