# SPDX-License-Identifier: GPL-3.0-or-later
"""``railwright container``: how a container on a node is started so that it reaches the RDMA devices and GPUs."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from railwright.cli import console
from railwright.cli.options import Format, Limit, OptionalInventory, Transport, TransportOption, option
from railwright.cli.trees import Sysroot, captured_tree
from railwright.exitcodes import ExitCode, InputError, combine
from railwright.inventories import Given, inventories

if TYPE_CHECKING:
    from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
    from railwright.cli.session import Judged
    from railwright.container_flags.model import Container, Options
    from railwright.container_flags.torchrun import Job
    from railwright.scan.questions import Question

HELP = """Print how to start a container on each node: as a command line, a Compose service, a pod, or a Containerfile.

Every RDMA device node that exists, unlimited locked memory, network, shared memory, GPUs, and the NCCL variables that the node gets, \
from one inspection of the node. torchrun in COMMAND gets its rank and master flags: ranks are in the order of the inventory. Ends 1 where \
the image's CUDA does not run on the node's driver, or where there is nothing to give. With --sysroot it reads a captured tree.

\b
Examples:
  railwright container flags -i mycluster --limit node1 --image train:1 -- torchrun train.py
  railwright container flags -i mycluster --limit node1 --near rail0 --format podman
  railwright container flags -i mycluster --format kubernetes --image train:1 > pods.yml
