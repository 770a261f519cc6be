# SPDX-License-Identifier: GPL-3.0-or-later
"""What railwright downloads, as rows to mirror: all of the catalogue, or what the hosts of one inventory can come to need.

Which system a host runs is not known before it answers, so a host that wants DOCA needs the rows of every system.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ansible_collections.railwright.rdma.plugins.module_utils.areas.erdma.drivers import source_of
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue import artifacts
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.aiacc import ending_of, package_of
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.erdma import KEY
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.libnccl import wanted_cuda
from ansible_collections.railwright.rdma.plugins.module_utils.catalogue.stacks import VENDORS
from ansible_collections.railwright.rdma.plugins.module_utils.rules.erdma_mode import AUTO, DKMS
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec

OPERATOR = "operator"
INVENTORY = "inventory"


class Row(NamedTuple):
    """One artifact. ``value`` is None when it is not pinned. Of an inventory's rows ``taken_from`` is the URL that a node uses.

    ``url`` begins with the key's name, nccl_wheel_index, where no inventory says which package index it is.
    """

    name: str
    version: str
    url: str
    kind: str
    pin: str
    value: str | None
    source: str
    path: str | None = None  # where a mirror keeps it; the operator's own URLs are taken as they are
    taken_from: str | None = None

    def as_dict(self) -> dict[str, str]:
        """The documented form: only the key that fits the pin."""
        value = {self.pin: self.value} if self.value is not None else {}
        row = {"name": self.name, "version": self.version, "url": self.url, "kind": self.kind, "pin": self.pin}
        place = {"path": self.path} if self.path is not None else {}
        place |= {"from": self.taken_from} if self.taken_from is not None else {}
        return row | value | {"source": self.source} | place


def all_rows() -> list[Row]:
    return [Row(row.name, row.version, artifacts.located(row), row.kind, row.pin, row.value, row.source) for row in artifacts.ARTIFACTS]


def rows_for(specs: Iterable[Spec]) -> list[Row]:
    """What these hosts can come to need, each once."""
    found = {(row.name, row.url, row.taken_from): row for spec in specs for row in _rows(spec)}
    return list(found.values())


def _rows(spec: Spec) -> Iterator[Row]:
    vendor = "doca" if spec.rdma_stack == "auto" else spec.rdma_stack
    if vendor in VENDORS and (spec.fabric != "erdma" or spec.rdma_stack in VENDORS):
        offline: Mapping[str, str] = spec["rdma_stack_offline_package"]
        if offline:
            yield _own("rdma_stack_offline_package", offline["url"], "package", offline["sha256"])
        else:
            yield from _repository(spec, vendor, "rdma_stack", spec["rdma_stack_version"])
    elif spec.fabric == "erdma" and spec["erdma_repository"] != "false":
        yield from _repository(spec, "erdma", "erdma", None)
    driver = spec["gpu_driver_branch"] is not None and spec["gpu_driver_source"] == "cuda_repository"
    if driver or spec["cuda_version"] is not None or spec["nccl_install"] == "repository":
        yield from _repository(spec, "cuda", "cuda", None)
    if spec["gpudirect_path"] == "nv_peer_mem":
        yield from _starting("nv_peer_mem", spec, None)
    driver_source = source_of(spec) if spec.fabric == "erdma" and spec["erdma_driver"] in {AUTO, DKMS} else None
    if driver_source is not None:
        yield from (_resolved(row, spec, driver_source.version) for row in artifacts.ARTIFACTS if row.name == driver_source.artifact)
    for psid, image in sorted(spec["nic_firmware_images"].items()):
        yield _own(f"nic_firmware_images.{psid}", image["url"], "archive", image["sha256"])
    yield from _aiacc(spec)
    yield from _of_the_dry_run(spec)


def _aiacc(spec: Spec) -> Iterator[Row]:
    """Both kinds: which one a host needs, its system says. The operator's own URL is of one kind, and has the pin of its kind."""
    if not spec["aiacc_install"] or spec["aiacc_archive"] is not None:
        return
    url: str | None = spec["aiacc_url"]
    for manager in ("apt", "dnf"):
        package = package_of(spec, manager)
        row = artifacts.find_artifact(package.artifact) if package is not None else None
        if package is None or row is None:
            continue
        if url is None:
            yield _resolved(row, spec, None)
        elif url.endswith(f".{ending_of(manager)}"):
            yield _own("aiacc_url", url, "package", package.sha256)


