# SPDX-License-Identifier: GPL-3.0-or-later
"""The body of the rdma_facts module. Apart from rdma_state's: a look at a node must not bring everything that changes one."""

from typing import Any

from ..errors import RailwrightError
from ..host.host import Host
from ..host.inspected import InspectedHost
from ..observe.facts import observe_facts
from ..observe.identity import observe_identity
from ..observe.nics import ancestors_connection_address


def run_facts(module: Any) -> None:
    """The facts under their own name; the action plugin makes them a host fact too."""
    host = InspectedHost(Host())
    try:
        facts = observe_facts(host, observe_identity(host, ancestors_connection_address(host)))
    except RailwrightError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, rdma=facts)
