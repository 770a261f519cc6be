# SPDX-License-Identifier: GPL-3.0-or-later
"""Every row of the NCCL catalogue: known, explained, its values held to its type; every name in vain flagged with what to use instead.

The rows were compared with the scan of NCCL 2.30.7's source, field by field, and those of 2.31 and 2.32 with the library of
2.32.3 (names and defaults); the counts hold that.
"""

import json
from collections import Counter
from collections.abc import Callable

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.nccl_catalogue.variables import (
    NEVER_IN_NCCL,
    OWNED_BY_OTHERS,
    PLUGIN_VARIABLES,
    RANGES,
    REMOVED,
    VARIABLES,
    Variable,
)
from railwright.cli.main import run as railwright
from railwright.nccl.check import NcclFinding, Source, check_source
from railwright.nccl.explain import explanation
from railwright.nccl.settings import Grammar, settings_of

SPECIAL = {"NCCL_CONF_FILE", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_IB_TC", "NCCL_IB_DISABLE"}  # judged beyond their type


def findings(name: str, value: str) -> list[NcclFinding]:
    return check_source(Source("job.sh", Grammar.SHELL, tuple(settings_of(f"export {name}='{value}'\n", Grammar.SHELL))))


def errors(name: str, value: str) -> list[str]:
    return [item.message for item in findings(name, value) if item.severity == "error"]


def test_the_catalogue_has_the_rows_of_the_scan() -> None:
    assert Counter(row.type for row in VARIABLES.values()) == {"int": 130, "bool": 102, "string": 20, "list": 14, "enum": 12}
    assert (len(VARIABLES), len(PLUGIN_VARIABLES), len(REMOVED), len(NEVER_IN_NCCL), len(OWNED_BY_OTHERS)) == (278, 32, 28, 18, 17)
    assert {name: row.deprecated for name, row in VARIABLES.items() if row.deprecated is not None} == {
        "NCCL_CHECK_POINTERS": "NCCL_CHECK_MODE=DEBUG_LOCAL", "NCCL_LAUNCH_MODE": "", "NCCL_MAX_NCHANNELS": "NCCL_MAX_CTAS (2.17+)",
        "NCCL_MAX_NRINGS": "NCCL_MAX_CTAS", "NCCL_MIN_NCHANNELS": "NCCL_MIN_CTAS (2.17+)", "NCCL_MIN_NRINGS": "NCCL_MIN_CTAS"}
    names = [*VARIABLES, *PLUGIN_VARIABLES, *REMOVED, *NEVER_IN_NCCL, *(row.name for row in OWNED_BY_OTHERS)]
    assert [name for name, count in Counter(names).items() if count > 1] == []


@pytest.mark.parametrize("row", VARIABLES.values(), ids=list(VARIABLES))
def test_a_row_is_explained_with_all_that_it_holds(row: Variable) -> None:
    told = explanation(row.name)
    assert (told["known"], told["meaning"], told["type"], told["default"], told["values"], told["since"], told["read by"]) == (
        True, row.meaning, row.type, row.default, list(row.values), row.since, "NCCL 2.32.3")
    assert row.meaning
    assert row.default
    assert row.since.startswith("v")
    assert ("deprecated" in told) == (row.deprecated is not None)


def test_in_network_reduction_says_what_it_needs() -> None:
    """SHARP is a plugin, switches and a manager, not a variable; Spectrum-X's plugin has a name."""
    told = str(explanation("NCCL_COLLNET_ENABLE")["meaning"])
    needs = ("SHARP", "nccl-rdma-sharp-plugins", "Quantum", "aggregation manager", "GPUDirect RDMA")
    assert [word for word in needs if word not in told] == []
    assert "spcx" in str(explanation("NCCL_NET_PLUGIN")["meaning"])


BAD = {"int": ["true", "0,3,5,7", "yes", "10k", "010"], "bool": ["true", "yes", "2", "0,1"], "enum": ["nonsense", "true"]}
GOOD = {"int": ["0", "22", "-1", "0x10"], "bool": ["0", "1"]}


@pytest.mark.parametrize("row", [row for row in VARIABLES.values() if row.type in BAD and (row.values or row.type != "enum")],
                         ids=lambda row: row.name)
def test_a_value_is_held_to_the_type(row: Variable) -> None:
    for value in BAD[row.type]:
        assert errors(row.name, value) != [], value
    plain = [value for value in row.values if not value.startswith("legacy") and value != "MAX:n"]
    for value in GOOD.get(row.type, plain):
        if row.name not in {*SPECIAL, *RANGES}:
            assert errors(row.name, value) == [], value


@pytest.mark.parametrize(("name", "ends"), RANGES.items())
def test_a_number_is_held_to_what_the_queue_pair_has_room_for(name: str, ends: tuple[int, int]) -> None:
    assert VARIABLES[name].type == "int"
    assert [errors(name, str(value)) for value in ends] == [[], []]
    assert [errors(name, str(value)) for value in (ends[0] - 1, ends[1] + 1, 999999)] == [["is out of range"]] * 3


@pytest.mark.parametrize(("name", "good", "bad"), [
    ("NCCL_DEBUG_SUBSYS", ["INIT,NET", "^COLL", "all"], ["INIT,NETT", "INIT NET", ""]),
    ("NCCL_CTA_POLICY", ["DEFAULT", "EFFICIENCY|ZERO", "1"], ["EFFICENCY", "3", "DEFAULT,ZERO"]),
    ("NCCL_ALGO", ["Ring", "^Tree", "AllReduce:Ring,Tree;Broadcast:Ring"], ["Rings", "AllReduce:Rng"]),
    ("NCCL_PROTO", ["LL,LL128", "^Simple", "simple"], ["2", "LL256"]),
    ("NCCL_NET_GDR_LEVEL", ["PHB", "3"], ["phb", "PHP"]),
    ("NCCL_NETDEVS_POLICY", ["ALL", "MAX:2"], ["MAX:", "2"]),
    ("NCCL_SOCKET_FAMILY", ["AF_INET6"], ["ipv4"]),
    ("NCCL_IB_HCA", ["=mlx5_0:1,mlx5_1:1:0:1", "^=mlx5_2", "mlx5"], ["=^mlx5_0", ":1", "mlx5_0 mlx5_1"]),
    ("NCCL_IB_TC", ["106", "-1"], ["256"]),
])
def test_values_with_a_grammar_of_their_own(name: str, good: list[str], bad: list[str]) -> None:
    assert [value for value in good if errors(name, value)] == []
    assert [value for value in bad if value and not errors(name, value)] == []


@pytest.mark.parametrize("name", sorted(REMOVED))
def test_a_removed_name_says_when_it_was_and_what_replaces_it(name: str) -> None:
    (item,) = findings(name, "1")
    severity = "warning" if "v2.31.2-1" in REMOVED[name].existed else "error"  # releases still in use read it
    assert (item.severity, item.replacement) == (severity, REMOVED[name].replacement or "leave it out")
    assert REMOVED[name].existed in item.message
    assert explanation(name)["use instead"] == REMOVED[name].replacement


@pytest.mark.parametrize("name", sorted(NEVER_IN_NCCL))
def test_a_name_that_never_existed_says_what_was_meant(name: str) -> None:
    (item,) = findings(name, "1")
    assert (item.severity, item.replacement) == ("error", NEVER_IN_NCCL[name] or "leave it out")
    assert "never" in item.message


@pytest.mark.parametrize("row", OWNED_BY_OTHERS, ids=lambda row: row.name)
def test_a_name_of_others_says_whose_it_is(row: object) -> None:
    owner = next(other for other in OWNED_BY_OTHERS if other is row)
    (item,) = findings(owner.name.replace("*", "ANYTHING"), "1")
    assert (item.severity, item.replacement) == ("warning", owner.use_instead or "set it in the job's environment")
    assert owner.owner in item.message


def test_replacements_that_name_a_variable_name_one_that_exists() -> None:
    """NCCL_MIN_CTAS/NCCL_MAX_CTAS, NCCL_PROTO (do not set) …: each word that looks like a variable of NCCL's is one."""
    told = [*(row.replacement for row in REMOVED.values()), *NEVER_IN_NCCL.values(), *(row.deprecated for row in VARIABLES.values())]
    words = {word for text in told if text for word in text.replace("/", " ").replace("=", " ").replace(",", " ").split()}
    assert {word for word in words if word.startswith("NCCL_")} <= set(VARIABLES)


@pytest.mark.parametrize("name", [*list(VARIABLES)[::49], "NCCL_RINGS", "NCCL_PROTOS", "NCCL_BLOCKING_WAIT", "NCCL_XYZ"])
def test_explain_on_the_command_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = railwright(["nccl", "explain", name, "--format", "json"])
    told = json.loads(capsys.readouterr().out)
    assert (told["variable"], told["known"], code) == (name, name in VARIABLES, 0 if name in VARIABLES else 1)


def test_lint_as_json_is_a_list_of_the_documented_objects(capsys: pytest.CaptureFixture[str],
                                                          write: Callable[[str, str], str]) -> None:
    path = write("job.sh", "export NCCL_DEBUG=INFO\nexport NCCL_PROTOS=2\nexport NCCL_BLOCKING_WAIT=1\nall_reduce_perf -b 1B\n")
    code = railwright(["nccl", "lint", path, "--format", "json"])
    items = json.loads(capsys.readouterr().out)
    assert code == 1
    assert [(item["file"], item["line"], item["variable"], item["severity"]) for item in items] == [
        (path, 2, "NCCL_PROTOS", "error"), (path, 3, "NCCL_BLOCKING_WAIT", "warning"), (path, 4, "-b", "error")]
    assert {tuple(item) for item in items} == {("file", "line", "variable", "severity", "message", "replacement")}
    assert {type(value) for item in items for key, value in item.items() if key != "line"} == {str}


@pytest.mark.parametrize(("text", "code"), [
    ("export NCCL_DEBUG=TRACE\n", 0), ("export NCCL_IB_GID_INDEX=3\n", 0), ("export NCCL_PROTOS=2\n", 1), ("", 0),
], ids=["info", "warning", "error", "nothing"])
def test_only_an_error_ends_1(text: str, code: int, write: Callable[[str, str], str]) -> None:
    assert railwright(["nccl", "lint", write("job.sh", text)]) == code


def test_without_an_inventory_neither_qos_nor_prefixes_are_judged(
        write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]) -> None:
    assert railwright(["nccl", "lint", write("job.sh", "export NCCL_IB_TC=41\nexport NCCL_IB_HCA=mlx5_1\n"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize(("name", "grammar", "code"), [
    ("nccl.conf", None, 1), (".nccl.conf", None, 1), ("nccl.conf.txt", None, 0), ("nccl.conf", "shell", 0), ("x.sh", "conf", 1),
    ("x.sh", "yaml", 64),
])
def test_the_name_decides_the_grammar_and_the_option_overrides_it(
        name: str, grammar: str | None, code: int, write: Callable[[str, str], str]) -> None:
    more = [] if grammar is None else ["--grammar", grammar]
    assert railwright(["nccl", "lint", write(name, "export NCCL_DEBUG=INFO\n"), *more]) == code


def test_files_together_say_which_one_nccl_takes(write: Callable[[str, str], str], capsys: pytest.CaptureFixture[str]) -> None:
    files = [write("etc/nccl.conf", "NCCL_DEBUG=WARN\n"), write("root/.nccl.conf", "NCCL_DEBUG=INFO\n")]
    assert railwright(["nccl", "lint", *files, "--format", "json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)
    assert (item["file"], item["severity"], files[1] + ":1" in item["message"]) == (files[0], "info", True)
