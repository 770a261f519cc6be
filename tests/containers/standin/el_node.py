# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a Debian container a node that says it is Rocky Linux 9, with a real rpm and dnf: runs on the node, before the role.

Packages come from /srv/standin: the names of Rocky Linux 9 and hardly any content; dnf checks signatures of rpms and index.
"""

import subprocess
from pathlib import Path

REPOSITORY = Path("/srv/standin/rocky-9")
FILES = {
    "/etc/os-release": 'NAME="Rocky Linux"\nVERSION="9.6"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.6"\n'
                       'PLATFORM_ID="platform:el9"\nPRETTY_NAME="Rocky Linux 9.6 (stand-in)"\n',
    "/etc/redhat-release": "Rocky Linux release 9.6 (stand-in)\n",
    # Debian's rpm keeps a database for each user, and calls gpg by a name that Debian does not have.
    "/etc/rpm/macros": "%_dbpath /var/lib/rpm\n%__gpg /usr/bin/gpg\n",
    # What EL's package of dnf has; Debian's skips a repository that it cannot read.
    "/etc/dnf/dnf.conf": "[main]\ngpgcheck=1\ninstallonly_limit=3\nbest=True\nskip_if_unavailable=False\n",
    # Debian packs all of dnf's plugins into one; EL has this one only where it is asked for.
    "/etc/dnf/plugins/local.conf": "[main]\nenabled=0\n",
    "/etc/yum.repos.d/rocky.repo": f"[baseos]\nname=Rocky Linux 9 (stand-in)\nbaseurl=file://{REPOSITORY}\nenabled=1\ngpgcheck=1\nrepo_gpgcheck=1\n"
                                   "gpgkey=file:///srv/standin/right.asc\n",
}


def main() -> None:
    for path, content in FILES.items():
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # os-release is a link
        target.write_text(content, encoding="ascii")
    # What every EL node has, and what dnf takes the release from.
    subprocess.run(("rpm", "-i", "--nosignature", *map(str, REPOSITORY.glob("rocky-release-*.rpm"))), check=True)


main()
