# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/examples/scheduling under a real systemd: the timer fires, the service does its work inside its sandbox, OnFailure comes.

The program is this checkout with this environment's libraries, seen read-only by the container's own Python of the same release.
"""

import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness
from harness import Container

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / "docs" / "examples" / "scheduling"
PREFIX, UNITS = "/opt/railwright", "/etc/systemd/system"
SUITES = {(3, 11): "bookworm", (3, 13): "trixie"}  # Debian releases by their Python
PROGRAMS = {"railwright": "railwright.cli", "ansible": "ansible.cli.adhoc", "ansible-playbook": "ansible.cli.playbook",
            "ansible-pull": "ansible.cli.pull"}
SCRIPT = f"#!{PREFIX}/bin/python3\nimport sys\nfrom MODULE import main\nsys.exit(main())\n"
METRICS = "/var/lib/prometheus/node-exporter/railwright.prom"
RUN_SECONDS = 300
SITE = """all:
  vars: {rdma_fabric: roce, rdma_mtu: 9000, rdma_accept_eol: true, preflight_min_free_mb: 1, ansible_python_interpreter: /usr/bin/python3}
  children:
    rdma:
      hosts:
        NAME: {ansible_connection: local, ansible_become: false}
"""


@pytest.fixture(scope="module")
def node() -> Iterator[Container]:
    suite = SUITES.get(sys.version_info[:2])
    if suite is None:
        pytest.skip(f"no Debian release has Python {sys.version_info[0]}.{sys.version_info[1]}, whose libraries this environment holds")
    mounts = ("-v", f"{ROOT}:/opt/source:ro", "-v", f"{sysconfig.get_path('purelib')}:/opt/libraries:ro")
    container = harness.start(harness.build(("git",), suite), "railwright-schedules", options=mounts)
    try:
        install(container)
        yield container
    finally:
        container.remove()


def install(container: Container) -> None:
    container.run("python3", "-m", "venv", "--without-pip", PREFIX)
    place = container.out(f"{PREFIX}/bin/python3", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    container.write(f"{place}/source.pth", "/opt/source/src\n/opt/source/.dev\n/opt/libraries\n")
    for name, module in PROGRAMS.items():
        container.write(f"{PREFIX}/bin/{name}", SCRIPT.replace("MODULE", module), "0755")
    for path in PLACE.iterdir():
        if path.suffix in (".service", ".timer"):
            text = path.read_text(encoding="utf-8").replace("https://git.example.com/site.git", "/srv/site.git")
            container.write(f"{UNITS}/{path.name}", text)
    container.run("useradd", "--system", "--create-home", "--home-dir", "/srv/railwright", "railwright")
    container.run("install", "-d", "-o", "railwright", Path(METRICS).parent.as_posix())
    container.write("/srv/railwright/site/hosts.yml", SITE.replace("NAME", "node1"))


def ended(container: Container, unit: str) -> dict[str, str]:
    """Once it has: what systemd says of it."""
    names = ("ActiveState", "Result", "ExecMainStatus", "ExecMainExitTimestampMonotonic")
    deadline = time.monotonic() + RUN_SECONDS
    while time.monotonic() < deadline:
        shown = container.out("systemctl", "show", unit, *(f"--property={name}" for name in names))
        found = dict(line.split("=", 1) for line in shown.splitlines())
        if found["ActiveState"] in ("inactive", "failed") and found["ExecMainExitTimestampMonotonic"] != "0":
            return found
        time.sleep(0.5)
    raise AssertionError(f"{unit} has not ended after {RUN_SECONDS} s: {log(container, unit)}")


def log(container: Container, unit: str) -> str:
    return container.out("journalctl", "--no-pager", "--output=cat", "--unit", unit)


def test_the_timer_fires_and_drift_is_no_failure(node: Container) -> None:
    soon = node.out("date", "--date=30 seconds", "+%F %T").strip()
    node.write(f"{UNITS}/railwright-drift.timer.d/soon.conf", f"[Timer]\nOnCalendar=\nOnCalendar={soon}\nRandomizedDelaySec=0\n")
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "start", "railwright-drift.timer")  # and it stays: systemd forgets a unit that nothing refers to
    found = ended(node, "railwright-drift.service")
    said = log(node, "railwright-drift.service")
    assert (found["Result"], found["ExecMainStatus"], found["ActiveState"]) == ("success", "2", "inactive"), said
    written = node.out("cat", METRICS)
    assert 'railwright_drift_node_answered{node="node1",status="ok"} 1' in written
    assert 'railwright_drift_findings{node="node1",severity="major",area="packages"}' in written
    assert node.out("stat", "-c", "%U %a", METRICS).split() == ["railwright", "644"]
    assert node.out("find", "/var/lib/railwright-controller/railwright/runs", "-name", "*drift*").strip()
    assert node.run("find", "/srv/railwright", "-newer", METRICS, "-type", "f").stdout == "", "its home can be read and not written"


def test_a_run_that_fails_is_told_and_leaves_the_old_result(node: Container) -> None:
    before = node.out("stat", "-c", "%Y %i", METRICS)
    node.write("/srv/railwright/site/group_vars/all/site.yml", "rdma_mtu: huge\n")
    node.write("/srv/railwright/site/hosts.yml", SITE.replace("NAME", "node1").replace("rdma_mtu: 9000, ", ""))
    node.run("systemctl", "start", "railwright-drift.service", check=False, timeout=RUN_SECONDS)
    found = ended(node, "railwright-drift.service")
    assert (found["Result"], found["ExecMainStatus"], found["ActiveState"]) == ("exit-code", "64", "failed")
    deadline, told = time.monotonic() + 60, ""
    while not told and time.monotonic() < deadline:
        told = node.out("journalctl", "--quiet", "--no-pager", "--output=cat", "--identifier=railwright", "--priority=crit").strip()
    assert told == "railwright-drift.service failed; journalctl --unit railwright-drift.service says why"
    assert node.out("stat", "-c", "%Y %i", METRICS) == before


def test_a_node_that_pulls_its_site_fails_for_what_differs(node: Container) -> None:
    name = node.out("hostname").strip()
    git = ("git", "-C", "/srv/work", "-c", "user.name=site", "-c", "user.email=site@example.com")
    node.write("/srv/work/hosts.yml", SITE.replace("NAME", name))
    node.write("/srv/work/pull.yml", (PLACE / "pull.yml").read_text(encoding="utf-8"))
    for command in (("init", "--quiet", "--initial-branch=main"), ("add", "."), ("commit", "--quiet", "--message=site")):
        node.run(*git, *command)
    node.run("git", "clone", "--quiet", "--bare", "/srv/work", "/srv/site.git")
    node.run("systemctl", "start", "railwright-pull.service", check=False, timeout=RUN_SECONDS)
    found = ended(node, "railwright-pull.service")
    said = log(node, "railwright-pull.service")
    assert (found["Result"], found["ExecMainStatus"]) == ("exit-code", "2"), said
    assert "Fail where something has drifted" in said
    assert "package rdma-core" in said
    assert f"{name}" in said
    assert "unreachable=0" in said
    assert node.out("stat", "-c", "%U %a", "/var/lib/railwright-pull").split() == ["root", "700"]
