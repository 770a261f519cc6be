# SPDX-License-Identifier: GPL-3.0-or-later
"""From events to the outcome: the judge's document, polls as progress, nobody else's keys. ansible-runner 2.4's own events."""

from typing import Any

import pytest

from bench_documents import document, event, one_run, outcome, stats, training
from railwright.documents import bench_document, progress_text
from railwright.events import Collector, Update
from railwright.report.text import size_text

VERDICT = {"check": "nccl.busbw", "node": "", "hca": None, "port": None, "subject": "all_reduce", "status": "pass"}


def test_the_documents_of_the_judging_steps_are_kept() -> None:
    found = outcome(
        event("runner_on_ok", "n1", {"bench": document(), "verdicts": [VERDICT]}),
        event("runner_on_ok", "n1", {"ddp": training()}, "railwright.rdma.rdma_bench"), stats("n1", "n2"))
    assert found.bench == bench_document(document())
    assert found.ddp == training()
    assert found.verdicts == [VERDICT], "a verdict on the cluster stays one"


def test_a_failed_judge_has_a_document_too() -> None:
    assert outcome(event("runner_on_failed", "n1", {"bench": document(), "msg": "1 verdict failed"})).bench is not None


def test_a_step_without_a_document_takes_nothing_away() -> None:
    assert outcome(event("runner_on_ok", "n1", {"bench": document()}), event("runner_on_ok", "n1", {"ended": 0})).bench is not None


def test_a_node_speaks_for_itself_until_the_judge_has_spoken() -> None:
    """The steps before the judgement are a module's on a node, which may return anything."""
    forged = [VERDICT | {"node": "n1"}, VERDICT | {"subject": "alltoall"}]
    before = event("runner_on_ok", "n2", {"verdicts": forged})
    assert [item["node"] for item in outcome(before).verdicts] == ["n2", "n2"]
    for early in (before, event("runner_on_ok", "n2", {"verdicts": forged, "bench": document(one_run("forged"))})):
        found = outcome(early, event("runner_on_ok", "n1", {"verdicts": [VERDICT], "bench": document()}))
        assert found.verdicts == [VERDICT]
        assert found.bench is not None
        assert [run["collective"] for run in found.bench["runs"]] == ["all_reduce"]


def test_each_judge_has_verdicts_of_its_own() -> None:
    other = VERDICT | {"check": "ddp.values"}
    found = outcome(event("runner_on_ok", "n1", {"bench": document(), "verdicts": [VERDICT]}),
                    event("runner_on_ok", "n1", {"ddp": None, "verdicts": [other]}, "railwright.rdma.rdma_bench"))
    assert found.verdicts == [VERDICT, other]
    assert found.ddp is None


@pytest.mark.parametrize("action", ["ansible.builtin.set_fact", "railwright.rdma.rdma_check"])
def test_other_actions_documents_are_not_ours(action: str) -> None:
    assert outcome(event("runner_on_ok", "n1", {"bench": document()}, action)).bench is None


def retry(result: dict[str, Any], action: str = "railwright.rdma.rdma_bench") -> list[Update]:
    """As ansible-runner 2.4.3 sends it for a task with `until`, with ansible-core 2.16 and 2.19: the result, attempts and retries."""
    told: list[Update] = []
    collector = Collector(told.append)
    collector.handle(event("runner_retry", "n1", result | {"attempts": 3, "retries": 900, "changed": False}, action, "Poll"))
    return told


def test_a_poll_is_progress() -> None:
    told = retry({"progress": {"collective": "all_reduce", "size": 1 << 28, "seconds": 12.4, "rows": 9, "busbw": 198.25}})
    assert told == [Update("retry", "n1", "Poll", "all_reduce: 256 MiB after 12 s, 198.2 GB/s busbw")]


def test_what_others_ask_again_for_has_no_words() -> None:
    assert retry({"progress": {"collective": "x"}}, "ansible.builtin.command") == [Update("retry", "n1", "Poll", "")]


@pytest.mark.parametrize(("progress", "text"), [
    ({}, ""), (None, ""), ("x", ""), ({"collective": "alltoall"}, "alltoall"), ({"collective": "alltoall", "seconds": 3}, "alltoall: 3 s"),
    ({"size": 8, "seconds": float("nan")}, "8 B"), ({"collective": ["x"], "size": "1G"}, ""), ({"size": 0, "collective": "a"}, "a"),
    ({"step": 30, "steps": 100, "seconds": 5}, "step 30 of 100 after 5 s"),
])
def test_progress_is_never_trusted_to_be_whole(progress: Any, text: str) -> None:
    assert progress_text({"progress": progress}) == text


@pytest.mark.parametrize(("size", "text"), [
    (1, "1 B"), (1023, "1023 B"), (1 << 10, "1 KiB"), (1536, "1.5 KiB"), (16 << 30, "16 GiB"), (1 << 40, "1 TiB")])
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text
