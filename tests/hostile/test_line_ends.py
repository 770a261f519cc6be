# SPDX-License-Identifier: GPL-3.0-or-later
"""A line ends at a line feed and nowhere else, in every parser of foreign text.

Names of files, processes and units may hold each other character that ``str.splitlines`` breaks at, and programs print them as they are.
A record that is joined to the one before it by such a character is a part of that record: it counts as a letter, as a blank, or not at all.
"""

from collections.abc import Iterator

import pytest
from tests.hostile.fuzz_table import TABLE_OF_PARSERS, Row

from ansible_collections.railwright.rdma.plugins.module_utils.formats.text import PYTHON_LINE_END

SEPARATORS = ("\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
JOINTS = 12  # ends of lines of a sample that are tried
PROGRAMS_OWN = {  # rows whose text another program takes apart by ``str.splitlines``, and we as it does
    "pip's lock", "conda's list", "an INI inventory",
    "a YAML inventory",  # YAML itself ends a line at CR, NEL, LS and PS
}
# CR is an end of a line there: a job that overwrites its progress could write LF too.
JOBS_OWN = {"the kept lines of a log", "torchrun's log"}
# Many readers of one text, some of which take a separator for a blank.
MANY = {"facts of a node that says one thing", "the network's evidence"}
INSTEAD = ("?", "\x01", " ", "")  # a letter that is printed, one that is not, a blank, nothing
ROWS = [row for row in TABLE_OF_PARSERS if row.samples and not row.documents and row.name not in PROGRAMS_OWN | MANY]


def result(row: Row, text: str) -> str:
    try:
        return repr(row.parse(text))
    except row.errors as error:
        return repr(error)


def joined(sample: str, separator: str) -> Iterator[str]:
    """The sample with one of its inner line feeds replaced, each in turn."""
    at = sample.find("\n")
    for _joint in range(JOINTS):
        if at < 0 or at == len(sample) - 1:
            return
        yield sample[:at] + separator + sample[at + 1 :]
        at = sample.find("\n", at + 1)


def forged(row: Row, sample: str, separator: str) -> Iterator[str]:
    """Where the separator counts as an end of a line."""
    tried = [list(joined(sample, instead)) for instead in (separator, *INSTEAD)]
    for text, *others in zip(*tried, strict=True):
        found = result(row, text)
        plain = [found.replace(repr(separator)[1:-1], instead) for instead in (INSTEAD[0], repr(INSTEAD[1])[1:-1], *INSTEAD[2:])]
        if not any(one == result(row, other) for one, other in zip(plain, others, strict=True)):
            yield f"{row.name}: {separator!r} in {text[:300]!r}: {found[:300]}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_no_other_character_ends_a_line(row: Row) -> None:
    separators = SEPARATORS[row.name in JOBS_OWN :]
    found = [place for sample in row.samples for separator in separators for place in forged(row, sample, separator)]
    assert not found, "\n".join(found[:5])


def test_the_separators_are_those_of_python() -> None:
    everywhere = {chr(code) for code in range(0x11000) if len(f"a{chr(code)}b".splitlines()) > 1}
    assert everywhere == {"\n", *SEPARATORS}
    assert all(PYTHON_LINE_END.fullmatch(end) for end in (*everywhere, "\r\n"))
