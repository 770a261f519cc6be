# SPDX-License-Identifier: GPL-3.0-or-later
"""The body of the rdma_facts module. Apart from rdma_state's: a look at a node must not bring everything that changes one."""

import os
from typing import Any, Optional

from ..errors import RailwrightError
from ..host.host import Host
from ..host.inspected import InspectedHost
from ..observe.facts import observe_facts
from ..observe.identity import observe_identity
from ..observe.nics import ancestors_connection_address


def connection_address() -> Optional[str]:
    """The node's own address in the controller's ssh connection; where sudo has dropped it, a parent process has it."""
    fields = os.environ.get("SSH_CONNECTION", "").split()
    return fields[2] if len(fields) == 4 else ancestors_connection_address(Host())


def run_facts(module: Any) -> None:
    """The facts under their own name; the action plugin makes them a host fact too."""
    host = InspectedHost(Host())
    try:
        facts = observe_facts(host, observe_identity(host, connection_address()))
    except RailwrightError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, rdma=facts)
