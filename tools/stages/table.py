# SPDX-License-Identifier: GPL-3.0-or-later
"""The stages of ``make test``: what each one runs. Data and the two ways to find it, nothing else.

In an argv, ``{junit}`` becomes the XML file that a step is to write; a step without it counts
as one test by its exit status. ``{extra}`` becomes the arguments after ``--``.
"""

import os
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
BIN = ROOT / ".venv" / "bin"
BIN216 = ROOT / ".venv-core216" / "bin"
MINUTE = 60
HOUR = 60 * MINUTE


class Step(NamedTuple):
    """One command of a stage."""

    name: str
    argv: tuple[str, ...]
    timeout: int = 5 * MINUTE
    env: tuple[tuple[str, str], ...] = ()
    cleanup: tuple[str, ...] = ()  # run after the limit passed: what a killed step could not do itself


class Stage(NamedTuple):
    """Steps that run one after the other, or ``together`` at a time; all of them run, whatever the first one said."""

    name: str
    steps: tuple[Step, ...]
    together: int = 1
    sharded: bool = False  # by steps; where one step is everything, its own pytest makes the shards
    one_core: bool = False  # neighbours that say so are run two at a time: neither has more than one process that works


# ansible-lint looks roles and modules up by their full names; --offline so that no result hangs on a server.
COLLECTION = (("ANSIBLE_COLLECTIONS_PATH", str(ROOT / ".dev")), ("ANSIBLE_HOME", str(BUILD / "ansible")))
# The container scenarios of `make test`: all roles together in `default`, and what would cost a cluster most if it broke. A scenario
# takes two to eight minutes on two cores; the others are `make test-scenarios`, as the lab's machines are `make test-lab`.
QUICK = frozenset(("default", "erdma", "firewall", "network", "rdma_stack_dnf", "slurm", "validate"))
# Begun first, so that none of them runs alone at the end: the long ones that take five to seventeen minutes, and of the quick ones two.
SLOWEST = ("upgrade_faults", "upgrade_kills", "tests-containers", "upgrade", "remediate", "rollback", "network", "default")
# Where tests are marked core; of the lies a tenth of those of stage hostile.
OF_CORE = ("tests/unit", "tests/contract", *(f"tests/hostile/test_{name}.py" for name in ("found", "plays")),
           "tests/integration/test_round_trips.py")
FEW_LIES = (("RAILWRIGHT_LIES", "0.1"),)
OLDEST, NEWEST = (str(BIN216 / "python"), "-m", "pytest"), (str(BIN / "python"), "tests/containers/newest.py")
TARGET_CODE = ("plugins/modules", "plugins/module_utils")


def _pytest(name: str, *arguments: str, timeout: int, pytest: tuple[str, ...] = (str(BIN / "python"), "-m", "pytest")) -> Step:
    argv = (*pytest, "-q", "-o", "junit_family=xunit2", "--junitxml={junit}", *arguments, "{extra}")
    return Step(name, argv, timeout)


def _lint() -> tuple[Step, ...]:
    run = f"{BIN}/"
    vermin = (run + "vermin", "-q", "-t=3.6-", "--eval-annotations", "--no-tips", "--violations", "--exclude-regex", r"\.pyi$",
              *TARGET_CODE)
    return (
        Step("ruff", (run + "ruff", "check", "--no-fix", ".")),
        Step("mypy", (run + "mypy", "-p", "railwright", "-p", "ansible_collections.railwright.rdma.plugins")),
        # One after the other: each has a __main__ of its own.
        Step("mypy-stages", (run + "mypy", "tools/stages", "hatch_build.py")),
        Step("mypy-generate", (run + "mypy", "tools/generate")),
        Step("mypy-files", (run + "mypy", "roles/ddp_benchmark/files")),
        Step("yamllint", (run + "yamllint", "--strict", ".")),
        Step("ansible-lint", (run + "ansible-lint", "--offline", "--strict", "-q"), env=COLLECTION),
        # Static, and it must be: no Python 3.6 is at hand to run target code on.
        Step("vermin", vermin),
        Step("shell", (sys.executable, "tools/stages/shell.py")),
    )


