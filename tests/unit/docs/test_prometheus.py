# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/examples/prometheus: every alert says what and what next, and what is asked for is what docs/agent.md says is there.

That Prometheus takes it all: tests/containers/test_prometheus.py.
"""

import json
import re
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

import repo
from ansible_collections.railwright.rdma.plugins.module_utils.agent.counters import DOWNS, GPU_KEPT, NAMES, Part
from ansible_collections.railwright.rdma.plugins.module_utils.agent.history import Moment
from ansible_collections.railwright.rdma.plugins.module_utils.agent.status import Report, metrics
from railwright.cli.main import build
from railwright.drift import as_prometheus, verdicts_as_prometheus

PLACE = "docs/examples/prometheus/"
PAGE = repo.text("docs/agent.md")
RULES: list[dict[str, Any]] = [rule for group in repo.read_yaml(PLACE + "railwright.rules.yml")["groups"] for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
BOARD: dict[str, Any] = json.loads(repo.text(PLACE + "railwright.dashboard.json"))
QUERIES = [*(rule["expr"] for rule in RULES), *(target["expr"] for panel in BOARD["panels"] for target in panel["targets"])]
METRIC = re.compile(r"(?:\w+:)?railwright_[\w:]+")
RECORDED = {rule["record"] for rule in RULES if "record" in rule}


def given() -> set[str]:
    """Names that the agent, drift and check write."""
    counters = dict.fromkeys((DOWNS, *NAMES), 1)
    parts = [Part("port a", "mlx5_0", None, counters), Part("gpu b", "GPU b", None, dict.fromkeys(GPU_KEPT, 1))]
    event = {"event": "xid", "device": "0000:27:00.0", "number": 79, "count": 1, "last": 5.0}
    finding = {"check": "gpu.xid", "subject": "GPU b", "part": "gpu b", "status": "warn", "known": None, "cured": None, "first": 1.0}
    texts = [metrics(Report("node", "observe", Moment(9.0, 8.0, "boot"), {"a": finding}, parts, {}, [event], "", 0)),
             as_prometheus({"node": {"status": "ok"}}, 1.0), verdicts_as_prometheus({"node": {"status": "ok"}}, [], 1.0)]
    return set(re.findall(r"^# TYPE (\S+)", "".join(texts), re.MULTILINE))


def test_the_page_names_every_file() -> None:
    files = {name.removeprefix(PLACE) for name in repo.files() if name.startswith(PLACE)}
    assert set(re.findall(r"\]\(examples/prometheus/([^)]+)\)", PAGE)) == files


def test_the_page_has_every_metric_and_no_other() -> None:
    table = re.findall(r"^\| `(railwright_\w+)` \|", PAGE, re.MULTILINE)
    forms = [re.compile(name.replace("NAME", r"\w+") + r"\Z") for name in table]
    assert [name for name in given() if not any(form.match(name) for form in forms)] == []
    assert [form.pattern for form in forms if not any(form.match(name) for name in given())] == []


@pytest.mark.parametrize("query", QUERIES)
def test_what_is_asked_for_is_there(query: str) -> None:
    asked = set(METRIC.findall(re.sub(r'"[^"]*"', "", query)))
    assert asked
    assert asked <= given() | RECORDED


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_names_code_node_and_next_command(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"].keys() == {"severity", "code"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"].keys() == {"node", "summary", "next"}
    assert name in PAGE
    code = rule["labels"]["code"]
    assert "{{" in code or f"`{code}`" in PAGE


def test_every_next_command_exists() -> None:
    group = typer.main.get_command(build())
    assert isinstance(group, TyperGroup)
    verbs = {rule["annotations"]["next"].split()[1] for rule in ALERTS.values() if rule["annotations"]["next"].startswith("railwright ")}
    assert verbs <= group.commands.keys()
    agent = group.commands["agent"]
    assert isinstance(agent, TyperGroup)
    assert set(re.findall(r"railwright agent (\w+)", repo.text(PLACE + "railwright.rules.yml"))) <= agent.commands.keys()


def test_every_alert_is_tried() -> None:
    tried = {case["alertname"] for test in repo.read_yaml(PLACE + "railwright.rules.test.yml")["tests"]
             for case in test.get("alert_rule_test", ()) if case["exp_alerts"]}
    assert tried == set(ALERTS)


def test_the_dashboard_is_one_that_grafana_can_import() -> None:
    assert BOARD["schemaVersion"] >= 36
    assert {item["name"]: item["type"] for item in BOARD["templating"]["list"]} == {"datasource": "datasource", "node": "query"}
    panels = BOARD["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    assert all(target["datasource"]["uid"] == "${datasource}" for panel in panels for target in panel["targets"])
    places = [(x, y) for panel in panels for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
              for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])]
    assert len(places) == len(set(places)), "two panels lie over each other"
    assert all(x < 24 for x, _y in places)
