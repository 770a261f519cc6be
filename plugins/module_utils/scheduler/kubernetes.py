# SPDX-License-Identifier: GPL-3.0-or-later
"""Draining by Kubernetes: cordon with a note of whose it is, evict what starts again elsewhere, wait for what would be lost.

By kubectl, since how to log in to a cluster (plugins, certificates, tokens) is kubectl's knowledge, and only by ``get``, ``patch`` and
``create --raw``: ``kubectl drain`` would evict the pods of a running job too, stops before the first eviction at a pod without a
controller, and ``kubectl cordon`` leaves no word of who did it. One patch with the resourceVersion that was read cordons and notes at
once, or not at all. Eviction respects every PodDisruptionBudget: 429 means not now, and the next inspection asks again.
"""

import json
import re
from functools import partial
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..formats.outside import mapping, read_json, rows
from ..formats.text import last_line
from ..host.host import Host, Result
from .model import SECONDS, NodeState, SchedulerError, ask, carry_out, is_of_run, not_there, state_of, tool, whose

TRIES = 4  # of a patch that met another writer
NOTE = "railwright/drained"  # annotation of a node: the reason of our cordon
WAS_DOWN = " (it was down before)"  # behind our reason: cordoned by us, and not given back by us
MIRROR = "kubernetes.io/config.mirror"  # of a static pod: the kubelet's own, which no eviction ends
OVER = ("Succeeded", "Failed")
# Their controllers start a pod again elsewhere: this is what an eviction is for. A Job's pod, one of a training operator, or one without
# a controller is work that an eviction would end: those are waited for.
MOVABLE = ("ReplicaSet", "StatefulSet", "ReplicationController")
# Of a Job's pods (Kubernetes' well-known labels; the second before 1.27), of Kubeflow's training operator, and of a Volcano job
# (volcano-sh/apis, pkg/apis/batch/v1alpha1/labels.go).
JOB_LABELS = ("batch.kubernetes.io/job-name", "job-name", "training.kubeflow.org/job-name", "volcano.sh/job-name")
_AWAY = re.compile(r"connection (?:to the server \S+ )?(?:was )?refused|i/o timeout|TLS handshake timeout|no route to host"
                   r"|ServiceUnavailable|context deadline exceeded|Unable to connect to the server|etcdserver:", re.IGNORECASE)


class Node(NamedTuple):
    name: str
    version: str  # resourceVersion
    closed: bool
    ready: bool
    note: Optional[str]


class Pod(NamedTuple):
    namespace: str
    name: str
    uid: str
    kind: str  # of its controller, "" without one
    leaving: bool  # its deletion has begun

    @property
    def path(self) -> str:
        return "%s/%s" % (self.namespace, self.name)


def parse_nodes(text: str) -> Dict[str, Node]:
    """``kubectl get nodes --output=json``. Raises SchedulerError for anything else."""
    found: Dict[str, Node] = {}
    for item in _items(text, "nodes"):
        meta, spec = _part(item, "metadata"), _part(item, "spec")
        conditions = rows(_part(item, "status").get("conditions"))
        ready = any(entry.get("type") == "Ready" and entry.get("status") == "True" for entry in conditions)
        note = _part(meta, "annotations").get(NOTE)
        name = str(meta.get("name"))
        found[name] = Node(
            name, str(meta.get("resourceVersion")), bool(spec.get("unschedulable")), ready, None if note is None else str(note))
    return found


def parse_pods(text: str) -> List[Pod]:
    """What holds a node: not what has ended, not the kubelet's own pods, not those of a DaemonSet, which would come again at once."""
    found: List[Pod] = []
    for item in _items(text, "pods"):
        meta = _part(item, "metadata")
        owners = [owner for owner in rows(meta.get("ownerReferences")) if owner.get("controller")]
        kind = str(owners[0].get("kind")) if owners else ""
        if kind == "DaemonSet" or MIRROR in _part(meta, "annotations") or _part(item, "status").get("phase") in OVER:
            continue
        leaving = bool(meta.get("deletionTimestamp"))
        found.append(Pod(str(meta.get("namespace")), str(meta.get("name")), str(meta.get("uid")), kind, leaving))
    return found