def _scenarios(kind: str, *, timeout: int) -> tuple[Step, ...]:
    """Molecule scenarios: `fabric*` boot virtual machines, every other one containers, few of them `quick`."""
    found = sorted(path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml"))
    named = [name for name in found if kind == _kind(name)]
    # A root-level molecule/ beside galaxy.yml is looked for in extensions/molecule otherwise.
    base = (("MOLECULE_GLOB", str(ROOT / "molecule" / "*" / "molecule.yml")), *COLLECTION)
    pytest = ("PYTEST_ADDOPTS", "-o junit_family=xunit2 -o addopts= -p no:cacheprovider --junitxml={junit}")
    molecule = f"{BIN}/molecule"
    return tuple(
        Step(name, (molecule, "test", "-s", name), timeout, (*base, pytest), cleanup=(molecule, "destroy", "-s", name)) for name in named
    )


def _slowest_first(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return tuple(sorted(steps, key=lambda step: (SLOWEST.index(step.name) if step.name in SLOWEST else len(SLOWEST), step.name)))


def _images() -> tuple[Step, ...]:
    """What the stages at the end boot. Made on a machine's first run only, by one process that downloads and unpacks for minutes."""
    return (Step("images", (str(BIN / "python"), "tests/containers/images.py", *sorted(QUICK)), 20 * MINUTE),)


def _kind(scenario: str) -> str:
    if scenario.startswith("fabric"):
        return "fabric"
    return "quick" if scenario in QUICK else "long"


def _suite(kind: str, *options: str, timeout: int) -> tuple[Step, ...]:
    """pytest's own part of a stage, where there is a directory of that name."""
    directory = f"tests/{kind}"
    return (_pytest(f"tests-{kind}", *options, directory, timeout=timeout),) if (ROOT / directory).is_dir() else ()


def stages() -> dict[str, Stage]:
    """Every stage by name, in the order of ``make test``."""
    cores = min(4, os.cpu_count() or 1)
    workers, more = str(cores), str(cores + 1)
    core216 = _pytest("core216", "-m", "core", *OF_CORE, timeout=15 * MINUTE, pytest=OLDEST)._replace(env=FEW_LIES)
    # Not on ansible-core 2.16: there a loop of this file ends before its last item, and the reason is not known yet.
    lied = "tests/hostile/test_modules.py"
    newest = _pytest("newest", "-m", "core", *OF_CORE, lied, timeout=20 * MINUTE, pytest=NEWEST)._replace(env=FEW_LIES)
    long = _suite("containers", timeout=25 * MINUTE) + _scenarios("long", timeout=25 * MINUTE)
    table = (
        Stage("sanity", (Step("ansible-test", (str(BIN / "python"), "tools/stages/sanity.py", "{junit}"), 15 * MINUTE),), one_core=True),
        Stage("images", _images(), one_core=True),
        Stage("lint", _lint(), one_core=True),
        Stage("core216", (core216,), one_core=True),
        Stage("newest", (newest._replace(cleanup=("podman", "rm", "--force", "--ignore", "railwright-newest")),), one_core=True),
        # One worker more than cores where tests wait: for time limits, for a command that defies its end, for a reboot.
        Stage("unit", (_pytest("unit", "-n", more, "tests/unit", timeout=15 * MINUTE),)),
        Stage("faults", (_pytest("faults", "-n", workers, "tests/faults", timeout=10 * MINUTE),)),
        Stage("contract", (_pytest("contract", "-n", workers, "--dist", "loadgroup", "tests/contract", timeout=10 * MINUTE),)),
        Stage("integration", _suite("integration", "-n", more, "--dist", "loadgroup", timeout=20 * MINUTE)),
        Stage("hostile", (_pytest("hostile", "-n", more, "tests/hostile", timeout=15 * MINUTE),)),
        Stage("hostile-long", (_pytest("hostile", "-n", workers, "tests/hostile", timeout=6 * HOUR),)),
        # Each scenario has containers, networks and files of its own, and much of its time is one Ansible that waits for one node, or a
        # test that waits for a watchdog.
        Stage("containers", _slowest_first(_scenarios("quick", timeout=25 * MINUTE)), together=3),
        # 28 minutes were seen under emulation on two cores, a quarter of their time stolen by the host; on quiet ones it was not measured.
        # With five runs of the command line more, CI ended it after 45.
        Stage("fabric", _scenarios("fabric", timeout=50 * MINUTE) + _suite("fabric", timeout=50 * MINUTE)),
        Stage("scenarios", _slowest_first(long), together=2, sharded=True),
        Stage("lab", _suite("lab", timeout=60 * MINUTE)),
        Stage("editor", _suite("editor", timeout=15 * MINUTE)),
    )
    return {stage.name: stage for stage in table}
