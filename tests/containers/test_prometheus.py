# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/examples/prometheus with Debian's Prometheus and node_exporter: two nodes are scraped, a flap fires its alert, every query runs.

Each node's agent looks at a captured tree, once at a time, with the node's own Python; a link of the tree goes down.
Prometheus is on the first node.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

import harness
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.nobody import nobodys_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.check_modes import NODE_CODES
from harness import Container
from node_trees import NODES, ROOT
from railwright.drift import as_prometheus, verdicts_as_prometheus

PLACE = "docs/examples/prometheus"
TREE, TEXTFILE = "/srv/tree", "/var/lib/prometheus/node-exporter"
TREES = {"gpu001": "doca8", "gpu002": "ib8"}
AGENT = f"""
import json, sys, time
sys.path.insert(0, "/opt/source/.dev")
from ansible_collections.railwright.rdma.plugins.module_utils.agent.service import Agent, Settings
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
given = json.load(sys.stdin)
settings = Settings("observe", given["values"], 3, "{TEXTFILE}", checks=dict(enforced=given["enforced"]))
Agent(TreeHost("{TREE}"), settings).whole(time.time())
Agent(TreeHost("{TREE}"), settings).minute(time.time())
"""
FETCH = """
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen("http://127.0.0.1:9090" + sys.argv[1], timeout=20).read().decode())
except urllib.error.HTTPError as error:
    print(error.read().decode())
"""
CONFIGURATION = """
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [/srv/railwright.rules.yml]
scrape_configs:
  - job_name: node
    static_configs: [{targets: [TARGETS], labels: {leaf: leaf1}}]
"""
NETDEV = "ens10np0"
FINDING = {"severity": "critical", "area": "network"}


class Site:
    """Two nodes, the first with Prometheus."""

    def __init__(self, nodes: dict[str, Container]) -> None:
        self.nodes = nodes
        self.up = 86400.0

    def prepare(self) -> None:
        for name, node in self.nodes.items():
            node.run("cp", "-a", f"/opt/source/{(NODES / TREES[name]).relative_to(ROOT)}", TREE)
            node.write(f"{TREE}/proc/sys/kernel/hostname", name + "\n")
            node.write("/etc/default/prometheus-node-exporter", f'ARGS="--collector.textfile.directory={TREE}{TEXTFILE}"\n')
            self.put(node, carrier_down_count=1)
            self.look(node)
            node.run("systemctl", "restart", "prometheus-node-exporter")
        first = next(iter(self.nodes.values()))
        answers = {"gpu001": {"status": "ok", "findings": [FINDING]}, "gpu002": {"status": "unreachable"}}
        verdicts = [{"node": "gpu001", "check": "gpu.ecc", "status": "pass"}]
        first.write(f"{TREE}{TEXTFILE}/railwright.prom", as_prometheus(answers, time.time()))
        first.write(f"{TREE}{TEXTFILE}/railwright-check.prom", verdicts_as_prometheus(answers, verdicts, time.time()))
        rules = (ROOT / PLACE / "railwright.rules.yml").read_text(encoding="utf-8")
        first.write("/srv/railwright.rules.yml", rules.replace("interval: 1m", "interval: 1s"))
        targets = ", ".join(f'"{node.address()}:9100"' for node in self.nodes.values())
        first.write("/srv/prometheus.yml", CONFIGURATION.replace("TARGETS", targets))
        first.run("systemd-run", "--unit=server", "prometheus", "--config.file=/srv/prometheus.yml", "--storage.tsdb.path=/srv/series")

    def put(self, node: Container, carrier_down_count: int) -> None:
        node.write(f"{TREE}/sys/class/net/{NETDEV}/carrier_down_count", f"{carrier_down_count}\n")

    def look(self, node: Container) -> None:
        self.up += 60
        node.write(f"{TREE}/proc/uptime", f"{self.up:.2f} 0.00\n")
        node.write(f"{TREE}/proc/sys/kernel/random/boot_id", "boot-1\n")
        node.run("python3", "-c", AGENT, stdin=json.dumps({"values": nobodys_spec().as_dict(), "enforced": NODE_CODES}))

    def ask(self, path: str, **parameters: str) -> Any:
        first = next(iter(self.nodes.values()))
        answer = first.json("python3", "-c", FETCH, f"/api/v1/{path}?{urlencode(parameters)}")
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return rows

    def firing(self, alert: str) -> list[dict[str, Any]]:
        return [row for row in self.ask("alerts")["alerts"] if row["labels"]["alertname"] == alert and row["state"] == "firing"]


