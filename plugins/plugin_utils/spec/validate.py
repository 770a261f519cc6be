# SPDX-License-Identifier: GPL-3.0-or-later
"""From a host's (templated) variables to its Spec, with everything that is wrong on the way.

Pure: no file, no node, no Ansible. ``lint`` and the action plugins call the same
function, so what lint accepts is what a run uses.
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue import aiacc
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import DEFAULT_QOS, NONE, site_profile
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding, Spec

from ..nccl_catalogue.profiles import DEFAULT_NCCL, derived, wanted_nccl
from ..tables.check_modes import derived_modes
from . import check_drivers, check_erdma, check_fabric, check_jobs, check_qos
from .check_entries import ENTRY_CHECKS, WHOLE_CHECKS
from .check_nccl_env import check_nccl_env
from .check_rules import Checked, Malformed, Values, check_rules
from .cross_host import validate_site
from .erdma_instances import erdma_derived
from .findings import MISSING, Findings, did_you_mean
from .hurtful import check_hurtful
from .job_user import check_job_user, fill_users
from .mode_entries import warn_observed
from .nccl_overrides import check_overrides
from .rails import Shape, check_rails, unsuspicious_rails
from .schema import BY_NAME, FABRICS, KEYS
from .unknown import check_unknown
from .values import as_int, check_key, plain

__all__ = ("SpecBuilder", "build_spec", "check_value", "validate_site")

Rails = list[dict[str, Any]]
DEFAULTS_BY_FABRIC: dict[str, dict[str, str]] = {"nccl_profile": DEFAULT_NCCL, "qos_profile": DEFAULT_QOS}


def _overrides(values: Values, _rails: Rails, findings: Findings) -> None:
    """Of NCCL's variables, against the QoS profile; restored as text."""
    profile = site_profile(values.get("qos_profile", NONE), values.get("qos_custom", {}))
    nccl = wanted_nccl({"nccl_install": "none", "nccl_version": None, **values})
    overrides = check_overrides(values["nccl_overrides"], profile, findings, nccl)
    if overrides is not MISSING and isinstance(values, dict):
        values["nccl_overrides"] = overrides


# Rules over several keys. One that reads a malformed key ends there.
RULES: tuple[Callable[[Values, Rails, Findings], None], ...] = (
    _overrides, check_rules, check_fabric.check_network, check_drivers.check_keys, check_drivers.check_stack,
    check_erdma.check_erdma_driver, check_erdma.check_erdma_instance, check_drivers.check_nic_firmware, check_drivers.check_read_request,
    check_drivers.check_kernel_arguments, check_drivers.check_gpu_driver, check_drivers.check_cuda, check_drivers.check_gpudirect,
    check_jobs.check_nccl_tests_place, check_jobs.check_nccl_tests_sizes, check_jobs.check_nccl_tests_groups,
    check_jobs.check_slurm_options, check_jobs.check_nccl, check_jobs.check_hpcx, check_jobs.check_ai_environment, check_qos.check_qos,
    check_qos.check_roce_qos, check_jobs.check_upgrade, check_job_user,
    check_fabric.check_mtus, check_fabric.check_profiles, check_nccl_env, check_fabric.check_fabric, check_jobs.check_aiacc,
    warn_observed,
)


def build_spec(values: Mapping[str, Any], host: str) -> tuple[Spec | None, list[Finding]]:
    """The Spec of one host and the findings; no Spec when there is an error.

    ``values`` holds what the inventory says about the host, templated; ``group_names``
    among them decides ``network_opensm`` when the key is unset.
    """
    findings = Findings(host)
    given = {str(name): plain(value) for name, value in values.items()}
    return _ruled(given, findings, None), findings.items


def _ruled(given: dict[str, Any], findings: Findings, rails: Rails | None) -> Spec | None:
    """``rails``: in place of the host's own, which are known to be right."""
    checked = _check_keys(given, findings)
    check_unknown(given, findings)
    rails = check_rails(checked.get("rails", []), checked.get("mtu"), findings) if rails is None else rails
    _fill_defaults(given, checked)
    for rule in RULES:
        with contextlib.suppress(Malformed):
            rule(checked, rails, findings)
    if findings.error_count():
        return None
    fill_users(checked)
    checked["rails"] = rails
    checked["firewall_derived"] = {"peers": [], "unknown": []}  # the other nodes' addresses: whoever knows them puts them in
    checked["code_derived"] = {}  # likewise
    checked["agent_derived"] = {}  # nobody's wishes, by which an agent judges: likewise, and only where there is one
    checked["checks_derived"] = derived_modes(checked["checks"], checked["checks_release"]) if checked["agent_mode"] != "off" else {}
    checked["erdma_derived"] = erdma_derived(checked["erdma_instance_type"])
    checked["nccl_derived"] = derived(Spec(checked))
    return Spec(checked)


RAILS = "rdma_rails"


