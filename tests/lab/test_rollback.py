# SPDX-License-Identifier: GPL-3.0-or-later
"""A second inventory on two machines with real RDMA traffic, and back: packages, files and the kernel's values as before, and proved.

The tests are one story and run in this order. What a rollback does when it is killed, refused or undone is in the container scenario.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from lab_debs import Deb, Keyring, publish, served
from lab_images import FABRIC
from lab_machine import Machine, Outcome
from railwright import lab

RECIPE = FABRIC
HARDWARE = lab.Hardware()
RAILS = 1
OLD, NEW = "44.0-3", "44.0-4"
FIRST: dict[str, Any] = {
    "rdma_fabric": "roce",
    "rdma_stack": "soft_roce",
    "rdma_stack_pins": {"infiniband-diags": OLD},
    "rdma_mtu": 1500,
    "host_tuning_nofile": 524288,
    "rdma_consent": ["link", "restart", "downgrade"],
    "rdma_confirm_timeout_s": 600,  # two emulated machines on two cores are slow to answer, and nothing here is to be reverted
    # As for the lab of `make demo`: the path is proved, not its speed.
    "validate_min_bandwidth_gbps": 0.01,
    "validate_max_latency_us": 20000,
    "validate_max_write_latency_us": 20000,
    "validate_perftest_message_bytes": 65536,
    "validate_perftest_seconds": 5,
    "validate_timeout_s": 120,
}
SECOND: dict[str, Any] = {
    **FIRST,
    "rdma_stack_pins": {"infiniband-diags": NEW},
    "rdma_mtu": 9000,
    "host_tuning_nofile": 1048576,
    "host_tuning_sysctls": {"net.core.somaxconn": "8192"},
}
# Files that the tools of the system keep for themselves, and that no rollback of packages brings back byte for byte.
DIGESTS = """find /etc -xdev -type f ! -name ld.so.cache ! -name mtab ! -name resolv.conf ! -path '*/.updated' -print0 |
LC_ALL=C sort -z | xargs -0 sha256sum"""
Pair = tuple[Machine, Machine]


class Seen(NamedTuple):
    """A machine at one moment."""

    packages: str
    files: dict[str, str]
    kernel: tuple[str, ...]  # MTU of the rail, of the RDMA port, a sysctl


class Told(NamedTuple):
    """What validate said and what the machines had: with the first inventory, with the second, and after the rollback."""

    first: tuple[Outcome, tuple[Seen, ...]]
    second: tuple[Outcome, tuple[Seen, ...]]
    rollback: Outcome
    back: tuple[Outcome, tuple[Seen, ...]]


def seen(machine: Machine) -> Seen:
    files = dict(reversed(line.split("  ", 1)) for line in machine.sh(DIGESTS).splitlines())
    return Seen(
        machine.run("dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Abbrev}\n"),
        files,
        (machine.run("cat", "/sys/class/net/eth1/mtu"), machine.sh("ibv_devinfo -d rxe0 | grep active_mtu"),
         machine.run("cat", "/proc/sys/net/core/somaxconn")),
    )


@pytest.fixture(scope="module")
def pair(machines: Pair, keyring: Keyring, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Bare, and a site's own repository that has both versions of a package."""
    site = tmp_path_factory.mktemp("site")
    publish([Deb("infiniband-diags", version) for version in (OLD, NEW)], site / "repository", site / "work", keyring, "site")
    with served(site) as url:
        for machine in machines:
            machine.run("mkdir", "-p", "/etc/apt/keyrings")
            machine.write("/etc/apt/keyrings/site.asc", (site / "repository/key.asc").read_text(encoding="ascii"))
            source = f"Types: deb\nURIs: {url}/repository\nSuites: ./\nSigned-By: /etc/apt/keyrings/site.asc\n"
            machine.write("/etc/apt/sources.list.d/site.sources", source)
        yield machines


def apply(pair: Pair, site: dict[str, Any]) -> Outcome:
    pair[0].site(site)
    run = pair[0].railwright("apply")
    assert run.code == 0, (run.document, run.err)
    return run


def judged(pair: Pair) -> tuple[Outcome, tuple[Seen, ...]]:
    return pair[0].railwright("validate"), tuple(seen(machine) for machine in pair)


@pytest.fixture(scope="module")
def told(pair: Pair) -> Told:
    apply(pair, FIRST)
    first = judged(pair)
    run = apply(pair, SECOND)
    second = judged(pair)
    points = {node["restore_point"] for node in run.document["nodes"].values()}
    (name,) = {point.split("/")[-2].partition(".")[0] for point in points}
    pair[0].site(FIRST)
    back = pair[0].railwright("rollback", "--to", name, "--no-validate")
    return Told(first, second, back, judged(pair))


def passes(validate: Outcome) -> None:
    assert validate.code == 0, [verdict for verdict in validate.document["verdicts"] if verdict["status"] == "fail"]
    assert {verdict["status"] for verdict in validate.verdicts("perftest")} == {"pass"}, "real traffic between the machines"


def test_the_second_inventory_is_another_set_and_passes(told: Told) -> None:
    passes(told.first[0])
    passes(told.second[0])
    for first, second in zip(told.first[1], told.second[1], strict=True):
        assert f"infiniband-diags {OLD} ii" in first.packages
        assert f"infiniband-diags {NEW} ii" in second.packages
        assert all(ours != theirs for ours, theirs in zip(first.kernel, second.kernel, strict=True)), (first.kernel, second.kernel)
        assert first.files != second.files


def test_the_rollback_brings_packages_files_and_values_back(told: Told) -> None:
    assert told.rollback.code == 0, (told.rollback.document, told.rollback.err)
    for first, back in zip(told.first[1], told.back[1], strict=True):
        assert back.packages == first.packages
        assert back.kernel == first.kernel
        assert {path for path in first.files.keys() | back.files.keys() if first.files.get(path) != back.files.get(path)} == set()


def test_and_validate_passes_with_real_traffic(told: Told) -> None:
    passes(told.back[0])


def test_the_first_inventory_finds_nothing_to_do(pair: Pair, told: Told) -> None:
    plan = pair[0].railwright("plan")
    assert (plan.code, plan.document["summary"]["changes"]) == (0, 0), plan.document
