# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the rdma_facts module."""

from typing import Any, Dict

from ..host.host import Host
from ..host.inspected import InspectedHost
from ..observe.facts import observe_facts
from ..observe.identity import observe_identity
from ..observe.nics import ancestors_connection_address


def answer(live: Host, _params: Dict[str, Any], _dry: bool) -> Dict[str, Any]:
    """The facts under their own name; the action plugin makes them a host fact too."""
    host = InspectedHost(live)
    return {"rdma": observe_facts(host, observe_identity(host, ancestors_connection_address(host)))}
