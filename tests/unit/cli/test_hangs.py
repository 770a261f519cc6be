# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is named, and when nobody is: on what was seen of ranks in molecule/diagnose, and on what NCCL and PyTorch document."""

from __future__ import annotations

from typing import Any

import pytest

from railwright.hangs import COMPUTES, ENDED, POLLS, SLEEPS, STOPPED, STUCK, UNCLEAR, WAITS, WORKS, Judgement, judged, seen_ranks

Row = dict[str, Any]
IDLE = {
    "size": 2, "step": "0", "name": "python3", "states": "SSSSSS", "waits": ["futex_do_wait"], "busy": [0.09, 0.04, 0.15, 0.14, 0.08],
    "cpu": 0.002, "system": 0.5, "switches": 0, "moved": 0, "unread": 0, "stack": [], "nccl": False, "recorded": None, "gpus": [],
}
SPINS = {"states": "RRRRRR", "waits": ["0"], "busy": [0.98, 1.02, 1.0, 0.95, 1.04], "cpu": 0.06}
# What gloo and Open MPI showed on two nodes, and others of the same kinds.
KINDS: dict[str, Row] = {
    WAITS: {}, POLLS: {**SPINS, "system": 0.81}, COMPUTES: {**SPINS, "system": 0.013}, SLEEPS: {"waits": ["hrtimer_nanosleep"]},
    STOPPED: {"states": "TTTTTT", "waits": ["do_signal_stop"], "busy": [0.0] * 5},
    STUCK: {"states": "DDDDDD", "stack": ["[<0>] rpc_wait+0x1"]},
    ENDED: {"states": "SSSXXX", "busy": [], "waits": []}, WORKS: {"switches": 7, "moved": 4_000_000}, UNCLEAR: {"moved": None},
}


def rank(number: int | None, kind: str = WAITS, **more: Any) -> Row:
    return {**IDLE, "rank": number, "pid": 240 + (number or 0), **KINDS[kind], **more}


def site(*ranks: Row, counters: Any = (), xids: Any = ()) -> dict[str, Row]:
    """A node for each."""
    return {f"node{place}": {"ranks": [row], "counters": list(counters), "xids": list(xids)} for place, row in enumerate(ranks, 1)}


def found(*ranks: Row, gone: Any = None, unread: Any = None, ras: Any = None, **more: Any) -> Judgement:
    return judged(site(*ranks, **more), gone or {}, unread or {}, 10, None, ras)


def names(judgement: Judgement) -> list[Any]:
    return [each["rank"] for each in judgement.awaited]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_rank_does(kind: str) -> None:
    assert [each.kind for each in seen_ranks(site(rank(0, kind)))] == [kind]


@pytest.mark.parametrize(("more", "kind"), [
    ({"moved": 900}, WAITS),  # a heartbeat of its launcher
    ({"moved": 10_000_000}, WORKS),  # one call, and a slow network that goes on
    ({"states": "SSSRSS"}, WORKS), ({"cpu": 0.3}, WORKS), ({"states": "DDSDDD"}, WORKS), ({"waits": ["0", "hrtimer_nanosleep"]}, WAITS)])
def test_waits_only_who_does_nothing_else(more: Row, kind: str) -> None:
    assert [each.kind for each in seen_ranks(site(rank(0, **more)))] == [kind]


@pytest.mark.parametrize("kind", [SLEEPS, COMPUTES, UNCLEAR])
def test_the_rank_with_an_idle_gpu_is_awaited(kind: str) -> None:
    """As two H100 showed it: who waits in CUDA burns a core too."""
    busy, idle = rank(0, COMPUTES, nccl=True, gpus=[100, 100]), rank(1, kind, nccl=True, gpus=[0, 0])
    judgement = found(busy, idle)
    assert (judgement.status, names(judgement)) == ("hangs", [1])
    assert judgement.awaited[0]["why"].endswith("its GPU is idle, and a kernel runs on those of all others")


