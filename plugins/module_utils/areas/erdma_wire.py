# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node will talk on the wire once its plan is applied: for the controller, which compares all nodes before anything changes."""

from typing import Any, Dict, Optional

from ..host.host import Host
from ..observe.erdma_driver import letter_of, node_types
from ..rules.erdma_mode import LEAVE, LETTERS, letter_of_type, mode_of
from ..spec.model import Spec
from ..types import Identity


def planned_wire(host: Host, spec: Spec, identity: Identity) -> Optional[Dict[str, Any]]:
    """``mode`` that the inventory wants and ``letter`` of compat_mode that will run; None where the fabric is not eRDMA.

    Where the driver is left alone it is what runs now; None in place of a letter where nothing tells.
    """
    mode = mode_of(spec, identity)
    if mode is None:
        return None
    if spec["erdma_driver"] != LEAVE:
        return {"mode": mode, "letter": LETTERS[mode]}
    letters = {letter_of_type(kind) for _name, kind in node_types(host)}
    return {"mode": LEAVE, "letter": letter_of(host) or (letters.pop() if len(letters) == 1 else None)}
