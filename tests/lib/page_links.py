# SPDX-License-Identifier: GPL-3.0-or-later
"""Links of our pages: where they lead, and whether anything is there."""

import posixpath
import re
from collections.abc import Iterator

import repo
import seed_pages

LINK = re.compile(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)")


def place(name: str, path: str) -> str:
    """What a link of the page names, from the top of the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name


def linked(name: str, page: str) -> list[str]:
    """The files and directories that a page leads to, in order."""
    return [place(name, path) for path, _anchor in LINK.findall(page)]


def dead_links(name: str, page: str) -> Iterator[str]:
    """Links of a page to files and headings that are not there."""
    for path, anchor in LINK.findall(page):
        there = place(name, path)
        text = page if there == name else repo.text(there) if there.endswith(".md") and (repo.ROOT / there).is_file() else None
        if not (repo.ROOT / there).exists() or (anchor and text is not None and anchor not in seed_pages.anchors(text)):
            yield f"{path}#{anchor}"
