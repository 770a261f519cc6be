# SPDX-License-Identifier: GPL-3.0-or-later
"""The plays that liars take part in: every playbook of ours, and roles where no playbook reaches a module."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.hostile.honest import ANSWERS, PACKAGES, PLAN, PROBE, SHA


class Scenario(NamedTuple):
    """``play``: a playbook's name, or tasks. ``changes``: honest answers of this scenario. ``joint``: a failure counts for others."""

    name: str
    play: Any
    variables: Mapping[str, Any] = MappingProxyType({})
    changes: Mapping[str, Any] = MappingProxyType({})
    joint: bool = False
    ends: str = ""  # a pattern of what the honest nodes fail with here; empty: they do not fail

    @property
    def asks(self) -> tuple[str, ...]:
        """The answers that the play asks an honest node for."""
        return tuple(ASKS[self.name].split())


# What a failed_when without a message of its own says: ansible-core up to 2.20, and from 2.21 on.
OF_FAILED_WHEN = "Unknown error|A 'failed_when' expression evaluated to 'True'"


def role(name: str, tasks_from: str = "main", **variables: Any) -> list[dict[str, Any]]:
    task = {"ansible.builtin.include_role": {"name": f"railwright.rdma.{name}", "tasks_from": tasks_from}, "vars": variables}
    return [{"name": "Play", "hosts": "rdma", "gather_facts": False, "tasks": [task]}]


def made(product: str) -> dict[str, Any]:
    """What is missing on the node, and is made in the background."""
    seen, done = (ANSWERS[f"rdma_prefix:{product}.{step}"] for step in ("inspect", "install"))
    return {f"rdma_prefix:{product}.inspect": {**seen, "release": {**seen["release"], "missing": True}},
            "async_status": {**ANSWERS["async_status:"], **done, "changed": True}}


def planned(*steps: dict[str, Any], manager: str = "apt") -> dict[str, Any]:
    return {"rdma_state:plan": {**PLAN, "packages": {**PACKAGES, "manager": manager, "steps": list(steps)}},
            "rdma_packages:check": {**ANSWERS["rdma_packages:check"], "steps": list(steps)}}


UNINSTALL = {"area": "packages", "state": "uninstall", "names": []}
FILE = {"area": "packages", "state": "file", "names": ["/var/cache/railwright/packages/doca-host.deb"]}
UNSIGNED = {"area": "aiacc", "state": "unsigned", "names": ["/var/cache/railwright/packages/aiacc-nccl-plugin.deb"]}
REMOVED = {"area": "packages", "state": "absent", "names": ["mlnx-ofed-all"]}
PIN = {"rdma_artifact_pins": {"nccl-wheel-cu13-x86_64": SHA}}
COLLECTIVE = {"nccl_tests_collectives": ["all_reduce"]}
BUILDING = {**COLLECTIVE, "nccl_tests_path": "/opt/nccl-tests", "nccl_tests_launcher": "mpi"}
PREBUILT = {**COLLECTIVE, "nccl_tests_path": "/opt/nccl-tests", "nccl_tests_launcher": "local", "nccl_tests_install": "prebuilt"}
MADE = {"rdma_prefix:nccl_tests.state": {"changed": False, "programs": {"all_reduce_perf": SHA}, "manifest": None}}
SLURM = {"upgrade_scheduler": "slurm", "upgrade_scheduler_host": "honest1"}
SWITCH = {"ansible_network_os": "sonic", "__railwright_switches": "{{ lookup('ansible.builtin.env', 'HOSTILE') }}/run"}
EXPORT = {"PORT": {"Ethernet0": {"mtu": "9216", "admin_status": "up"}}}
ISOLATED = "{{ dict(groups['rdma'] | product(['railwright isolate r1: rail2 41 of 392 Gb/s with 3 partners'])) }}"
AFTER_BOOT = {"rdma_state:apply": {**ANSWERS["rdma_state:apply"], "reboot_needed": ["network: MTU of rail0 (eth1)"]}}
MOUNT = {"unit": "srv-nccl\\x2dtests.mount", "file": "/etc/systemd/system/srv-nccl\\x2dtests.mount",
         "text": "[Mount]\n", "write": True, "start": True}

