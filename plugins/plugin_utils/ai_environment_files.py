# SPDX-License-Identifier: GPL-3.0-or-later
"""What the operator has on the controller for a Python environment: read once, refused here before any of it travels to a node."""

import hashlib
from pathlib import Path
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.python_env.lock import parse_explicit, parse_lock, wheel_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

from .local_archive import file_digest

LOCK, WHEELS = "ai_environment_requirements", "ai_environment_wheels"
INSTALLER, EXPLICIT = "ai_environment_conda_installer", "ai_environment_conda_explicit"
TEXT_LIMIT = 4 * 1024 * 1024


def bill_of(spec: Spec) -> dict[str, Any]:
    """What the module is told. Raises RailwrightError for a file that cannot be read or holds what is not pinned."""
    bill: dict[str, Any] = {"lock": None, "wheels": {}, "sizes": {}, "conda": {}, "conda_sha256": ""}
    if spec["ai_environment_kind"] == "none":
        return bill
    if spec[LOCK] is not None:
        bill["lock"] = _text(LOCK, spec[LOCK])
        parse_lock(bill["lock"], spec[LOCK])
    if spec[WHEELS] is not None:
        bill["wheels"], bill["sizes"] = _wheels(spec[WHEELS])
    if spec["ai_environment_kind"] == "conda":
        found, _size = _digest(INSTALLER, Path(spec[INSTALLER]))
        wanted = spec[INSTALLER + "_sha256"]
        if found != wanted:
            raise RailwrightError(f"{INSTALLER} {spec[INSTALLER]} has the sha256 {found} and not {wanted}, which is {INSTALLER}_sha256")
        text = _text(EXPLICIT, spec[EXPLICIT])
        bill["conda"] = parse_explicit(text, spec[EXPLICIT])
        bill["conda_sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return bill


def _text(key: str, path: str) -> str:
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(TEXT_LIMIT + 1)
        if len(data) > TEXT_LIMIT:
            raise RailwrightError(f"{key} {path} is larger than {TEXT_LIMIT >> 20} MiB; allowed: a lock")
        return data.decode("utf-8")
    except OSError as error:
        raise RailwrightError(f"{key} {path} cannot be read on the controller: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RailwrightError(f"{key} {path} is no text") from error


def _wheels(directory: str) -> tuple[dict[str, str], dict[str, int]]:
    """sha256 and size by file name."""
    try:
        files = sorted(path for path in Path(directory).iterdir() if path.suffix == ".whl")
    except OSError as error:
        raise RailwrightError(f"{WHEELS} {directory} cannot be read on the controller: {error.strerror}") from error
    if not files:
        raise RailwrightError(f"{WHEELS} {directory} holds no wheel; allowed: a directory of *.whl, as pip download makes it")
    for path in files:
        if wheel_of(path.name) is None:
            raise RailwrightError(f"{WHEELS} {directory}: {path.name} is not the name of a wheel")
    read = {path.name: _digest(WHEELS, path) for path in files}
    return {name: digest for name, (digest, _size) in read.items()}, {name: size for name, (_digest, size) in read.items()}


def _digest(key: str, path: Path) -> tuple[str, int]:
    try:
        return file_digest(path), path.stat().st_size
    except OSError as error:
        raise RailwrightError(f"{key} {path} cannot be read on the controller: {error.strerror}") from error
