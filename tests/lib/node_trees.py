# SPDX-License-Identifier: GPL-3.0-or-later
"""Trees of nodes, as tests/fixtures/node_*.py write them: made once for each state of their writers, below build/nodes."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WRITERS = ROOT / "tests" / "fixtures"
FACTS = WRITERS / "facts"  # NAME.json: the facts that each tree must give


def written() -> Path:
    """The directory that holds a tree for each node. Many test processes may ask at once."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(WRITERS.glob("*.py")))).hexdigest()[:16]
    place = ROOT / "build" / "nodes" / digest
    if not place.is_dir():
        sys.path.append(str(ROOT))
        from tests.fixtures.make_nodes import write_nodes

        mine = place.with_name(f"{digest}.{os.getpid()}")
        write_nodes(mine)
        try:
            mine.rename(place)
        except OSError:  # another process was first
            shutil.rmtree(mine)
    return place


NODES = written()
