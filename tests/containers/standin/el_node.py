# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a Debian container a node that says it is another system, with a real rpm and dnf: runs on the node, before the role.

``python3 - [rocky-9|alinux-3]``. Packages come from /srv/standin: the system's names and hardly any content; dnf checks signatures of rpms
and index.
"""

import subprocess
import sys
from pathlib import Path

SYSTEM = sys.argv[1] if len(sys.argv) > 1 else "rocky-9"
REPOSITORY = Path("/srv/standin") / SYSTEM
OS_RELEASE = {
    "rocky-9": 'NAME="Rocky Linux"\nVERSION="9.6"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.6"\n'
               'PLATFORM_ID="platform:el9"\nPRETTY_NAME="Rocky Linux 9.6 (stand-in)"\n',
    "alinux-3": 'NAME="Alibaba Cloud Linux"\nVERSION="3 (Soaring Falcon)"\nID="alinux"\nID_LIKE="rhel fedora centos anolis"\n'
                'VERSION_ID="3"\nPLATFORM_ID="platform:al8"\nPRETTY_NAME="Alibaba Cloud Linux 3 (Soaring Falcon, stand-in)"\n',
}
FILES = {
    "/etc/os-release": OS_RELEASE[SYSTEM],
    # By its first word Ansible tells whose family a system is of, and so which package manager it has.
    "/etc/redhat-release": {"rocky-9": "Rocky Linux release 9.6 (stand-in)\n",
                            "alinux-3": "Alibaba Cloud Linux release 3 (stand-in)\n"}[SYSTEM],
    # Debian's rpm keeps a database for each user, and calls gpg by a name that Debian does not have.
    "/etc/rpm/macros": "%_dbpath /var/lib/rpm\n%__gpg /usr/bin/gpg\n",
    # What EL's package of dnf has; Debian's skips a repository that it cannot read.
    "/etc/dnf/dnf.conf": "[main]\ngpgcheck=1\ninstallonly_limit=3\nbest=True\nskip_if_unavailable=False\n",
    # Debian packs all of dnf's plugins into one; EL has this one only where it is asked for.
    "/etc/dnf/plugins/local.conf": "[main]\nenabled=0\n",
    f"/etc/yum.repos.d/{SYSTEM.partition('-')[0]}.repo":
        f"[baseos]\nname={SYSTEM} (stand-in)\nbaseurl=file://{REPOSITORY}\nenabled=1\ngpgcheck=1\nrepo_gpgcheck=1\n"
        "gpgkey=file:///srv/standin/right.asc\n",
}


def main() -> None:
    for path, content in FILES.items():
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # os-release is a link
        target.write_text(content, encoding="ascii")
    # What every EL node has, and what dnf takes the release from.
    subprocess.run(("rpm", "-i", "--nosignature", *map(str, REPOSITORY.glob("*-release-*.rpm"))), check=True)


main()
