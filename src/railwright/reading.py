# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that somebody names on the command line, within bounds."""

import os
import sys
from contextlib import nullcontext
from pathlib import Path

from railwright.exitcodes import InputError


def file_name(file: Path) -> str:
    """``-``, where a verb takes it, is standard input."""
    return "standard input" if str(file) == "-" else str(file)


def read_bounded(file: Path, name: str, limit: int, beyond: str) -> bytes:
    """``name``: what people call it; standard input is read where that is not the file's own. ``limit``: in bytes; ``beyond``: what is said
    of a larger one. Raises InputError."""
    try:
        with nullcontext(sys.stdin.buffer) if name != str(file) else file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size  # 0 of a pipe
            data = b"" if size > limit else stream.read((size or limit) + 1)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}") from error
    if size > limit or len(data) > limit:
        raise InputError(f"{name}: {beyond}")
    return data
