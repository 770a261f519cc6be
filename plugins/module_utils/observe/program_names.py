# SPDX-License-Identifier: GPL-3.0-or-later
"""Which program or script a process executes, by its arguments. Pure.

A name among the arguments is not enough: ``tail -f train.py``, an editor, a shell, ``mpirun`` and ``torchrun`` have it there too.
"""

import re
from typing import List, Optional, Sequence

_INTERPRETER = re.compile(r"(?:python|pypy|perl|ruby|julia|node|lua)[0-9.]{0,8}[a-z]?|Rscript")
_SHELL = re.compile(r"-?(?:ba|da|a|k|mk|z|c|tc|fi)?sh|busybox")
_MODULE, _TEXT = re.compile(r"-[A-Za-z]{0,8}m"), re.compile(r"-[A-Za-z]{0,8}[ce]")  # -m MODULE, -um MODULE; -c TEXT, -e TEXT
_VALUED = ("-W", "-X", "-I", "-L", "-t", "-p", "-r")  # options of these interpreters whose value is the next argument (their manual pages)
# Programs of Python that execute a script within their own process (docs.python.org, Debugging and Profiling; coverage.py; line_profiler).
_WITHIN = ("cProfile", "profile", "pdb", "trace", "coverage", "debugpy", "kernprof", "scalene")
ARGUMENTS = 32


def executes(name: str, comm: str, arguments: Sequence[str]) -> bool:
    """``name``: of a program, a script or a module of Python. ``comm``: the process's own name, which a program may set."""
    words = [word for word in arguments[:ARGUMENTS] if word]
    program = _base(words[0]) if words else comm
    if _SHELL.fullmatch(program):
        return name == program
    return name in [comm, program] + (_scripts(words[1:]) if _INTERPRETER.fullmatch(program) else [])


def _scripts(words: List[str]) -> List[str]:
    """The names of what an interpreter executes."""
    at = _first_operand(words)
    if at is None:
        return []
    module = at > 0 and _MODULE.fullmatch(words[at - 1]) is not None
    own = _base(words[at])
    found = [own, own.rpartition(".")[2] + ".py"] if module else [own]
    return found + (list(map(_base, words[at + 1:])) if own in _WITHIN else [])


def _first_operand(words: List[str]) -> Optional[int]:
    at = 0
    while at < len(words):
        word = words[at]
        if _MODULE.fullmatch(word):
            return at + 1 if at + 1 < len(words) else None
        if _TEXT.fullmatch(word):
            return None
        if not word.startswith("-"):
            return at
        at += 2 if word in _VALUED else 1
    return None


def _base(path: str) -> str:
    return path.rpartition("/")[2]