def _of_the_dry_run(spec: Spec) -> Iterator[Row]:
    """What `bench` brings."""
    if spec["nccl_install"] in {"wheel", "source"} and spec["nccl_archive"] is None:
        cuda = wanted_cuda(spec)  # every wheel where only the node knows it
        start = "nccl-source" if spec["nccl_install"] == "source" else f"nccl-wheel-cu{cuda}-" if cuda else "nccl-wheel-"
        yield from _starting(start, spec, spec["nccl_version"])
    if spec["mpi_install"] == "hpcx" and spec["mpi_archive"] is None:
        yield from _starting("hpcx-", spec, spec["mpi_version"])
    if spec["nccl_tests_install"] == "build" and spec["nccl_tests_archive"] is None:
        yield from _starting("nccl-tests", spec, spec["nccl_tests_version"])


def _starting(start: str, spec: Spec, release: str | None) -> Iterator[Row]:
    """Rows with a commit say what the archives are of; nothing clones."""
    for row in artifacts.ARTIFACTS:
        if row.name.startswith(start) and row.pin != "commit":
            yield _resolved(row, spec, release)


def _repository(spec: Spec, vendor: str, role: str, release: str | None) -> Iterator[Row]:
    """A repository and its key: the operator's where he names them, else the vendor's for every system."""
    fingerprint: str | None = spec[f"{role}_repository_fingerprint"]
    if vendor == "erdma":  # one key for all of them: who pins it pins what it signs
        fingerprint = fingerprint or spec["artifact_pins"].get(KEY)
    own = {"repository": spec[f"{role}_repository_url"], "key": spec[f"{role}_repository_key_url"]}
    names = {"repository": f"{role}_repository_url", "key": f"{role}_repository_key_url"}
    for kind in ("repository", "key"):
        if own[kind] is not None:
            yield _own(names[kind], own[kind], kind, fingerprint)
    for row in artifacts.ARTIFACTS:
        if row.kind in own and own[row.kind] is None and row.name.startswith(f"{vendor}-"):
            resolved = _resolved(row, spec, release)
            yield resolved if fingerprint is None else _with_pin(resolved, "fingerprint", fingerprint)


def _resolved(row: artifacts.Artifact, spec: Spec, release: str | None) -> Row:
    """A catalogue row as this inventory sees it: in the release that it asks for, with the pin that its operator gives."""
    version = release if release is not None and "{version}" in row.url else row.version
    url = artifacts.at_vendor(row, spec, release)
    place = {"path": artifacts.mirror_path(artifacts.located(row, release)), "taken_from": artifacts.download_url(row, spec, release)}
    resolved = Row(row.name, version, url, row.kind, row.pin, row.value, row.source, **place)
    given = spec["artifact_pins"].get(row.name)
    if given is None and row.pin == "sha256" and version != row.version:  # a fingerprint is of every release, a checksum of one
        return resolved._replace(pin=OPERATOR, value=None, source=f"{row.source}; the catalogue has no checksum of {version}")
    return _with_pin(resolved, artifacts.pin_form(row), artifacts.pinned(row, spec)) if given is not None else resolved


def _with_pin(row: Row, pin: str, value: str | None) -> Row:
    return row._replace(pin=pin, value=value, source=f"{row.source}; the {pin} is the inventory's")


def _own(name: str, url: Any, kind: str, value: str | None) -> Row:
    pin = OPERATOR if value is None else artifacts.OPERATOR_PIN[kind]
    return Row(name, "-", str(url), kind, pin, value, INVENTORY, taken_from=str(url))