class SpecBuilder:
    """Builds the Specs of many hosts. Those that differ in nothing but devices of rails, and addresses within the same subnets, are judged
    once: the rules are shown subnets in place of addresses, so what they say holds for all of these hosts. Nobody may change such a Spec.
    """

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Any, Spec | None, list[Finding]] | None] = {}

    def build(self, shared: Mapping[str, Any], own: Mapping[str, Any], host: str) -> tuple[Spec | None, list[Finding]]:
        """``own`` lies over ``shared``, which is one object for all hosts that share it."""
        raw = own.get(RAILS, shared.get(RAILS))
        quick = unsuspicious_rails(raw) if isinstance(raw, list) else None
        if quick is None:
            return build_spec({**shared, **own}, host)
        rails, shape = quick
        ours = repr([item for item in own.items() if item[0] in BY_NAME and item[0] != RAILS])
        same = (id(shared), tuple(own), ours, shape)
        if same not in self._known:
            self._known[same] = _common({**shared, **own}, rails, shape, host, shared)
        known = self._known[same]
        if known is None:
            return build_spec({**shared, **own}, host)
        _kept, spec, found = known
        found = [finding._replace(host=host) for finding in found]
        if spec is None or RAILS not in own:
            return spec, found
        return spec.with_rails(_with_mtu(rails, spec.mtu)), found


def _with_mtu(rails: Rails, mtu: Any) -> Rails:
    for rail in rails:
        if rail["mtu"] is None:
            rail["mtu"] = mtu
    return rails


def _common(values: Mapping[str, Any], rails: Rails, shape: Shape, host: str, kept: Any) -> tuple[Any, Spec | None, list[Finding]] | None:
    """What holds for all hosts like this one; None where its own addresses or devices are in what is said."""
    spec, found = build_spec(values, host)
    findings = Findings(host)
    given = {str(name): plain(value) for name, value in values.items()}
    mtu = spec.mtu if spec is not None else as_int(given.get("rdma_mtu"))
    subnets = [{**rail, "value": "", "address": network} for rail, (_n, _k, network, *_rest) in zip(rails, shape, strict=True)]
    of_all = _ruled(given, findings, _with_mtu(subnets, mtu))
    if found != findings.items or (spec is None) != (of_all is None):
        return None
    if spec is not None and of_all is not None and {**spec.as_dict(), "rails": []} != {**of_all.as_dict(), "rails": []}:
        return None
    return kept, spec, found


def _check_keys(given: dict[str, Any], findings: Findings) -> Checked:
    """Every key by itself: converted, defaulted, or left out after a finding."""
    checked = Checked()
    for key in KEYS:
        value = given.get(key.name)
        if value is None:
            # An empty key (``rdma_consent:``) means its default; only required keys need a value.
            if key.required:
                allowed = check_fabric.MTU_ALLOWED.get(str(checked.get("fabric")), key.allowed()) if key.field == "mtu" else key.allowed()
                bare = f"; {key.field} is set, but railwright reads {key.name}" if key.field in given else ""
                findings.error(key.name, None, "is empty" if key.name in given else "is missing" + bare, allowed)
            else:
                checked[key.field] = key.default.copy() if isinstance(key.default, list | dict) else key.default
            continue
        converted = check_value(key, value, findings)
        if converted is not MISSING:
            checked[key.field] = converted
    return checked


def check_value(key: Any, value: Any, findings: Findings) -> Any:
    """The converted value of one key by itself, or MISSING after its findings; for whoever judges a value outside of an inventory, too."""
    if key.name == "rdma_fabric" and isinstance(value, str) and value not in FABRICS:
        return findings.error(key.name, value, f"is no fabric that railwright knows{did_you_mean(value, FABRICS)}", ", ".join(FABRICS))
    before = findings.error_count()
    checked = check_key(key, value, key.name, findings)
    if checked is not MISSING and key.type != "dict":
        check_hurtful(key.name, key.name, checked, findings)
    if checked is not MISSING and key.name in ENTRY_CHECKS:
        entry = ENTRY_CHECKS[key.name]
        if isinstance(checked, dict):
            checked = {name: entry(f"{key.name}.{name}", name, item, findings) for name, item in checked.items()}
        else:
            checked = [entry(f"{key.name}[{at}]", at, item, findings) for at, item in enumerate(checked)]
    elif checked is not MISSING and key.name in WHOLE_CHECKS:
        checked = WHOLE_CHECKS[key.name](checked, findings)
    return checked if findings.error_count() == before else MISSING


def _fill_defaults(given: Mapping[str, Any], checked: dict[str, Any]) -> None:
    """Defaults that depend on another key or on the host's groups."""
    for name, by_fabric in DEFAULTS_BY_FABRIC.items():
        if name in checked and checked[name] is None:
            checked[name] = by_fabric.get(checked.get("fabric", ""), NONE)
    if checked.get("aiacc_install", MISSING) is None:
        checked["aiacc_install"] = checked.get("nccl_profile") == aiacc.PROFILE
    if checked.get("ddp_benchmark_python", MISSING) is None:
        kept = checked.get("ai_environment_kind", "none") != "none" and "ai_environment_path" in checked
        checked["ddp_benchmark_python"] = f"{checked['ai_environment_path'].rstrip('/')}/current/bin/python" if kept else "python3"
    if checked.get("network_opensm", MISSING) is None:
        checked["network_opensm"] = "opensm" in (given.get("group_names") or [])
