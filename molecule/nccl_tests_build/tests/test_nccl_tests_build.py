# SPDX-License-Identifier: GPL-3.0-or-later
"""Built once, the same everywhere; what was changed is found, what is not pinned is not built."""

from __future__ import annotations

from typing import Any

import pytest

NODES = ("node1", "node2", "node3")
NOTHING: dict[str, list[Any]] = {name: [] for name in NODES}
BUILD, PLACE = "Build nccl-tests", "Put the build in place"


def changed(moment: Any) -> dict[str, list[str]]:
    return {name: moment.run[name].changed for name in NODES}


def failed(moment: Any) -> dict[str, list[Any]]:
    return {name: moment.run[name].failed for name in NODES}


def answers(moment: Any, task: str) -> list[str]:
    """Nodes on which a task ran."""
    return [name for name in NODES if any(item["task"].endswith(task) and item["status"] != "skipped" for item in moment.run[name].answers)]


def warnings(moment: Any) -> list[str]:
    """What the choice tells of; Ansible shows the same as its warnings."""
    choices = [answer.get("choice", {}) for host in moment.run.values() for answer in host.of("rdma_prefix")]
    return sorted({text for choice in choices for text in choice.get("warnings", [])})


def test_check_mode_says_who_builds_and_who_gets_it_and_does_neither(story: Any) -> None:
    check = story["check"]
    assert failed(check) == NOTHING
    assert check.files == {name: {} for name in NODES}
    assert any(BUILD in task for task in check.run["node1"].changed)
    for name in NODES[1:]:
        assert any(PLACE in task for task in check.run[name].changed), name


def test_one_node_builds_and_all_have_the_same_programs(story: Any) -> None:
    first = story["first"]
    assert failed(first) == NOTHING
    assert answers(first, BUILD) == ["node1"]
    assert answers(first, PLACE) == ["node2", "node3"]
    files = first.files["node1"]
    assert sorted(path.rpartition("/")[2] for path in files) == ["all_gather_perf", "all_reduce_perf", "manifest.json"]
    assert first.files == dict.fromkeys(NODES, files)
    assert {tuple(sorted(fact)) for fact in first.facts.values()} == {("directory", "library_path")}
    assert {fact["directory"] for fact in first.facts.values()} == {next(iter(files)).rpartition("/")[0]}


def test_the_directory_is_that_of_check_mode(story: Any) -> None:
    assert story["check"].facts["node2"]["directory"] == story["first"].facts["node2"]["directory"]


def test_for_the_gpus_of_all_nodes_and_without_roots_rights(story: Any) -> None:
    for said in story["said"].values():
        name, gencode, by, nccl = said.splitlines()
        assert name == "all_reduce"
        assert gencode == "-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90"
        assert by.startswith("by mpi ")
        assert by.split()[2:] != ["0"]
        assert len(by.split()) == 3, "the login user without his other groups (sudo)"
        assert nccl == "nccl 23007"


def test_nothing_stays_behind(story: Any) -> None:
    world = story["world"]
    for name in NODES:
        left = world.node(name).out("find", "/var/cache/railwright/nccl-tests", "-mindepth", "1").split()
        assert [path for path in left if not path.endswith("nccl-tests-2.19.6.tar.gz") and "2.19.6-" not in path] == [], name
        assert [path for path in left if path.endswith(".part")] == [], name


def test_a_second_run_changes_nothing_and_builds_nothing(story: Any) -> None:
    assert changed(story["again"]) == NOTHING
    assert failed(story["again"]) == NOTHING
    assert answers(story["again"], BUILD) == []
    assert story["again"].files == story["first"].files


def test_a_program_that_was_changed_on_a_node_is_replaced_there_alone(story: Any) -> None:
    moment = story["changed"]
    assert answers(moment, BUILD) == []
    assert answers(moment, PLACE) == ["node2"]
    assert moment.files == story["first"].files
    assert any(text.startswith("node2: programs in ") for text in warnings(moment))


def test_a_node_where_the_program_would_not_start_is_named(story: Any) -> None:
    found = failed(story["changed"])
    assert found["node1"] == found["node2"] == []
    ((_task, said),) = found["node3"]
    assert said.endswith("/all_reduce_perf does not start here: libnccl.so.2")


def test_a_source_with_another_checksum_is_not_built(story: Any) -> None:
    moment = story["wrong checksum"]
    ((_task, said),) = failed(moment)["node1"]
    assert f"and not {'0' * 64}, which the inventory or the catalogue pins; it is not used" in said
    assert moment.files == story["first"].files
    assert moment.facts == {}, "no node goes on without it"


def test_the_compilers_words_are_shown(story: Any) -> None:
    moment = story["does not compile"]
    ((_task, said),) = failed(moment)["node1"]
    assert "nccl-tests could not be built" in said
    assert "no_such_variable" in said
    assert len(said.splitlines()) <= 21
    assert moment.files == story["first"].files


@pytest.mark.parametrize("name", ["node2", "node3"])
def test_a_directory_that_is_not_shared_after_all_is_found_out(story: Any, name: str) -> None:
    moment = story["not really shared"]
    assert answers(moment, BUILD) == ["node1"]
    assert answers(moment, PLACE) == []
    ((_task, said),) = failed(moment)[name]
    assert "all_reduce_perf is missing" in said


def test_what_is_shared_is_built_once_and_only_inspected(story: Any) -> None:
    moment = story["shared"]
    assert failed(moment) == NOTHING
    assert changed(moment) == NOTHING
    assert all(fact["directory"].startswith("/shared/nccl-tests/2.19.6-") for fact in moment.facts.values())


def test_prebuilt_programs_that_differ_are_told_of_and_not_touched(story: Any) -> None:
    moment = story["prebuilt"]
    assert failed(moment) == NOTHING
    assert changed(moment) == NOTHING
    assert any("all_reduce_perf is not the same on all nodes (sha256)" in text for text in warnings(moment))
