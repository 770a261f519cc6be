# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the node's files of the ssh mesh what they should be, or take all of them away; in check mode only say what would happen.

sshd's own configuration is left as it is: the key is authorized in the file that sshd reads for the user anyway. The client's is tried with
``ssh -G`` and restored when ssh does not take it, since a fault there would break every ssh of the node.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..areas.common.files import is_ours
from ..errors import RailwrightError
from ..host.host import Host
from . import files as texts
from . import node


class Step(NamedTuple):
    """One change: what, and the text before and after (None: absent). Of authorized_keys only our block."""

    what: str
    before: Optional[str]
    after: Optional[str]


class Wanted(NamedTuple):
    """``public_key`` is None where the key is still to be made (check mode)."""

    public_key: Optional[str]
    members: Sequence[texts.Member]
    nodes: Sequence[str]


def apply(host: Host, who: node.Account, wanted: Wanted, dry: bool) -> List[Step]:
    """Everything but the key pair. What was written for another user goes first."""
    former = texts.client_user(host.read(texts.CLIENT))
    steps: List[Step] = []
    if former is not None and former != who.name:
        steps += _leave(host, former, dry)
    steps += _authorize(host, who, wanted, dry)
    client_before = host.snapshot(texts.CLIENT)
    for state, text in node.files(host, who.name, wanted.members):
        if state.text == text and state.mode == 0o644:
            continue
        steps.append(Step("file " + state.path, state.text, text))
        if not dry:
            host.write(state.path, text, 0o644)
    if not dry and steps and wanted.members:
        answer = host.run(("ssh", "-G", wanted.members[0].names[0]))
        if not answer.ok:
            host.restore(texts.CLIENT, client_before)
            raise RailwrightError("ssh does not take %s, it was restored: %s" % (texts.CLIENT, answer.err.strip()))
    return steps


def _authorize(host: Host, who: node.Account, wanted: Wanted, dry: bool) -> List[Step]:
    path = node.ask_sshd(host, who).authorized
    if path is None:
        raise RailwrightError("sshd reads no authorized keys for %s" % who.name)
    before = node.read_authorized(host, who, path)
    what = "who may log in as %s (%s)" % (who.name, path)
    if wanted.public_key is None:
        return [Step(what, texts.split(before)[1], None)]
    after = texts.with_block(before, texts.block(wanted.public_key, wanted.members, wanted.nodes))
    return _rewrite(host, who, path, before, after, what, dry)


def _rewrite(host: Host, who: node.Account, path: str, before: str, after: str, what: str, dry: bool) -> List[Step]:
    if before == after:
        return []
    if not dry:
        with node.as_owner(host, who, path):
            mode = host.mode(path)
            if path.startswith(who.home + "/"):
                host.make_directory(path.rpartition("/")[0], 0o700)
            if after:
                host.write(path, after, 0o600 if mode is None else mode)
            else:
                host.remove(path)  # nothing but our block was in it
    return [Step(what, texts.split(before)[1] or None, texts.split(after)[1] or None)]


def leave(host: Host, who: node.Account, dry: bool) -> List[Step]:
    """Take everything away. Whatever else is in authorized_keys stays."""
    former = texts.client_user(host.read(texts.CLIENT))
    steps = _leave(host, former, dry) if former is not None and former != who.name else []
    steps += _leave(host, who.name, dry)
    return steps + _remove(host, [path for path in (texts.CLIENT, texts.KNOWN_HOSTS) if is_ours(host.read(path) or "")], dry, shown=True)


def _remove(host: Host, paths: Sequence[str], dry: bool, *, shown: bool) -> List[Step]:
    """``shown``: with what is in them."""
    steps = [Step("file " + path, host.read(path) if shown else None, None) for path in paths]
    for path in [] if dry else paths:
        host.remove(path)
    return steps


def _leave(host: Host, name: str, dry: bool) -> List[Step]:
    """The key pair and the authorization of one user; of one who is gone there is nothing left."""
    try:
        who = node.account(name)
    except RailwrightError:
        return []
    with host.acting_as(who.name, who.uid, who.gid):
        steps = _remove(host, [path for path in (who.key, who.key + ".pub") if host.exists(path)], dry, shown=False)
    path = node.ask_sshd(host, who).authorized or who.directory + "/authorized_keys"
    before = node.read_authorized(host, who, path)
    return steps + _rewrite(host, who, path, before, texts.with_block(before, ""), "who may log in as %s (%s)" % (name, path), dry)


def result(steps: Sequence[Step]) -> Dict[str, Any]:
    return {
        "changed": bool(steps),
        "changes": [step.what for step in steps],
        "diff": [{"before_header": step.what, "after_header": step.what, "before": step.before or "", "after": step.after or ""}
                 for step in steps if step.before is not None or step.after is not None],
    }
