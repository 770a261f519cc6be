# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a Debian container take the distribution's packages from a stand-in of its repository: runs on the node, ``python3 - SUITE``."""

import sys
from pathlib import Path

APT = Path("/etc/apt")


def main(suite):
    for path in (*APT.glob("sources.list.d/*"), *APT.glob("sources.list")):
        path.unlink()
    line = f"deb [signed-by=/srv/standin/right.asc] file:/srv/standin/debian-{suite} ./\n"
    (APT / "sources.list").write_text(line, encoding="ascii")
    (APT / "keyrings").mkdir(exist_ok=True)


main(sys.argv[1])
