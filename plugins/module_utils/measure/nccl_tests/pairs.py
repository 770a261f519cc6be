# SPDX-License-Identifier: GPL-3.0-or-later
"""Launches of ``railwright isolate`` on the node that starts them: pairs side by side, the questions of a pair one after the other.

Only the first rank of a launch prints, and what it prints is over all ranks (nccl-tests 2.19.6, src/common.cu: is_main_proc, MPI_Allreduce
over MPI_COMM_WORLD), so each pair is a launch of its own. Within it the ranks are split into groups of two, one GPU of either node.
"""

import re
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ...formats.program_output import clean, one_line, reason
from ...host.host import Host
from . import job, processes
from .job import Launch
from .run_directory import remove
from .text_report import parse

SECONDS = 600.0  # after that no question begins: with the last one it ends within a scan's fifteen minutes
STEP_S = 0.5
OVER = (124, 137)
# nccl-tests' own list, printed when every rank has been started; it names groups since it can split (2.13, 2022).
_RANK = re.compile(r"#\s+Rank +(\d{1,9}) (?:Group +(\d{1,9}) )?Pid +\d{1,10} on +(\S{1,255}) device ")


class Question(NamedTuple):
    launch: Launch
    groups: int  # of two ranks


def measure(host: Host, pairs: Sequence[Sequence[Question]], cancel: Optional[str], seconds: float = SECONDS) -> List[List[Dict[str, Any]]]:
    """Of each pair an answer to each question that was asked: ``{"figures", "first", "hung", "why"}``.

    A pair whose first questions all hung, or whose launch was ended from outside, is asked no further. When nobody listens any more,
    everything ends: ``cancel`` names the jobs of Slurm that go with it.
    """
    found: List[List[Dict[str, Any]]] = [[] for _pair in pairs]
    open_, running, until = {number for number, pair in enumerate(pairs) if pair}, set(), time.monotonic() + seconds
    while open_:
        for number in sorted(open_):
            pair, told = pairs[number], found[number]
            if number in running:
                said = _answer(host, pair[len(told)])
                if said is None:
                    continue
                running.discard(number)
                told.append(said)
            given_up = bool(told) and (told[-1]["gone"] or all(said["hung"] for said in told))
            if given_up or len(told) == len(pair) or time.monotonic() > until:
                open_.discard(number)
            else:
                job.begin(host, pair[len(told)].launch)
                running.add(number)
        if open_ and host.unheard():
            launch = pairs[min(open_)][0].launch
            job.stop(host, launch.run, launch.user, cancel)
            remove(host, launch.run)
            break
        time.sleep(STEP_S)
    return found


def _answer(host: Host, question: Question) -> Optional[Dict[str, Any]]:
    """None while it runs."""
    launch = question.launch
    state = job.poll(host, launch.run, launch.user, launch.name, 0.0)
    if not state["ended"]:
        return None
    text, more = processes.output(host, job.log_of(launch.run, launch.name), launch.user, job.OUTPUT_LIMIT)
    return dict(read_table("" if more else clean(text), state["status"], question.groups), gone=state["status"] is None)


def read_table(text: str, status: Optional[int], groups: int) -> Dict[str, Any]:
    """``figures``: GB/s of one group, a row each. ``first``: the host of rank 0. ``hung``: every rank was there, and no row came in time.

    A launch that failed has no figure, whatever it printed; one that was stopped has those of its rows.
    """
    listed = {int(found.group(1)): (found.group(2) or "", found.group(3)) for found in _RANK.finditer(text)}
    rows = [row["out_of_place"]["busbw"] for row in parse(text)["rows"]]
    figures, why = [figure for figure in rows if figure is not None], ""
    if len(listed) != 2 * groups:
        why = "it listed %d of %d ranks" % (len(listed), 2 * groups)
    elif len({group for group, _host in listed.values()}) != groups or len(set(listed.values())) != 2 * groups:
        why = "its ranks are not one on either node in each of %d groups" % groups
    hung = status in OVER and not figures and not why
    if status not in (0,) + OVER:
        why = "%s: %s" % (why or "it failed", one_line(reason(text) or "no word", 200))
    elif status in OVER and (why or hung):
        why = "no result in time: %s" % (why or "every rank had started")
    elif not figures:
        why = why or "no row in its output"
    return {"figures": [] if why else figures, "first": listed[0][1] if 0 in listed else None, "hung": hung, "why": why}
