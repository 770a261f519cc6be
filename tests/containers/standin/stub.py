# SPDX-License-Identifier: GPL-3.0-or-later
"""One stand-in package: the name, version and relations of a real one, and a few files that tools look for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# A script that does not end by itself while a test wants the package manager busy.
SLOW = "#!/bin/sh\n[ ! -e /run/stand-in.slow ] || exec sleep 600\n"

# And one that fails while a test wants a package that cannot be configured.
FAILS = "#!/bin/sh\n[ ! -e /run/stand-in.fails ] || { echo 'stand-in: this script was told to fail' >&2; exit 1; }\n"

UNINSTALLED = "doca-ofed doca-all mlnx-ofed-all mlnx-ofed-basic iser-dkms isert-dkms srp-dkms mlnx-tools"


class Stub(NamedTuple):
    """``version`` is whole, as the package manager prints it (rpm: [epoch:]version-release)."""

    name: str
    version: str
    depends: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    files: Mapping[str, str] = {}
    conffiles: tuple[str, ...] = ()
    postinst: str = ""
    size: int = 0  # bytes of the largest file, for what asks whether there is room


def exactly(stubs: tuple[Stub, ...]) -> tuple[str, ...]:
    """Relations to precisely these packages, as the vendors' meta packages have them."""
    return tuple(f"{stub.name} (= {stub.version})" for stub in stubs)


def openibd(release: str) -> dict[str, str]:
    """The unit of the vendor's stack, and its settings. It loads no module here: a container has no kernel of its own."""
    return {
        "/lib/systemd/system/openibd.service":
            "[Unit]\nDescription=openibd - configure Mellanox devices (stand-in)\nConditionPathExists=/etc/infiniband/openib.conf\n"
            "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/etc/init.d/openibd start\nExecStop=/etc/init.d/openibd stop\n"
            "[Install]\nWantedBy=sysinit.target\n",
        "/etc/init.d/openibd": f"#!/bin/sh\n# stand-in of {release}\nexit 0\n",
        "/etc/infiniband/openib.conf": "ONBOOT=yes\nSET_IPOIB_CM=auto\nIPOIB_LOAD=yes\n",
    }


def dkms_source(module: str, version: str) -> dict[str, str]:
    """What a DKMS package brings: a source tree with its dkms.conf."""
    return {f"/usr/src/{module}-{version}/dkms.conf":
            f'PACKAGE_NAME="{module}"\nPACKAGE_VERSION="{version}"\nBUILT_MODULE_NAME[0]="{module.replace("-", "_")}"\n'
            'DEST_MODULE_LOCATION[0]="/updates"\nAUTOINSTALL="yes"\n'}


def ofed_scripts(answer: str, remover: str) -> dict[str, str]:
    """``ofed_info -s`` of the release, and the uninstaller, which takes the kernel packages off by the package manager's own means."""
    return {
        "/usr/bin/ofed_info": f"#!/bin/sh\necho '{answer}:'\n",
        "/usr/sbin/ofed_uninstall.sh":
            f'#!/bin/sh\n[ "$1" = --force ] || exit 1\nfor name in {UNINSTALLED}; do\n  {remover} "$name" >/dev/null 2>&1 || :\ndone\n',
    }
