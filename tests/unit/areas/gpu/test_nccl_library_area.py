# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's packages: one version for one CUDA, held, after CUDA's in the steps, and refused where nothing is known or nothing would run."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.fixtures.node_text import OS_RELEASE

from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.libnccl import cuda_for_driver
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity
from ansible_collections.railwright.rdma.plugins.module_utils.plan.areas import AREAS
from ansible_collections.railwright.rdma.plugins.module_utils.plan.package_steps import package_steps
from ansible_collections.railwright.rdma.plugins.module_utils.plan.plan import make_plan

AREA = "nccl_library"
REPOSITORY = {"nccl_install": "repository", "cuda_version": "13.0"}
WHEEL = {"nccl_install": "wheel", "nccl_wheel_index": "https://index.example/pypi"}
NEW, OLD = "2.30.7-1+cuda13.3", "2.29.7-1+cuda13.1"


def rows(names: tuple[str, ...], before: str | None, after: str, disruption: str = "none") -> list[tuple[str, str | None, str, str]]:
    return [(f"package {name}", before, after, disruption) for name in names]


def test_the_pinned_release_for_this_cuda(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    plans = planner(AREA, node, **REPOSITORY)
    assert plans.rows() == rows(("libnccl2", "libnccl-dev"), None, NEW)
    assert plans.run() == []
    node.packages.update({"libnccl2": "2.31.2-1+cuda13.3", "libnccl-dev": "2.28.9-1+cuda13.0"})
    node.write_packages()
    assert plans.rows() == [
        ("package libnccl2", "2.31.2-1+cuda13.3", NEW, "downgrade"), ("package libnccl-dev", "2.28.9-1+cuda13.0", NEW, "none")]


def test_the_same_release_for_another_cuda_is_another_package(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    node.packages.update(dict.fromkeys(("libnccl2", "libnccl-dev"), "2.30.7-1+cuda12.9"))
    node.write_packages()
    assert [row[:3] for row in planner(AREA, node, **REPOSITORY).rows()] == [
        row[:3] for row in rows(("libnccl2", "libnccl-dev"), "2.30.7-1+cuda12.9", NEW)]


@pytest.mark.parametrize(("values", "version"), [
    ({"cuda_version": "13.0"}, NEW),
    ({"cuda_version": "12.8"}, "2.30.7-1+cuda12.9"),
    ({"gpu_driver_branch": "580"}, NEW),
    ({"gpu_driver_branch": "570", "gpu_driver_version": "570.195.03"}, "2.30.7-1+cuda12.9"),
    ({"cuda_version": "13.0", "nccl_version": "2.29.7"}, "2.29.7-1+cuda13.*"),
    ({"cuda_version": "12.8", "nccl_version": "2.29.7-2"}, "2.29.7-2+cuda12.*"),
    ({"nccl_version": OLD}, OLD),
])
def test_the_version_that_is_asked_for(
    gpu_node: Callable[..., Any], planner: Callable[..., Any], values: dict[str, str], version: str,
) -> None:
    found = {row[2] for row in planner(AREA, gpu_node(), nccl_install="repository", **values).rows()}
    assert found == {version}


def test_a_glob_is_met_by_what_is_installed(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    node.packages.update(dict.fromkeys(("libnccl2", "libnccl-dev"), OLD))
    node.write_packages()
    assert planner(AREA, node, nccl_install="repository", cuda_version="13.0", nccl_version="2.29.7").plan() == []
    assert planner(AREA, node, nccl_install="repository", cuda_version="12.8", nccl_version="2.29.7").plan() != []


@pytest.mark.parametrize(("os_name", "version", "asked"), [("ubuntu2404", "2.18.5-1-*", None), ("debian13", "2.22.3-1-*", None),
                                                           ("debian12", "2.20.5-*", "2.20.5")])
def test_the_distributions_own(
    gpu_node: Callable[..., Any], planner: Callable[..., Any], os_name: str, version: str, asked: str | None,
) -> None:
    plans = planner(AREA, gpu_node(os_name), nccl_install="distribution", **({"nccl_version": asked} if asked else {}))
    if os_name == "debian12":
        assert plans.plan() == []
        assert "no packages of NCCL 2.20.5 are known in the distribution for Debian GNU/Linux 12" in plans.problems()[0]
        return
    assert plans.rows() == rows(("libnccl2", "libnccl-dev"), None, version)
    assert plans.problems() == []


def test_nothing_where_nothing_is_asked_for_or_nothing_would_run(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    assert (planner(AREA, gpu_node()).plan(), planner(AREA, gpu_node()).notes()) == ([], [])
    for values in (REPOSITORY, WHEEL, {"nccl_install": "source"}):
        plans = planner(AREA, gpu_node(gpus=()), **values)
        assert (plans.plan(), plans.problems()) == ([], [])
        assert plans.notes() == ["nccl_library: no NVIDIA GPU on the PCI bus of this node, so NCCL is not installed"]


def test_a_build_needs_its_tools_and_the_rest_is_said_to_come_later(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    plans = planner(AREA, gpu_node(), nccl_install="source")
    assert plans.rows() == rows(("make", "g++"), None, "present")
    assert "before nccl-tests run" in plans.notes()[0]
    assert planner(AREA, gpu_node(), **WHEEL).plan() == []


@pytest.mark.parametrize(("driver", "fits"), [("575.57.08", False), ("580.65.06", True)])
def test_a_driver_that_is_too_old_for_its_cuda(gpu_node: Callable[..., Any], planner: Callable[..., Any], driver: str, fits: bool) -> None:
    node = gpu_node()
    node.disk = driver
    said = planner(AREA, node, nccl_install="repository", nccl_version=NEW).problems()
    words = f"NCCL for CUDA 13 needs driver 580 or newer, this node has {driver}; set gpu_driver_branch to a newer one, or an older "
    assert said == ([] if fits else ["nccl_version: " + words + "cuda_version"])


def test_what_somebody_holds_is_a_conflict(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    node.packages["libnccl2"] = OLD
    node.write_packages()
    node.hold("libnccl2")
    (said,) = planner(AREA, node, **REPOSITORY).problems()
    assert said.startswith(f"package libnccl2: is held at {OLD} by apt-mark hold and must become {NEW}")


@pytest.mark.parametrize("os_name", sorted(OS_RELEASE))
def test_every_system_gets_packages_or_a_refusal(gpu_node: Callable[..., Any], planner: Callable[..., Any], os_name: str) -> None:
    for install in ("repository", "distribution", "source"):
        plans = planner(AREA, gpu_node(os_name), nccl_install=install, cuda_version="13.0")
        node = plans.node
        wanted = plans.look()[0].wanted
        refused = plans.area.problems(plans.spec, observe_identity(node), plans.look()[0])
        assert bool(wanted) != bool(refused), (os_name, install)


def test_repository_and_hold_come_with_nccl_and_its_step_is_after_cudas(
    gpu_node: Callable[..., Any], planner: Callable[..., Any],
) -> None:
    node = gpu_node()
    spec = planner(AREA, node, **REPOSITORY, nccl_hold=True).spec
    plan = make_plan(node, spec, ["repositories", "cuda", AREA])
    changes = {change.what: change for change in plan.changes}
    assert "signing key of repository cuda" in changes
    hold = changes["file /etc/apt/preferences.d/railwright-nccl-hold.pref"]
    assert f"Package: libnccl-dev\nPin: version {NEW}\nPin-Priority: 1001\n" in str(hold.after)
    steps = package_steps(plan.changes, "apt")["steps"]
    assert [(step["area"], step["names"]) for step in steps] == [
        ("cuda", ["cuda-toolkit-13-0=13.0.*"]), (AREA, [f"libnccl2={NEW}", f"libnccl-dev={NEW}"])]
    order = [area.name for area in AREAS]
    assert order.index("cuda") + 1 == order.index(AREA)


def test_no_repository_and_no_hold_for_a_wheel(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    node = gpu_node()
    spec = planner(AREA, node, **WHEEL).spec
    assert [change.what for change in make_plan(node, spec, ["repositories", AREA]).changes] == []


@pytest.mark.parametrize(("driver", "cuda"), [("580.126.20", "13"), ("595", "13"), ("570.86.15", "12"), ("525", "12"), ("470.1", "11"),
                                              ("390.1", ""), ("", "")])
def test_the_newest_cuda_of_a_driver(driver: str, cuda: str) -> None:
    assert cuda_for_driver(driver) == cuda


@pytest.mark.parametrize("asked", [None, "2.29.7", "2.29.7-2"])
def test_a_glob_is_one_that_apt_get_understands(gpu_node: Callable[..., Any], planner: Callable[..., Any], asked: str | None) -> None:
    """After ``=`` a star at the end, and no other: seen with real apt-get (scenario gpu_stack)."""
    for install in ("repository", "distribution"):
        plans = planner(AREA, gpu_node(), nccl_install=install, cuda_version="13.0", **({"nccl_version": asked} if asked else {}))
        assert [version.rstrip("*") for _what, _before, version, _class in plans.rows() if "*" in version.rstrip("*")] == []


def test_what_makes_dnf_hold_comes_too_where_it_is_missing(gpu_node: Callable[..., Any], planner: Callable[..., Any]) -> None:
    """Without the plugin the list of locks is a file that nobody reads."""
    node = gpu_node("rocky9")
    node.put("cmd/rpm_-qa", "bash\t(none)\t5.1.8-9.el9\n")
    plugin = "package python3-dnf-plugin-versionlock"
    assert planner(AREA, node, **REPOSITORY).look()[0].unless
    rows_of = {hold: planner(AREA, node, **REPOSITORY, nccl_hold=hold) for hold in (True, False)}
    observed = {hold: plans.look()[1]._replace(installed={"bash": "5.1.8-9.el9"}) for hold, plans in rows_of.items()}
    planned = {hold: [change.what for change in plans.area.plan(plans.look()[0], observed[hold])] for hold, plans in rows_of.items()}
    assert planned == {True: [plugin, "package libnccl", "package libnccl-devel"], False: ["package libnccl", "package libnccl-devel"]}
    node.put("etc/dnf/plugins/versionlock.conf", "[main]\nenabled = 1\n")
    assert not rows_of[True].look()[1].lacking
    assert plugin not in [change.what for change in rows_of[True].area.plan(rows_of[True].look()[0], observed[True]._replace(lacking=()))]
    assert not planner(AREA, gpu_node(), **REPOSITORY).look()[0].unless, "apt has preferences"
