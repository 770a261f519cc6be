# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings: each names the line, how bad it is, and what to write instead; sound settings have none."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.qos import qos_profile
from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.variables import (
    NEVER_IN_NCCL,
    OWNED_BY_OTHERS,
    PLUGIN_VARIABLES,
    REMOVED,
    VARIABLES,
)
from railwright.cli.main import run as railwright
from railwright.nccl.check import Source, check_prefixes, check_source, check_together
from railwright.nccl.explain import explanation
from railwright.nccl.settings import Grammar, grammar_of, settings_of


def source(text: str, file: str = "job.sh") -> Source:
    grammar = grammar_of(file)
    return Source(file, grammar, tuple(settings_of(text, grammar)))


def found(text: str, file: str = "job.sh", qos: str = "none") -> list[tuple[int, str, str]]:
    return [(item.line, item.variable, item.severity) for item in check_source(source(text, file), qos_profile(qos))]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """``railwright nccl …``: exit code and standard output."""
    def call(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        return railwright(["nccl", *words]), capsys.readouterr().out
    return call


@pytest.mark.parametrize("name", sorted(VARIABLES))
def test_every_variable_of_nccl_is_known_and_explained(name: str) -> None:
    row = VARIABLES[name]
    told = explanation(name)
    assert (told["known"], told["meaning"], told["type"]) == (True, row.meaning, row.type)
    severities = {item.severity for item in check_source(source(f"export {name}=$SOMETHING"))}
    assert severities == ({"warning"} if row.deprecated is not None else set())


@pytest.mark.parametrize("name", sorted(PLUGIN_VARIABLES))
def test_every_variable_of_a_plugin_is_known(name: str) -> None:
    assert explanation(name)["known"] is True
    assert found(f"export {name}=$SOMETHING") == []


@pytest.mark.parametrize("name", sorted({*REMOVED, *NEVER_IN_NCCL}))
def test_every_name_that_nothing_reads_is_an_error(name: str) -> None:
    severity = "warning" if name in REMOVED and "v2.31.2-1" in REMOVED[name].existed else "error"  # releases still in use read it
    assert found(f"export {name}=1") == [(1, name, severity)]
    assert explanation(name)["known"] is False


@pytest.mark.parametrize("name", sorted(other.name.replace("*", "X") for other in OWNED_BY_OTHERS))
def test_every_name_of_somebody_else_is_a_warning(name: str) -> None:
    assert found(f"export {name}=1") == [(1, name, "warning")]


@pytest.mark.parametrize(("line", "severity", "words"), [
    ("export NCCL_IB_GID_INDEX=0,3,5,7", "error", "integer 0"),
    ("export NCCL_IB_TIMEOUT=true", "error", "integer 0"),
    ("export NCCL_IB_TIMEOUT=010", "error", "octal"),
    ("export NCCL_IB_GID_INDEX=3", "warning", "differs between NICs"),
    ("export NCCL_IB_HCA=:1", "error", "names no device"),
    ("export NCCL_IB_DISABLE=1", "warning", "sockets"),
    ("export NCCL_DEBUG=TRACE", "info", "compiled out"),
    ("export NCCL_DEBUG=debug", "error", "is not a value"),
    ("export NCCL_SOCKET_IFNAME=ib0", "info", "bootstrap"),
    ("export NCCL_IB_QPS_PER_CONECTION=4", "warning", "or misspelt"),  # which NCCL the job has is not known
    ("export NCCL_NET_GDR_LEVEL=sys", "error", "is not a value"),
    ("export NCCL_PROTO='LL|LL128'", "error", "is not a value"),
])
def test_one_offending_line(line: str, severity: str, words: str) -> None:
    items = check_source(source(line))
    assert (items[0].severity, words in items[0].message) == (severity, True), items


def test_the_nearest_name_is_offered() -> None:
    (item,) = check_source(source("export NCCL_IB_QPS_PER_CONECTION=4"))
    assert item.replacement == "NCCL_IB_QPS_PER_CONNECTION"


@pytest.mark.parametrize("line", [
    "export NCCL_IB_HCA==mlx5_0:1,mlx5_1", "export NCCL_IB_HCA=^mlx5_2", "export NCCL_IB_HCA=mlx5", "export NCCL_IB_GID_INDEX=-1",
    "export NCCL_IB_TC=136", "export NCCL_DEBUG=info", "export NCCL_ALGO=Ring", "export NCCL_CONF_FILE=/opt/nccl.conf",
    "export NCCL_SOCKET_IFNAME=eth0", "export NCCL_HOME=/opt/nccl", "export TORCH_NCCL_BLOCKING_WAIT=1",
])
def test_sound_settings_have_no_finding(line: str) -> None:
    assert check_source(source(line)) == []


def test_conf_only() -> None:
    assert found("NCCL_CONF_FILE=/x\nexport NCCL_DEBUG=INFO\nNCCL_IB_TC=106\nNCCL_IB_TC=41\nUCX_TLS=rc\n", "nccl.conf") == [
        (1, "NCCL_CONF_FILE", "error"), (2, "NCCL_DEBUG", "error"), (4, "NCCL_IB_TC", "warning")]


def test_traffic_class_against_a_qos_profile() -> None:
    assert found("export NCCL_IB_TC=41", qos="dscp26-prio3") == [(1, "NCCL_IB_TC", "error")]
    assert found("export NCCL_IB_TC=106", qos="dscp26-prio3") == []
    assert found("export NCCL_IB_TC=41") == []


def test_device_prefixes() -> None:
    assert [item.variable for item in check_prefixes(source("export NCCL_IB_HCA=mlx5_1"))] == ["NCCL_IB_HCA"]
    assert check_prefixes(source("export NCCL_IB_HCA==mlx5_1")) == []
    assert "storage" in check_prefixes(source("export NCCL_IB_HCA=mlx5"))[0].message
    assert check_prefixes(source("export NCCL_IB_HCA=erdma")) == []


def test_the_environment_wins_over_the_users_file_and_that_over_etc() -> None:
    items = check_together([
        source("NCCL_DEBUG=WARN\nNCCL_IB_TC=106\n", "/etc/nccl.conf"), source("NCCL_IB_TC=41\n", "/root/.nccl.conf"),
        source("export NCCL_DEBUG=INFO\n", "job.sh")])
    assert [(item.file, item.line, item.severity, "job.sh:1" in item.message) for item in items if item.variable == "NCCL_DEBUG"] == [
        ("/etc/nccl.conf", 1, "info", True)]
    assert [(item.file, item.line) for item in items if item.variable == "NCCL_IB_TC"] == [("/etc/nccl.conf", 2)]


def test_the_command_line(tmp_path: Path, run: Callable[..., tuple[int, str]]) -> None:
    (tmp_path / "nccl.conf").write_text("NCCL_PROTOS=2\n")
    code, out = run("lint", str(tmp_path / "nccl.conf"), "--format", "json")
    (item,) = json.loads(out)
    assert (code, set(item)) == (1, {"file", "line", "variable", "severity", "message", "replacement"})
    assert (item["line"], item["variable"], item["severity"], item["replacement"]) == (1, "NCCL_PROTOS", "error", "NCCL_PROTO")
    (tmp_path / "good.sh").write_text("export NCCL_DEBUG=INFO\n")
    assert run("lint", str(tmp_path / "good.sh"), "--format", "json") == (0, "[]\n")
    (tmp_path / "odd.txt").write_text('NCCL_DEBUG="INFO"\n')
    assert run("lint", str(tmp_path / "odd.txt"))[0] == 0
    assert run("lint", "--grammar", "conf", str(tmp_path / "odd.txt"))[0] == 1
    assert run("lint", str(tmp_path / "absent"))[0] == 64


def test_the_environment(monkeypatch: pytest.MonkeyPatch, run: Callable[..., tuple[int, str]]) -> None:
    monkeypatch.setenv("NCCL_NCHANNELS", "4")
    code, out = run("lint", "--env", "--format", "json")
    assert code == 1
    assert [item["file"] for item in json.loads(out) if item["variable"] == "NCCL_NCHANNELS"] == ["environment"]


def test_parse_prints_json_always_and_ends_0_for_a_whole_run_only(tmp_path: Path, run: Callable[..., tuple[int, str]]) -> None:
    from nccl_tables import table

    row = {"size": 8, "count": 2, "type": "float", "redop": "sum", "root": -1, "in_place": None,
           "out_of_place": {"time_us": 1.0, "algbw": 1.0, "busbw": 1.0, "wrong": 0}}
    whole = tmp_path / "whole.log"
    whole.write_text(table("2.17", [row]))
    code, out = run("parse", str(whole), "--format", "json")
    assert (code, json.loads(out)["complete"], json.loads(out)["rows"]) == (0, True, [row])
    for name, text in (("empty", ""), ("cut", table("2.17", [row])[:-60])):
        (tmp_path / name).write_text(text)
        code, out = run("parse", str(tmp_path / name), "--format", "json")
        assert (code, json.loads(out)["complete"]) == (4, False)


def test_grammar_names_are_the_documented_ones() -> None:
    assert tuple(Grammar) == ("conf", "shell")


class StandardInput:
    """A real pipe that holds these bytes and has ended."""

    def __init__(self, data: bytes) -> None:
        reading, writing = os.pipe()
        os.write(writing, data)
        os.close(writing)
        self.buffer = os.fdopen(reading, "rb")

    def __del__(self) -> None:
        self.buffer.close()


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch, run: Callable[..., tuple[int, str]]) -> None:
    monkeypatch.setattr("sys.stdin", StandardInput(b"export NCCL_NCHANNELS=4\n"))
    code, out = run("lint", "-", "--format", "json")
    assert (code, [(item["file"], item["line"]) for item in json.loads(out)]) == (1, [("standard input", 1)])
    monkeypatch.setattr("sys.stdin", StandardInput(b'NCCL_DEBUG="INFO"\n'))
    assert run("lint", "-", "--grammar", "conf")[0] == 1, "--grammar says how to read it"
    monkeypatch.setattr("sys.stdin", StandardInput(b"\xff\xfe"))
    assert run("parse", "-")[0] == 4


