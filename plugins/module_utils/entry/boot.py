# SPDX-License-Identifier: GPL-3.0-or-later
"""What the controller's own ssh gives to a node's Python as ``-c``: it takes code and a question from standard input, and answers.

Nothing is left on the node: the code is imported from memory. ``argv``: a word that no login script knows, which marks our lines of the
output. After the line ``#railwright WORD send`` come a line of three lengths, then so many bytes of code (zlib, a JSON object of sources
by path), Spec and call (JSON). The answer is ``#railwright WORD LENGTH`` and so many bytes of JSON.
"""

import importlib
import importlib.util
import json
import sys
import zlib
from typing import Any, Dict

PACKAGE = "railwright_node"
TOO_OLD = 93  # the shell goes on to the next Python


class Sources:
    """Finds and loads modules in a mapping of paths to sources."""

    def __init__(self, files: Dict[str, str]) -> None:
        self.files = files

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        place = name.replace(".", "/")
        for file in (place + "/__init__.py", place + ".py"):
            if file in self.files:
                return importlib.util.spec_from_loader(name, self, origin=file, is_package=file.endswith("/__init__.py"))
        return None

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: Any) -> None:
        origin = module.__spec__.origin
        exec(compile(self.files[origin], origin, "exec", 0, True), module.__dict__)  # noqa: S102  # as every import does


def main() -> None:
    if sys.version_info < (3, 6):
        sys.exit(TOO_OLD)
    mark = ("#railwright %s " % sys.argv[1]).encode("ascii")
    sys.stdout.buffer.write(b"\n" + mark + b"send\n")
    sys.stdout.buffer.flush()
    lengths = [int(word) for word in sys.stdin.buffer.readline().split()]
    code, spec, call = [sys.stdin.buffer.read(length) for length in lengths]
    sys.meta_path.insert(0, Sources(json.loads(zlib.decompress(code).decode("utf-8"))))
    inspection = importlib.import_module(PACKAGE + ".entry.inspection")
    found = json.dumps(inspection.answer(json.loads(spec.decode("utf-8")), json.loads(call.decode("utf-8")))).encode("ascii")
    sys.stdout.buffer.write(b"\n" + mark + b"%d\n" % len(found) + found + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
