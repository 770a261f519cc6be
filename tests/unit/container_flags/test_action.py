# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin as ansible-core calls it: the Spec goes to the module, the first node's addresses are added to what comes back."""

from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.action import rdma_state
from ansible_collections.railwright.rdma.plugins.action.rdma_state import MODULE, ActionModule, addresses_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

RAIL = {"name": "rail0", "match": {"pci": "0000:18:00.0"}, "address": "198.51.100.11/25"}
HOSTS = {
    "zeta": {"ansible_host": "192.0.2.11", "rdma_rails": [RAIL]},
    "lab": {"ansible_host": "127.0.0.1", "ssh_mesh_addresses": ["203.0.113.5"], "rdma_rails": []},
    "named": {"ansible_host": "zeta.example.com"},
}
TASK = {"hostvars": HOSTS, "inventory_hostname": "zeta"}


@pytest.mark.parametrize(("name", "found"), [
    ("zeta", ["192.0.2.11", "198.51.100.11"]), ("lab", ["203.0.113.5"]), ("named", []),
])
def test_addresses_of_the_inventory_that_others_can_reach(name: str, found: list[str]) -> None:
    assert addresses_of({"hostvars": HOSTS}, name) == found


class Plugin(ActionModule):
    """ansible-core's part is left out: no connection, no templating."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.given, self.reply = {}, answer  # the module's name and arguments, and its result
        self._templar = None

    def _execute_module(self, **options: Any) -> dict[str, Any]:
        self.given = options
        return self.reply


@pytest.mark.parametrize(("option", "key", "image"), [("a:1", "b:1", "a:1"), (None, "b:1", "b:1"), (None, None, None)])
def test_the_module_is_told_the_image_and_the_wishes(
    monkeypatch: pytest.MonkeyPatch, spec: Any, option: str | None, key: str | None, image: str | None
) -> None:
    wishes: Spec = spec(containers_image=key)
    monkeypatch.setattr(rdma_state, "host_spec", lambda _templar, _variables: wishes)
    plugin = Plugin({"container": {"addresses": []}})
    result = plugin.answer({}, TASK, {"mode": "container", "image": option, "job": ["zeta", "lab"]})
    assert plugin.given["module_name"] == MODULE
    given = plugin.given["module_args"]
    assert (given["mode"], given["image"], given["spec"]) == ("container", image, wishes.as_dict())
    assert result["container"] == {"addresses": [], "first_addresses": ["192.0.2.11", "198.51.100.11"]}


def test_a_module_that_failed_gets_nothing_added(monkeypatch: pytest.MonkeyPatch, spec: Any) -> None:
    monkeypatch.setattr(rdma_state, "host_spec", lambda _templar, _variables: spec())
    plugin = Plugin({"failed": True, "msg": "x"})
    assert plugin.answer({}, TASK, {"mode": "container", "image": None, "job": ["zeta"]}) == {"failed": True, "msg": "x"}
