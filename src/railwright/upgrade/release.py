# SPDX-License-Identifier: GPL-3.0-or-later
"""release.yml: the pinned set that an upgrade moves a cluster to. Read and judged before any node is touched.

A pin is an inventory key with its inventory type, so the same functions judge it. What is wrong is said in one line each, with
the line of the file. Numbers are the usual trap: YAML reads an unquoted 3.10 as 3.1.
"""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.findings import MISSING, Findings, did_you_mean
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import BY_NAME
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import check_value
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.values import type_name
from railwright.exitcodes import InputError
from railwright.inventory_yaml import STANDARD, compose, items, read
from railwright.lint import LintFinding

# What a release may pin: what is installed, in which version, and where it comes from. How a node is set up stays in the inventory.
PINS = (
    "rdma_kernel_version", "rdma_stack", "rdma_stack_version", "rdma_stack_profile", "rdma_stack_pins", "rdma_stack_repository_url",
    "rdma_stack_repository_key_url", "rdma_stack_repository_fingerprint", "rdma_stack_offline_package", "rdma_artifact_mirror",
    "rdma_artifact_pins", "gpu_driver_branch", "gpu_driver_version", "cuda_version", "cuda_cudnn_version", "nccl_install", "nccl_version",
    "nic_firmware_versions", "nic_firmware_images", "erdma_driver", "erdma_driver_version", "aiacc_version", "mpi_version",
    "nccl_tests_version",
)  # fmt: skip
PARTS = ("name", "pins")
NAME_FORM = "a name of letters, digits and . _ -, in quotes"
LONGEST_NAME = 64
PINS_FORM = "a mapping of at least one pin, such as rdma_stack_version: '3.2.3'"
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
# Scalars that are no text although somebody who writes a version means text.
_MISREAD = {"float": "a number", "int": "a number", "timestamp": "a date", "bool": "true or false"}


class ReleaseError(InputError):
    """The release is not one. ``findings``: one a mistake."""

    def __init__(self, path: Path, findings: list[LintFinding]) -> None:
        errors = "1 error" if len(findings) == 1 else f"{len(findings)} errors"
        super().__init__(f"{path}: {errors}; no node was contacted")
        self.findings = findings


class Release(NamedTuple):
    """What to move to. ``lines``: where each pin stands, for findings that come later."""

    path: Path
    name: str
    pins: dict[str, Any]
    sha256: str
    lines: dict[str, int]

    def places(self) -> dict[str, str]:
        """Pin -> file:line, as the findings of an inventory name what an option has set."""
        return {key: f"{self.path}:{line}" for key, line in self.lines.items()}


def read_release(path: Path) -> Release:
    """Raises InputError for what is no file or no YAML, ReleaseError with every other mistake."""
    if not path.exists():
        raise InputError(f"{path}: does not exist; allowed: a release file, such as docs/upgrade.md shows")
    text = read(path)
    top = compose(path, text)
    if not isinstance(top, yaml.MappingNode):
        raise InputError(f"{path}:1: a release must be a mapping; allowed: {', '.join(PARTS)}")
    judge = _Judge(path)
    name, pins = judge.top(top)
    if judge.found:
        raise ReleaseError(path, judge.found)
    return Release(path, name, pins, hashlib.sha256(text.encode("utf-8")).hexdigest(), judge.lines)


class _Judge:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[LintFinding] = []
        self.lines: dict[str, int] = {}

    def error(self, line: int, key: str, value: Any, message: str, allowed: str) -> None:
        self.found.append(LintFinding(str(self.path), line, (), key, value, message, allowed, "error"))

    def top(self, node: yaml.MappingNode) -> tuple[str, dict[str, Any]]:
        parts = {}
        for key, line, value in items(node):
            if key in PARTS:
                parts[key] = (line, value)
            elif key in PINS:
                self.error(line, key, None, "stands outside of pins", "the same line below pins:")
            else:
                self.error(line, key, None, f"is no part of a release{did_you_mean(key, PARTS)}", ", ".join(PARTS))
        return self._name(parts.get("name")), self._pins(parts.get("pins"))

    def _name(self, part: tuple[int, yaml.Node] | None) -> str:
        if part is None:
            self.error(1, "name", None, "is missing", NAME_FORM)
            return ""
        line, node = part
        misread = _misread(node)
        if misread:
            self.error(line, "name", _written(node), misread, NAME_FORM)
            return ""
        value = _value(node)
        if not isinstance(value, str) or not value or len(value) > LONGEST_NAME or not set(value) <= _NAME or not value[0].isalnum():
            said = f"must be text, not {type_name(value)}" if not isinstance(value, str) else "is not the name of a release"
            self.error(line, "name", None if value is None else value, said, NAME_FORM)
        return str(value)

    def _pins(self, part: tuple[int, yaml.Node] | None) -> dict[str, Any]:
        if part is None:
            self.error(1, "pins", None, "is missing", PINS_FORM)
            return {}
        line, node = part
        if not isinstance(node, yaml.MappingNode) or not node.value:
            empty = isinstance(node, yaml.MappingNode) or _value(node) is None
            self.error(line, "pins", None, "is empty" if empty else f"must be a mapping, not {type_name(_value(node))}", PINS_FORM)
            return {}
        return {key: value for key, at, child in items(node) if (value := self._pin(key, at, child)) is not MISSING}

    def _pin(self, key: str, line: int, node: yaml.Node) -> Any:
        """The value as the inventory's key has it, or MISSING after the findings that say why not."""
        if key not in PINS:
            known = key in BY_NAME
            said = "is the inventory's: a release holds versions and where they come from" if known else "is no pin"
            self.error(line, key, None, said + ("" if known else did_you_mean(key, PINS)), ", ".join(PINS))
            return MISSING
        self.lines[key] = line
        row = BY_NAME[key]
        misread = _misread(node) if row.type == "str" else ""
        if misread:
            self.error(line, key, _written(node), misread, row.allowed())
            return MISSING
        value = _value(node)
        if value is None or value in ({}, []):
            self.error(line, key, None, "is empty: what a release does not name stays as the inventory has it", row.allowed())
            return MISSING
        findings = Findings(None)
        checked = check_value(row, value, findings)
        for item in findings.items:
            self.error(_line_of(node, item.key, line), item.key, item.value, item.message, item.allowed)
        return checked


def _value(node: yaml.Node) -> Any:
    """What YAML makes of a node; what Ansible's tags stand for (a vault) is no pin."""
    constructor = yaml.constructor.SafeConstructor()
    if node.tag not in STANDARD:
        return None
    try:
        return constructor.construct_document(node)
    except (yaml.YAMLError, ValueError):
        return None


def _written(node: yaml.Node) -> Any:
    return node.value if isinstance(node, yaml.ScalarNode) else None


def _misread(node: yaml.Node) -> str:
    """What YAML makes of a version without quotes; a whole number is taken as the text that it was written as."""
    kind = node.tag.rpartition(":")[2]
    if not isinstance(node, yaml.ScalarNode) or kind not in _MISREAD:
        return ""
    value = _value(node)
    if kind == "int" and str(value) == node.value:
        return ""
    return f"was read as {_MISREAD[kind]} by YAML ({value}); put quotes around it"


def _line_of(node: yaml.Node, key: str, line: int) -> int:
    """The line of ``rdma_stack_pins.rdma-core`` below its pin: names of packages have dots of their own."""
    rest = key.partition(".")[2]
    if isinstance(node, yaml.MappingNode):
        for name, at, _child in items(node):
            if rest and (rest == name or rest.startswith((name + ".", name + "["))):
                return at
    return line