def _items(text: str, what: str) -> List[Dict[str, Any]]:
    try:
        items = mapping(read_json(text)).get("items")
    except ValueError:
        items = None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise SchedulerError("kubectl get %s answered with what is no list of them: %r" % (what, text[:200]))
    return items


def _part(item: Dict[str, Any], name: str) -> Dict[str, Any]:
    return mapping(item.get(name))


def judge(node: Node, pods: Sequence[Pod]) -> NodeState:
    """The node in words that all schedulers share. ``pods`` are those that hold it."""
    empty = not pods
    state = state_of(down=not node.ready, closed=node.closed, empty=empty)
    by = None if not node.closed and node.ready else "us" if node.closed and is_given_back(node.note) else "other"
    reason = node.note or ("cordoned" if node.closed else None if node.ready else "not Ready")
    raw = ("Ready" if node.ready else "NotReady") + (",SchedulingDisabled" if node.closed else "")
    return NodeState("kubernetes", node.name, state, tuple(pod.path for pod in pods), tuple(_words(pod) for pod in pods),
                     reason, by, None, raw, node.closed, empty)


def is_given_back(note: Optional[str]) -> bool:
    """Whether the cordon is ours to lift."""
    return whose(note) == "us" and not (note or "").endswith(WAS_DOWN)


def _words(pod: Pod) -> str:
    why = "is ending" if pod.leaving else "is evicted" if pod.kind in MOVABLE else "is waited for: nothing would start it again elsewhere"
    return "pod %s (%s) %s" % (pod.path, "of a " + pod.kind if pod.kind else "without a controller", why)


def inspect_nodes(host: Host, names: Sequence[str]) -> List[NodeState]:
    """Every node, in the order of ``names``. Pods are asked for where the node is closed: what runs on the others decides nothing."""
    nodes = _nodes(host)
    return [judge(nodes[name], _pods(host, name) if nodes[name].closed else []) if name in nodes else not_there("kubernetes", name, nodes)
            for name in names]


def drain(host: Host, names: Sequence[str], reason: str) -> Tuple[List[NodeState], bool]:
    """Cordon, and ask for the eviction of what may be evicted. Asked again, it goes on where it stands."""
    return close(host, dict.fromkeys(names, reason), evict=True)


def close(host: Host, reasons: Mapping[str, str], *, evict: bool = False) -> Tuple[List[NodeState], bool]:
    """Cordon. Without ``evict`` every pod stays where it runs."""
    nodes = _nodes(host)
    refused: Dict[str, str] = {}
    changed = False
    for name in sorted(set(reasons) & set(nodes)):
        note = _wanted_note(nodes[name], reasons[name])
        if note is not None:
            said = _patch(host, nodes[name], True, note)
            if said is not None:
                refused[name] = said
                continue
            changed = True
        changed = (evict and _evict_all(host, _pods(host, name), refused, name)) or changed
    return [item._replace(message=refused.get(item.node, item.message)) for item in inspect_nodes(host, list(reasons))], changed


def _wanted_note(node: Node, reason: str) -> Optional[str]:
    """The note to cordon the node with; None where it is cordoned already. An earlier upgrade's cordon becomes this run's."""
    if node.closed:
        return reason if whose(reason) == "us" and is_given_back(node.note) and not is_of_run(node.note, reason) else None
    return reason if node.ready else reason + WAS_DOWN


def undrain(host: Host, names: Sequence[str], reason: str) -> Tuple[List[NodeState], bool]:
    """Let pods come again to what this very run has cordoned; a node that is not Ready waits until it is.

    Where somebody else has lifted the cordon its note goes: the next cordon would be taken for ours.
    """
    orders = {
        name: partial(_patch, host, node, closed=False, note=None) for name, node in _nodes(host).items()
        if name in names and is_of_run(node.note, reason) and (not node.closed or (node.ready and is_given_back(node.note)))}
    return carry_out(orders, lambda: inspect_nodes(host, names))