"""


class Output(StrEnum):
    """The forms; ``railwright.container_flags.FORMS`` has the same, but this file is read for every --help."""

    DOCKER = "docker"
    PODMAN = "podman"
    NERDCTL = "nerdctl"
    COMPOSE = "compose"
    KUBERNETES = "kubernetes"
    CONTAINERFILE = "containerfile"
    JSON = "json"


RUNTIMES = (Output.DOCKER, Output.PODMAN, Output.NERDCTL)
PATTERNS = {  # what an option must look like; the inventory's keys have the same rules
    "--image": (r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*", "the name of an image, like registry.example.com/train:1"),
    "--image-cuda": (r"[0-9]{1,2}\.[0-9]{1,2}(\.[0-9]+)?", "a release of CUDA, like 12.4"),
    "--image-os": (r"[a-z-]+[0-9][0-9.]*", "a distribution and its release, like ubuntu22.04 or rocky9"),
    "--rdma-resource": (r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?",
                        "the name of a resource, like rdma/hca_shared_devices_a"),
    "--master-addr": (r"[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?", "an address or a name"),
    "--near": (r"[A-Za-z0-9][A-Za-z0-9._:-]*", "an HCA, a rail, a PCI address, or gpu0, gpu1 …"),
}

FORM_HELP = f"{', '.join(Output)}. Default: the command line of the node's runtime."
FormOption = Annotated[Output | None, option("--format", "-f", metavar="FORM", help=FORM_HELP)]
Image = Annotated[str | None, option("--image", metavar="NAME", help="Default: containers_image.")]
ImageCuda = Annotated[
    str | None, option("--image-cuda", metavar="RELEASE", help="The image's CUDA. Default: read where the node has the image.")]
ImageOs = Annotated[str | None, option("--image-os", metavar="OS", help="The image's distribution, for a Containerfile.")]
Near = Annotated[str | None, option("--near", metavar="DEVICE", help="CPUs and memory of the NUMA node of an HCA, rail or GPU (gpu0).")]
Mad = Annotated[bool, typer.Option("--mad", help="umad and issm devices too, for subnet management tools.")]
PodNetwork = Annotated[bool, typer.Option("--pod-network", help="A pod with a network of its own, not the host's.")]
Resource = Annotated[str | None, option("--rdma-resource", metavar="NAME", help="What the cluster's device plugin calls RDMA devices.")]
JobOption = Annotated[str | None, option("--job", metavar="PATTERN", help="The nodes of the job, for ranks. Default: all nodes.")]
MasterAddress = Annotated[
    str | None, option("--master-addr", metavar="ADDRESS", help="Where rank 0 is reached. Default: the first node's own address.")]
MasterPort = Annotated[int, typer.Option("--master-port", metavar="PORT", min=1024, max=65535, help="Where rank 0 listens.")]
Processes = Annotated[int | None, option("--nproc-per-node", metavar="NUMBER", min=1, max=1024, help="Default: one for each GPU.")]
Command = Annotated[list[str] | None, typer.Argument(metavar="[-- COMMAND]...", help="What runs in the container.", show_default=False)]


class Wish(NamedTuple):
    """What the command line says, beside what the inventory does."""

    form: Output | None
    options: Options
    master: str | None
    port: int
    pattern: str | None


def flags(
    words: Command = None, inventory: OptionalInventory = None, limit: Limit = None, form: FormOption = None, near: Near = None,
    image: Image = None, image_cuda: ImageCuda = None, image_os: ImageOs = None, job: JobOption = None, master_addr: MasterAddress = None,
    master_port: MasterPort = 29500, nproc_per_node: Processes = None, pod_network: PodNetwork = False, rdma_resource: Resource = None,
    mad: Mad = False, sysroot: Sysroot = None, transport: TransportOption = Transport.AUTO,
) -> None:  # fmt: skip
    from railwright.container_flags.model import Options

    _check({"--image": image, "--image-cuda": image_cuda, "--image-os": image_os, "--near": near, "--rdma-resource": rdma_resource,
            "--master-addr": master_addr})
    if pod_network and form not in (Output.KUBERNETES, Output.JSON):
        raise InputError("--pod-network is for pods; allowed: with --format kubernetes or json")
    chosen = Options(image=image, image_cuda=image_cuda, image_os=image_os, near=near, mad=mad, pod_network=pod_network,
                     rdma_resource=rdma_resource, processes=nproc_per_node, command=tuple(words or ()))
    wish = Wish(form, chosen, master_addr, master_port, job)
    if sysroot is not None:
        raise typer.Exit(_captured(sysroot, inventory, limit, wish))
    if inventory is None:
        raise InputError("no node is named: give -i INVENTORY, or --sysroot DIR")
    raise typer.Exit(_live(inventory, limit, wish, transport))


def _check(given: Mapping[str, str | None]) -> None:
    for name, value in given.items():
        pattern, allowed = PATTERNS[name]
        if value is not None and not re.fullmatch(pattern, value):
            raise InputError(f"{name} {value}: allowed: {allowed}")


def _live(inventory: Given, limit: str | None, wish: Wish, transport: Transport) -> ExitCode:
    from railwright.cli.session import Session, overall, require

    session = Session("container", inventory, limit, Format.JSON if wish.form is Output.JSON else Format.TEXT)
    session.judge()
    specs = _specs(inventory, wish.pattern)
    variables: dict[str, Any] = {"rdma_container_job": list(specs)}
    if wish.options.image is not None:
        variables["rdma_container_image"] = wish.options.image
    outcome = session.scan("container_flags", transport, variables, lambda judged: _question(judged, wish, list(specs)[:1]))
    require(outcome, lambda host: host.container is not None, "container flags")
    answers = {host.name: host.container for host in outcome.hosts.values() if host.container is not None}
    # Those of nodes outside the job too, whose flags were asked for.
    made = _containers(answers, specs if set(answers) <= set(specs) else _specs(inventory, None), list(specs), wish)
    documents: dict[str, Any] = {}
    for host in outcome.hosts.values():
        if host.status != "ok":
            console.note(f"{host.name}: {host.status}: {host.message}")
            documents[host.name] = None
    return combine([overall(outcome), _show(made, wish.form, documents)])


def _question(judged: Judged, wish: Wish, first: list[str]) -> Question:
    """``first``: the job's first node, whose addresses of the inventory its others get."""
    from railwright.scan.nodes import inventory_addresses
    from railwright.scan.questions import container_question

    peers = inventory_addresses(judged.inventory, first)["peers"] if first else []
    return container_question(wish.options.image, [network.partition("/")[0] for network in peers])


def _captured(sysroot: Path, inventory: Given | None, limit: str | None, wish: Wish) -> ExitCode:
    """One tree is one node: without an inventory by itself, with one as the node that --limit names."""
    from ansible_collections.railwright.rdma.plugins.module_utils.entry.containers import inspect_container_access as inspect
    from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost

    tree = captured_tree(sysroot)
    if inventory is None:
        if limit is not None or wish.pattern is not None:
            raise InputError("--limit and --job choose nodes of an inventory; give -i INVENTORY too")
        answer = inspect(TreeHost(tree), None, wish.options.image)
        name = str(answer.get("hostname") or sysroot.name)
        return _show(_containers({name: answer}, {}, [name], wish), wish.form, {})
    chosen = _specs(inventory, limit)
    if len(chosen) != 1:
        raise InputError(f"--sysroot {sysroot} is one node, and the inventory has {len(chosen)}; allowed: --limit with the name of one")
    ((name, spec),) = chosen.items()
    job = _specs(inventory, wish.pattern)
    answer = inspect(TreeHost(tree), spec, wish.options.image or spec["containers_image"])
    first = next(iter(job.values()))  # without Ansible's own variables, which lint does not read
    rails = [rail.address.partition("/")[0] for rail in first.rails if rail.address is not None]
    answer["first_addresses"] = [*first["ssh_mesh_addresses"], *rails]
    return _show(_containers({name: answer}, {**job, **chosen}, list(job), wish), wish.form, {})


