# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes' answers in the form that its documentation gives, none recorded; a real kubectl is asked in tests/integration."""

from __future__ import annotations

import json

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.scheduler import kubernetes
from ansible_collections.railwright.rdma.plugins.module_utils.scheduler.model import SchedulerAway, SchedulerError
from kubernetes_double import Cluster, KubectlHost

RUN = "railwright upgrade 20261121T180000Z-upgrade-1"
OLD = "railwright upgrade 20261101T080000Z-upgrade-9"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster("n1", "n2")


@pytest.fixture
def host(cluster: Cluster) -> KubectlHost:
    return KubectlHost(cluster)


def cordon(cluster: Cluster, name: str, note: str | None = None) -> None:
    cluster.patch(name, {"spec": {"unschedulable": True}, "metadata": {"annotations": {kubernetes.NOTE: note}}})


def test_documented_pods_that_hold_a_node(cluster: Cluster, host: KubectlHost) -> None:
    for kind in ("ReplicaSet", "StatefulSet", "Job", "PyTorchJob", ""):
        cluster.pod(f"of-{kind.lower() or 'nobody'}", "n1", kind)
    cluster.pod("of-daemonset", "n1", "DaemonSet")
    cluster.pod("static", "n1", "Node", mirror=True)
    cluster.pod("over", "n1", "Job", phase="Succeeded")
    cluster.pod("broken", "n1", "", phase="Failed")
    cluster.pod("elsewhere", "n2", "ReplicaSet")
    [found], changed = kubernetes.drain(host, ["n1"], RUN)
    assert changed
    assert (found.state, found.by, found.reason, found.raw) == ("draining", "us", RUN, "Ready,SchedulingDisabled")
    assert sorted(found.jobs) == [f"default/of-{owner}" for owner in ("job", "nobody", "pytorchjob", "replicaset", "statefulset")]
    assert sorted(cluster.evicted) == ["of-replicaset", "of-statefulset"], "a job is never ended"
    assert "pod default/of-job (of a Job) is waited for: nothing would start it again elsewhere" in found.holders
    assert "pod default/of-replicaset (of a ReplicaSet) is ending" in found.holders


def test_a_job_that_ends_leaves_the_node_drained(cluster: Cluster, host: KubectlHost) -> None:
    cluster.pod("train", "n1", "Job")
    assert kubernetes.drain(host, ["n1"], RUN)[0][0].done is False
    cluster.pods["default", "train"]["status"]["phase"] = "Succeeded"
    [found], changed = kubernetes.drain(host, ["n1"], RUN)
    assert (found.state, found.done, changed) == ("drained", True, False)


def test_documented_refusal_of_a_disruption_budget_is_asked_again(cluster: Cluster, host: KubectlHost) -> None:
    cluster.pod("web", "n1", "ReplicaSet")
    cluster.budgets.add("web")
    [found], _changed = kubernetes.drain(host, ["n1"], RUN)
    assert (found.state, found.message, cluster.evicted) == ("draining", None, [])
    cluster.budgets.clear()
    kubernetes.drain(host, ["n1"], RUN)
    kubernetes.drain(host, ["n1"], RUN)
    assert cluster.evicted == ["web"], "once: its deletion has begun"


def test_an_eviction_that_is_forbidden_is_said(cluster: Cluster, host: KubectlHost, monkeypatch: pytest.MonkeyPatch) -> None:
    from kubernetes_double import Refused

    def forbidden(*_given: object) -> None:
        raise Refused(403, "Forbidden", 'pods "web" is forbidden: User "alice" cannot create resource "pods/eviction"')

    cluster.pod("web", "n1", "ReplicaSet")
    monkeypatch.setattr(cluster, "evict", forbidden)
    [found], _changed = kubernetes.drain(host, ["n1"], RUN)
    assert str(found.message).startswith("Kubernetes refused to evict pod default/web: Error from server (Forbidden): ")


def test_a_new_pod_of_the_same_name_is_not_evicted_in_its_place(cluster: Cluster, host: KubectlHost) -> None:
    cluster.pod("web", "n1", "StatefulSet")
    pods = kubernetes.parse_pods(json.dumps(cluster.get_pods("n1")))
    cluster.pod("web", "n2", "StatefulSet", uid="another")
    refused: dict[str, str] = {}
    assert kubernetes._evict_all(host, pods, refused, "n1") is False
    assert (cluster.evicted, refused) == ([], {})


