# SPDX-License-Identifier: GPL-3.0-or-later
"""One line says why a job ended badly, out of what torchrun and the ranks of all nodes wrote.

RECORDED is torchrun's log of torch 1.13 (gloo, two nodes) when its only rank was killed and torchrun itself then ended by TERM. The page in
LOG_KILLED is written after torch's own template (distributed/elastic/multiprocessing/errors).
"""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.measure.ddp.failure import (
    cause,
    children,
    exit_status_text,
    failures_of,
    last_words,
)

PLAN = {"timeout_s": 900, "port": 29500, "nodes": {"node1": {"first_rank": 0}, "node2": {"first_rank": 1}}}
RECORDED = """\
ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 0 (pid: 76) of binary: /usr/bin/python3
WARNING:torch.distributed.elastic.agent.server.api:Received 15 death signal, shutting down workers
Traceback (most recent call last):
  File "/usr/lib/python3/dist-packages/torch/distributed/elastic/agent/server/api.py", line 906, in _exit_barrier
    store_util.barrier(
  File "/usr/lib/python3/dist-packages/torch/distributed/elastic/utils/store.py", line 34, in get_all
    data = store.get(f"{prefix}{idx}")
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
RuntimeError: Connection reset by peer

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/usr/lib/python3/dist-packages/torch/distributed/elastic/multiprocessing/api.py", line 62, in _terminate_process_handler
    raise SignalException(f"Process {os.getpid()} got signal: {sigval}", sigval=sigval)
torch.distributed.elastic.multiprocessing.api.SignalException: Process 12 got signal: 15
"""
LOG_KILLED = """\
ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 0 (pid: 812) of binary: /usr/bin/python3
Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "/usr/lib/python3/dist-packages/torch/distributed/launcher/api.py", line 246, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
========================================================
/run/railwright/bench/x/ddp_benchmark.py FAILED
--------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
--------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_07:01:20
  host      : node2
  rank      : 1 (local_rank: 0)
  exitcode  : -9 (pid: 812)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 812
========================================================
"""
LOG_PEER = LOG_KILLED.replace("rank      : 1", "rank      : 0").replace("-9", "1").replace(
    "Signal 9 (SIGKILL) received by PID 812", "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html")
CLOSED = "RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.89.3.12]:35525"
LOST_PEER = {"rank": 0, "kind": "error", "at": 5.0, "message": CLOSED}


def node(rc: int | None = 1, log: str = "", *failures: dict[str, Any]) -> dict[str, Any]:
    return {"rc": rc, "log": log, "failures": list(failures), "ranks": []}


def failure(rank: int, at: float, message: str) -> dict[str, Any]:
    return {"rank": rank, "kind": "error", "at": at, "message": message}


def test_torchruns_page_is_read() -> None:
    assert children(RECORDED, 1) == [(1, -9)], "the page has not come yet"
    assert children(LOG_KILLED, 1) == [(1, -9)] * 2
    assert children(LOG_PEER, 0) == [(0, 1)] * 2
    assert children("rank 1 exitcode", 0) == []


def test_a_signal_comes_before_what_the_others_say() -> None:
    for log in (RECORDED, LOG_KILLED):
        found = cause(PLAN, {"node1": node(1, LOG_PEER, LOST_PEER), "node2": node(None, log)})
        assert found == "rank 1 on node2 was ended by signal 9 (SIGKILL)"


def test_torchruns_own_end_of_a_rank_is_no_cause() -> None:
    found = cause(PLAN, {"node1": node(1, LOG_KILLED.replace("-9", "-15"), failure(3, 1.0, "RuntimeError: CUDA out of memory"))})
    assert found == "rank 3 on node1: RuntimeError: CUDA out of memory"


def test_the_first_rank_that_gave_up_is_named_and_not_who_lost_it() -> None:
    others = {"node1": node(1, LOG_PEER, LOST_PEER), "node2": node(1, "", failure(1, 9.0, "RuntimeError: CUDA error: an ECC error"))}
    assert cause(PLAN, others) == "rank 1 on node2: RuntimeError: CUDA error: an ECC error", "the clocks of two nodes differ"
    both = {"node1": node(1, "", failure(0, 2.0, "ValueError: b")), "node2": node(1, "", failure(1, 1.0, "ValueError: a"))}
    assert cause(PLAN, both) == "rank 1 on node2: ValueError: a"


def test_a_node_that_was_lost_is_named() -> None:
    assert cause(PLAN, {"node1": node(0), "node2": None}) == "node2 did not answer any more"
    assert cause(PLAN, {"node1": node(1, LOG_PEER, LOST_PEER), "node2": None}).startswith("rank 0 on node1"), "what is known comes first"


@pytest.mark.parametrize(("rc", "words"), [
    (124, "it did not end within 900 s (ddp_benchmark_timeout_s)"),
    (129, "nobody asked for it any more, so it was ended"),
])
def test_limits(rc: int, words: str) -> None:
    assert cause(PLAN, {"node1": node(rc), "node2": node(143)}) == words


def test_a_port_that_was_taken_in_between() -> None:
    log = "RuntimeError: The server socket has failed to listen on any local network address. (errno: 98 - Address already in use).\n"
    peer = "RuntimeError: connect() timed out. Original timeout was 300000 ms.\n"
    found = cause(PLAN, {"node1": node(1, log), "node2": node(1, peer)})
    assert found == "TCP port 29500 on node1 is taken; set ddp_benchmark_port to a free one"


def test_what_torchrun_itself_says() -> None:
    log = "Traceback (most recent call last):\n  File \"x\", line 1\nAttributeError: 'NoneType' object has no attribute 'get'\n"
    found = cause(PLAN, {"node1": node(1, "RuntimeError: connect() timed out.\n"), "node2": node(1, log)})
    assert found == "torchrun on node2 ended with exit 1: AttributeError: 'NoneType' object has no attribute 'get'"
    assert cause(PLAN, {"node1": node(127)}) == "torchrun on node1 ended with exit 127 (it could not be started) and said nothing"
    assert cause(PLAN, {"node1": node(None)}) == (
        "torchrun on node1 left neither an exit status nor a word: it was not started, or was killed")


def test_nothing_is_known() -> None:
    assert cause(PLAN, {"node1": node(0)}) == "rank 0 left no result, and nothing says why"


@pytest.mark.parametrize(("text", "expected"), [
    ("", None),
    ("=====\n-----\n", None),
    ("one\ntwo\n", "two"),
    ("ValueError: \x1b[31mred\x1b[0m\nlater\n", "ValueError: red"),
    ("[default0]:RuntimeError: inner\n[default0]:done\n", "[default0]:RuntimeError: inner"),
    (LOG_KILLED, "[0]:"),
])
def test_last_words(text: str, expected: str | None) -> None:
    if text == LOG_KILLED:  # only the page itself: the killed rank said nothing, and `children` has it
        assert "ChildFailedError" not in str(last_words(text))
    else:
        assert last_words(text) == expected


@pytest.mark.parametrize(("code", "words"), [
    (None, "no exit status"), (1, "exit 1"), (137, "signal 9"), (127, "exit 127 (it could not be started)")])
def test_status(code: int | None, words: str) -> None:
    assert exit_status_text(code) == words


def test_a_nodes_file_may_hold_anything() -> None:
    good = {"rank": 1, "at": 2.0, "message": "m", "kind": "values"}
    assert failures_of([None, 3, [], {}, {"rank": "1", "at": 1, "message": "x"}, {**good, "more": 1}]) == [good]
