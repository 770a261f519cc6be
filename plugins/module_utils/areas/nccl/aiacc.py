# SPDX-License-Identifier: GPL-3.0-or-later
"""AIACC's network plugin for NCCL on eRDMA: its package, and that the loader finds it. Refused where a job's NCCL does not go with it.

The package is a step of the plan like any other, taken for the operator's sha256. What nobody asked for is never taken off: with
``aiacc_install: false`` an installed plugin stays, and the verdict aiacc.plugin says what it does. Which NCCL jobs load is looked
at wherever profile erdma-aiacc is chosen, also where the site brings the plugin itself.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

from ...catalogue.aiacc import (
    LIBRARIES,
    PACKAGE,
    PATH,
    PLUGIN,
    PROFILE,
    RANGE,
    SOURCE,
    VARIABLE,
    AiaccPackage,
    deep_words,
    ending_of,
    fits,
    is_release,
    package_of,
    pypi_words,
)
from ...catalogue.libnccl import PACKAGED, nccl_version
from ...host.host import Host
from ...observe.aiacc import AiaccState, observe_aiacc
from ...observe.nccl_libraries import PACKAGE as FROM_PACKAGE
from ...observe.nccl_libraries import LoadableNccl, Places, loadable_nccl, places_of
from ...observe.package_state import Hold, held
from ...observe.packages import all_installed
from ...spec.model import Spec
from ...types import Change, Identity, Problem, run
from ..common.files import HEADER, FileState, observe_file, plan_file
from ..common.package_changes import change_class, hold_conflicts, missing_database, package_change

NAME = "aiacc"
LD_CONF = "/etc/ld.so.conf.d/railwright-aiacc.conf"
LDCONFIG = run(("ldconfig",))
WHY = "NCCL loads it in place of its own transport, which AIACC has made for eRDMA"
WHY_PATH = "NCCL asks the loader for %s, and the loader does not look into %s by itself" % (PLUGIN, LIBRARIES)
WHY_CACHE = "the loader's cache is made anew, so that NCCL finds the plugin"


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
    package = package_of(spec, identity.platform.package_manager) if install else None
    own = (spec["nccl_conf_path"], spec["nccl_profile_path"])
    packaged = spec["nccl_install"] in PACKAGED and bool(identity.gpus)
    return Desired(identity, spec["nccl_profile"] == PROFILE, install, package, own, packaged, places_of(spec))


def observe(host: Host, desired: Desired) -> Observed:
    conf = observe_file(host, LD_CONF)
    if not desired.install and not desired.profile:
        return Observed({}, (), None, (), conf)
    identity = desired.identity
    return Observed(
        all_installed(host, identity), held(host, identity, (PACKAGE,)), observe_aiacc(host, identity, desired.places),
        loadable_nccl(host, identity, desired.places), conf)


def plan(desired: Desired, observed: Observed) -> List[Change]:
    """Jobs that run have loaded what they use: nothing here disturbs them."""
    state = observed.state
    if not desired.install or desired.package is None or state is None or observed.installed is None:
        return []
    changes = _package(desired, desired.package, observed.installed.get(PACKAGE))
    if not state.searched or (observed.conf.text is not None and not observed.conf.foreign):
        changes += plan_file(NAME, observed.conf, HEADER + LIBRARIES + "\n", WHY_PATH, "ALI (AIACC), ldconfig(8)", then=(LDCONFIG,))
    if PATH not in state.plugins:
        changes.append(Change(NAME, "%s in the loader's cache" % PATH, None, True, "none", WHY_CACHE, "ldconfig(8)", (LDCONFIG,)))
    return changes


def _package(desired: Desired, package: AiaccPackage, found: Optional[str]) -> List[Change]:
    if found is not None and is_release(found, package.version):
        return []
    family = desired.identity.platform.family
    disruption = change_class(found, package.version, family, "none")
    return [package_change(NAME, PACKAGE, found, package.version, WHY, SOURCE, disruption)]


def problems(spec: Spec, identity: Identity, desired: Desired) -> List[Problem]:
    found = _nccl_to_come(spec, identity) if desired.profile else []
    if not desired.install:
        return found
    ending, package = ending_of(identity.platform.package_manager), desired.package
    if package is None or ending is None:
        return [*found, Problem(NAME, "aiacc_install", "there is a deb and an rpm of %s, and this node has %s; allowed: false" % (
            PACKAGE, identity.platform.package_manager))]
    key, named = ("aiacc_archive", package.archive) if package.archive is not None else ("aiacc_url", spec["aiacc_url"])
    if named is not None and not named.endswith("." + ending):
        return [*found, Problem(NAME, key, "%s is no .%s, which this node needs" % (named, ending))]
    if package.sha256 is None:
        return [*found, Problem(NAME, "rdma_artifact_pins", "%s %s is not signed, and nobody vouches for it: set rdma_artifact_pins.%s to "
                                "the sha256 of the .%s" % (PACKAGE, package.version, package.artifact, ending))]
    return found


def _nccl_to_come(spec: Spec, identity: Identity) -> List[Problem]:
    """The distribution's NCCL, whose release depends on the system; what the inventory itself names is judged before any node is asked."""
    if spec["nccl_install"] != "distribution" or not identity.gpus:
        return []
    version = nccl_version(spec, identity)
    if version is None or fits(version[0]) is not False:
        return []
    return [Problem(NAME, "nccl_install", "the distribution's NCCL %s is outside of %s, which %s goes with; allowed: none" % (
        version[0].partition("-")[0], RANGE, PACKAGE))]


def conflicts(desired: Desired, observed: Observed) -> List[Problem]:
    if not desired.install and not desired.profile:
        return []
    if observed.installed is None:
        return [missing_database(NAME, desired.identity.platform.package_manager)]
    found = hold_conflicts(NAME, plan(desired, observed), observed.holds)
    found += [unfit(row) for row in observed.libraries
              if fits(row.version) is False and not (desired.packaged and row.origin == FROM_PACKAGE)]
    if observed.state is not None:
        found += _of_plugins(desired, observed.state) + _of_settings(desired, observed.state)
    return found


def unfit(library: LoadableNccl) -> Problem:
    return Problem(NAME, "NCCL %s" % library.path, "is %s, and %s goes with NCCL %s: take it away or replace it, or choose "
                   "rdma_nccl_profile erdma-native" % (library.version, PACKAGE, RANGE))


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


def _of_settings(desired: Desired, state: AiaccState) -> List[Problem]:
    """Of a file that no area of ours writes. Ours loses the variable in the same apply."""
    return [
        Problem(NAME, path, "sets %s=%s: NCCL loads AIACC's plugin only while that is not set; take the line out" % (VARIABLE, value))
        for path, value in state.settings if path not in desired.own_files]


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
