# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the schema for AIACC's plugin for NCCL on eRDMA. ``schema.py`` joins them."""

from __future__ import annotations

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.aiacc import RELEASE

from .key import Key
from .keys_drivers import URL, URL_FORM
from .keys_nccl import PATH, PATH_FORM

AIACC_KEYS = (
    Key("aiacc_install", "aiacc", "bool", None,
        "Install aiacc-nccl-plugin. Unset: exactly where rdma_nccl_profile is erdma-aiacc. Its package is not signed: nothing happens "
        "without a sha256 of yours in rdma_artifact_pins (aiacc_nccl_plugin_deb, aiacc_nccl_plugin_rpm).",
        "choice: with any other profile the plugin would take the place of the transport that the profile sets up"),
    Key("aiacc_version", "aiacc", "str", RELEASE,
        "Release of aiacc-nccl-plugin. One that the catalogue has no URL of needs aiacc_url or aiacc_archive.",
        "S4:44-46 (the eRDMA document)", pattern=r"^[0-9]+(\.[0-9]+){1,3}$", form="a release like 1.0.2, in quotes"),
    Key("aiacc_url", "aiacc", "str", None, "Where the rpm or deb is. Unset: the catalogue's place of the release (or the mirror's).",
        "docs/aiacc.md", pattern=URL, form=URL_FORM, example="https://mirror.example.com/aiacc-nccl-plugin-1.0.2.rpm"),
    Key("aiacc_archive", "aiacc", "str", None,
        "The rpm or deb as a file on the controller, for sites without a way out. Unset: downloaded, or from the mirror.",
        "choice: air-gapped sites", pattern=PATH, form=PATH_FORM, example="/srv/railwright/aiacc-nccl-plugin-1.0.2.rpm"),
)
AIACC_ROLES = ("aiacc",)
