# SPDX-License-Identifier: GPL-3.0-or-later
"""How long report.html of a validate of many nodes takes to write and to open: until Chromium has laid it out and its filters work.

    python -m tests.bench.page [--nodes 2000] [--runs 5] [--output build/bench/page.json]

The run is drawn (tests/lib/report_pages.py). A median that misses its limit is said, and ends the command with 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, sync_playwright
from tests.bench.meter import ROOT

from railwright.report.cases import cases_of
from railwright.report.page import as_page
from railwright.writing import json_text, write_atomic

sys.path.insert(0, str(ROOT / "tests" / "lib"))
from report_pages import CHROMIUM, OPTIONS, validated

SECONDS = 3.0


def opened(browser: Browser, file: Path) -> float:
    """From nothing to the first filtered row, in a page of its own."""
    page = browser.new_page()
    try:
        began = time.monotonic()
        page.goto(file.as_uri())
        page.get_by_label("Search").fill("quarter")
        page.wait_for_function("document.getElementById('shown').textContent.startsWith('1 of ')")
        return time.monotonic() - began
    finally:
        page.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--output", type=Path, default=ROOT / "build/bench/page.json")
    given = parser.parse_args()
    run = validated(given.nodes)
    began = time.monotonic()
    text = as_page(run, cases_of(run), [])
    written = time.monotonic() - began
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        file = Path(directory) / "report.html"
        file.write_text(text, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        seconds = [opened(browser, file) for _run in range(given.runs)]
        browser.close()
    found = {"nodes": given.nodes, "bytes": len(text.encode()), "write_s": round(written, 2), "open_s": [round(one, 2) for one in seconds],
             "limit_s": SECONDS}  # fmt: skip
    given.output.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(given.output, json_text(found))
    print(
        f"{given.nodes} nodes, {found['bytes']} bytes: written in {written:.2f} s, opened in {median(seconds):.2f} s ({SECONDS:g} at most)"
    )
    return int(median(seconds) > SECONDS)


if __name__ == "__main__":
    sys.exit(main())
