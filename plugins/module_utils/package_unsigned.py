# SPDX-License-Identifier: GPL-3.0-or-later
"""A package file that nobody signed, in the proof: the one whose sha256 the operator vouches for, and the package that was asked for.

Which file and which sha256 is the Spec's to say, never the plan's that came back from somewhere. No check of a signature is turned off for
it, neither dpkg's nor rpm's nor that of a repository: dpkg and rpm themselves take a package without one, and what it depends on
comes through apt and dnf, from repositories, checked as ever.
"""

from typing import List, Sequence

from .catalogue import aiacc
from .errors import RailwrightError
from .host.commands import sums
from .host.host import Host
from .spec.model import Spec

STATE = "unsigned"
QUERY_SECONDS = 60.0
UNCHANGED = "; nothing was changed"
_FIELDS = {"apt": ("dpkg-deb", "--show", "--showformat=${Package} ${Version}\\n"), "rpm": ("rpm", "-qp", "--qf", "%{NAME} %{VERSION}\\n")}


def check_unsigned(host: Host, spec: Spec, manager: str, steps: Sequence[object]) -> None:
    """Raises RailwrightError with one line where the file is not the right one."""
    if not steps:
        return
    package = aiacc.package_of(spec, manager)
    if package is None or package.sha256 is None:
        raise RailwrightError("nobody vouches for %s%s" % (aiacc.PACKAGE, UNCHANGED))
    directory, _slash, name = package.path.rpartition("/")
    digest = sums(host, directory, [name]).get(name)
    if digest != package.sha256:
        raise RailwrightError("%s has the sha256 %s and not %s, which artifact_pins names%s" % (
            package.artifact, digest or "nothing (it is not there)", package.sha256, UNCHANGED))
    found = described(host, manager, package.path)
    if found[:1] != [aiacc.PACKAGE] or not aiacc.is_release(found[1], package.version):
        raise RailwrightError("%s holds %s and not %s %s (aiacc_version)%s" % (
            package.artifact, " ".join(found) or "no package of this system's kind", aiacc.PACKAGE, package.version, UNCHANGED))


def described(host: Host, manager: str, path: str) -> List[str]:
    """[name, version] as the file says, [] for a file that is no package."""
    answer = host.run(_FIELDS["apt" if manager == "apt" else "rpm"] + (path,), QUERY_SECONDS)
    words = answer.out.split() if answer.ok else []
    return words if len(words) == 2 else []
