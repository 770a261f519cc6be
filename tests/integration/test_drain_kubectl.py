# SPDX-License-Identifier: GPL-3.0-or-later
"""A real kubectl against a stand-in for the API server: command lines, patches, evictions and the words of its errors.

The server is ours and speaks what the API's documentation says (tests/lib/kubernetes_double.py); a cluster it is not.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler import kubernetes
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.model import SchedulerAway
from kubernetes_double import Cluster, Server

RUN = "railwright upgrade 20261121T180000Z-upgrade-1"

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl: Debian's kubernetes-client, or any other")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    made = Cluster("n1", "n2")
    server = Server(made)
    (tmp_path / "config").write_text(server.kubeconfig(), encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))  # its cache of what a server knows is for one server
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_node_is_cordoned_emptied_and_given_back(cluster: Cluster) -> None:
    host = Host()
    cluster.pod("web", "n1", "ReplicaSet")
    cluster.pod("train", "n1", "Job")
    cluster.pod("elsewhere", "n2", "ReplicaSet")
    cluster.budgets.add("web")
    [found], changed = kubernetes.drain(host, ["n1"], RUN)
    assert (found.state, found.by, found.reason, found.message, changed) == ("draining", "us", RUN, None, True)
    assert sorted(found.jobs) == ["default/train", "default/web"]
    assert cluster.evicted == []
    cluster.budgets.clear()
    kubernetes.drain(host, ["n1"], RUN)
    assert cluster.evicted == ["web"]
    cluster.pods.clear()
    assert kubernetes.inspect_nodes(host, ["n1", "n2"])[0].done is True
    [found], changed = kubernetes.undrain(host, ["n1"], RUN)
    assert (found.state, changed) == ("available", True)
    assert cluster.nodes["n1"]["metadata"]["annotations"] == {}
    assert "unschedulable" not in cluster.nodes["n1"]["spec"]


def test_its_words_for_what_the_server_refuses(cluster: Cluster) -> None:
    host = Host()
    cluster.meddle = 1
    assert kubernetes.drain(host, ["n1"], RUN)[0][0].done is True, "a conflict is asked again"
    cluster.meddle = 99
    [found], _changed = kubernetes.drain(host, ["n2"], RUN)
    assert "Kubernetes refused to cordon n2: Error from server (Conflict): Operation cannot be fulfilled" in str(found.message)
    cluster.pod("web", "n1", "ReplicaSet")
    pods = [kubernetes.Pod("default", name, uid, "ReplicaSet", leaving=False) for name, uid in (("gone", "x"), ("web", "another"))]
    for pod, reason in zip(pods, ("NotFound", "Conflict"), strict=True):
        answer = kubernetes._evict(host, pod)
        assert not answer.ok
        assert f"({reason})" in answer.err
    cluster.budgets.add("web")
    assert "(TooManyRequests)" in kubernetes._evict(host, pods[1]._replace(uid="uid-web")).err


def test_a_server_that_is_away(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    del cluster
    config = json.loads((tmp_path / "config").read_text(encoding="utf-8"))
    config["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:9"  # discard: nobody listens
    (tmp_path / "nobody").write_text(json.dumps(config), encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nobody"))
    with pytest.raises(SchedulerAway, match="kubectl get nodes failed"):
        kubernetes.inspect_nodes(Host(), ["n1"])
