# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of rdma_upgrade: the lease of a node: which upgrade works on it, so that a second controller keeps its hands off.

A file on the node itself, because that is what two controllers have in common; it survives reboots, as an upgrade does. It is made
with a link, which fails where there is one: of two controllers that ask at the same time one gets it. A lock of the kernel
would end with the connection, so it only keeps others away while the file is read and replaced. What stands in the file is shown to
people, so it is cut to printable text.

A controller that was killed may have left an apply or a package manager at work: what it does is finished (``Host.shielded``), and a plan
made meanwhile would be out of date before it is read. So the node says who is busy, and the role asks again.
"""

import contextlib
import json
import re
import time
from typing import Any, Dict, Iterator, NamedTuple, Optional, Tuple

from ..apply.journal import LOCK
from ..errors import RailwrightError
from ..formats.outside import json_object
from ..host.host import Host
from ..observe.package_locks import lock_holder

APT, DNF = "apt", "dnf"
PATH = "/var/lib/railwright/upgrade.json"
MODE = 0o644  # who works on a node is no secret
LIMIT = 4096
RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}")
ALONE = "/run/railwright-upgrade.lock"  # in a directory that only root writes
ALONE_S = 30.0  # who holds it needs milliseconds
INSPECTED, BEGUN = "preflight", "change"


class Lease(NamedTuple):
    """Whose node it is: ``since`` is the controller's clock, in UTC. ``step``: whether anything but an inspection has begun."""

    run: str
    controller: str
    user: str
    since: str
    step: str = INSPECTED

    def same(self, other: "Lease") -> bool:
        """The same run on the same controller. The command line gives every run a name of its own; a playbook's may be the release's."""
        return (self.run, self.controller) == (other.run, other.controller)

    def words(self) -> str:
        return "run %s of %s on %s since %s" % (self.run, self.user, self.controller, self.since)


class Taken(NamedTuple):
    lease: Lease
    changed: bool
    before: Optional[Lease]  # whose it was, where it was taken over


@contextlib.contextmanager
def alone(host: Host) -> Iterator[None]:
    """Nobody else reads or replaces the lease meanwhile. Raises RailwrightError, OSError."""
    held = host.lock(ALONE, ALONE_S)
    if held is None:
        raise RailwrightError("somebody else has %s for %g s, who takes or gives back the lease of this node; try again" % (ALONE, ALONE_S))
    try:
        yield
    finally:
        host.unlock(held)


def take(host: Host, wanted: Lease, *, force: bool = False, dry: bool = False) -> Taken:
    """Make the lease ours, or find that it is. ``dry``: only say whether that would work. Raises RailwrightError with one line.

    ``force``: whoever has it. Of two that take it over from the same one at the same time, one gets it.
    """
    if not RUN.fullmatch(wanted.run):
        raise RailwrightError("run %r: letters, digits and _.:- only, at most 100" % wanted.run)
    if dry:
        return _take(host, wanted, force, dry, read(host))
    seen = read(host)
    with alone(host):
        return _take(host, wanted, force, dry, seen)


def _take(host: Host, wanted: Lease, force: bool, dry: bool, seen: Optional[Lease]) -> Taken:
    """``seen``: whose it was before we were alone with it."""
    text = json.dumps(wanted._asdict(), sort_keys=True) + "\n"
    if not dry and host.create(PATH, text, MODE):
        return Taken(wanted, True, None)
    held = read(host)
    if held is not None and held.same(wanted):
        return Taken(held, False, None) if dry or wanted.step != BEGUN or held.step == BEGUN else begin(host, held)
    if held is None and dry and not host.exists(PATH):
        return Taken(wanted, False, None)
    if not force or held != seen:  # another one took it over in the same moment
        raise RailwrightError(lease_refusal(held))
    if held is not None and held.step == BEGUN:
        wanted = wanted._replace(step=BEGUN)  # what the other one changed is still to be proved
        text = json.dumps(wanted._asdict(), sort_keys=True) + "\n"
    if not dry:
        host.write(PATH, text, MODE)
    return Taken(wanted, not dry, held)


def begin(host: Host, held: Lease) -> Taken:
    """From now on the node is not what it was: whoever goes on here has to come to the end, whatever a plan says."""
    now = held._replace(step=BEGUN)
    host.write(PATH, json.dumps(now._asdict(), sort_keys=True) + "\n", MODE)
    return Taken(now, True, None)


def lease_refusal(held: Optional[Lease]) -> str:
    if held is None:
        return "%s is there and is no lease of an upgrade; inspect it, then remove it or take the node over (--take-over)" % PATH
    return ("the node is being upgraded by %s (%s); go on there with railwright upgrade --resume, or take the node over here with "
            "--take-over" % (held.words(), PATH))


def give_back(host: Host, run: str, controller: str, *, dry: bool = False) -> Tuple[bool, Optional[Lease]]:
    """Remove the lease if it is ours. (whether it was ours, whose it is then)"""
    with contextlib.ExitStack() if dry else alone(host):
        held = read(host)
        if held is None:
            return False, None
        if (held.run, held.controller) != (run, controller):
            return False, held
        if not dry:
            host.remove(PATH)
        return True, None


def read(host: Host) -> Optional[Lease]:
    """Who has the node; None where nobody has, or where the file says nothing that we wrote."""
    found = json_object(host.read(PATH, LIMIT))
    if found is None or not all(isinstance(found.get(name), str) for name in Lease._fields):
        return None
    return Lease(*[re.sub(r"[^\x20-\x7e]", "?", found[name])[:100] for name in Lease._fields])


def as_dict(lease: Optional[Lease]) -> Optional[Dict[str, Any]]:
    return None if lease is None else dict(lease._asdict())


def answer(host: Host, params: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    try:
        return (release if params["mode"] == "release" else lend)(host, params, dry)
    except OSError as error:
        raise RailwrightError("%s: %s (root is needed: become: true)" % (error.filename, error.strerror)) from error


def lend(host: Host, params: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(params["now"]))
    wanted = Lease(params["run"], params["controller"], params["user"], since, params["step"])
    taken = take(host, wanted, force=params["take_over"], dry=dry)
    busy = None if dry else at_work(host)
    result = {"changed": taken.changed, "lease": as_dict(taken.lease), "taken_over_from": as_dict(taken.before), "busy": busy}
    return result if busy is None else dict(result, msg=busy)


def release(host: Host, params: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    ours, other = give_back(host, params["run"], params["controller"], dry=dry)
    return {"changed": ours, "lease": as_dict(other)}


def at_work(host: Host) -> Optional[str]:
    """Who changes the node at this moment, for people."""
    held = host.lock(LOCK)
    if held is None:
        return "another apply is at work on this node (lock %s is held)" % LOCK
    host.unlock(held)
    for manager in (APT, DNF):
        holder = lock_holder(host, manager)
        if holder is not None:
            return "%s is held by process %d (%s)" % (holder.path, holder.pid, holder.command)
    return None