@pytest.mark.parametrize("data", [
    b"\x7fELF\x02\x01\x01\x00NCCL_DEBUG=INFO", "export NCCL_DEBUG=INFO\n".encode("utf-16"), bytes(range(128, 256))])
def test_what_is_no_text_is_an_error_that_names_the_file(tmp_path: Path, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "junk"
    file.write_bytes(data)
    assert railwright(["nccl", "lint", str(file)]) == 64
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"railwright: error: {file}: is no text; allowed: a file with NCCL settings, as UTF-8\n")


def test_a_comment_in_latin_1_is_text_still(tmp_path: Path, run: Callable[..., tuple[int, str]]) -> None:
    (tmp_path / "old.sh").write_bytes(b"# caf\xe9\nexport NCCL_NCHANNELS=4\n")
    assert run("lint", str(tmp_path / "old.sh"))[0] == 1


def test_each_slip_of_a_line_has_its_own_severity() -> None:
    """A file of Windows: with the mark the first variable is not set at all, which no version of NCCL forgives."""
    found = check_source(Source("nccl.conf", Grammar.CONF, tuple(settings_of("\ufeffNCCL_DEBUG=INFO\r\n", Grammar.CONF))))
    assert [(item.variable, item.severity, item.replacement) for item in found] == [
        ("NCCL_DEBUG", "error", "the file as plain UTF-8"), ("NCCL_DEBUG", "warning", "NCCL_DEBUG=INFO")]
