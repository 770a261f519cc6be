# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the part of Kubernetes' API that a drain uses, by its documentation (API concepts, Eviction API): nothing was recorded.

``Cluster`` holds objects and answers requests: lists, merge patches with the check of resourceVersion, evictions with the 429 of a
PodDisruptionBudget. It starts and stops nothing by itself: what an eviction is granted for is gone when the test says so. ``Server``
speaks it over HTTP to a real kubectl; ``KubectlHost`` answers kubectl's command lines without one, in the words that kubectl was seen
to use (tests/integration/test_drain_kubectl.py asks the real one the same).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host, Result

Object = dict[str, Any]
MERGE = "application/merge-patch+json"


class Refused(Exception):
    """An answer of the API other than success: a Status object."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message

    def status(self) -> Object:
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message, "reason": self.reason,
                "code": self.code}


class Cluster:
    def __init__(self, *names: str) -> None:
        self.version = 100
        self.nodes: dict[str, Object] = {}
        self.pods: dict[tuple[str, str], Object] = {}
        self.budgets: set[str] = set()  # pods that a PodDisruptionBudget holds
        self.evicted: list[str] = []
        self.writes = 0
        self.meddle = 0  # so many patches meet another writer
        for name in names:
            self.nodes[name] = {
                "kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "resourceVersion": "1"}, "spec": {"podCIDR": "10.0.0.0/24"},
                "status": {"conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}]}}

    def pod(self, name: str, node: str, kind: str = "", *, phase: str = "Running", mirror: bool = False, uid: str = "") -> None:
        meta: Object = {"name": name, "namespace": "default", "uid": uid or f"uid-{name}", "resourceVersion": "1"}
        if kind:
            meta["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": "u", "controller": True}]
        if mirror:
            meta["annotations"] = {"kubernetes.io/config.mirror": "0123"}
        self.pods["default", name] = {
            "kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"nodeName": node}, "status": {"phase": phase}}

    def ready(self, node: str, status: str) -> None:
        self.nodes[node]["status"]["conditions"][1]["status"] = status

    def listed(self, kind: str, items: Sequence[Object]) -> Object:
        return {"kind": f"{kind}List", "apiVersion": "v1", "metadata": {"resourceVersion": str(self.version)}, "items": list(items)}

    def get_nodes(self) -> Object:
        return self.listed("Node", list(self.nodes.values()))

    def get_pods(self, node: str) -> Object:
        return self.listed("Pod", [pod for pod in self.pods.values() if pod["spec"]["nodeName"] == node])

    def node(self, name: str) -> Object:
        if name not in self.nodes:
            raise Refused(404, "NotFound", f'nodes "{name}" not found')
        return self.nodes[name]

    def patch(self, name: str, patch: Object) -> Object:
        node = self.node(name)
        if self.meddle:
            self.meddle -= 1
            self.touch(node)
        wanted = (patch.get("metadata") or {}).get("resourceVersion")
        if wanted is not None and wanted != node["metadata"]["resourceVersion"]:
            raise Refused(409, "Conflict", f'Operation cannot be fulfilled on nodes "{name}": the object has been modified; please apply '
                          "your changes to the latest version and try again")
        merge(node, patch)
        self.writes += 1
        self.touch(node)
        return node

    def touch(self, node: Object) -> None:
        self.version += 1
        node["metadata"]["resourceVersion"] = str(self.version)

    def evict(self, namespace: str, name: str, body: Object) -> Object:
        pod = self.pods.get((namespace, name))
        if pod is None:
            raise Refused(404, "NotFound", f'pods "{name}" not found')
        if (body["kind"], body["apiVersion"], body["metadata"]["name"]) != ("Eviction", "policy/v1", name):
            raise Refused(400, "BadRequest", "name in URL does not match name in Eviction object")
        uid = body.get("deleteOptions", {}).get("preconditions", {}).get("uid")
        if uid is not None and uid != pod["metadata"]["uid"]:
            raise Refused(409, "Conflict", f'Operation cannot be fulfilled on pods "{name}": Precondition failed: UID {uid}')
        if name in self.budgets:
            raise Refused(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")
        self.evicted.append(name)
        pod["metadata"]["deletionTimestamp"] = "2026-11-21T18:00:00Z"
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def merge(target: Object, patch: Object) -> None:
    """RFC 7386."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


