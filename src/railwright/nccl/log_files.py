# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of logs that somebody names on the command line, of any size, within bounds."""

import codecs
import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from ansible_collections.railwright.rdma.plugins.module_utils.formats.program_output import clean
from railwright.exitcodes import InputError
from railwright.reading import file_name

CHUNK = 1024 * 1024  # bytes that are read at once
TOO_LARGE = "the files are larger than %d MiB together; allowed: those of one job"
LONGEST = 65536  # characters of a line; the rest of a longer one is dropped
TOGETHER = 2 * 1024 * 1024 * 1024  # bytes of all logs of a job: 1,024 ranks at INFO write some 400 MB


def lines_of_files(files: list[Path]) -> Iterator[Iterator[str]]:
    """The lines of each file, cleaned. Raises InputError while a file is read: unreadable, or too large together."""
    room = [TOGETHER]
    for file in files:
        yield _lines_of_file(file, file_name(file), room)


def _lines_of_file(file: Path, name: str, room: list[int]) -> Iterator[str]:
    """``room``: the bytes that are left for this file and the later ones."""
    left = ""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        with nullcontext(sys.stdin.buffer) if name != str(file) else file.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size > room[0]:
                raise InputError(TOO_LARGE % (TOGETHER // 1048576))
            while data := stream.read(CHUNK):
                room[0] -= len(data)
                if room[0] < 0:
                    raise InputError(TOO_LARGE % (TOGETHER // 1048576))
                if data.count(0) * 2 > len(data):
                    raise InputError(f"{name}: is no text; allowed: a log")
                text = left + decoder.decode(data)
                if "\r" in text:
                    text = text.replace("\r\n", "\n").replace("\r", "\n")
                *lines, left = text.split("\n")
                yield from map(_cleaned, lines)
                left = left[:LONGEST]
            yield _cleaned(left + decoder.decode(b"", final=True))
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}") from error


def _cleaned(line: str) -> str:
    return line[:LONGEST] if line.isprintable() else clean(line[:LONGEST])
