# SPDX-License-Identifier: GPL-3.0-or-later
"""AIACC's network plugin for NCCL on eRDMA: its package, and that the loader finds it. Refused where a job's NCCL does not go with it.

The package is a step of the plan like any other, taken for the operator's sha256. What nobody asked for is never taken off: with
``aiacc_install: false`` an installed plugin stays, and the verdict aiacc.plugin says what it does. Which NCCL jobs load is looked
at wherever profile erdma-aiacc is chosen, also where the site brings the plugin itself. Its verdicts: docs/reference/checks.md; a node
that has nothing of all this and whose profile asks for nothing gets none.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ...catalogue import aiacc
from ...catalogue.aiacc import LIBRARIES, PACKAGE, PATH, PROFILE, RANGE, VARIABLE, AiaccPackage, deep_words, fits_nccl, pypi_words
from ...catalogue.libnccl import PACKAGED, nccl_version
from ...host.host import Host
from ...observe.aiacc import AiaccState, observe_aiacc
from ...observe.nccl_libraries import PACKAGE as FROM_PACKAGE
from ...observe.nccl_libraries import LoadableNccl, Places, loadable_nccl, places_of
from ...observe.packages import Hold, all_installed, held_packages
from ...rules.comparisons import Inspection, VerdictSubject, decided, verdict
from ...spec.model import Spec
from ...types import Change, Identity, Problem, Verdict, run
from ..common.files import HEADER, FileState, observe_file, plan_file
from ..common.package_changes import change_class, hold_conflicts, missing_database, package_change

NAME = "aiacc"
LD_CONF = "/etc/ld.so.conf.d/railwright-aiacc.conf"
OFF = "none"
CONF = "/etc/nccl.conf"
LDCONFIG = run(("ldconfig",))
WHY_PATH = "NCCL asks the loader for %s, and the loader does not look into %s by itself" % (aiacc.PLUGIN, LIBRARIES)


class Desired(NamedTuple):
    """``package`` None: none is wanted, or none can be had (``problems`` says why)."""

    identity: Identity
    profile: bool  # erdma-aiacc: the plugin is what jobs use, whoever brought it
    install: bool
    package: Optional[AiaccPackage]
    own_files: Tuple[str, ...]  # area nccl writes these, so what they say now does not last
    packaged: bool  # area nccl_library brings NCCL's package in a release that goes with it, in place of the one that is there
    places: Places


class Observed(NamedTuple):
    installed: Optional[Dict[str, str]]
    holds: Tuple[Hold, ...]
    state: Optional[AiaccState]
    libraries: Tuple[LoadableNccl, ...]
    conf: FileState


def desired(spec: Spec, identity: Identity) -> Desired:
    install = bool(spec["aiacc_install"])
    package = aiacc.package_of(spec, identity.platform.package_manager) if install else None
    own = (spec["nccl_conf_path"], spec["nccl_profile_path"])
    packaged = spec["nccl_install"] in PACKAGED and bool(identity.gpus)
    return Desired(identity, spec["nccl_profile"] == PROFILE, install, package, own, packaged, places_of(spec))


def observe(host: Host, desired: Desired) -> Observed:
    conf = observe_file(host, LD_CONF)
    if not desired.install and not desired.profile:
        return Observed({}, (), None, (), conf)
    identity = desired.identity
    return Observed(
        all_installed(host, identity), held_packages(host, identity, (PACKAGE,)), observe_aiacc(host, identity, desired.places),
        loadable_nccl(host, identity, desired.places), conf)


def plan(desired: Desired, observed: Observed) -> List[Change]:
    """Jobs that run have loaded what they use: nothing here disturbs them."""
    state = observed.state
    if not desired.install or desired.package is None or state is None or observed.installed is None:
        return []
    changes: List[Change] = []
    there, version = observed.installed.get(PACKAGE), desired.package.version
    if there is None or not aiacc.is_release(there, version):
        changes.append(package_change(
            NAME, PACKAGE, there, version, "NCCL loads it in place of its own transport, which AIACC has made for eRDMA", aiacc.SOURCE,
            change_class(there, version, desired.identity.platform.family, "none")))
    if not state.searched or (observed.conf.text is not None and not observed.conf.foreign):
        changes += plan_file(NAME, observed.conf, HEADER + LIBRARIES + "\n", WHY_PATH, "ALI (AIACC), ldconfig(8)", then=(LDCONFIG,))
    if PATH not in state.plugins:
        changes.append(Change(NAME, "%s in the loader's cache" % PATH, None, True, "none", "the loader's cache is made anew, so that NCCL "
                              "finds the plugin", "ldconfig(8)", (LDCONFIG,)))
    return changes


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    found = _nccl_to_come(spec, identity) if desired.profile else []
    if not desired.install:
        return found
    ending, package = aiacc.ending_of(identity.platform.package_manager), desired.package
    if package is None or ending is None:
        return [*found, Problem(NAME, "aiacc_install", "there is a deb and an rpm of %s, and this node has %s; allowed: false" % (
            PACKAGE, identity.platform.package_manager))]
    key, named = ("aiacc_archive", package.archive) if package.archive is not None else ("aiacc_url", spec["aiacc_url"])
    if named is not None and not named.endswith("." + ending):
        return [*found, Problem(NAME, key, "%s is no .%s, which this node needs" % (named, ending))]
    if package.sha256 is None:
        return [*found, Problem(NAME, "rdma_artifact_pins", "%s %s is not signed and not pinned: set rdma_artifact_pins.%s to "
                                "the sha256 of the .%s" % (PACKAGE, package.version, package.artifact, ending))]
    return found


def _nccl_to_come(spec: Spec, identity: Identity) -> List[Problem]:
    """The distribution's NCCL, whose release depends on the system; what the inventory itself names is judged before any node is asked."""
    if spec["nccl_install"] != "distribution" or not identity.gpus:
        return []
    version = nccl_version(spec, identity)
    if version is None or fits_nccl(version[0]) is not False:
        return []
    return [Problem(NAME, "nccl_install", "the distribution's NCCL %s is outside of %s, which %s goes with; allowed: none" % (
        version[0].partition("-")[0], RANGE, PACKAGE))]


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    if not desired.install and not desired.profile:
        return []
    if observed.installed is None:
        return [missing_database(NAME, desired.identity.platform.package_manager)]
    found = hold_conflicts(NAME, plan(desired, observed), observed.holds)
    found += [Problem(NAME, "NCCL %s" % row.path, "is %s, and %s goes with NCCL %s: take it away or replace it, or choose "
                      "rdma_nccl_profile erdma-native" % (row.version, PACKAGE, RANGE))
              for row in observed.libraries if fits_nccl(row.version) is False and not (desired.packaged and row.origin == FROM_PACKAGE)]
    if observed.state is not None:
        # Of a file that no area of ours writes. Ours loses the variable in the same apply.
        found += _of_plugins(desired, observed.state) + [
            Problem(NAME, path, "sets %s=%s: NCCL loads AIACC's plugin only while that is not set; take the line out" % (VARIABLE, value))
            for path, value in observed.state.settings if path not in desired.own_files]
    return found


