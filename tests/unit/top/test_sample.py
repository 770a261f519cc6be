# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's line: what passes, and which rates two of them give."""

import json
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.form import Misfit
from railwright.top.sample import rate, read_document, read_line, view

from .conftest import document, gpu, line, port, seen


def passed(found: Any) -> dict[str, Any]:
    return read_line(json.dumps(found).encode())


@pytest.mark.parametrize(("before", "after", "seconds", "wanted"), [
    (100, 350, 2.0, 125.0),
    (0, 0, 1.0, 0.0),
    (350, 100, 1.0, None),  # reset, or wrapped
    (None, 100, 1.0, None), (100, None, 1.0, None),
    (100, 200, 0.0, None), (100, 200, -1.0, None),
    ((1 << 64) - 1, 5, 1.0, None),
])  # fmt: skip
def test_rate(before: int | None, after: int | None, seconds: float, wanted: float | None) -> None:
    assert rate(before, after, seconds) == wanted


def test_a_line_passes_as_it_is() -> None:
    said = line(12.5, [port()], [gpu()])
    assert passed(said) == said


def test_the_first_line_gives_no_rates_and_the_second_does() -> None:
    first = passed(line(1.0, [port(out_bytes=1000)], [gpu(nvlink_out=0)]))
    second = passed(line(3.0, [port(out_bytes=1000 + 100_000_000_000, pauses_in=8)], [gpu(nvlink_out=400_000_000_000)]))
    alone = view(None, first)
    assert alone["rails"][0]["out_gbps"] is None and alone["gpus"][0]["nvlink_out_gbytes"] is None
    both = view(first, second)
    assert (both["rails"][0]["out_gbps"], both["rails"][0]["pauses_in"]) == (400.0, 4.0)
    assert both["gpus"][0]["nvlink_out_gbytes"] == 200.0


def test_what_is_unknown_stays_so() -> None:
    unknown = port(cnp_in=None, rate=None, state=None)
    rail = view(passed(line(1.0, [unknown])), passed(line(2.0, [unknown])))["rails"][0]
    assert (rail["cnp_in"], rail["rate_gbps"], rail["state"], rail["cnp_out"]) == (None, None, None, 0.0)


@pytest.mark.parametrize(("given", "named"), [
    ({}, "mlx5_0"), ({"port": 2}, "mlx5_0/2"), ({"rail": "rail3"}, "rail3"),
])  # fmt: skip
def test_how_a_rail_is_called(given: dict[str, Any], named: str) -> None:
    assert view(None, passed(line(1.0, [port(**given)])))["rails"][0]["rail"] == named


@pytest.mark.parametrize("text", [
    b"", b"hello", b"[]", b"{}", b'{"at": 1}', b'{"ports": []}', b'{"at": "1", "ports": []}', b'{"at": NaN, "ports": []}',
    b'{"at": 1e999, "ports": []}', b'{"at": 1, "ports": {}}', b"[" * 100_000, b'{"at": 1, "ports": []}' + b" " * 300_000, b"\xff\xfe",
])  # fmt: skip
def test_what_is_no_line_is_refused(text: bytes) -> None:
    with pytest.raises(Misfit):
        read_line(text)


@pytest.mark.parametrize("bad", [
    {"hca": "\x1b[2J"}, {"hca": "a" * 100}, {"hca": 7}, {"hca": "../x"}, {"port": -1}, {"port": True}, {"port": 1 << 40},
])  # fmt: skip
def test_a_port_of_no_name_is_left_out(bad: dict[str, Any]) -> None:
    assert passed(line(1.0, [port(**bad), port("mlx5_1")]))["ports"] == [port("mlx5_1")]


@pytest.mark.parametrize(("key", "bad"), [
    ("out_bytes", -1), ("out_bytes", 1 << 64), ("out_bytes", "12"), ("out_bytes", 1.5), ("out_bytes", True), ("rate", 1e300),
    ("rate", -400), ("state", "\x1b]0;x\x07"), ("netdev", "a b"), ("rail", ["x"]),
])  # fmt: skip
def test_a_value_out_of_bounds_is_unknown(key: str, bad: Any) -> None:
    said = json.dumps(line(1.0, [port(**{key: bad})]))
    if bad == 1 << 64:
        with pytest.raises(Misfit):
            read_line(said.encode())
    else:
        assert read_line(said.encode())["ports"][0][key] is None


def test_more_than_a_node_has_is_cut() -> None:
    found = passed(line(1.0, [port(f"x{number}") for number in range(400)], [gpu(number) for number in range(200)]))
    assert (len(found["ports"]), len(found["gpus"])) == (128, 64)


def test_a_reason_for_no_gpus_moves_no_cursor() -> None:
    found = passed({**line(1.0, []), "gpus_unknown": "\x1b[31mNVML\n" + "x" * 1000})
    assert found["gpus_unknown"].isprintable() and len(found["gpus_unknown"]) < 400


def test_a_document_is_read_as_it_was_written() -> None:
    written = document(gpu017=seen(gpus=[gpu()]), gpu018=seen(120.0))
    assert read_document(json.dumps(written).encode()) == written


def test_a_recording_with_a_hostile_name_shows_it_as_text() -> None:
    hostile = {**document(), "nodes": {"\x1b[2Jgpu": {**seen(), "message": "\x1b]0;x\x07"}}}
    (name, node), = read_document(json.dumps(hostile).encode())["nodes"].items()
    assert name.isprintable() and node["message"].isprintable()
