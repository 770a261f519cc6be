# SPDX-License-Identifier: GPL-3.0-or-later
"""Controller side of rdma_ssh_mesh: the inventory's wishes, the plan over all nodes, and the key's way from one node to the others.

The private key is taken from the hidden result of one host and handed to the module of
another; it is no argument of a task, so that no callback is given it.
"""

from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import SSH_MESH
from ansible_collections.railwright.rdma.plugins.module_utils.observe.accounts import ACCEPT
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.cluster_addresses import resolved_addresses
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_action import StepAction
from ansible_collections.railwright.rdma.plugins.plugin_utils.results import names, part_of, result_of, variable_of
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.job_user import root_login
from ansible_collections.railwright.rdma.plugins.plugin_utils.ssh_mesh import Node, plan_mesh, twins

REGISTERED = "__ssh_mesh_{}"  # what a mode gave, in the role
MODULE = "railwright.rdma.rdma_ssh_mesh"
GROUP = "rdma"
LOGINS = 8  # of one node in mode login: each may take half a minute


class ActionModule(StepAction):
    """One step of the role."""

    argument_spec = SSH_MESH

    def answer(self, result: dict[str, Any], variables: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        spec, here = host_spec(self._templar, variables), str(variables["inventory_hostname"])
        if options["mode"] == "plan":
            result.update(changed=False, **plan(variables, REGISTERED.format("observe")))
            return result
        arguments = {"mode": options["mode"], "user": spec["ssh_mesh_user"], "state": spec["ssh_mesh_state"],
                     "root": spec["job_user_root"] == ACCEPT}
        refused = root_login(spec, "ssh_mesh_user", self._connection) if options["mode"] != "login" else None
        if refused is not None and spec["ssh_mesh_state"] == "present":
            raise AnsibleActionFail(f"ssh_mesh: {refused}")
        if options["mode"] == "login":
            return self._login(result, variables, arguments, options["schedule"] or {})
        if options["mode"] != "observe" and spec["ssh_mesh_state"] == "present":  # who leaves needs nothing of the others
            arguments.update(self._step(variables, options["mode"], part_of(variables, here, REGISTERED.format("plan"), "mesh")))
        answer = self._execute_module(module_name=MODULE, module_args=arguments, task_vars=variables)
        result.update(answer)
        if options["mode"] == "observe" and not answer.get("failed"):
            result["wishes"] = wishes(spec)
        return result

    def _login(
        self, result: dict[str, Any], variables: dict[str, Any], arguments: dict[str, Any], schedule: dict[str, Any]
    ) -> dict[str, Any]:
        """``login`` by the node, and the ``peers`` that it was asked for; a node that the inventory has out of the mesh is not asked."""
        if arguments["state"] == "absent":
            return {**result, "changed": False, "login": None}
        peers = to_log_into(variables, schedule.get("peers", {}).get(str(variables["inventory_hostname"]), []))
        answer = self._execute_module(module_name=MODULE, module_args={**arguments, "peers": peers}, task_vars=variables)
        return {**result, **answer, "peers": peers}

    def _step(self, variables: dict[str, Any], mode: str, mesh: dict[str, Any]) -> dict[str, Any]:
        """The module's arguments beside mode, user and state."""
        if mode == "generate":
            return {"generation": mesh["generation"], "serial": mesh["serial"]}
        if mode == "prove":
            return {"peer": following(mesh["members"], str(variables["inventory_hostname"]))}
        if mode == "read" or mesh["origin"] is None:
            return {}
        public = mesh["public_key"]
        if mesh["generate"] and not self._task.check_mode:
            made = result_of(variables, mesh["origin"], REGISTERED.format("generate"))
            if made is None:
                raise AnsibleActionFail(f"{mesh['origin']} was to make the mesh's new key and did not; nothing was changed here")
            public = made["public_key"]
        if mode == "apply":
            return {"public_key": public, "members": mesh["members"], "nodes": mesh["holders"]}
        if self._task.check_mode:
            return {"public_key": public}
        secret = result_of(variables, mesh["origin"], REGISTERED.format("read"))
        if secret is None or not secret.get("private_key"):
            raise AnsibleActionFail(f"{mesh['origin']} did not hand over the mesh's key")
        return {"public_key": public, "private_key": secret["private_key"]}


def to_log_into(variables: dict[str, Any], peers: list[str]) -> list[str]:
    """Of these peers those that the inventory has in the mesh, a bounded number."""
    return [peer for peer in map(str, peers) if variable_of(variables, peer, "ssh_mesh_state") != "absent"][:LOGINS]


def wishes(spec: Spec) -> dict[str, Any]:
    """What the inventory says about this host's part, for the plan over all of them."""
    return {
        "state": spec["ssh_mesh_state"],
        "user": spec["ssh_mesh_user"],
        "generation": spec["ssh_mesh_generation"],
        "addresses": list(spec["ssh_mesh_addresses"]),
        "rails": [rail.address.partition("/")[0] for rail in spec.rails if rail.address],
    }


def plan(variables: dict[str, Any], seen: str) -> dict[str, Any]:
    """The mesh, and a failure when it cannot be."""
    play = names(variables, "ansible_play_hosts_all")
    inventory = [str(name) for name in variables.get("groups", {}).get(GROUP, [])] or play
    results = {name: result_of(variables, name, seen) for name in inventory}
    wanted = [name for name in inventory if state_of(variables, name, results[name]) == "present"]
    late = [name for name in names(variables, "ansible_play_hosts") if variable_of(variables, name, seen) is None]
    left_out = [name for name in wanted if name not in play]
    if left_out or late:
        how = "without --limit" if left_out else "without serial, and with strategy linear"
        return {"failed": True,
                "msg": f"the nodes of a mesh are set up together, and {', '.join(left_out or late)} is not part of this: run {how}"}
    mesh = plan_mesh(nodes_of(variables, {name: found for name in wanted if (found := results[name]) is not None}), set(wanted))
    here = str(variables["inventory_hostname"])
    problems = mesh.problems or mesh.unfit.get(here, [])
    if problems and state_of(variables, here, results.get(here)) == "present":
        return {"failed": True, "msg": "ssh_mesh: " + "; ".join(problems)}
    missing = [name for name in wanted if results[name] is None]
    warnings = [f"ssh_mesh: {', '.join(missing)} did not answer and is left out until the next apply that reaches it"] if missing else []
    warnings += [f"ssh_mesh: {'; '.join(texts)}; it is left out" for texts in mesh.unfit.values()]
    document = {**mesh._asdict(), "members": [member._asdict() for member in mesh.members]}
    return {"mesh": document, "warnings": warnings + [f"ssh_mesh: {text}" for text in twins(mesh.members)]}


def nodes_of(variables: dict[str, Any], results: dict[str, dict[str, Any]]) -> list[Node]:
    hosts = {name: str(variable_of(variables, name, "ansible_host") or "") for name in results}
    resolved = resolved_addresses(variables, {name: host or name for name, host in hosts.items()})
    return [
        Node(name, found["wishes"]["generation"], tuple(found["wishes"]["addresses"]), tuple(found["wishes"]["rails"]), hosts[name],
             found["node"], tuple(resolved[name]), found["wishes"]["user"])
        for name, found in results.items()
    ]


def state_of(variables: dict[str, Any], name: str, result: dict[str, Any] | None) -> str:
    """What the node's own result says; for one that did not answer, its variable (a role's default is not among those)."""
    if result is not None and isinstance(result.get("wishes"), dict):
        return str(result["wishes"]["state"])
    return str(variable_of(variables, name, "ssh_mesh_state") or "present")


def following(members: list[dict[str, Any]], name: str) -> str:
    """The next node round the ring: every node is logged into once, and logs in once."""
    everybody = [str(member["names"][0]) for member in members]
    return everybody[(everybody.index(name) + 1) % len(everybody)]
