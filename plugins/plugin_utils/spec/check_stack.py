# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules between the keys of the RDMA stack, and for everything that the operator vouches for: overrides, offline packages, pins. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.artifacts import ARTIFACTS, FORM_WORDS, FORMS, find, pin_form
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.stacks import PROFILES, VENDORS

from .findings import Findings, did_you_mean
from .keys_drivers import URL, URL_FORM
from .values import MISSING, type_name

# Keys that say something about a vendor's stack only.
VENDOR_KEYS = (
    "rdma_stack_version", "rdma_stack_profile", "rdma_stack_repository_url", "rdma_stack_repository_key_url",
    "rdma_stack_repository_fingerprint", "rdma_stack_offline_package",
)
RELEASES = {
    "doca": (r"[0-9]+\.[0-9]+\.[0-9]+(-[0-9]+)?", "a release like 3.2.3, in quotes"),
    "mlnx_ofed": (r"[0-9]{2}\.[0-9]{2}-[0-9]+(\.[0-9]+)+", "a release like 24.10-4.1.4.0, in quotes"),
}
PACKAGE_FORM = "{url: an http, https or file:/// URL, sha256: its checksum}, or {}"
ERDMA_STACKS = "auto, inbox"


def check_artifact_pins(pins: Mapping[Any, Any], findings: Findings) -> Any:
    """``rdma_artifact_pins`` as {artifact: value}, or MISSING: names that the catalogue has, values of the form that each needs."""
    good = True
    names = tuple(row.name for row in ARTIFACTS)
    for name, value in pins.items():
        path = f"rdma_artifact_pins.{name}"
        row = find(name) if isinstance(name, str) else None
        if row is None:
            findings.error(path, value, f"is no artifact of the catalogue{did_you_mean(str(name), names)}",
                           "a name that `railwright artifacts` lists")
        elif not isinstance(value, str) or not re.fullmatch(FORMS[pin_form(row)], value):
            findings.error(path, value, f"is no {pin_form(row)}, and this artifact is known by one", FORM_WORDS[pin_form(row)])
        else:
            continue
        good = False
    return dict(pins) if good else MISSING


def check_offline_package(package: Mapping[Any, Any], findings: Findings) -> Any:
    """``rdma_stack_offline_package`` as {url, sha256} or {}, or MISSING."""
    key = "rdma_stack_offline_package"
    if not package:
        return {}
    before = findings.error_count()
    for name in package:
        if name not in ("url", "sha256"):
            findings.error("%s.%s" % (key, name), package[name], f"is no part of a package{did_you_mean(str(name), ('url', 'sha256'))}",
                           "url, sha256")
    for name, pattern, allowed in (("url", URL, URL_FORM), ("sha256", FORMS["sha256"], FORM_WORDS["sha256"])):
        value = package.get(name)
        if value is None:
            findings.error("%s.%s" % (key, name), None, "is missing; a package from a file must be known by its checksum", PACKAGE_FORM)
        elif not isinstance(value, str):
            findings.error(f"{key}.{name}", value, f"must be text, not {type_name(value)}", allowed)
        elif not re.fullmatch(pattern, value):
            findings.error(f"{key}.{name}", value, f"is no {name}", allowed)
    return dict(package) if findings.error_count() == before else MISSING


def check_stack(values: Mapping[str, Any], findings: Findings) -> None:
    """Rules over several keys; runs after each is well-formed."""
    for role in ("rdma_stack", "cuda", "erdma"):
        _check_key(values, role, findings)
    if "rdma_stack" not in values:
        return
    stack = values["rdma_stack"]
    if values.get("fabric") == "erdma" and stack in VENDORS and stack != "mlnx_ofed":  # check_erdma_driver: which mode it goes with
        findings.error("rdma_stack", stack, "has no driver for eRDMA; its kernel module and provider are the distribution's or Alibaba's",
                       ERDMA_STACKS)
        return
    if stack not in (*VENDORS, "auto"):
        for key in VENDOR_KEYS:
            if values.get(key):
                findings.error(key, values[key], f"is for a vendor's stack; rdma_stack is {stack}",
                               "unset, or rdma_stack: doca or mlnx_ofed")
        return
    vendor = "mlnx_ofed" if stack == "mlnx_ofed" else "doca"
    _check_release(values, vendor, findings)
    _check_profile(values, vendor, findings)
    if values.get("rdma_stack_offline_package") and values.get("rdma_stack_repository_url"):
        findings.error("rdma_stack_offline_package", values["rdma_stack_offline_package"],
                       "is a repository in itself, and rdma_stack_repository_url names another one", "one of the two")


def _check_release(values: Mapping[str, Any], vendor: str, findings: Findings) -> None:
    version = values.get("rdma_stack_version")
    pattern, allowed = RELEASES[vendor]
    if version is not None and not re.fullmatch(pattern, version):
        findings.error("rdma_stack_version", version, f"is no release of {vendor}", allowed)


def _check_profile(values: Mapping[str, Any], vendor: str, findings: Findings) -> None:
    profile = values.get("rdma_stack_profile")
    names = PROFILES[vendor]
    if profile is None or profile in names:
        return
    other = [name for name in VENDORS if profile in PROFILES[name]]
    message = f"is a meta package of {other[0]}; this host's stack is {vendor}" if other else "is no meta package of %s%s" % (
        vendor, did_you_mean(profile, names))
    findings.error("rdma_stack_profile", profile, message, ", ".join(names))


def _check_key(values: Mapping[str, Any], role: str, findings: Findings) -> None:
    """A key from elsewhere is another key: what the catalogue knows of the vendor's does not vouch for it."""
    key_url = values.get(role + "_repository_key_url")
    if key_url is not None and values.get(role + "_repository_fingerprint", MISSING) is None:
        findings.error(role + "_repository_key_url", key_url, "names a signing key that nobody vouches for",
                       f"{role}_repository_fingerprint too: {FORM_WORDS['fingerprint']}")


CHECKS: dict[str, Any] = {"rdma_artifact_pins": check_artifact_pins, "rdma_stack_offline_package": check_offline_package}
