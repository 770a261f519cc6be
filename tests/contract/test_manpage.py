# SPDX-License-Identifier: GPL-3.0-or-later
"""railwright(1): every verb and option is in it, groff and mandoc have no complaint, and it reads at 80 columns.

man and mandoc are brought by `tools/need manual`. Without them these tests fail: a page that nobody looked at has not passed.
"""

import os
import re
import subprocess
import sys
from typing import Any

import repo
from railwright.cli.main import command

sys.path.insert(0, str(repo.ROOT / "tools" / "generate"))
import manpage

PAGE = repo.ROOT / manpage.PAGE


def shown() -> str:
    """As a terminal of 80 columns has it, with what groff says on the way."""
    environment = {**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MANROFFSEQ": ""}
    done = subprocess.run(("man", "--warnings=w", "-l", str(PAGE)), env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def verbs() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, verb in command().commands.items():
        found |= {f"{name} {inner}": child for inner, child in verb.commands.items()} if hasattr(verb, "commands") else {name: verb}
    return found


def test_mandoc_has_no_complaint() -> None:
    done = subprocess.run(("mandoc", "-Tlint", "-Wwarning", str(PAGE)), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_groff_has_no_complaint_and_every_verb_reads_at_80_columns() -> None:
    text = shown()
    assert [line for line in text.split("\n") if len(line) > 80 and not line.startswith("           $ railwright ")] == []
    for name, verb in verbs().items():
        section = re.search(rf"^   railwright {name}\n(.*?)^(?:   railwright|EXIT)", text, re.MULTILINE | re.DOTALL)
        assert section is not None, name
        own = [manpage.row(param) for param in verb.params if getattr(param, "rich_help_panel", None) is None]
        assert [item.names for item in own if item.names and not any(option in section[1] for option in item.names)] == [], name
    for heading in ("EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"):
        assert f"\n{heading}\n" in text


def test_text_is_shown_as_it_is_written() -> None:
    r"""Dashes and quotes can be copied; a backslash, a dot or a quote that begins a line is no request."""
    assert manpage.escaped(r"--limit 'a\b' → `x-y`") == r"\-\-limit \(aqa\eb\(aq \[u2192] \fBx\-y\fR"
    assert manpage.filled(".conf is one, 'so'") == [r"\&.conf is one, \(aqso\(aq"]


def test_the_same_text_keeps_its_date() -> None:
    assert manpage.files(repo.ROOT) == {manpage.PAGE: repo.text(manpage.PAGE)}
