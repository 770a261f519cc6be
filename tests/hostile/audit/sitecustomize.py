# SPDX-License-Identifier: GPL-3.0-or-later
"""In every Python process of the controller: what it executes, what it writes outside the run, which keys of the operator it reads.

Found by PYTHONPATH when the interpreter starts; processes that are forked from it keep the hook.
"""

import os
import sys
from pathlib import Path

PLACE = os.environ.get("HOSTILE", "")
EXECUTING = ("os.exec", "os.posix_spawn", "os.system", "subprocess.Popen", "pty.spawn")
WRITING = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.chown", "os.truncate",
           "shutil.rmtree", "shutil.copyfile", "shutil.move")
FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def note(event, what):
    log = os.open(PLACE + "/audit", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(log, (event + "\t" + str(what).replace("\n", " ")[:500] + "\n").encode("utf-8", "replace"))
    finally:
        os.close(log)


def inside(path):
    if not isinstance(path, str | bytes):
        return True  # a descriptor: who opened it was seen
    return os.path.normpath(Path(os.fsdecode(path)).absolute()).startswith((PLACE + "/", "/dev/", "/proc/"))


def watch(event, arguments):
    if event in EXECUTING:
        note(event, arguments[:2])
    elif event == "open":
        path, _mode, flags = arguments
        if isinstance(flags, int) and flags & FLAGS and not inside(path):
            note("write", path)
        elif isinstance(path, str | bytes) and "/operator_home/.ssh/" in os.fsdecode(path):
            note("read", path)
    elif event in WRITING and not all(inside(path) for path in arguments[:2]):
        note(event, arguments[:2])


if PLACE:
    sys.addaudithook(watch)
