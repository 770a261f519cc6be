# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on the stack from the captured nodes' facts, healthy and sickened one fact at a time."""

import copy
import functools
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.fixtures.node_stacks import DOCA_DKMS, HALF_NEXT, UBUNTU_KERNEL
from tests.unit.areas.stack.conftest import NODES

from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack.verdicts import judge_builds, judge_packages, judge_stack
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.types import Identity, Verdict
from field_specs import build_spec
from node_trees import FACTS

Facts = dict[str, Any]
NEWER = "6.8.0-90-generic"


def facts_of(name: str) -> Facts:
    found: Facts = json.loads((FACTS / f"{name}.json").read_text())
    return found


@functools.cache
def identity_of(name: str) -> Identity:
    return observe_identity(TreeHost(str(NODES / name)))


def judge(name: str, facts: Facts, stack: str = "doca", container: bool = False) -> list[Verdict]:
    spec, findings = build_spec({"fabric": "roce", "mtu": 9000, "rdma_stack": stack, "rails": []}, name)
    assert spec is not None, findings
    identity = identity_of(name)
    if container:
        identity = identity._replace(capabilities=(*identity.capabilities, "container"))
    seen = inspection_of(name, spec, identity, facts)
    return judge_packages(seen) + judge_builds(seen) + judge_stack(seen)


def brief(verdicts: list[Verdict]) -> dict[str, str]:
    return {item.check: item.status for item in verdicts}


ALL = ("kernel.newest", "stack.packages", "stack.modules", "stack.dkms", "stack.headers", "stack.secure_boot")


def test_a_node_that_is_well_passes_everything() -> None:
    assert brief(judge("doca8", facts_of("doca8"))) == dict.fromkeys(ALL, "pass")
    assert brief(judge("mlnx-ofed", facts_of("mlnx-ofed"), "mlnx_ofed")) == dict.fromkeys(ALL, "pass")


def test_a_container_is_not_judged() -> None:
    assert judge("doca8", facts_of("doca8"), container=True) == []


def test_an_inbox_node_without_modules_of_its_own_is_left_in_peace() -> None:
    assert brief(judge("roce8-bond", facts_of("roce8-bond"), "inbox")) == {"kernel.newest": "pass", "stack.modules": "pass"}


def newer_kernel(facts: Facts, built: tuple[str, ...]) -> None:
    facts["boot"].update(next=NEWER, newest=NEWER, running_is_newest=False)
    facts["boot"]["kernels"].append({"release": NEWER, "image": True, "modules": True, "headers": True})
    facts["dkms"] += [build | {"kernel": NEWER} for build in facts["dkms"] if build["module"] in built]


@pytest.mark.parametrize(
    ("built", "status", "words"),
    [
        ((), "fail", f"without mlnx-ofed-kernel/{DOCA_DKMS}, nvidia/580.95.05, which DKMS has not built for it"),
        (("nvidia",), "fail", f"without mlnx-ofed-kernel/{DOCA_DKMS}, which"),
        (("nvidia", "mlnx-ofed-kernel"), "warn", "every DKMS module is built for it"),
    ],
)
def test_the_next_boot_is_judged_before_it_happens(built: tuple[str, ...], status: str, words: str) -> None:
    facts = facts_of("doca8")
    newer_kernel(facts, built)
    verdict = next(item for item in judge("doca8", facts) if item.check == "kernel.newest")
    assert (verdict.status, verdict.expected, verdict.found) == (status, UBUNTU_KERNEL, NEWER)
    assert words in verdict.message


def only_registered(facts: Facts) -> None:
    facts["dkms"][0].update(kernel=None, arch=None, state="added")


def no_headers(facts: Facts) -> None:
    facts["boot"]["kernels"][-1]["headers"] = False


SICK: list[tuple[Callable[[Facts], Any], str, str, str]] = [
    (only_registered, "stack.dkms", "fail", "build/make.log"),
    (lambda facts: facts["dkms"][1].update(state="built"), "stack.dkms", "fail", "nvidia/580.95.05/build/make.log"),
    (lambda facts: facts["dkms"][1].update(kernel="6.8.0-79-generic"), "stack.dkms", "fail", "nvidia"),
    (
        lambda facts: facts["stack"]["modules"].update(stale=["mlx5_core"], version="24.10-0.7.0"),
        "stack.modules",
        "fail",
        "restart openibd or reboot",
    ),
    (lambda facts: facts["stack"]["modules"].update(origin="inbox", version=None), "stack.modules", "fail", "wanted are those of doca"),
    (lambda facts: facts["stack"]["modules"].update(origin="unknown", version=None), "stack.modules", "unknown", "no vendor's version"),
    (lambda facts: facts["stack"]["modules"].update(origin=None), "stack.modules", "skipped", "loaded"),
    (lambda facts: facts["stack"].update(half_installed=["doca-ofed (unpacked)"]), "stack.packages", "fail", "doca-ofed (unpacked)"),
    (lambda facts: facts["stack"].update(half_installed=None), "stack.packages", "unknown", "dpkg"),
    (no_headers, "stack.headers", "warn", UBUNTU_KERNEL),
    (lambda facts: facts["boot"].update(secure_boot=True, mok_enrolled=False), "stack.secure_boot", "fail", "mokutil --import"),
    (lambda facts: facts["boot"].update(secure_boot=True, mok_enrolled=None), "stack.secure_boot", "unknown", "mokutil"),
    (lambda facts: facts["boot"].update(secure_boot=None), "stack.secure_boot", "unknown", "Secure Boot"),
    (lambda facts: facts["boot"].update(next=None), "kernel.newest", "unknown", "next boot"),
]


@pytest.mark.parametrize(("sicken", "check", "status", "words"), SICK)
def test_one_sickness_is_one_verdict(sicken: Callable[[Facts], Any], check: str, status: str, words: str) -> None:
    facts = copy.deepcopy(facts_of("doca8"))
    sicken(facts)
    odd = [item for item in judge("doca8", facts) if item.status != "pass"]
    assert [(item.check, item.status) for item in odd] == [(check, status)]
    assert words in odd[0].message + odd[0].subject


def test_a_half_installed_node_is_caught_on_every_count() -> None:
    verdicts = judge("half-installed", facts_of("half-installed"))
    assert brief(verdicts) == {
        "kernel.newest": "fail",
        "stack.packages": "fail",
        "stack.modules": "fail",
        "stack.dkms": "fail",
        "stack.headers": "warn",
        "stack.secure_boot": "unknown",
    }
    assert next(item.found for item in verdicts if item.check == "kernel.newest") == HALF_NEXT


@pytest.mark.parametrize("facts", [{}, {"boot": None, "stack": None, "dkms": None}])
def test_facts_that_are_not_there_never_pass(facts: Facts) -> None:
    assert {item.status for item in judge("doca8", facts)} <= {"unknown", "skipped"}
