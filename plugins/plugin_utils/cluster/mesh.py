# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on the ssh mesh, from which node logged into which of its peers. Pure; runs on the controller.

A node is believed for itself only: which peers it was to log into is the controller's, and a peer that it does not speak of is unknown.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import VerdictSubject, verdict
from ansible_collections.railwright.rdma.plugins.module_utils.types import Verdict

CHECK = "ssh.mesh"
TEXT = 300  # characters of what ssh said


def judge_mesh(peers: Mapping[str, Sequence[str]], answers: Mapping[str, Mapping[str, Any] | None]) -> list[Verdict]:
    """One verdict a node. ``peers``: whom each node was to log into; ``answers``: what rdma_ssh_mesh returned as ``login``, by node."""
    having = [node for node in sorted(peers) if (answer := answers.get(node)) is not None and answer["configured"]]
    silent = [node for node in peers if answers.get(node) is None]
    if not having and not silent:
        return [verdict(CHECK, VerdictSubject("", None, None, "ssh mesh"), "skipped", None, None, "no node has an ssh mesh")]
    return [_judge(node, list(peers[node]), answers.get(node), having) for node in sorted(peers)]


def _judge(node: str, peers: list[str], answer: Mapping[str, Any] | None, having: list[str]) -> Verdict:
    where = VerdictSubject(node, None, None, "ssh mesh")
    expected = f"logins on {', '.join(peers) or 'its peers'}"
    if answer is None:
        return verdict(CHECK, where, "unknown", expected, None, "the node did not say which nodes it can log into")
    if not answer["configured"]:
        message = f"{node} has no ssh mesh, and {', '.join(having[:4])} has one; ansible-playbook railwright.rdma.ssh_mesh makes it"
        # The word of one node alone makes no other one fail.
        return verdict(CHECK, where, "fail" if len(having) > 1 else "warn", expected, "no ssh mesh", message)
    if not peers:
        return verdict(CHECK, where, "skipped", None, None, "there is no other node to log into")
    logins = answer["logins"]
    failed = {peer: str(logins[peer])[:TEXT] for peer in peers if logins.get(peer) is not None}
    good = [peer for peer in peers if peer in logins and peer not in failed]
    unknown = [peer for peer in peers if peer not in logins]
    found = f"logins on {', '.join(good) or 'none of them'}"
    if failed:
        message = "; ".join(f"{answer['user']} on {node} cannot log into {peer}: {text}" for peer, text in failed.items())
        return verdict(CHECK, where, "fail", expected, found, message)
    if unknown:
        return verdict(CHECK, where, "unknown", expected, found, f"{node} did not say whether it can log into {', '.join(unknown)}")
    return verdict(CHECK, where, "pass", expected, found, f"{answer['user']} on {node} logs into {', '.join(good)}")