SCENARIOS = (
    Scenario("facts", "facts"),
    Scenario("drift", "drift"),
    Scenario("diagnose", "diagnose", {"diagnose_process": "python3"}),
    Scenario("cabling", "cabling"),
    Scenario("switch_read", "switch_read", SWITCH, {"shell": EXPORT}),
    Scenario("part_health", "part_health"),
    Scenario("scheduler_state", "scheduler_state", SLURM, joint=True),
    Scenario("explain", "explain"),
    Scenario("container_flags", "container_flags"),
    Scenario("restore_points", "restore_points"),
    Scenario("plan", "plan"),
    Scenario("ai_environment_plan", "ai_environment_plan"),
    Scenario("validate", "validate", {"validate_perftest": False}, joint=True),
    Scenario("perftest", "validate", {"validate_perftest": True}, joint=True),
    Scenario("apply", "apply", {}, planned(UNINSTALL, REMOVED, FILE, *PACKAGES["steps"], UNSIGNED)),
    Scenario("apply_dnf", "apply", {}, planned(*PACKAGES["steps"], UNINSTALL, manager="dnf")),
    Scenario("apply_bare", "apply", {}, {"probe": PROBE.replace("3.11.2 /usr/bin/python3\n", "")}, ends=OF_FAILED_WHEN),
    Scenario("apply_reboot", "apply", {"rdma_consent": ["reboot"], "rdma_reboot_timeout_s": 60}, AFTER_BOOT,
             ends="has not rebooted"),
    Scenario("rollback", "rollback", {"rdma_rollback_to": "r1"}),
    Scenario("remediate", "remediate", {"rdma_batch": "100%"}, joint=True),
    Scenario("ai_environment", "ai_environment", {}, made("ai_environment")),
    Scenario("nccl_prefix", role("nccl", "prefix"), {"nccl_install": "wheel", "nccl_wheel_index": "https://example.com/wheels", **PIN},
             made("nccl")),
    Scenario("hpcx_prefix", role("mpi", "prefix"), {"mpi_install": "hpcx"}, made("hpcx")),
    Scenario("erdma_driver", role("erdma", "driver"), {}, made("erdma_driver")),
    Scenario("gpudirect_source", role("gpudirect", "source"), {}, {"stat": {"changed": False, "stat": {"exists": True, "isdir": True}}}),
    Scenario("firmware_images", role(
        "nic_firmware", "images", nic_firmware_images={"MT_0000000838": {"url": "https://example.com/f.bin", "sha256": SHA}},
        nic_firmware_versions={"MT_0000000838": "28.41.1000"},
        __nic_firmware_plan={"plan": [{"subject": {"kind": "firmware", "name": "MT_0000000838"}}]})),
    Scenario("ssh_mesh", "ssh_mesh", joint=True),
    Scenario("nccl_tests", "nccl_tests", BUILDING, joint=True),
    Scenario("nccl_tests_local", "nccl_tests", PREBUILT, MADE, joint=True),
    Scenario("nccl_tests_programs", "nccl_tests_programs", PREBUILT, MADE, joint=True),
    Scenario("nccl_tests_nfs", role("nccl_tests", "nfs", __nccl_tests_build_inspect={"node": {"mount": MOUNT}}),
             {"nccl_tests_path": "/srv/nccl"}),
    Scenario("ddp_benchmark", "ddp_benchmark", {"ddp_benchmark_python": "/usr/bin/python3"}, joint=True),
    Scenario("upgrade_preflight", "upgrade_preflight", {"rdma_upgrade_run": "r1", **SLURM}, joint=True),
    Scenario("upgrade", "upgrade", {"upgrade_gate": "none", "rdma_consent": ["reboot"]}, joint=True),
    Scenario("upgrade_step", "upgrade_step", {"rdma_upgrade_run": "r1", "rdma_upgrade_step": "lease"}),
    Scenario("upgrade_change", role("upgrade", "change_boot_once"), {"rdma_upgrade_run": "r1", "upgrade_reboot": "always"}),
    Scenario("upgrade_release", role("upgrade", "release"), {"rdma_upgrade_run": "r1"}),
    Scenario("agent_open", "agent_open", SLURM, joint=True),
    Scenario("isolate_drain", "isolate_drain", {"rdma_isolate_reasons": ISOLATED, **SLURM}, joint=True),
)


def answers(scenario: Scenario, texts: dict[str, str]) -> dict[str, str]:
    changed = {key: value if isinstance(value, str) else json.dumps(value) for key, value in scenario.changes.items()}
    return {**texts, **{key if ":" in key else f"{key}:": text for key, text in changed.items()}}