def _specs(inventory: Given, pattern: str | None) -> dict[str, Spec]:
    """The wishes for the nodes that a pattern names, in the order of the inventory."""
    from railwright.cli.session import opened

    loaded = opened(inventory, pattern, Format.TEXT)
    from railwright.lint import build_specs

    specs, findings = build_specs(loaded)
    first = next((finding for finding in findings if finding.severity == "error"), None)
    if first is not None:
        raise InputError(f"{inventories(inventory)}: {first.host}: {first.key}: {first.message}; allowed: {first.allowed}")
    return {name: specs[name] for name in loaded.hosts}


def _containers(answers: Mapping[str, dict[str, Any]], specs: Mapping[str, Spec], ranks: list[str], wish: Wish) -> list[Container]:
    from railwright.container_flags.model import container

    return [container(name, answer, _options(wish, specs.get(name)), _job(name, answers, ranks, wish)) for name, answer in answers.items()]


def _options(wish: Wish, spec: Spec | None) -> Options:
    """The command line before the inventory."""
    form = wish.form.value if wish.form is not None and wish.form is not Output.JSON else None
    runtime = {Output.COMPOSE: "docker", **{item: item.value for item in RUNTIMES}}.get(wish.form or Output.JSON)
    if spec is None:
        return wish.options._replace(form=form, runtime=runtime or "auto")
    return wish.options._replace(
        form=form, runtime=runtime or spec["containers_runtime"], gpu=spec["containers_gpu"],
        image=wish.options.image or spec["containers_image"],
        shm_size=spec["containers_shm_size"], pod_interface=spec["containers_pod_interface"], fabric=spec.fabric, spec=spec)  # fmt: skip


def _job(name: str, answers: Mapping[str, dict[str, Any]], ranks: list[str], wish: Wish) -> Job:
    """A node's place in the job: ranks are in the order of the inventory, and rank 0's own address is everybody's master."""
    from railwright.container_flags import NAME, pod_name
    from railwright.container_flags.model import usable_address
    from railwright.container_flags.torchrun import LOOPBACK, Job

    if name not in ranks:
        raise InputError(f"--job {wish.pattern}: {name} is no node of the job; allowed: a --limit within it")
    first, rank, count = ranks[0], ranks.index(name), len(ranks)
    if wish.master is not None:
        return Job(count, rank, wish.master, wish.port, "as --master-addr says")
    if count == 1:
        return Job(1, 0, LOOPBACK, wish.port)
    if wish.options.pod_network:
        return Job(count, rank, f"{pod_name(first)}.{NAME}", wish.port, "a name of the service")
    own = usable_address(answers.get(first, {}).get("addresses") or [])
    if own is not None:
        return Job(count, rank, own, wish.port, f"read on {first}")
    told = usable_address(answers[name].get("first_addresses") or [])
    return Job(count, rank, told, wish.port, f"{first} in the inventory")


def _show(made: list[Container], form: Output | None, documents: dict[str, Any]) -> ExitCode:
    """Texts go out as they are: a shell or a parser reads them, and every part of them was checked or quoted. None for a node with a
    problem: whoever redirects the text would use it."""
    from railwright.container_flags import as_document, rendered

    for item in made:
        for problem in item.problems:
            console.note(f"{item.node}: error: {problem}")
    if form is Output.JSON:
        console.print_json({**documents, **{item.node: as_document(item) for item in made}})
    else:
        sys.stdout.write(rendered(form.value if form is not None else None, [item for item in made if not item.problems]))
    return ExitCode.FAILED if any(item.problems for item in made) else ExitCode.OK


ABOUT, VERBS = "Containers that use RDMA devices and GPUs.", {"flags": (flags, HELP)}
