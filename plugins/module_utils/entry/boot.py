# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller's own ssh gives to a node's Python as ``-c``: it takes code and a question from standard input, and answers.

It leaves nothing on the node: the code is imported from memory. ``argv``: a word that no login script knows, which marks our lines of the
output, and where an apply would have left the code (areas/system/node_code.py). After the line ``#railwright WORD send``, or ``have`` where
it has, come a line of three lengths, then so many bytes of code (zlib, a JSON object of sources by path; none after ``have``), Spec and
call (JSON). The answer is ``#railwright WORD LENGTH`` and so many bytes of JSON.
"""

import base64
import gc
import importlib
import importlib.util
import json
import marshal
import os
import stat
import sys
import zlib
from typing import Any, Dict, Optional

PACKAGE = "railwright_node"
TOO_OLD = 93  # the shell goes on to the next Python


class Sources:
    """Finds and loads modules in a mapping of paths to sources, or to their bytecode."""

    def __init__(self, files: Dict[str, Any]) -> None:
        self.files = files

    def find_spec(self: Any, name: str, path: Any = None, target: Any = None) -> Any:
        place = name.replace(".", "/")
        for file in (place + "/__init__.py", place + ".py"):
            if file in self.files:
                return importlib.util.spec_from_loader(name, self, origin=file, is_package=file.endswith("/__init__.py"))
        return None

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        origin = module.__spec__.origin
        code = self.files[origin]
        code = compile(code, origin, "exec", 0, True) if isinstance(code, str) else marshal.loads(code)
        exec(code, module.__dict__)  # as every import does


def installed(path: str) -> Optional[Dict[str, Any]]:
    """The bytecode in a file that is whole, for this Python, root's, and nobody else's to write, like its directory. None of any other."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as stream:
            states = os.fstat(stream.fileno()), os.stat(os.path.dirname(path))
            if not stat.S_ISREG(states[0].st_mode) or any(state.st_uid or state.st_mode & 0o022 for state in states):
                return None
            _title, made_for, body = stream.read().split(b"\n", 2)
        if made_for.split()[0].decode("ascii") != importlib.util.MAGIC_NUMBER.hex():
            return None
        return dict(marshal.loads(zlib.decompress(base64.b64decode(body))))  # zlib's checksum first: marshal has none
    except Exception:  # whatever is wrong with it, the code is sent
        return None


def main() -> None:
    if sys.version_info < (3, 6):
        raise SystemExit(TOO_OLD)
    gc.disable()  # an inspection leaves next to no cycles, and is over soon
    mark = ("#railwright %s " % sys.argv[1]).encode("ascii")
    files = installed("%s.%s" % (sys.argv[2], sys.implementation.cache_tag))
    sys.stdout.buffer.write(b"\n" + mark + (b"send\n" if files is None else b"have\n"))
    sys.stdout.buffer.flush()
    lengths = [int(word) for word in sys.stdin.buffer.readline().split()]
    code, spec, call = [sys.stdin.buffer.read(length) for length in lengths]
    sys.meta_path.insert(0, Sources(json.loads(zlib.decompress(code).decode("utf-8")) if files is None else files))
    asked = json.loads(call.decode("utf-8"))
    entry = importlib.import_module(PACKAGE + ".entry." + asked.get("entry", "inspection"))
    found = json.dumps(entry.answer(json.loads(spec.decode("utf-8")), asked)).encode("ascii")
    sys.stdout.buffer.write(b"\n" + mark + b"%d\n" % len(found) + found + b"\n")
    sys.stdout.buffer.flush()
    os._exit(0)  # to take everything apart would cost a tenth of it all


if __name__ == "__main__":
    main()
