# SPDX-License-Identifier: GPL-3.0-or-later
"""The hold file of a node: while it is there, no check refuses a job or has the node drained; or none of the codes that it names.

`railwright agent hold` writes it over our own ssh; with the controller dead anybody who is root does, by any means: ``touch`` is enough.
The hook of the scheduler reads it itself (areas/system/agent.py), so it holds at once.
"""

from typing import Any, Dict, Sequence, Tuple

from ..errors import RailwrightError
from ..host.host import Host
from ..rules.check_modes import ALL, held_codes, is_code

FILE = "/etc/railwright/hold"
LIMIT = 64 * 1024
MOST = 200  # codes of a hold


def held(host: Host) -> Tuple[str, ...]:
    """Return the codes that are held, ``("all",)`` for all of them, () where there is no such file."""
    if not host.exists(FILE):
        return ()
    return held_codes(host.read(FILE, LIMIT) or "")


def text_of(codes: Sequence[str], why: str) -> str:
    """The file's text: a comment for people, and the codes; no code for all of them."""
    return "".join("%s\n" % line for line in ["# " + why] + ([] if ALL in codes else list(codes)))


def answer(host: Host, params: Dict[str, Any], _dry: bool) -> Dict[str, Any]:
    """Set the hold of a node: ``codes`` (["all"], or those that are held), or [] to end it. Return what was held before and is now."""
    codes, why = params["codes"], params["why"]
    if len(codes) > MOST or not all(code == ALL or is_code(code) for code in codes) or not isinstance(why, str) or not why.isprintable():
        raise RailwrightError("hold: codes: %r; allowed: all, or codes of checks" % (codes[:8],))
    before = held(host)
    if codes:
        host.write(FILE, text_of(codes, why), 0o644)
    elif host.exists(FILE):
        host.remove(FILE)
    return {"hold": {"before": list(before), "now": list(held(host))}}
