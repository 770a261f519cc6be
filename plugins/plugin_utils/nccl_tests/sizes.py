# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes of the messages: the inventory's, else those of the purpose, and no larger than GPU memory holds. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.measure.nccl_tests.launch import Sizes, purpose
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.values import bytes_of

from ..speed.ceilings import JUDGED_FROM

RESERVED = 1 << 30  # what CUDA and NCCL take themselves; nccl-tests (src/common.cu) leaves as much


def sizes_of(wishes: Mapping[str, Any], memory: Sequence[int], gpus: int, *, judged: bool = False) -> Sizes:
    """``memory``: bytes of every GPU that takes part; ``gpus``: how many each process drives; ``judged``: only sizes that are judged."""
    row = purpose(wishes["nccl_tests_purpose"])
    check = row.check if wishes["nccl_tests_check"] else 0
    begin = bytes_of(wishes["nccl_tests_begin"]) if wishes["nccl_tests_begin"] else row.begin
    end = bytes_of(wishes["nccl_tests_end"]) if wishes["nccl_tests_end"] else max(row.end, begin)
    factor = int(wishes["nccl_tests_factor"])
    iterations = wishes["nccl_tests_iterations"] or row.iterations
    warmup = row.warmup if wishes["nccl_tests_warmup"] is None else wishes["nccl_tests_warmup"]
    begin, end = fitting(begin, end, factor, memory, 3 if check else 2)
    if judged:
        begin = min(max(begin, JUDGED_FROM), last_step(begin, end, factor))
    return Sizes(begin, end, factor, iterations, warmup, check, gpus)


def fitting(begin: int, end: int, factor: int, memory: Sequence[int], buffers: int) -> Any:
    """(begin, end) with the largest of the run's own steps that fits: send, receive and, with a check, what is expected."""
    if not memory:
        return begin, end
    room = max(0, min(memory) - RESERVED) // buffers
    if end <= room:
        return begin, end
    if begin > room:  # let the program say so itself: it knows better what is free
        return begin, begin
    return begin, last_step(begin, min(end, room), factor)


def last_step(begin: int, end: int, factor: int) -> int:
    """The largest size that nccl-tests runs: it multiplies until the next one is above ``end``."""
    last = begin
    while last * factor <= end:
        last *= factor
    return last
