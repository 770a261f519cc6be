# SPDX-License-Identifier: GPL-3.0-or-later
"""On eRDMA a vendor's stack that is on a node stays with rdma_stack: auto, since mode ofed runs on top of it. On a captured node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack import dkms, stack
from ansible_collections.railwright.rdma.plugins.module_utils.areas.stack.verdicts import judge_builds, judge_packages, judge_stack
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.dkms import Build
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import observe_facts
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.rules.comparisons import inspection_of
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

MakeSpec = Callable[..., Spec]
ERDMA: dict[str, Any] = {}
ROCE = {"fabric": "roce", "mtu": 9000, "rdma_stack": "inbox"}


@pytest.fixture
def host(nodes: Path) -> TreeHost:
    """MLNX_OFED 24.10 by DKMS, its modules loaded."""
    return TreeHost(str(nodes / "mlnx-ofed"))


def whats(area: Any, spec: Spec, host: TreeHost) -> list[str]:
    wanted = area.desired(spec, observe_identity(host))
    return [change.what for change in area.plan(wanted, area.observe(host, wanted))]


def test_neither_its_modules_nor_their_use_is_taken_away(make_spec: MakeSpec, host: TreeHost) -> None:
    for area, what in ((dkms, "modules of a vendor's stack removed"), (stack, "kernel modules of inbox in use")):
        assert whats(area, make_spec(**ROCE), host) == [what], "the same node where inbox is wanted by name"
        assert whats(area, make_spec(**ERDMA), host) == []


@pytest.mark.parametrize("mode", ["auto", "ofed", "compat"])
def test_its_modules_are_judged_and_no_other_stack_is_missed(make_spec: MakeSpec, host: TreeHost, mode: str) -> None:
    def judged(spec: Spec) -> dict[str, str]:
        seen = inspection_of("n1", spec, observe_identity(host), observe_facts(host))
        found = judge_packages(seen) + judge_builds(seen) + judge_stack(seen)
        return {item.check: item.status for item in found if item.check in ("stack.modules", "stack.dkms")}

    assert judged(make_spec(**ROCE)).get("stack.modules") == "fail"
    assert judged(make_spec(erdma_mode=mode)) == {"stack.modules": "pass", "stack.dkms": "pass"}


def test_after_a_kernel_update_it_is_built_for_the_new_kernel(make_spec: MakeSpec, host: TreeHost) -> None:
    wanted = dkms.desired(make_spec(), observe_identity(host))
    seen = dkms.observe(host, wanted)
    old = tuple(Build(build.module, build.version, "5.15.0-1-generic", build.arch, build.state) for build in seen.builds)
    (change,) = dkms.plan(wanted, seen._replace(builds=old))
    assert change.what == f"modules of the stack that is there built for {wanted.identity.kernel}"
    assert {op.argv[:2] for op in change.ops} == {("dkms", "install")}


def test_after_a_kernel_update_our_driver_replaces_the_kernels_own(make_spec: MakeSpec, host: TreeHost) -> None:
    """By force: DKMS calls a module installed that it left out, where the kernel has one of that name and neither has a version."""
    wanted = dkms.desired(make_spec(erdma_mode="compat"), observe_identity(host))
    seen = dkms.observe(host, wanted)
    (change,) = dkms.plan(wanted, seen._replace(builds=(Build("erdma", "1.0.2", "5.15.0-1-generic", "x86_64", "installed"),)))
    assert change.what == f"modules of the eRDMA built for {wanted.identity.kernel}"
    assert [op.argv for op in change.ops] == [("dkms", "install", "erdma/1.0.2", "-k", wanted.identity.kernel, "--force")]
