# SPDX-License-Identifier: GPL-3.0-or-later
"""Every role: documented, its arguments specified, its defaults the ones that the specification names."""

from typing import Any

import pytest

import repo

EXPECTED_ROLES = {"preflight", "rdma_stack", "erdma", "gpu_driver", "cuda", "gpudirect", "nic_firmware", "pci_tuning",
                  "network", "firewall", "roce_qos", "host_tuning", "agent", "containers", "ssh_mesh", "validate",
                  "nccl", "mpi", "nccl_tests", "ddp_benchmark", "ai_environment", "aiacc", "upgrade"}
# Keys of a site, named without a role's name; spec/schema.py has them all.
ROLES = sorted({name.split("/")[1] for name in repo.matching("roles/")} | EXPECTED_ROLES)


def options(role: str) -> dict[str, Any]:
    """The options of a role's main entry point."""
    spec = repo.read_yaml(f"roles/{role}/meta/argument_specs.yml")["argument_specs"]["main"]
    return dict(spec.get("options") or {})


def defaults(role: str) -> dict[str, Any]:
    """The defaults of a role; none without the file."""
    name = f"roles/{role}/defaults/main.yml"
    return dict(repo.read_yaml(name) or {}) if name in repo.files() else {}


def test_no_role_that_nobody_expects() -> None:
    assert set(ROLES) == EXPECTED_ROLES


@pytest.mark.parametrize("role", ROLES)
def test_files(role: str) -> None:
    wanted = {f"roles/{role}/{part}" for part in ("README.md", "meta/argument_specs.yml", "meta/main.yml", "tasks/main.yml")}
    assert wanted <= set(repo.files())


@pytest.mark.parametrize("role", ROLES)
def test_defaults_are_the_specified_ones(role: str) -> None:
    specified = {name: option["default"] for name, option in options(role).items() if "default" in option}
    assert specified == defaults(role), "argument_specs do not apply defaults: defaults/main.yml does, and both say the same"


@pytest.mark.parametrize("role", ROLES)
def test_every_option_is_described_and_typed(role: str) -> None:
    wrong = [name for name, option in options(role).items() if not (option.get("description") and option.get("type"))]
    assert not wrong


@pytest.mark.parametrize("role", ROLES)
def test_variables_carry_the_name_of_the_role(role: str) -> None:
    assert [name for name in defaults(role) if not name.startswith(f"{role}_")] == []


@pytest.mark.parametrize("role", ROLES)
def test_readme_names_every_variable(role: str) -> None:
    readme = repo.text(f"roles/{role}/README.md")
    assert [name for name in defaults(role) if name not in readme] == []
