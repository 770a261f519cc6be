# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes a Debian container a node with rpm, dnf and a signed repository: runs on the node, before the role.

``rpm_node.py good|wrong-key|tampered``. The rpms are stand-ins: the names of Rocky Linux 9 and no content. dnf, rpm, gpg and the
signatures are real: a throw-away key signs every rpm and the index, and dnf checks both (gpgcheck, repo_gpgcheck). ``wrong-key``: one
rpm bears the signature of another key; ``tampered``: the index was changed after it was signed.
"""

import subprocess
import sys
from pathlib import Path

OLD, NEW = "1.0", "2.0"
STACK = (
    "rdma-core", "libibverbs", "libibverbs-utils", "librdmacm", "librdmacm-utils", "infiniband-diags", "perftest", "mstflint", "pciutils",
)
WORK, REPO = Path("/root/stand-in"), Path("/srv/stand-in")
FILES = {
    "/etc/os-release": 'NAME="Rocky Linux"\nVERSION="9.6"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.6"\n'
                       'PLATFORM_ID="platform:el9"\nPRETTY_NAME="Rocky Linux 9.6 (stand-in)"\n',
    "/etc/redhat-release": "Rocky Linux release 9.6 (stand-in)\n",
    # Debian's rpm keeps a database for each user, and calls gpg by a name that Debian does not have.
    "/etc/rpm/macros": "%_dbpath /var/lib/rpm\n%__gpg /usr/bin/gpg\n",
    # What EL's package of dnf has; Debian's skips a repository that it cannot read.
    "/etc/dnf/dnf.conf": "[main]\ngpgcheck=1\ninstallonly_limit=3\nbest=True\nskip_if_unavailable=False\n",
    "/etc/yum.repos.d/stand-in.repo": "[stand-in]\nname=Stand-in packages\nbaseurl=file:///srv/stand-in\nenabled=1\n"
                                      "gpgcheck=1\nrepo_gpgcheck=1\ngpgkey=file:///srv/stand-in.asc\n",
}


def write(path: str, content: str) -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)  # os-release is a link
    target.write_text(content, encoding="ascii")


def run(*argv: str) -> None:
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def spec(name: str, version: str, head: str = "", packages: tuple[str, ...] = ()) -> None:
    """Build a package without content, with more of its kind from the same source."""
    common = "Summary: Stand-in of a test\n"
    text = f"Name: {name}\nVersion: {version}\nRelease: 1.el9\nLicense: GPL-3.0-or-later\nBuildArch: noarch\n{common}{head}"
    text += "%description\nNo content.\n%files\n"
    text += "".join(f"%package -n {other}\n{common}%description -n {other}\nNo content.\n%files -n {other}\n" for other in packages)
    write(f"{WORK}/{name}-{version}.spec", text)
    run("rpmbuild", "-bb", "--quiet", "--define", f"_topdir {WORK}", "--define", f"_rpmdir {REPO}", f"{WORK}/{name}-{version}.spec")


def sign(key: str, *files: Path) -> None:
    run("rpmsign", "--addsign", "--define", f"_gpg_name {key}", *map(str, files))


def main(kind: str) -> None:
    for path, content in FILES.items():
        write(path, content)
    REPO.mkdir()
    for key in ("right@example.com", "wrong@example.com"):
        run("gpg", "--batch", "--quiet", "--passphrase", "", "--quick-generate-key", key, "rsa3072", "sign", "never")
    run("gpg", "--armor", "--output", "/srv/stand-in.asc", "--export", "right@example.com")
    # What every EL node has, and what dnf takes the release from.
    spec("rocky-release", "9.6", "Provides: system-release = 9.6\nProvides: system-release(releasever) = 9\nProvides: /bin/sh\n")
    for version in (OLD, NEW):
        spec(STACK[0], version, packages=STACK[1:])
    rpms = sorted(REPO.glob("*/*.rpm"))
    sign("right@example.com", *rpms)
    if kind == "wrong-key":
        sign("wrong@example.com", *REPO.glob(f"*/mstflint-{NEW}-*.rpm"))
    run("createrepo_c", "--quiet", str(REPO))
    index = REPO / "repodata" / "repomd.xml"
    run("gpg", "--batch", "--quiet", "--armor", "--local-user", "right@example.com", "--detach-sign", str(index))
    run("rpm", "-i", "--nosignature", *map(str, REPO.glob("*/rocky-release-*.rpm")))
    if kind == "tampered":
        index.write_text(index.read_text(encoding="utf-8") + "<!-- changed -->\n", encoding="utf-8")


main(sys.argv[1])
