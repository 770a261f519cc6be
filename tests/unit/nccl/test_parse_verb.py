# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright nccl parse``: it ends 0 for a run that is whole and right, and says what is not."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from nccl_tables import table
from railwright.cli.main import run as railwright

Write = Callable[[str, str], str]


def row(size: int = 1024, wrong: int | None = 0) -> dict[str, Any]:
    half = {"time_us": 50.0, "algbw": 10.0, "busbw": 10.0, "wrong": wrong}
    return {"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": -1, "out_of_place": half, "in_place": half}


GOOD = table("2.19", [row()])


@pytest.mark.parametrize(
    ("text", "code", "failures"),
    [
        (GOOD, 0, []),
        (GOOD.replace("123.456 ", "123.456 OK"), 0, []),
        (table("2.19", [row(wrong=None)]), 0, []),
        (table("2.19", [row(), row(2048, 3)], bounds=2), 1, ["6 wrong values: data was damaged on its way (sizes 2048)"]),
        (table("2.19", [row(2048, 3)]), 1, ["6 wrong values: data was damaged on its way (sizes 2048)"]),
        (table("2.19", [row(wrong=None)], bounds=3), 1,
         ["values out of bounds in 3 comparisons: data was damaged on its way (sizes unknown)"]),
        (table("2.0", [row()], bounds=1), 1, ["values out of bounds in 1 comparisons: data was damaged on its way (sizes unknown)"]),
        (GOOD.replace("123.456 ", "123.456 FAILED"), 1, ["nccl-tests says that busbw is below NCCL_TESTS_MIN_BW"]),
        (GOOD[:GOOD.index("# Out of bounds")], 4, ["the run is not complete"]),
        ("", 4, ["the run is not complete"]),
    ],
)
def test_a_bad_run_says_why(text: str, code: int, failures: list[str], write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write("all_reduce.log", text)
    assert railwright(["nccl", "parse", path, "--format", "json"]) == code
    assert json.loads(capsys.readouterr().out)["failures"] == failures
    assert railwright(["nccl", "parse", path]) == code
    out = capsys.readouterr().out
    assert all(line in out for line in failures)