def _of_plugins(desired: Desired, state: AiaccState) -> List[Problem]:
    """Somebody else's plugin: the package would overwrite it, or it comes first."""
    if not desired.install:
        return []
    if state.file and state.owner != PACKAGE:
        return [Problem(NAME, PATH, "is there and belongs to %s: the package of %s would overwrite it; take it away first" % (
            state.owner or "no package", PACKAGE))]
    first = state.plugins[0] if state.plugins else PATH
    if first != PATH and state.searched and PATH in state.plugins:
        return [Problem(NAME, first, "is another network plugin of NCCL, and the loader finds it before %s; take it away" % PATH)]
    return []


def notes(desired: Desired, observed: Observed) -> List[str]:
    state = observed.state
    if state is None:
        return []
    found: List[str] = []
    if state.deep is not None:
        found.append("aiacc: " + deep_words(state.deep.package, state.deep.backups))
    if observed.libraries and any(row.version is None for row in observed.libraries):
        found.append("aiacc: %s does not say which NCCL it is" % ", ".join(row.path for row in observed.libraries if row.version is None))
    found += ["aiacc: " + pypi_words(*row) for row in state.pypi]
    return found


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
        where = VerdictSubject(node, None, None, "NCCL")
        return [verdict("aiacc.nccl", where, "skipped", RANGE, None, "no NCCL is on this node: jobs bring one of %s of their own" % RANGE)]
    verdicts: List[Verdict] = []
    for row in libraries:
        path, version, good = row["path"], row["version"], fits_nccl(row["version"])
        verdicts.append(decided(
            "aiacc.nccl", VerdictSubject(node, None, None, "NCCL %s" % path),
            (good is None, "unknown", RANGE, None, "%s does not say which NCCL it is" % path),
            (good, "pass", RANGE, version, "%s goes with NCCL %s" % (PACKAGE, version)),
            (True, "fail", RANGE, version, "%s (%s) is NCCL %s, and %s goes with %s" % (path, row["origin"], version, PACKAGE, RANGE))))
    return verdicts


def _loaded(node: str, found: Optional[Mapping[str, Any]]) -> Verdict:
    plugins = list(found["plugins"]) if found is not None else []
    reason = _hindrance(found, plugins)
    return decided(
        "aiacc.plugin", VerdictSubject(node, None, None, "libnccl-net.so"),
        (reason, "fail", PATH, plugins[0] if plugins else None, reason or ""),
        (True, "pass", PATH, PATH, "NCCL finds AIACC's plugin, and %s is set nowhere" % VARIABLE))


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
    where = VerdictSubject(node, None, None, "libnccl-net.so")
    settings: Dict[str, str] = dict(found["settings"])
    conf = settings.pop(CONF, None)
    against = ["%s sets it to %s" % (path, value) for path, value in sorted(settings.items()) if value != OFF]
    why = "; ".join(against) or ("nccl.conf sets it to %s" % conf if conf else "nccl.conf does not set it")
    return decided(
        "aiacc.plugin", where,
        (PATH not in found["plugins"], "pass", None, None, "AIACC's plugin is in %s, where the loader does not find it" % LIBRARIES),
        (conf == OFF and not against, "pass", OFF, conf, "AIACC's plugin is installed and does nothing: %s=%s" % (VARIABLE, OFF)),
        (True, "fail", OFF, conf, "AIACC's plugin (%s) takes the place of NCCL's own transport, which rdma_nccl_profile %s sets up: only "
                                  "%s=%s keeps it out, and %s" % (PATH, spec["nccl_profile"], VARIABLE, OFF, why)))


def _relatives(node: str, found: Mapping[str, Any]) -> List[Verdict]:
    verdicts: List[Verdict] = []
    deep = found["deepnccl"]
    if deep is not None:
        where = VerdictSubject(node, None, None, "DeepNCCL")
        verdicts.append(verdict("aiacc.nccl", where, "warn", None, deep["package"], deep_words(deep["package"], tuple(deep["backups"]))))
    for row in found["pypi"]:
        where = VerdictSubject(node, None, None, "%s in %s" % (row["name"], row["directory"]))
        verdicts.append(verdict("aiacc.plugin", where, "warn", None, row["version"], pypi_words(
            row["name"], row["version"], row["directory"])))
    return verdicts