def _patch(host: Host, node: Node, closed: bool, note: Optional[str]) -> Optional[str]:
    """Cordon or uncordon, and the note, in one request that fails if the node has changed since it was read. None, or why not."""
    version = node.version
    for _again in range(TRIES):
        patch = {"metadata": {"resourceVersion": version, "annotations": {NOTE: note}}, "spec": {"unschedulable": closed or None}}
        # The name is one that the API server has listed: it begins with a letter or a digit.
        answer = host.run((tool(host, "kubectl", "kubernetes"), "patch", "node", node.name, "--type=merge", "--patch",
                           json.dumps(patch, sort_keys=True)), SECONDS)
        if answer.ok or "(Conflict)" not in answer.err:
            break
        # Its kubelet writes the node's status all the time. Where somebody else closed or opened it, the next inspection decides anew.
        fresh = _nodes(host).get(node.name)
        if fresh is None or (fresh.closed, fresh.note) != (node.closed, node.note):
            break
        version = fresh.version
    return None if answer.ok else "Kubernetes refused to %s %s: %s" % (
        "cordon" if closed else "uncordon", node.name, last_line(answer.err.strip() or answer.out))


def _evict_all(host: Host, pods: Sequence[Pod], refused: Dict[str, str], name: str) -> bool:
    """Ask for the eviction of every pod that starts again elsewhere. Whether one was granted."""
    granted = False
    for pod in pods:
        if pod.leaving or pod.kind not in MOVABLE:
            continue
        answer = _evict(host, pod)
        granted = granted or answer.ok
        if not (answer.ok or answer.rc == 124 or re.search(r"\((TooManyRequests|NotFound|Conflict)\)", answer.err)):
            refused[name] = "Kubernetes refused to evict pod %s: %s" % (pod.path, last_line(answer.err.strip() or answer.out))
    return granted


def _evict(host: Host, pod: Pod) -> Result:
    """With the pod's uid: another pod may have its name by now."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": pod.namespace, "name": pod.name},
            "deleteOptions": {"preconditions": {"uid": pod.uid}}}
    path = "/api/v1/namespaces/%s/pods/%s/eviction" % (pod.namespace, pod.name)
    return host.run((tool(host, "kubectl", "kubernetes"), "create", "--raw", path, "--filename", "-"), SECONDS, json.dumps(body))


def _nodes(host: Host) -> Dict[str, Node]:
    return parse_nodes(ask(host, "kubernetes", ("kubectl", "get", "nodes", "--output=json"), "kubectl get nodes", _AWAY))


def _pods(host: Host, name: str) -> List[Pod]:
    argv = ("kubectl", "get", "pods", "--all-namespaces", "--field-selector=spec.nodeName=" + name, "--output=json")
    return parse_pods(ask(host, "kubernetes", argv, "kubectl get pods", _AWAY))


def inspect_job(host: Host, job: str) -> Dict[str, Any]:
    """The pods of a job (NAMESPACE/NAME) and their nodes: a Job's, or what Kubeflow's trainer or Volcano labels. Raises SchedulerError."""
    namespace, _slash, name = job.rpartition("/")
    argv = ("kubectl", "get", "pods", "--namespace=" + (namespace or "default"), "--output=json")
    found = [item for item in _items(ask(host, "kubernetes", argv, "kubectl get pods", _AWAY), "pods")
             if name in [_part(_part(item, "metadata"), "labels").get(label) for label in JOB_LABELS]]
    if not found:
        raise SchedulerError("Kubernetes has no pod of job %s in namespace %s" % (name, namespace or "default"))
    live = [item for item in found if _part(item, "status").get("phase") not in OVER]
    nodes = _nodes(host)
    names = sorted({str(_part(item, "spec")["nodeName"]) for item in live if _part(item, "spec").get("nodeName")})
    return {"id": job, "state": "RUNNING" if live else "COMPLETED", "uid": None, "nodes": [
        {"name": node, "down": node not in nodes or not nodes[node].ready,
         "raw": "Ready" if node in nodes and nodes[node].ready else "NotReady"} for node in names],
        "pods": [str(_part(item, "metadata").get("uid")) for item in live]}
