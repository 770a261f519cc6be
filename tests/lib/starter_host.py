# SPDX-License-Identifier: GPL-3.0-or-later
"""A directory that stands for /, and starters (mpirun and the like) in it that really run."""

from collections.abc import Sequence
from pathlib import Path

from tests.lib.rooted import RootedHost

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Result


class StarterHost(RootedHost):
    """Absolute paths in a command line are those of the directory too; only a link's target is told without it."""

    def readlink(self, path: str) -> str | None:
        target = super().readlink(path)
        return target.removeprefix(self.root) if target is not None else None

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None) -> Result:
        return super().run([self.path(word) if word.startswith("/") else word for word in argv], timeout, stdin)

    def program(self, path: str, text: str, *, code: int = 0) -> None:
        """A starter that says ``text``; {prefix} in it is what it was told in OPAL_PREFIX."""
        full = Path(self.path(path))
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(f"#!/bin/sh\nprintf '%s' \"{text.replace('{prefix}', '$OPAL_PREFIX')}\"\nexit {code}\n")
        full.chmod(0o755)

    def link(self, path: str, target: str) -> None:
        full = Path(self.path(path))
        full.parent.mkdir(parents=True, exist_ok=True)
        full.symlink_to(self.root + target if target.startswith("/") else target)
