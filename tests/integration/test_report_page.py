# SPDX-License-Identifier: GPL-3.0-or-later
"""report.html in a real Chromium: nothing is loaded, no console error, axe finds no serious fault, filters work by keyboard too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from railwright.report.cases import cases_of
from railwright.report.files import write_report
from railwright.report.page import as_page
from report_pages import CHROMIUM, OPTIONS, five_kinds, validated

SERIOUS = ("serious", "critical")
KINDS = ("validate", "drift", "bench", "isolate", "apply")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        try:
            yield chromium
        finally:
            chromium.close()


class Opened:
    """A page, what it asked of the network, and what its console said."""

    def __init__(self, page: Page, file: Path) -> None:
        self.page, self.asked, self.said = page, list[str](), list[str]()
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.goto(file.as_uri())

    def rows(self) -> int:
        return self.page.locator("#rows tbody tr:visible").count()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    made = browser.new_page()
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_loads_nothing_and_axe_finds_no_serious_fault(
    kind: str, scheme: str, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = write_report(five_kinds()[kind], tmp_path / "out", page_alone=True).forms["html"]
    page = browser.new_page(color_scheme="dark" if scheme == "dark" else "light")
    try:
        opened = Opened(page, file)
        assert opened.said == []
        assert [url for url in opened.asked if not url.startswith(("file:", "data:"))] == []
        assert page.title() == f"railwright {kind}", "no word of a node has become a script"
        assert page.evaluate("[...document.images].every((image) => image.naturalWidth > 0)")
        faults = [(item["id"], [node["html"][:200] for node in item["nodes"][:3]])
                  for item in Axe().run(page).response["violations"] if item["impact"] in SERIOUS]  # fmt: skip
        assert faults == []
    finally:
        page.close()


def test_a_newcomer_finds_the_bad_rail(page: Page, tmp_path: Path) -> None:
    """By the grid, by words, by result; with the keyboard alone."""
    one = validated(200)
    (tmp_path / "report.html").write_text(as_page(one, cases_of(one), []), encoding="utf-8")
    opened = Opened(page, tmp_path / "report.html")
    everything = opened.rows()
    page.get_by_role("button", name="gpu002").click()
    assert opened.rows() < everything
    assert "reseat the cable" in page.locator("#rows tbody tr:visible").first.inner_text()
    page.get_by_role("button", name="gpu002").press("Enter")
    assert opened.rows() == everything
    page.get_by_label("Search").fill("rail5 port.rate quarter")
    assert opened.rows() == 1
    page.get_by_label("Search").fill("")
    for box in page.locator("form input[type=checkbox]").all()[1:]:
        box.focus()
        page.keyboard.press("Space")
    assert opened.rows() == page.locator("#rows tbody tr[data-result=error]").count() == 2
    assert page.locator("#shown").inner_text() == f"2 of {everything} rows"
    assert opened.said == []


def test_without_scripts_everything_is_shown(browser: Browser, tmp_path: Path) -> None:
    one = validated(8)
    (tmp_path / "report.html").write_text(as_page(one, cases_of(one), []), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    try:
        opened = Opened(context.new_page(), tmp_path / "report.html")
        assert opened.rows() == sum(case.result != "passed" for case in cases_of(one))
    finally:
        context.close()
