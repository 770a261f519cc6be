# SPDX-License-Identifier: GPL-3.0-or-later
"""Words that the shell completes: hosts and groups of the inventory on the line, areas, classes of consent, what explain
explains, NCCL's variables, stored runs.

Nothing is asked of a node, and what fails completes nothing: a shell has no place for an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import Any

import typer

SEPARATORS = ":,"  # of an Ansible pattern; a host behind the last one is completed


def _starting(words: Iterable[str], incomplete: str) -> list[str]:
    return sorted({word for word in words if word.startswith(incomplete)})


def _quietly(words: Callable[[], Iterable[str]], incomplete: str) -> list[str]:
    with suppress(Exception), Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stderr(nowhere):
        return _starting(words(), incomplete)
    return []


def _inventory(ctx: typer.Context) -> Any:
    from railwright.inventory import load_inventory

    return load_inventory(ctx.params["inventory"])


def of_limit(ctx: typer.Context, incomplete: str) -> list[str]:
    """``rack3:!gp`` becomes ``rack3:!gpu7``."""
    at = max(incomplete.rfind(mark) for mark in SEPARATORS) + 1
    at += incomplete[at : at + 1] in ("!", "&")
    before = incomplete[:at]

    def words() -> list[str]:
        found = _inventory(ctx)
        return [before + name for name in (*found.hosts, *found.groups)]

    return _quietly(words, incomplete)


def of_area(incomplete: str) -> list[str]:
    def words() -> list[str]:
        from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import AREAS

        return [area.name for area in AREAS]

    return _quietly(words, incomplete)


def of_consent(incomplete: str) -> list[str]:
    """``link,reb`` becomes ``link,reboot``."""
    before = incomplete[: incomplete.rfind(",") + 1]

    def words() -> list[str]:
        from ansible_collections.railwright.rdma.plugins.module_utils.types import DISRUPTIONS

        return [before + name for name in DISRUPTIONS if name != "none"]

    return _quietly(words, incomplete)


def of_variable(incomplete: str) -> list[str]:
    def words() -> Iterable[str]:
        from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.variables import VARIABLES

        return VARIABLES

    return _quietly(words, incomplete)


def of_explain(incomplete: str) -> list[str]:
    """What explain's first word may be: keys, checks, NCCL's profiles and variables, and its own words."""

    def words() -> list[str]:
        from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.profiles import NCCL_PROFILES
        from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.variables import VARIABLES
        from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import BY_NAME
        from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.checks import BY_CODE

        own = ("host", "gpudirect", "speed", "path", "affinity", "profile")
        return [*own, *BY_NAME, *BY_CODE, *VARIABLES, *(profile.name for profile in NCCL_PROFILES)]

    return _quietly(words, incomplete)


def of_node(ctx: typer.Context, incomplete: str) -> list[str]:
    """A host of the inventory; of explain path with its rail."""

    def words() -> list[str]:
        found = _inventory(ctx)
        if ctx.params.get("name") != "path":
            return list(found.hosts)
        return [f"{name}:{rail['name']}" for name, values in found.hosts.items() for rail in values["rdma_rails"]]

    return _quietly(words, incomplete)


def of_run(incomplete: str) -> list[str]:
    def words() -> list[str]:
        from railwright.runs import stored

        return stored()

    return _quietly(words, incomplete)
