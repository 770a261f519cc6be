# SPDX-License-Identifier: GPL-3.0-or-later
"""The initramfs of the running kernel: where it holds a driver, it must hold the one of the stack.

An image from before the stack came loads the kernel's own mlx5_core at boot, and the stack's is never asked for. Listing an image
takes seconds, so it is listed only when it is older than the module, or when the stack is still to come.
"""

from typing import List, Optional, Tuple

from ..host import Host
from ..types import Change, Identity, run

SECONDS = 900.0
LIST_SECONDS = 120.0
SOURCE = "NVIDIA (update-initramfs -u, dracut -f after an installation); domain F1"
# family -> (image, command that lists it, command that makes it)
TOOLS = {
    "debian": ("/boot/initrd.img-%s", ("lsinitramfs",), ("update-initramfs", "-u", "-k", "KERNEL")),
    "redhat": ("/boot/initramfs-%s.img", ("lsinitrd",), ("dracut", "-f", "IMAGE", "KERNEL")),
    "suse": ("/boot/initrd-%s", ("lsinitrd",), ("dracut", "-f", "IMAGE", "KERNEL")),
}


def outdated(host, identity, module, path, coming):
    # type: (Host, Identity, str, Optional[str], bool) -> Optional[str]
    """The image that holds ``module`` in an older form than the file on disk (``path`` below /lib/modules/KERNEL); None: nothing to do.

    ``coming``: packages will replace the file.
    """
    tools = TOOLS.get(identity.platform.family)
    if tools is None:
        return None
    image = tools[0] % identity.kernel
    if not host.exists(image):
        return None
    file = "/lib/modules/%s/%s" % (identity.kernel, path)
    if not coming and (path is None or host.modified(image) >= host.modified(file)):
        return None
    listed = host.run(tools[1] + (image,), LIST_SECONDS)
    return image if listed.ok and "/%s.ko" % module in listed.out else None


def plan_image(area, image, identity, module):
    # type: (str, Optional[str], Identity, str) -> List[Change]
    if image is None:
        return []
    command = TOOLS[identity.platform.family][2]
    argv = tuple(image if word == "IMAGE" else identity.kernel if word == "KERNEL" else word for word in command)  # type: Tuple[str, ...]
    return [Change(area, "%s in %s" % (module, image), "older than the one on disk", "the one on disk", "none",
                   "the next boot would load it from there, before the stack's", SOURCE, (run(argv, (), SECONDS),))]
