# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/awx.md and docs/examples/awx: the surveys are what AWX's API takes, and ask for what our playbooks read, with exactly our choices.

Nothing here is run by an AWX: there is none. Its rules are those by which its API judges a survey that is sent to it.
"""

import json
import re
from typing import Any

import pytest

import repo
from ansible_collections.railwright.rdma.plugins.module_utils.types import DISRUPTIONS, SEVERITIES
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import BY_NAME

PLACE = "docs/examples/awx/"
PAGE = repo.text("docs/awx.md")
PULL = "docs/examples/scheduling/pull.yml"
# By playbook the survey, "" for none.
TEMPLATES = dict(re.findall(r"^\| railwright \w+ \| `(\S+)` \| (?:none|\[(\S+)\].*?) \|", PAGE, re.MULTILINE))
SURVEYS = ["survey-remediate.json", "survey-site.json"]
OF_A_QUESTION = {"question_name": str, "question_description": str, "variable": str, "type": str, "required": bool}
TYPES = {"text", "multiplechoice", "multiselect"}  # of AWX's, those that are used


def survey(name: str) -> dict[str, Any]:
    return dict(json.loads(repo.text(PLACE + name)))


def questions() -> list[tuple[str, dict[str, Any]]]:
    """(survey, question), of all surveys."""
    return [(name, question) for name in SURVEYS for question in survey(name)["spec"]]


def read_by(playbook: str) -> str:
    """The text of the playbooks that a file of the project runs, with those that they import and the roles' tasks that they include."""
    source = PULL if playbook == "pull.yml" else PLACE + playbook
    names = [play["ansible.builtin.import_playbook"] for play in repo.read_yaml(source) if "ansible.builtin.import_playbook" in play]
    assert names
    assert all(name.startswith("railwright.rdma.") for name in names)
    texts = [repo.text(f"playbooks/{name.removeprefix('railwright.rdma.')}.yml") for name in names]
    inner = re.findall(r"import_playbook: railwright\.rdma\.(\w+)", "".join(texts))
    return "".join([*texts, *(repo.text(f"playbooks/{name}.yml") for name in inner)])


def test_the_page_names_every_file() -> None:
    files = {name.removeprefix(PLACE) for name in repo.files() if name.startswith(PLACE)}
    assert set(re.findall(r"\]\(examples/awx/([^)]+)\)", PAGE)) == files
    assert f"]({PULL.removeprefix('docs/')})" in PAGE


def test_each_templates_playbook_is_there_and_so_is_what_it_runs() -> None:
    assert list(TEMPLATES) == ["site.yml", "pull.yml", "remediate.yml"]
    assert sorted(filter(None, TEMPLATES.values())) == SURVEYS
    assert all(read_by(playbook) for playbook in TEMPLATES)


@pytest.mark.parametrize("name", SURVEYS)
def test_awx_takes_the_survey(name: str) -> None:
    document = survey(name)
    assert {key: type(value) for key, value in document.items()} == {"name": str, "description": str, "spec": list}
    variables = [question["variable"] for question in document["spec"]]
    assert variables
    assert len(set(variables)) == len(variables)
    for question in document["spec"]:
        assert {key: type(question[key]) for key in OF_A_QUESTION} == OF_A_QUESTION
        assert question["type"] in TYPES
        assert all(isinstance(question.get(key, 0), int) for key in ("min", "max"))
        if question["type"] != "text":
            assert set(question.get("default", "").split()) <= set(question["choices"].split("\n"))


@pytest.mark.parametrize(("name", "question"), questions(), ids=lambda item: item if isinstance(item, str) else item["variable"])
def test_a_survey_asks_for_what_its_playbook_reads(name: str, question: dict[str, Any]) -> None:
    """A key of the inventory, with its form; else a variable that the playbook's page has."""
    variable, playbook = question["variable"], next(item for item in TEMPLATES if TEMPLATES[item] == name)
    key = BY_NAME.get(variable)
    if key is None:
        assert re.search(rf"\b{variable}\b", read_by(playbook))
        assert f"-e {variable}=" in repo.text("docs/remediate.md")
    else:
        assert question["choices"].split("\n") == list(key.choices)
        assert (question["type"] == "multiselect") == (key.type == "list")
        assert question.get("default", "") == (key.default or "")


def test_consent_is_asked_for_in_exactly_our_classes() -> None:
    asked = [question["choices"].split("\n") for _name, question in questions() if question["variable"] == "rdma_consent"]
    assert asked == [[name for name in DISRUPTIONS if name != "none"]] * len(SURVEYS)


def test_severities_are_ours() -> None:
    (asked,) = [question["choices"] for _name, question in questions() if question["variable"] == "rdma_remediate_severity"]
    assert asked.split("\n") == list(SEVERITIES)


def test_drift_is_scheduled_every_hour() -> None:
    schedule = json.loads(repo.text(PLACE + "schedule-drift.json"))
    assert re.fullmatch(r"DTSTART:\d{8}T\d{6}Z RRULE:FREQ=HOURLY;INTERVAL=1", schedule["rrule"])
    assert schedule["enabled"] is True
    assert isinstance(schedule["name"], str)