def test_cordon_and_note_are_one_write(cluster: Cluster, host: KubectlHost) -> None:
    kubernetes.drain(host, ["n1"], RUN)
    assert cluster.writes == 1
    assert cluster.nodes["n1"]["spec"] == {"podCIDR": "10.0.0.0/24", "unschedulable": True}
    assert cluster.nodes["n1"]["metadata"]["annotations"] == {kubernetes.NOTE: RUN}
    [found], changed = kubernetes.undrain(host, ["n1"], RUN)
    assert (found.state, found.by, changed, cluster.writes) == ("available", None, True, 2)
    assert cluster.nodes["n1"]["spec"] == {"podCIDR": "10.0.0.0/24"}
    assert cluster.nodes["n1"]["metadata"]["annotations"] == {}


def test_a_write_of_the_kubelet_in_between_is_no_refusal(cluster: Cluster, host: KubectlHost) -> None:
    cluster.meddle = 2
    [found], changed = kubernetes.drain(host, ["n1"], RUN)
    assert (found.done, found.message, changed) == (True, None, True)
    cluster.meddle = 99
    [found], changed = kubernetes.drain(host, ["n2"], RUN)
    assert str(found.message).startswith("Kubernetes refused to cordon n2: Error from server (Conflict): ")
    assert changed is False


def test_somebody_else_who_cordons_in_between_keeps_the_node(cluster: Cluster, host: KubectlHost) -> None:
    old = kubernetes.parse_nodes(json.dumps(cluster.get_nodes()))["n1"]
    cordon(cluster, "n1")
    said = kubernetes._patch(host, old, closed=True, note=RUN)
    assert "Conflict" in str(said)
    assert kubernetes.inspect_nodes(host, ["n1"])[0].by == "other"


def test_what_others_cordoned_stays_theirs(cluster: Cluster, host: KubectlHost) -> None:
    cordon(cluster, "n1")
    [found], _changed = kubernetes.drain(host, ["n1"], RUN)
    assert (found.done, found.by, found.reason) == (True, "other", "cordoned")
    assert kubernetes.undrain(host, ["n1"], RUN)[1] is False
    assert cluster.nodes["n1"]["spec"]["unschedulable"] is True


def test_the_cordon_of_an_upgrade_that_failed_becomes_this_ones(cluster: Cluster, host: KubectlHost) -> None:
    cordon(cluster, "n1", OLD)
    assert kubernetes.undrain(host, ["n1"], RUN)[1] is False
    assert kubernetes.drain(host, ["n1"], RUN)[0][0].reason == RUN
    assert kubernetes.undrain(host, ["n1"], RUN)[0][0].state == "available"


def test_the_note_goes_where_somebody_else_has_lifted_our_cordon(cluster: Cluster, host: KubectlHost) -> None:
    """Left there, the next cordon by anybody would be taken for ours."""
    kubernetes.drain(host, ["n1"], RUN)
    del cluster.nodes["n1"]["spec"]["unschedulable"]
    [found], changed = kubernetes.undrain(host, ["n1"], RUN)
    assert (found.state, changed) == ("available", True)
    cordon(cluster, "n1")
    assert kubernetes.drain(host, ["n1"], OLD)[0][0].by == "other"


def test_a_node_that_was_down_is_closed_and_not_given_back(cluster: Cluster, host: KubectlHost) -> None:
    cluster.ready("n1", "Unknown")
    assert kubernetes.inspect_nodes(host, ["n1"])[0].state == "down"
    [found], _changed = kubernetes.drain(host, ["n1"], RUN)
    assert (found.state, found.done, found.by) == ("down", True, "other")
    cluster.ready("n1", "True")
    [found], changed = kubernetes.undrain(host, ["n1"], RUN)
    assert (found.state, found.by, changed) == ("drained", "other", False)


def test_a_node_of_ours_that_is_not_ready_waits(cluster: Cluster, host: KubectlHost) -> None:
    kubernetes.drain(host, ["n1"], RUN)
    cluster.ready("n1", "False")
    [found], changed = kubernetes.undrain(host, ["n1"], RUN)
    assert (found.state, found.closed, found.by, changed) == ("down", True, "us", False)


@pytest.mark.parametrize("name", ["n3", "--all", "n1,n2", "n1/status", ""])
def test_a_name_that_is_not_listed_is_never_given_to_kubectl(cluster: Cluster, host: KubectlHost, name: str) -> None:
    for step in (kubernetes.drain, kubernetes.undrain):
        [found], changed = step(host, [name], RUN)
        assert f"Kubernetes has no node {name}; it has n1, n2. Set upgrade_node_name" in str(found.message)
        assert changed is False
    assert cluster.writes == 0


