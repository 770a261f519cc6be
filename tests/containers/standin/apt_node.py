# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a Debian container take the distribution's packages from a stand-in of its repository: runs on the node, ``python3 - SUITE``.

With jammy it says that it is Ubuntu 22.04, too.
"""

import sys
from pathlib import Path

APT = Path("/etc/apt")
OS_RELEASE = {
    "jammy": 'NAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=jammy\nUBUNTU_CODENAME=jammy\n'
             'PRETTY_NAME="Ubuntu 22.04.5 LTS (stand-in)"\n',
}


def main(suite):
    for path in (*APT.glob("sources.list.d/*"), *APT.glob("sources.list")):
        path.unlink()
    ubuntu = suite in OS_RELEASE
    if ubuntu:
        release = Path("/etc/os-release")
        release.unlink()  # a link
        release.write_text(OS_RELEASE[suite], encoding="ascii")
    line = f"deb [signed-by=/srv/standin/right.asc] file:/srv/standin/{'ubuntu' if ubuntu else 'debian'}-{suite} ./\n"
    (APT / "sources.list").write_text(line, encoding="ascii")
    (APT / "keyrings").mkdir(exist_ok=True)


main(sys.argv[1])
