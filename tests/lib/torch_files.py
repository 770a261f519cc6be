# SPDX-License-Identifier: GPL-3.0-or-later
"""Wheels by the name of torch and of others: real wheels that pip installs, with hardly anything in them.

The torch in them answers what a new environment is asked, as the real one does, and can do nothing else: it computes nothing, and finds
no device. A build without CUDA has ``version.cuda`` None, and ``torch.cuda.nccl.version()`` fails as there.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

INIT = "from . import version, cuda\n__version__ = version.__version__\n"
VERSION = "__version__ = {version!r}\ncuda = {cuda!r}\n"
CUDA = "from . import nccl\n\n\ndef is_available():\n    return False\n\n\ndef device_count():\n    return 0\n"
NCCL = "def version():\n    return {nccl!r}\n"
NO_NCCL = "def version():\n    raise AttributeError(\"module 'torch._C' has no attribute '_nccl_version'\")\n"
DISTRIBUTED = "def is_available():\n    return {distributed!r}\n"


def wheel(
    directory: Path, name: str, version: str, files: dict[str, str], *, tag: str = "py3-none-any", requires: tuple[str, ...] = (),
) -> Path:
    """One wheel with its METADATA and RECORD."""
    stem = f"{name.replace('-', '_')}-{version}"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {item}" for item in requires)]
    whole = dict(files)
    whole[f"{stem}.dist-info/METADATA"] = "\n".join(lines) + "\n"
    whole[f"{stem}.dist-info/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"
    record = [f"{path},sha256={_urlsafe(text)},{len(text.encode())}" for path, text in whole.items()]
    whole[f"{stem}.dist-info/RECORD"] = "\n".join([*record, f"{stem}.dist-info/RECORD,,"]) + "\n"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in whole.items():
            archive.writestr(zipfile.ZipInfo(inside, (2020, 1, 1, 0, 0, 0)), text)
    return path


def torch_wheel(
    directory: Path, version: str, cuda: str | None, *, nccl: tuple[int, ...] = (2, 27, 5), tag: str = "py3-none-any",
    distributed: bool = True, requires: tuple[str, ...] = (), says: str = "",
) -> Path:
    """``says``: what ``torch.__version__`` is, where that is not the wheel's version (PyPI's wheel of 2.9.1 says 2.9.1+cu128)."""
    return wheel(directory, "torch", version, {
        "torch/__init__.py": INIT,
        "torch/version.py": VERSION.format(version=says or version, cuda=cuda),
        "torch/cuda/__init__.py": CUDA,
        "torch/cuda/nccl.py": NCCL.format(nccl=nccl) if cuda else NO_NCCL,
        "torch/distributed/__init__.py": DISTRIBUTED.format(distributed=distributed),
    }, tag=tag, requires=requires)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def lock(*paths: Path) -> str:
    """As pip-compile writes it: a comment, and the checksum on a line of its own."""
    rows = []
    for path in paths:
        name, version = path.name.split("-")[:2]
        rows.append(f"{name.replace('_', '-')}=={version} \\\n    --hash=sha256:{sha256(path)}\n")
    return "# made by the tests\n" + "".join(rows)


def _urlsafe(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