# What each play asks honest nodes for; make test-hostile holds it against the plays.
ASKS = {
    "facts": "rdma_facts:facts",
    "diagnose": "rdma_facts:ranks",
    "cabling": "rdma_check:cabling",
    "switch_read": "shell:",
    "part_health": "rdma_measure:health",
    "scheduler_state": "rdma_drain:inspect",
    "nccl_tests_programs":
        "rdma_bench:nccl_tests.inspect rdma_prefix:nccl_tests.inspect rdma_prefix:nccl_tests.state rdma_prefix:nccl_tests.verify",
    "drift": "rdma_check:drift",
    "explain": "rdma_state:explain",
    "container_flags": "rdma_state:container",
    "restore_points": "rdma_rollback:inspect",
    "plan": "probe: rdma_state:plan",
    "ai_environment_plan": "rdma_prefix:ai_environment.inspect",
    "validate": "rdma_check:verdicts rdma_measure:gpudirect rdma_measure:ping rdma_ssh_mesh:login",
    "perftest":
        "rdma_check:verdicts rdma_measure:gpudirect rdma_measure:ping rdma_measure:run rdma_measure:start rdma_measure:stop "
        "rdma_ssh_mesh:login",
    "apply":
        "apt: command: file: get_url: ping: probe: rdma_packages:check rdma_rollback:packages_after "
        "rdma_rollback:packages_before rdma_state:apply rdma_state:plan shell:",
    "apply_dnf":
        "command: dnf: file: get_url: ping: probe: rdma_packages:check rdma_rollback:packages_after "
        "rdma_rollback:packages_before rdma_state:apply rdma_state:plan setup: shell:",
    "apply_bare": "probe: shell:",
    "apply_reboot":
        "apt: file: find: get_url: ping: probe: rdma_packages:check rdma_rollback:packages_after rdma_rollback:packages_before "
        "rdma_state:apply rdma_state:plan setup: shell: slurp:",
    "rollback": "ping: rdma_rollback:apply rdma_rollback:plan rdma_rollback:prove shell:",
    "remediate":
        "apt: file: get_url: ping: rdma_check:drift rdma_packages:check rdma_rollback:packages_after rdma_rollback:packages_before "
        "rdma_state:apply rdma_state:plan shell:",
    "ai_environment": "async_status: async_wrapper: rdma_prefix:ai_environment.inspect rdma_prefix:ai_environment.prepare shell:",
    "nccl_prefix": "async_status: async_wrapper: get_url: rdma_prefix:nccl.inspect rdma_prefix:nccl.prepare shell:",
    "hpcx_prefix": "async_status: async_wrapper: get_url: rdma_prefix:hpcx.inspect rdma_prefix:hpcx.prepare shell:",
    "erdma_driver": "async_status: async_wrapper: get_url: rdma_prefix:erdma_driver.inspect rdma_prefix:erdma_driver.prepare shell:",
    "gpudirect_source": "file: get_url: rdma_state:source shell: stat: unarchive:",
    "firmware_images": "file: get_url:",
    "ssh_mesh": "rdma_ssh_mesh:apply rdma_ssh_mesh:generate rdma_ssh_mesh:key rdma_ssh_mesh:observe rdma_ssh_mesh:prove rdma_ssh_mesh:read",
    "nccl_tests":
        "copy: file: get_url: rdma_bench:nccl_tests.collect rdma_bench:nccl_tests.inspect rdma_bench:nccl_tests.prepare "
        "rdma_bench:nccl_tests.probe "
        "rdma_bench:nccl_tests.stop rdma_prefix:nccl_tests.build rdma_prefix:nccl_tests.inspect rdma_prefix:nccl_tests.pack "
        "rdma_prefix:nccl_tests.state rdma_prefix:nccl_tests.unpack rdma_prefix:nccl_tests.verify shell: stat:",
    "nccl_tests_local":
        "rdma_bench:nccl_tests.collect rdma_bench:nccl_tests.inspect rdma_bench:nccl_tests.poll rdma_bench:nccl_tests.prepare "
        "rdma_bench:nccl_tests.probe "
        "rdma_bench:nccl_tests.start rdma_bench:nccl_tests.stop rdma_prefix:nccl_tests.inspect rdma_prefix:nccl_tests.state "
        "rdma_prefix:nccl_tests.verify",
    "nccl_tests_nfs": "copy: file: shell: stat: systemd_service:",
    "ddp_benchmark": "rdma_bench:ddp.collect rdma_bench:ddp.inspect rdma_bench:ddp.poll rdma_bench:ddp.start rdma_bench:ddp.stop",
    "upgrade_preflight": "file: get_url: probe: rdma_drain:inspect rdma_packages:check rdma_state:plan rdma_upgrade:lease",
    "upgrade_change": "stat:",
    "upgrade_release": "rdma_upgrade:release",
    "upgrade":
        "apt: file: get_url: ping: probe: rdma_packages:check rdma_rollback:packages_after rdma_rollback:packages_before "
        "rdma_state:apply rdma_state:plan rdma_upgrade:lease shell:",
    "upgrade_step": "rdma_upgrade:lease",
    "isolate_drain": "rdma_drain:isolate",
    "agent_open": "rdma_drain:undrain",
}
