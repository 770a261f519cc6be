# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a training benchmark ended badly: the one line out of many. Pure.

When a rank dies, every other one fails too, with words about a connection, and torchrun of every node prints a page. The cause is
looked for in this order: a rank that a signal ended; what a rank left in its file before it gave up, those that only lost a connection
last; the time limit; what torchrun itself could not do; the last line that says anything.
"""

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ...formats.outside import lines_in, mapping, number
from ...formats.program_output import clean, one_line

TERM = 15  # torchrun's own end for the ranks that are left
SIGNALS = {1: "SIGHUP", 2: "SIGINT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
TIMED_OUT, NOT_STARTED, FORSAKEN = 124, 127, 129  # exit statuses of nccl_tests/processes.py
# torch/distributed/elastic/multiprocessing/errors: ProcessFailure as ChildFailedError prints it, 1.10 to 2.11
_CHILD = re.compile(r"rank\s*: (?P<rank>\d{1,18}) \(local_rank: \d+\)\s+exitcode\s*: (?P<code>-?\d{1,18}) \(pid: \d+\)")
# …/multiprocessing/api.py logs this at once; the page comes only when torchrun of every node has ended, or after five minutes
_FAILED = re.compile(r"failed \(exitcode: (?P<code>-?\d{1,18})\) local_rank: (?P<local>\d{1,18}) \(pid: \d+\)")
_TAKEN = re.compile(r"Address already in use|EADDRINUSE|errno: 98\b")
_FOLLOWS = re.compile(  # what a rank says whose peer went away
    r"[Cc]onnection (?:reset|closed|refused)|[Bb]roken pipe|[Rr]emote process exited|Socket [Tt]imeout|timed out|[Ss]tore|closed by peer")
_TAGS = re.compile(r"\A(?:\[[^\]]*\]:? ?)*")
_ERROR = re.compile(r"[\w.]*(?:Error|Exception|Interrupt)\b")
_NO_MODULE = re.compile(r"\bNo module named\b")
_NOISE = re.compile(r"^[\s=*\-~^]*\Z|^\s+|ChildFailedError|FAILED\Z|^\s*(?:<|time|host|rank|exitcode|error_file|traceback)\b")


def cause(plan: Mapping[str, Any], collected: Mapping[str, Optional[Mapping[str, Any]]]) -> str:
    """``collected``: by node; None for one that did not answer any more."""
    return (_signal(plan, collected) or _own_words(collected) or _lost(collected) or _limits(plan, collected) or _torchrun(plan, collected)
            or "rank 0 left no result, and nothing says why")


def children(text: str, first_rank: int) -> List[Tuple[int, int]]:
    """(rank, exit code) of the ranks that torchrun of a node says have failed; a negative code is a signal."""
    body = clean(text)
    found = [(first_rank + int(item.group("local")), int(item.group("code"))) for item in _FAILED.finditer(body)]
    return found + [(int(item.group("rank")), int(item.group("code"))) for item in _CHILD.finditer(body)]


def last_words(text: str) -> Optional[str]:
    """The last line of a log that is an error's, else the last one that is no decoration."""
    lines = [line for line in lines_in(clean(text)) if line.strip()]
    rest = [line for line in lines if not _NOISE.search(line)]
    errors = [line for line in rest if _ERROR.match(_TAGS.sub("", line)) or _NO_MODULE.search(line)]
    found = errors[-1:] or rest[-1:]
    return one_line(found[0]) if found else None


def _present(collected: Mapping[str, Optional[Mapping[str, Any]]]) -> List[Tuple[str, Mapping[str, Any]]]:
    return [(node, item) for node, item in collected.items() if item is not None]


def _signal(plan: Mapping[str, Any], collected: Mapping[str, Optional[Mapping[str, Any]]]) -> Optional[str]:
    for node, item in _present(collected):
        for rank, code in children(item["log"], plan["nodes"][node]["first_rank"]):
            if code < 0 and -code != TERM:
                name = SIGNALS.get(-code, "")
                return "rank %d on %s was ended by signal %d%s" % (rank, node, -code, " (%s)" % name if name else "")
    return None


def _own_words(collected: Mapping[str, Optional[Mapping[str, Any]]]) -> Optional[str]:
    found = [(node, failure) for node, item in _present(collected) for failure in item["failures"]]
    if not found:
        return None
    node, first = min(found, key=lambda pair: (_FOLLOWS.search(pair[1]["message"]) is not None, pair[1]["at"]))
    return "rank %d on %s: %s" % (first["rank"], node, one_line(first["message"]))


def _lost(collected: Mapping[str, Optional[Mapping[str, Any]]]) -> Optional[str]:
    gone = [node for node, item in collected.items() if item is None]
    return "%s did not answer any more" % ", ".join(gone) if gone else None


def _limits(plan: Mapping[str, Any], collected: Mapping[str, Optional[Mapping[str, Any]]]) -> Optional[str]:
    codes = {item["rc"] for _node, item in _present(collected)}
    if TIMED_OUT in codes:
        return "it did not end within %d s (ddp_benchmark_timeout_s)" % plan["timeout_s"]
    if FORSAKEN in codes:
        return "nobody asked for it any more, so it was ended"
    return None


def _torchrun(plan: Mapping[str, Any], collected: Mapping[str, Optional[Mapping[str, Any]]]) -> Optional[str]:
    bad = [(node, item) for node, item in _present(collected) if item["rc"] != 0]
    for node, item in bad:
        if _TAKEN.search(item["log"]):
            return "TCP port %d on %s is taken; set ddp_benchmark_port to a free one" % (plan["port"], node)
    spoken = [(node, item, last_words(item["log"])) for node, item in bad]
    for wanted in (False, True):  # a node that only lost the other one comes last
        for node, item, words in spoken:
            if words is not None and (_FOLLOWS.search(words) is not None) is wanted:
                return "torchrun on %s ended with %s: %s" % (node, exit_status_text(item["rc"]), words)
    for node, item, _words in spoken:
        if item["rc"] is None:
            return "torchrun on %s left neither an exit status nor a word: it was not started, or was killed" % node
        return "torchrun on %s ended with %s and said nothing" % (node, exit_status_text(item["rc"]))
    return None


def exit_status_text(code: Optional[int]) -> str:
    if code is None:
        return "no exit status"
    if code == NOT_STARTED:
        return "exit 127 (it could not be started)"
    return "signal %d" % (code - 128) if code > 128 else "exit %d" % code


def failures_of(items: Sequence[Any]) -> List[Dict[str, Any]]:
    """The failures that have the form in which a rank leaves them; a node's file may hold anything."""
    rows = [{"rank": given.get("rank"), "at": number(given.get("at")), "message": given.get("message"),
             "kind": "values" if given.get("kind") == "values" else "error"} for given in map(mapping, items)]
    return [row for row in rows if isinstance(row["rank"], int) and row["at"] is not None and isinstance(row["message"], str)]
