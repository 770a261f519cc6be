# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of rdma_ssh_mesh: one step of the mesh on a node."""

from typing import Any, Dict

from ..errors import RailwrightError
from ..host.host import Host
from ..observe.nics import ancestors_connection_address
from ..ssh_mesh import apply, node
from ..ssh_mesh.files import member_from


def answer(host: Host, params: Dict[str, Any], dry: bool) -> Dict[str, Any]:
    user, mode = params["user"], params["mode"]
    if mode == "login":
        return {"login": node.try_logins(host, user, params["peers"], params["root"])}
    who = node.job_account(host, user, params["root"] or params["state"] == "absent")  # a mesh of root's can always be removed
    if mode == "observe":
        return {"node": node.observe(host, who, ancestors_connection_address(host))}
    if mode == "read":
        return {"private_key": "" if dry else node.read_key(host, who)}
    if mode == "prove":
        return prove_login(host, who, params["peer"], dry)
    if mode == "apply":
        if params["state"] == "absent":
            return apply.result(apply.leave(host, who, dry))
        members = [member_from(item) for item in params.get("members", [])]
        return apply.result(apply.apply(host, who, apply.Wanted(params.get("public_key"), members, params.get("nodes", [])), dry))
    public: Any = params.get("public_key")
    if mode == "generate":
        public = None if dry else node.generate(host, who, params["generation"], params["serial"])
    elif not dry:
        node.receive_key(host, who, params["private_key"], public)
    return {"changed": True, "changes": ["key pair " + who.key], "public_key": public}


def prove_login(host: Host, who: node.Account, peer: str, dry: bool) -> Dict[str, Any]:
    fault = None if dry else node.login(host, who, peer)
    if fault is not None:
        raise RailwrightError("%s cannot log into %s: %s" % (who.name, peer, fault))
    return {}