def until(what: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it has not come"
        time.sleep(0.5)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    masked = tmp_path_factory.mktemp("unit") / "empty"  # of Debian's unit, which needs more than a container has
    masked.touch()
    options = ("-v", f"{ROOT}:/opt/source:ro", "-v", f"{masked}:/etc/systemd/system/prometheus.service:ro")
    image = harness.build(("prometheus", "prometheus-node-exporter"))
    nodes: dict[str, Container] = {}
    try:
        for name in TREES:
            nodes[name] = harness.start(image, f"railwright-{name}", options=options)
        made = Site(nodes)
        made.prepare()
        server = nodes["gpu001"]
        until(lambda: server.run("python3", "-c", FETCH, "/-/ready", check=False).returncode == 0)
        until(lambda: len(made.query("railwright_agent_last_look_timestamp_seconds")) == 2)
        yield made
    finally:
        for node in nodes.values():
            node.remove()


def test_promtool_takes_the_rules_and_their_tests(site: Site) -> None:
    for argv in (("check", "rules", "railwright.rules.yml"), ("test", "rules", "railwright.rules.test.yml")):
        site.nodes["gpu001"].run("sh", "-c", f'cd /opt/source/{PLACE} && exec promtool "$@"', "sh", *argv)


def test_promtool_finds_no_fault_with_the_metrics(site: Site) -> None:
    for node in site.nodes.values():
        files = node.out("sh", "-c", f"ls {TREE}{TEXTFILE}/*.prom").split()
        assert files
        for path in files:
            done = node.run("promtool", "check", "metrics", stdin=node.out("cat", path))
            assert (done.stdout, done.stderr) == ("", ""), path


def test_two_nodes_are_scraped(site: Site) -> None:
    rows = site.query("railwright_agent_refuses_jobs")
    assert {(row["metric"]["node"], row["metric"]["leaf"], row["metric"]["why"]) for row in rows} == {
        (node, "leaf1", why) for node in TREES for why in ("node", "shared")}
    assert site.query("node_textfile_scrape_error > 0") == []
    assert site.query("railwright_drift_findings > 0")


def test_no_rule_fails(site: Site) -> None:
    until(lambda: all(rule["lastEvaluation"][:4] != "0001" for group in site.ask("rules")["groups"] for rule in group["rules"]))
    groups = site.ask("rules")["groups"]
    assert sum(len(group["rules"]) for group in groups) > 15
    assert [(rule["name"], rule.get("lastError")) for group in groups for rule in group["rules"] if rule["health"] != "ok"] == []


def queries() -> list[str]:
    """Of the dashboard, with Grafana's own variables put in."""
    board = json.loads((ROOT / PLACE / "railwright.dashboard.json").read_text(encoding="utf-8"))
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [query.replace("$node", ".*").replace("$__rate_interval", "4m") for query in found]


def test_every_query_of_the_dashboard_runs(site: Site) -> None:
    now = time.time()
    assert queries()
    for query in queries():
        assert "$" not in query
        site.query(query)
        site.ask("query_range", query=query, start=str(now - 60), end=str(now), step="15")


def test_the_dashboard_finds_the_names_of_the_nodes(site: Site) -> None:
    board = json.loads((ROOT / PLACE / "railwright.dashboard.json").read_text(encoding="utf-8"))
    (query,) = [item["definition"] for item in board["templating"]["list"] if item["name"] == "node"]
    found = re.fullmatch(r"label_values\((\w+), (\w+)\)", query)
    assert found is not None
    assert site.ask(f"label/{found[2]}/values", **{"match[]": found[1]}) == sorted(TREES)


def test_an_injected_flap_fires_its_alert(site: Site) -> None:
    node = site.nodes["gpu001"]
    assert site.firing("RailwrightPortFlaps") == []
    assert site.firing("RailwrightPortFlapped") == []
    site.put(node, carrier_down_count=2)
    site.look(node)
    until(lambda: bool(site.firing("RailwrightPortFlapped")))
    site.put(node, carrier_down_count=4)
    site.look(node)
    until(lambda: bool(site.firing("RailwrightPortFlaps")))
    (alert,) = site.firing("RailwrightPortFlaps")
    assert {name: alert["labels"][name] for name in ("severity", "code", "node", "leaf")} == {
        "severity": "critical", "code": "port.flaps", "node": "gpu001", "leaf": "leaf1"}
    assert "(ens10np0) went down 3 times in 12 hours" in alert["annotations"]["summary"]
    assert alert["annotations"]["next"] == "railwright agent events gpu001"
    until(lambda: bool(site.firing("RailwrightNodeRefusesJobs")))
    (refuses,) = site.firing("RailwrightNodeRefusesJobs")
    assert "port.flaps mlx5_0 (ens10np0)" in refuses["annotations"]["summary"]
    assert "port.flaps" in refuses["annotations"]["summary"]