class KubectlHost(Host):
    """kubectl's command lines, answered by a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.away = ""

    def which(self, tool: str) -> str | None:
        return f"/usr/bin/{tool}"

    def run(self, argv: Sequence[str], timeout: float = 30.0, stdin: str | None = None, limit: int = 0) -> Result:
        del timeout, limit
        if self.away:
            return Result(1, "", self.away)
        words = argv[1:]
        try:
            return Result(0, json.dumps(self.answer(words, stdin)), "")
        except Refused as error:
            return Result(1, "", f"Error from server ({error.reason}): {error.message}\n")

    def answer(self, words: Sequence[str], stdin: str | None) -> Object:
        if words[:2] == ("get", "nodes"):
            return self.cluster.get_nodes()
        if words[:3] == ("get", "pods", "--all-namespaces"):
            return self.cluster.get_pods(words[3].removeprefix("--field-selector=spec.nodeName="))
        if words[:2] == ("get", "pods"):
            namespace = words[2].removeprefix("--namespace=")
            return self.cluster.listed("Pod", [pod for (where, _name), pod in self.cluster.pods.items() if where == namespace])
        if words[0] == "patch":
            assert words[1] == "node"
            assert words[3] == "--type=merge"
            return self.cluster.patch(words[2], json.loads(words[5]))
        assert words[:2] == ("create", "--raw")
        _empty, _api, _v1, _namespaces, namespace, _pods, name, eviction = words[2].split("/")
        assert eviction == "eviction"
        return self.cluster.evict(namespace, name, json.loads(stdin or ""))


RESOURCES = [
    {"name": "nodes", "singularName": "node", "namespaced": False, "kind": "Node", "verbs": ["get", "list", "patch"]},
    {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get", "list"]},
    {"name": "pods/eviction", "singularName": "", "namespaced": True, "group": "policy", "version": "v1", "kind": "Eviction",
     "verbs": ["create"]}]


class Server(ThreadingHTTPServer):
    """The cluster over HTTP, on this machine's loopback alone."""

    daemon_threads = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.cluster = cluster

    def kubeconfig(self) -> str:
        return json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "double", "users": [{"name": "double", "user": {}}],
            "clusters": [{"name": "double", "cluster": {"server": f"http://127.0.0.1:{self.server_port}"}}],
            "contexts": [{"name": "double", "context": {"cluster": "double", "user": "double"}}]})


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_given: Any) -> None:
        """Nothing: a test says what was asked."""

    def do_GET(self) -> None:
        self.reply(self.get)

    def do_PATCH(self) -> None:
        self.reply(self.patch)

    def do_POST(self) -> None:
        self.reply(self.post)

    def reply(self, answer: Any) -> None:
        try:
            code, body = 200 if self.command != "POST" else 201, answer()
        except Refused as error:
            code, body = error.code, error.status()
        text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def get(self) -> Object:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        fixed: dict[str, Object] = {
            "/version": {"major": "1", "minor": "32", "gitVersion": "v1.32.0"},
            "/api": {"kind": "APIVersions", "versions": ["v1"]}, "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
            "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": RESOURCES}}
        if path in fixed:
            return fixed[path]
        if path == "/api/v1/nodes":
            return self.server.cluster.get_nodes()
        if path == "/api/v1/pods":
            return self.server.cluster.get_pods(query["fieldSelector"][0].removeprefix("spec.nodeName="))
        if path.startswith("/api/v1/nodes/"):
            return self.server.cluster.node(path.rpartition("/")[2])
        raise Refused(404, "NotFound", "the server could not find the requested resource")

    def patch(self) -> Object:
        body = self.body()
        if self.headers["Content-Type"] != MERGE:
            raise Refused(415, "UnsupportedMediaType", "not a merge patch")
        return self.server.cluster.patch(urlsplit(self.path).path.removeprefix("/api/v1/nodes/"), body)

    def post(self) -> Object:
        body = self.body()
        parts = urlsplit(self.path).path.split("/")
        return self.server.cluster.evict(parts[4], parts[6], body)

    def body(self) -> Object:
        """Of known length, or in chunks, which is how kubectl sends what it reads from its input."""
        if self.headers["Transfer-Encoding"] != "chunked":
            return dict(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        text = b""
        while size := int(self.rfile.readline(), 16):
            text += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return dict(json.loads(text))
