# SPDX-License-Identifier: GPL-3.0-or-later
"""The initramfs of the running kernel: where it holds a driver, it must hold the one of the stack.

An image from before the stack came loads the kernel's own mlx5_core at boot, and the stack's is never asked for. Listing an image
takes seconds, so it is listed only when it is older than the module, or when the stack is still to come.
"""

from typing import List, Optional, Tuple

from ...formats.outside import lines_in
from ...host.host import Host
from ...observe.stack import FOREIGN_PATH
from ...types import AT_BOOT, MODULE, Change, Identity, Subject, run

SECONDS = 900.0
LIST_SECONDS = 120.0
SOURCE = "NVIDIA (update-initramfs -u, dracut -f after an installation); usual practice"
# family -> (image, command that lists it, command that makes it)
TOOLS = {
    "debian": ("/boot/initrd.img-%s", ("lsinitramfs",), ("update-initramfs", "-u", "-k", "KERNEL")),
    "redhat": ("/boot/initramfs-%s.img", ("lsinitrd",), ("dracut", "-f", "IMAGE", "KERNEL")),
    "suse": ("/boot/initrd-%s", ("lsinitrd",), ("dracut", "-f", "IMAGE", "KERNEL")),
}


def outdated(host: Host, identity: Identity, module: str, path: Optional[str], coming: bool) -> Optional[str]:
    """The image that holds ``module`` in an older form than the file on disk (``path`` below /lib/modules/KERNEL); None: nothing to do.

    ``coming``: packages will replace the file.
    """
    image = image_of(host, identity)
    file = "/lib/modules/%s/%s" % (identity.kernel, path)
    if image is None or (not coming and (path is None or (host.mtime(image) or 0.0) >= (host.mtime(file) or 0.0))):
        return None
    return image if "/%s.ko" % module in listing(host, identity, image) else None


def with_foreign(host: Host, identity: Identity, module: str) -> Optional[str]:
    """The image that still holds a vendor's ``module``, where the kernel's own is wanted."""
    image = image_of(host, identity)
    if image is None:
        return None
    paths = [line.split()[-1] for line in lines_in(listing(host, identity, image)) if "/%s.ko" % module in line]
    return image if any(FOREIGN_PATH.search(path) for path in paths) else None


def image_of(host: Host, identity: Identity) -> Optional[str]:
    tools = TOOLS.get(identity.platform.family)
    image = tools[0] % identity.kernel if tools is not None else None
    return image if image is not None and host.exists(image) else None


def listing(host: Host, identity: Identity, image: str) -> str:
    listed = host.run(TOOLS[identity.platform.family][1] + (image,), LIST_SECONDS)
    return listed.out if listed.ok else ""


def plan_image(area: str, image: Optional[str], identity: Identity, module: str) -> List[Change]:
    if image is None:
        return []
    command = TOOLS[identity.platform.family][2]
    argv: Tuple[str, ...] = tuple(image if word == "IMAGE" else identity.kernel if word == "KERNEL" else word for word in command)
    return [Change(area, "%s in %s" % (module, image), "another one than on disk", "the one on disk", "none",
                   "the next boot would load it from there, before the one on disk is asked for", SOURCE, (run(argv, (), SECONDS),),
                   Subject(MODULE, module), AT_BOOT)]