@pytest.mark.parametrize(("first", "second"), [([100, 100], [100, 100]), ([0, 0], [0, 0]), ([100, 100], [0, 40]), ([100, 100], [])])
def test_gpus_that_are_alike_or_unread_part_nobody(first: list[int], second: list[int]) -> None:
    judgement = found(rank(0, COMPUTES, nccl=True, gpus=first), rank(1, COMPUTES, nccl=True, gpus=second))
    assert (judgement.status, names(judgement)) == ("unknown", [])


def test_traffic_of_the_hca_is_progress() -> None:
    growth = [{"hca": "mlx5_0", "port": 1, "growth": {"port_xmit_data": 1_000_000}}]
    assert found(rank(0, COMPUTES, nccl=True), rank(1, COMPUTES, nccl=True), counters=growth).status == "moves"


@pytest.mark.parametrize("waiting", [WAITS, POLLS])
@pytest.mark.parametrize("kind", [STOPPED, STUCK, COMPUTES, SLEEPS, ENDED])
def test_one_of_two(waiting: str, kind: str) -> None:
    judgement = found(rank(0, waiting), rank(1, kind))
    assert (judgement.status, names(judgement), judgement.awaited[0]["node"]) == ("hangs", [1], "node2")
    assert judgement.message.startswith("all others wait for rank 1 on node2 (pid 241, python3): ")
    assert judgement.waiting == ["rank 0 on node1 (pid 240, python3)"]
    assert judgement.collective is None


def test_a_stack_of_the_kernel_is_shown() -> None:
    assert "rpc_wait" in found(rank(0), rank(1, STUCK)).message


def test_slow_and_healthy() -> None:
    slow = rank(0, COMPUTES, moved=552, system=0.3), rank(1, COMPUTES, moved=690)
    assert found(*slow).status == "moves"
    assert found(rank(0, WORKS), rank(1, WORKS, moved=45_000)).status == "moves"


@pytest.mark.parametrize("kinds", [
    (WAITS, WAITS), (POLLS, POLLS), (COMPUTES, COMPUTES), (SLEEPS, SLEEPS), (COMPUTES, SLEEPS), (WAITS, UNCLEAR), (COMPUTES, UNCLEAR)])
def test_nothing_parts_them(kinds: tuple[str, ...]) -> None:
    judgement = found(*(rank(number, kind) for number, kind in enumerate(kinds)))
    assert (judgement.status, judgement.awaited) == ("unknown", [])
    assert judgement.message.startswith("cannot tell: ")
    assert judgement.would_tell


def test_a_heartbeat_beside_nccl_is_no_progress() -> None:
    assert found(rank(0, COMPUTES, nccl=True, moved=900), rank(1, COMPUTES, nccl=True, moved=900)).status == "unknown"


def test_one_that_waits_while_most_work_is_nobodys_fault() -> None:
    assert found(rank(0), *(rank(number, WORKS, size=4) for number in (1, 2, 3))).status == "unknown"
    assert names(found(*(rank(number) for number in (0, 1, 2)), rank(3, WORKS))) == [3]


def test_who_does_not_read() -> None:
    ranks = [rank(0, COMPUTES, nccl=True), rank(1, COMPUTES, nccl=True, unread=70_000)]
    assert names(found(*ranks)) == [1]
    assert "70000 bytes lie unread" in found(*ranks).message
    assert found(*(rank(number, COMPUTES, unread=70_000) for number in (0, 1))).status == "unknown"


def test_a_node_that_is_gone() -> None:
    judgement = found(rank(0, size=4), rank(1, size=4), gone={"node3": "slurm says DOWN+NOT_RESPONDING, no route to host"})
    assert judgement.message == "all others wait for rank 2, 3: node3 is gone: slurm says DOWN+NOT_RESPONDING, no route to host"
    assert names(found(rank(0), gone={"node2": "no answer"})) == [1]


def test_a_rank_without_a_process() -> None:
    nodes = {**site(rank(0)), "node2": {"ranks": [], "counters": [], "xids": []}}
    judgement = judged(nodes, {}, {}, 10)
    assert (judgement.awaited[0]["rank"], judgement.awaited[0]["node"]) == (1, "node2")


