# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on AIACC's plugin and on the NCCL that it goes with. Pure.

``aiacc.plugin``: with profile erdma-aiacc NCCL loads it, and nothing keeps NCCL from that; with any other profile it is not there,
or turned off. ``aiacc.nccl``: every NCCL that a job can load is one that the plugin goes with. A node that has nothing of all this
and whose profile asks for nothing gets no verdict.
"""

from typing import Any, Dict, List, Mapping, Optional

from ...catalogue.aiacc import LIBRARIES, PACKAGE, PATH, PROFILE, RANGE, VARIABLE, deep_words, fits, pypi_words
from ...rules.comparisons import Inspection, Where, verdict
from ...spec.model import Spec
from ...types import Verdict

OFF = "none"
CONF = "/etc/nccl.conf"


def judge_aiacc(seen: Inspection) -> List[Verdict]:
    node, spec, facts = seen.node, seen.spec, seen.facts
    found: Optional[Mapping[str, Any]] = facts.get("aiacc")
    wanted = spec["nccl_profile"] == PROFILE
    verdicts = _nccl(node, facts.get("nccl_libraries")) if wanted else []
    if wanted:
        verdicts.append(_loaded(node, found))
    elif found is not None and found["owner"] == PACKAGE:
        verdicts.append(_turned_off(node, spec, found))
    return verdicts + (_relatives(node, found) if found is not None else [])


def _nccl(node: str, libraries: Optional[List[Mapping[str, Any]]]) -> List[Verdict]:
    """One verdict a library; containers bring their own, which nobody sees here."""
    if not libraries:
        where = Where(node, None, None, "NCCL")
        return [verdict("aiacc.nccl", where, "skipped", RANGE, None, "no NCCL is on this node: jobs bring one of %s of their own" % RANGE)]
    verdicts: List[Verdict] = []
    for row in libraries:
        where = Where(node, None, None, "NCCL %s" % row["path"])
        good = fits(row["version"])
        if good is None:
            made = verdict("aiacc.nccl", where, "unknown", RANGE, None, "%s does not say which NCCL it is" % row["path"])
        elif good:
            made = verdict("aiacc.nccl", where, "pass", RANGE, row["version"], "%s goes with NCCL %s" % (PACKAGE, row["version"]))
        else:
            made = verdict("aiacc.nccl", where, "fail", RANGE, row["version"], "%s (%s) is NCCL %s, and %s goes with %s" % (
                row["path"], row["origin"], row["version"], PACKAGE, RANGE))
        verdicts.append(made)
    return verdicts


def _loaded(node: str, found: Optional[Mapping[str, Any]]) -> Verdict:
    where = Where(node, None, None, "libnccl-net.so")
    plugins = list(found["plugins"]) if found is not None else []
    reason = _hindrance(found, plugins)
    if reason is not None:
        return verdict("aiacc.plugin", where, "fail", PATH, plugins[0] if plugins else None, reason)
    return verdict("aiacc.plugin", where, "pass", PATH, plugins[0], "NCCL finds AIACC's plugin, and %s is set nowhere" % VARIABLE)


def _hindrance(found: Optional[Mapping[str, Any]], plugins: List[str]) -> Optional[str]:
    if found is None or not found["file"]:
        return "AIACC's plugin is not on this node: NCCL uses its own transport"
    if found["owner"] != PACKAGE:
        return "%s belongs to %s and not to %s" % (PATH, found["owner"] or "no package", PACKAGE)
    if PATH not in plugins:
        return "the loader does not know %s: %s" % (PATH, "ldconfig has not run since it came" if found["searched"] else (
            "%s is not in its path" % LIBRARIES))
    if plugins[0] != PATH:
        return "the loader finds %s before %s" % (plugins[0], PATH)
    settings: Dict[str, str] = found["settings"]
    if settings:
        return "%s: NCCL then does not load AIACC's plugin" % ", ".join(
            "%s sets %s=%s" % (path, VARIABLE, settings[path]) for path in sorted(settings))
    return None


def _turned_off(node: str, spec: Spec, found: Mapping[str, Any]) -> Verdict:
    """NCCL's own file reaches every job; what login shells and PAM set reaches some of them, and wins there."""
    where = Where(node, None, None, "libnccl-net.so")
    settings: Dict[str, str] = dict(found["settings"])
    conf = settings.pop(CONF, None)
    if PATH not in found["plugins"]:
        return verdict("aiacc.plugin", where, "pass", None, None, "AIACC's plugin is in %s, where the loader does not find it" % LIBRARIES)
    against = ["%s sets it to %s" % (path, value) for path, value in sorted(settings.items()) if value != OFF]
    if conf == OFF and not against:
        return verdict("aiacc.plugin", where, "pass", OFF, conf, "AIACC's plugin is installed and does nothing: %s=%s" % (VARIABLE, OFF))
    why = "; ".join(against) or ("nccl.conf sets it to %s" % conf if conf else "nccl.conf does not set it")
    return verdict("aiacc.plugin", where, "fail", OFF, conf, "AIACC's plugin (%s) takes the place of NCCL's own transport, which "
                   "rdma_nccl_profile %s sets up: only %s=%s keeps it out, and %s" % (PATH, spec["nccl_profile"], VARIABLE, OFF, why))


def _relatives(node: str, found: Mapping[str, Any]) -> List[Verdict]:
    verdicts: List[Verdict] = []
    deep = found["deepnccl"]
    if deep is not None:
        where = Where(node, None, None, "DeepNCCL")
        verdicts.append(verdict("aiacc.nccl", where, "warn", None, deep["package"], deep_words(deep["package"], tuple(deep["backups"]))))
    for row in found["pypi"]:
        where = Where(node, None, None, "%s in %s" % (row["name"], row["directory"]))
        verdicts.append(verdict("aiacc.plugin", where, "warn", None, row["version"], pypi_words(
            row["name"], row["version"], row["directory"])))
    return verdicts
