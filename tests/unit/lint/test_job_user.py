# SPDX-License-Identifier: GPL-3.0-or-later
"""Logins as root without a job user: lint warns, what launches jobs ends 64, and everything else runs as before."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec
from railwright.cli.main import run
from railwright.exitcodes import ExitCode
from railwright.inventory import load_inventory
from railwright.job_user import root_logins
from railwright.lint import lint

Make = Callable[[Mapping[str, object]], Path]
SITE = "rdma_fabric: roce\nrdma_mtu: 9000\n"
ROOT = SITE + "ansible_user: root\n"
LAUNCHES = [["bench"], ["bench", "--ddp", "--no-nccl-tests"], ["bench", "--purpose", "burn-in"], ["isolate", "--tool", "nccl"]]


@pytest.fixture
def no_playbook(monkeypatch: pytest.MonkeyPatch) -> None:
    from railwright import run as runner
    from railwright.cli import console

    def started(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("a playbook was started")

    monkeypatch.setattr(runner, "run_playbook", started)
    for stream in (console.out, console.err):  # they hold the streams of the test before
        stream.cache_clear()


@pytest.mark.parametrize("verb", LAUNCHES, ids=" ".join)
@pytest.mark.usefixtures("no_playbook")
def test_a_launch_ends_64_before_a_node_is_contacted(make: Make, verb: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run([*verb, "-i", str(make({"site": ROOT}))]) == ExitCode.USAGE
    assert "inv/group_vars/all.yml:3: ansible_user: root: rdma_job_user is not set, and Ansible logs in as root" in capfd.readouterr().err


@pytest.mark.usefixtures("no_playbook")
def test_lint_warns_and_says_what_to_set(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    inventory = make({"site": ROOT})
    assert lint(inventory) == [], "what plan and apply stop at has no part in it"
    assert run(["lint", "-i", str(inventory)]) == ExitCode.OK
    output = capfd.readouterr()
    assert output.out.startswith("inv/group_vars/all.yml:3: warning: ansible_user: root: rdma_job_user is not set")
    assert "allowed: rdma_job_user: an account that exists on every node and is not root, or rdma_job_user_root: accept" in " ".join(
        output.out.split())


@pytest.mark.parametrize(("site", "found"), [
    (ROOT, True), (SITE, False), (SITE + "ansible_ssh_user: root\n", True), (SITE + "ansible_user: admin\n", False),
    (SITE + "login: root\nansible_user: '{{ login }}'\n", True), (ROOT + "rdma_job_user: mpi\n", False),
    (ROOT + "nccl_tests_user: mpi\n", False), (ROOT + "ssh_mesh_user: mpi\n", False), (ROOT + "ddp_benchmark_user: mpi\n", True),
    (ROOT + "rdma_job_user_root: accept\n", False), (ROOT + "ansible_connection: local\n", False),
])  # fmt: skip
def test_whose_login_is_root(make: Make, site: str, found: bool) -> None:
    inventory = load_inventory(make({"site": site}))
    specs = {host: spec for host, values in inventory.hosts.items() if (spec := build_spec(values, host)[0]) is not None}
    assert len(specs) == 2
    assert bool(root_logins(inventory, specs)) is found


def test_ansibles_own_configuration_may_name_the_login(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_REMOTE_USER", "root")
    inventory = load_inventory(make({"site": SITE}))
    specs = {host: spec for host, values in inventory.hosts.items() if (spec := build_spec(values, host)[0]) is not None}
    (finding,) = root_logins(inventory, specs)
    assert (finding.key, finding.line, finding.everywhere) == ("rdma_job_user", None, True)


@pytest.mark.parametrize(("keys", "users"), [
    ({}, (None, None, None)),
    ({"rdma_job_user": "mpi"}, ("mpi", "mpi", "mpi")),
    ({"rdma_job_user": "mpi", "ssh_mesh_user": "ssh"}, ("ssh", "ssh", "ssh")),
    ({"rdma_job_user": "mpi", "nccl_tests_user": "bench"}, ("mpi", "bench", "bench")),
    ({"nccl_tests_user": "bench", "ddp_benchmark_user": "train"}, (None, "bench", "train")),
])  # fmt: skip
def test_one_key_is_the_default_of_three(keys: dict[str, str], users: tuple[str | None, ...]) -> None:
    spec, findings = build_spec({"rdma_fabric": "roce", "rdma_mtu": 9000, **keys}, "n1")
    assert spec is not None, findings
    assert (spec["ssh_mesh_user"], spec["nccl_tests_user"], spec["ddp_benchmark_user"]) == users


def test_a_mesh_of_roots_can_be_removed() -> None:
    spec, findings = build_spec({"rdma_fabric": "roce", "rdma_mtu": 9000, "ssh_mesh_user": "root", "ssh_mesh_state": "absent"}, "n1")
    assert spec is not None, findings