def test_what_was_not_read_is_not_missing() -> None:
    judgement = found(rank(0), unread={"node2": "its /tmp is full"})
    assert (judgement.status, judgement.awaited) == ("unknown", [])
    assert "its /tmp is full" in judgement.message


def test_no_process_and_all_ended() -> None:
    assert judged({}, {}, {}, 10).status == "unknown"
    assert found(rank(0, ENDED), rank(1, ENDED)).status == "unknown"


def test_steps_are_not_mixed() -> None:
    assert found(rank(0), rank(0, COMPUTES, step="1")).message.startswith("cannot tell: the job has the steps 0, 1")


def test_an_xid_of_its_process() -> None:
    xids = ["NVRM: Xid (PCI:0000:3b:00): 79, pid=241, name=python3", "NVRM: Xid (PCI:0000:3b:00): 13, pid='<unknown>'"]
    assert names(found(rank(0, COMPUTES, nccl=True), rank(1, COMPUTES, nccl=True), xids=xids)) == [1]


def record(seq: int, state: str) -> list[Row]:
    return [{"group": "0 default_pg", "seq": seq, "op": "nccl:all_reduce", "state": state}]


@pytest.mark.parametrize(("first", "second", "named"), [
    ((7, "started"), (6, "completed"), [1]), ((7, "started"), (7, "scheduled"), [1]), ((7, "scheduled"), (7, "scheduled"), []),
    ((7, "started"), (7, "started"), [])])
def test_flight_recorders(first: tuple[int, str], second: tuple[int, str], named: list[int]) -> None:
    """Of two ranks of NCCL, which both burn their CPU, one has not joined."""
    judgement = found(rank(0, COMPUTES, nccl=True, recorded=record(*first)), rank(1, COMPUTES, nccl=True, recorded=record(*second)))
    assert names(judgement) == named
    if named:
        assert judgement.collective == "nccl:all_reduce number 7 of group 0 default_pg"


def test_an_old_dump_of_a_job_that_goes_on() -> None:
    ranks = [rank(number, WORKS, recorded=record(7 - number, "started")) for number in (0, 1)]
    assert found(*ranks).status == "moves"


def communicator(counts: list[int], *, init: int = 0, missing: Any = ()) -> Row:
    """In the form of NCCL's documentation of RAS, JSON since 2.28.7."""
    return {"communicators": [{"hash": "0xae94", "size": 2, "ranks": [
        {"rank": number, "host": "172.16.64.245", "pid": 240 + number, "status": {"init_state": init, "async_error": 0},
         "collective_counts": {"Broadcast": 0, "AllReduce": count}} for number, count in enumerate(counts)],
        "missing_ranks": list(missing)}]}


def test_what_ras_said() -> None:
    """One of two NCCL ranks never joins."""
    ranks = [rank(number, COMPUTES, nccl=True) for number in (0, 1)]
    judgement = found(*ranks, ras=communicator([12, 11]))
    assert (names(judgement), judgement.awaited[0]["node"]) == ([1], "node2")
    assert "launched 11 times AllReduce, others 12" in judgement.message
    away = {"rank": 1, "host": "172.16.64.245", "pid": 999, "status": {"unresponsive": True, "considered_dead": False}}
    assert "gets no answer" in found(*ranks, ras=communicator([12], missing=[away])).message


@pytest.mark.parametrize("ras", [
    communicator([12, 12]), communicator([12, 11], init=7), {}, {"communicators": [{"ranks": [{"pid": [1], "rank": {}}]}]}, [1],
    {"communicators": [{"ranks": [{"pid": [1], "status": {"init_state": 0}, "collective_counts": {"AllReduce": "x"}}]}]}])
def test_ras_that_says_nothing(ras: Any) -> None:
    assert found(*(rank(number, COMPUTES, nccl=True) for number in (0, 1)), ras=ras).status == "unknown"


@pytest.mark.parametrize("more", [
    {"busy": [], "waits": []}, {"size": 1 << 62}, {"rank": -5}, {"rank": None, "size": None}, {"states": "Q"}, {"switches": -1}])
def test_a_node_that_lies(more: Row) -> None:
    assert found(rank(0, **more), rank(1)).status in ("hangs", "unknown")
