# SPDX-License-Identifier: GPL-3.0-or-later
"""The mappings of the role nic_firmware: parameters, versions and images. Their names become arguments of a command that runs as root."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.nic_parameters import NAMES, allowed, find, fits

from .findings import Findings, nearest
from .values import MISSING, type_name

PARAMETER = r"[A-Z][A-Z0-9_]{1,63}(\[[0-9]{1,3}\])?"
VALUE = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(\([0-9]{1,10}\))?"
PSID = r"[A-Z0-9][A-Z0-9_-]{3,31}"
VERSION = r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{3,5}"
URL = r"(https?://(?![^/]*@)|file:///)[A-Za-z0-9._~:/?#@!$&*+,;=%-]+"  # no password: it would stand in every plan


def check_config(config: Mapping[Any, Any], findings: Findings) -> Any:
    """``nic_firmware_config`` as it is, or MISSING."""
    good = True
    for name, value in config.items():
        path = f"nic_firmware_config.{name}"
        if not isinstance(name, str) or not re.fullmatch(PARAMETER, name):
            findings.error(path, value, "is not the name of a firmware parameter", "a name as mstconfig prints it: NUM_OF_VFS, NAME[0]")
        elif isinstance(value, float) or not isinstance(value, (bool, int, str)):
            findings.error(path, value, f"must be true, false, an integer or a word, not {type_name(value)}", "true, 16, ETH, True(1)")
        elif not re.fullmatch(VALUE, str(value)):
            findings.error(path, value, "is not a value of a firmware parameter", "true, false, an integer from 0, or a word like ETH")
        elif not _is_known(name, value, path, findings):
            pass
        else:
            continue
        good = False
    return dict(config) if good else MISSING


def _is_known(name: str, value: Any, path: str, findings: Findings) -> bool:
    """The parameters that the catalogue has are judged here; others by the NIC, after a warning where the name looks like a slip."""
    row = find(name)
    if row is None:
        meant = nearest(re.sub(r"_P[1-4]\Z", "_P1", name), NAMES)
        if meant is not None:
            findings.warning(path, value, f"is no parameter that railwright knows; did you mean {meant}? The NIC decides")
        return True
    if fits(row, value):
        return True
    findings.error(path, value, f"is not a value that {name} can have ({row.meaning})", allowed(row))
    return False


def check_versions(versions: Mapping[Any, Any], findings: Findings) -> Any:
    good = True
    for psid, version in versions.items():
        path = f"nic_firmware_versions.{psid}"
        if not _is_psid(path, psid, findings):
            good = False
        elif not isinstance(version, str) or not re.fullmatch(VERSION, version):
            findings.error(path, version, "is not a firmware version", "a version in quotes, like '28.47.1080'")
            good = False
    return dict(versions) if good else MISSING


def check_images(images: Mapping[Any, Any], findings: Findings) -> Any:
    good = True
    for psid, image in images.items():
        path = f"nic_firmware_images.{psid}"
        if not _is_psid(path, psid, findings):
            good = False
        elif not isinstance(image, dict) or set(image) != {"url", "sha256"}:
            findings.error(path, image, "must hold url and sha256 and nothing else", "{url: https://…, sha256: 64 hexadecimal digits}")
            good = False
        elif not re.fullmatch(URL, str(image["url"])):
            findings.error(path + ".url", image["url"], "is no URL", "an http, https or file URL")
            good = False
        elif not re.fullmatch(r"[0-9a-f]{64}", str(image["sha256"])):
            findings.error(path + ".sha256", image["sha256"], "is no SHA-256 checksum", "64 lower-case hexadecimal digits, from sha256sum")
            good = False
    return {psid: dict(image) for psid, image in images.items()} if good else MISSING


def check_nic_firmware(checked: Mapping[str, Any], findings: Findings) -> None:
    """An image without the version that it holds could never be said to be wrong, or there."""
    images, versions = checked.get("nic_firmware_images"), checked.get("nic_firmware_versions")
    if not isinstance(images, dict) or not isinstance(versions, dict):
        return
    for psid in images:
        if psid not in versions:
            findings.error(f"nic_firmware_images.{psid}", psid, "has an image, but no wanted version",
                           f"the version that the image holds, in nic_firmware_versions.{psid}")


def _is_psid(path: str, psid: Any, findings: Findings) -> bool:
    if isinstance(psid, str) and re.fullmatch(PSID, psid):
        return True
    findings.error(path, psid, "is not a PSID", "the board's id as /sys/class/infiniband/DEVICE/board_id has it, like MT_0000000838")
    return False


CHECKS: dict[str, Any] = {
    "nic_firmware_config": check_config, "nic_firmware_versions": check_versions, "nic_firmware_images": check_images,
}
