# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the schema for eRDMA. ``schema.py`` joins them."""

from __future__ import annotations

from .key import Key
from .keys_drivers import FINGERPRINT, FINGERPRINT_FORM, URL, URL_FORM
from .keys_erdma_driver import ERDMA_DRIVER
from .keys_erdma_instance import ERDMA_INSTANCE

ERDMA = (
    Key("erdma_repository", "erdma", "str", "auto",
        "Take the user space of eRDMA (libibverbs and its provider) from Alibaba's repository. auto: where rdma_fabric is erdma and the "
        "distribution's rdma-core is not known to have the provider (43 and newer have it). true: always; false: never, the "
        "distribution's packages are taken as they are. Of no effect with a vendor's stack, which has the provider.",
        "linux-rdma/rdma-core (provider erdma since 43); S4:60 to 88", choices=("auto", "true", "false")),
    Key("erdma_repository_url", "erdma", "str", None,
        "A repository in place of Alibaba's. On apt the URL before the suite CODENAME/erdma (component main), on dnf the whole baseurl. "
        "Unset: the catalogue's (or the mirror's).", "docs/reference/drivers.md", pattern=URL, form=URL_FORM),
    Key("erdma_repository_key_url", "erdma", "str", None, "Where that repository's signing key is. Unset: Alibaba's (or the mirror's).",
        "docs/reference/drivers.md", pattern=URL, form=URL_FORM),
    Key("erdma_repository_fingerprint", "erdma", "str", None,
        "Fingerprint that the signing key must have. Nobody here has read the one of Alibaba's key: without this key, or "
        "rdma_artifact_pins: {erdma-key: FINGERPRINT}, the repository is refused.",
        "choice: a fingerprint that nobody here read is not written down", pattern=FINGERPRINT, form=FINGERPRINT_FORM),
)

ERDMA_ROLES = ("erdma",)
ERDMA_KEYS = ERDMA + ERDMA_DRIVER + ERDMA_INSTANCE