@pytest.mark.parametrize(("said", "kind"), [
    ("The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?", SchedulerAway),
    ("Unable to connect to the server: net/http: TLS handshake timeout", SchedulerAway),
    ("error: You must be logged in to the server (Unauthorized)", SchedulerError)])
def test_no_answer(host: KubectlHost, said: str, kind: type[SchedulerError]) -> None:
    host.away = said
    with pytest.raises(SchedulerError) as caught:
        kubernetes.drain(host, ["n1"], RUN)
    assert type(caught.value) is kind
    assert str(caught.value) == f"kubectl get nodes failed: {said}"


@pytest.mark.parametrize("text", ["", "No resources found", "[]", '{"items": 3}', '{"items": ["n1"]}'])
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(SchedulerError, match="no list of them"):
        kubernetes.parse_nodes(text)


SLOW = "railwright isolate 20261121T200000Z-isolate-1: rail2 41 of 392 Gb/s with 3 partners"


def test_a_search_cordons_and_evicts_nothing(cluster: Cluster, host: KubectlHost) -> None:
    cluster.pod("web", "n1", "ReplicaSet")
    [found], changed = kubernetes.close(host, {"n1": SLOW})
    assert (changed, found.state, found.reason, found.jobs, cluster.evicted) == (True, "draining", SLOW, ("default/web",), [])
    assert cluster.nodes["n1"]["metadata"]["annotations"] == {kubernetes.NOTE: SLOW}
    assert kubernetes.close(host, {"n1": SLOW})[1] is False


@pytest.mark.parametrize("note", [RUN, "railwright isolate 1: node hangs with 3 partners", None])
def test_a_search_takes_over_no_cordon(cluster: Cluster, host: KubectlHost, note: str | None) -> None:
    cordon(cluster, "n1", note)
    [found], changed = kubernetes.close(host, {"n1": SLOW})
    assert (changed, found.closed, found.reason) == (False, True, note or "cordoned")


def test_no_upgrade_lifts_the_cordon_of_a_search(cluster: Cluster, host: KubectlHost) -> None:
    cluster.ready("n2", "False")
    for name in ("n1", "n2"):
        kubernetes.close(host, {name: SLOW})
        kubernetes.drain(host, [name], RUN)
        cluster.ready(name, "True")
        [found], changed = kubernetes.undrain(host, [name], RUN)
        assert (changed, found.closed, str(found.reason)[:len(SLOW)], found.by) == (False, True, SLOW, "other")


def test_a_volcano_job_is_found_and_waited_for(cluster: Cluster, host: KubectlHost) -> None:
    """Its pods have a controller of kind Job, of another API group, and a label of Volcano's own: no eviction ends them."""
    cluster.pod("train-worker-0", "n1", "Job")
    meta = cluster.pods["default", "train-worker-0"]["metadata"]
    meta["ownerReferences"][0]["apiVersion"] = "batch.volcano.sh/v1alpha1"
    meta["labels"] = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "default", "volcano.sh/queue-name": "gpus"}
    assert kubernetes.inspect_job(host, "default/train")["pods"] == ["uid-train-worker-0"]
    [found], _changed = kubernetes.drain(host, ["n1"], RUN)
    assert cluster.evicted == []
    assert found.holders == ("pod default/train-worker-0 (of a Job) is waited for: nothing would start it again elsewhere",)


@pytest.mark.parametrize("label", kubernetes.JOB_LABELS)
def test_where_a_job_runs(cluster: Cluster, host: KubectlHost, label: str) -> None:
    for name, node in (("llm-0", "n1"), ("llm-1", "n2"), ("llm-2", "n2"), ("other", "n1")):
        cluster.pod(name, node, "Job", phase="Failed" if name == "llm-2" else "Running")
        cluster.pods["default", name]["metadata"]["labels"] = {label: name.partition("-")[0]}
    cluster.ready("n2", "Unknown")
    found = kubernetes.inspect_job(host, "llm")
    assert (found["pods"], found["state"]) == (["uid-llm-0", "uid-llm-1"], "RUNNING")
    assert [(node["name"], node["down"]) for node in found["nodes"]] == [("n1", False), ("n2", True)]
    with pytest.raises(SchedulerError, match="no pod of job llm in namespace elsewhere"):
        kubernetes.inspect_job(host, "elsewhere/llm")
