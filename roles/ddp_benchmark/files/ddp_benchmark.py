# SPDX-License-Identifier: GPL-3.0-or-later
"""A small data-parallel training, and the checks that must hold before its figures mean anything. torchrun starts it on every rank.

What it finds goes into files below ``--directory`` (a directory of each node, or one that all share): ``rank-N.json``, versions of every
rank, and how it arrives at collectives; ``failed-N.json``, why a rank gave up; ``progress.json`` and ``result.json`` of rank 0. Standard
output is for people only: the lines of all ranks mix there. Python 3.8, torch 1.13 to 2.11.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import re
import sys
import time
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ddp_report

SEED = 20240607
GPU_MODEL, CPU_MODEL = (2048, 6), (256, 4)  # width and depth: 25.2 million parameters (101 MB of gradients), and 0.26 million (1 MB)
CHECK_MODEL = (128, 3)
CHECK_ELEMENTS = (1, 1000003)  # the second is a prime: it divides evenly among no number of ranks, channels or warps
PATTERN = 251
TOLERANCE = 1e-3  # of the largest gradient: two orders of addition may differ in the last bits, one missing rank differs by far more
PROGRESS_S = 1.0
WATCHED = 64  # steps after the timed ones
ALONE = 64  # steps of each rank by itself
DRIVER = Path("/proc/driver/nvidia/version")


class WrongValueError(Exception):
    """Data arrived and was not what was sent."""


class Place:
    """Who and where this process is: torchrun's environment, never a guess from host names."""

    def __init__(self, backend: str, directory: Path) -> None:
        self.rank, self.local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
        self.world_size = int(os.environ["WORLD_SIZE"])
        self.directory = directory
        self.cuda = backend == "nccl"
        if self.cuda:
            torch.cuda.set_device(self.local_rank)  # the global rank names no device on any node but the first
        self.device = torch.device("cuda", self.local_rank) if self.cuda else torch.device("cpu")

    def synchronize(self) -> None:
        """Wait until the device has done all that was asked of it: without this a time is that of the asking."""
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def barrier(self) -> None:
        if self.cuda:
            dist.barrier(device_ids=[self.local_rank])
        else:
            dist.barrier()
        self.synchronize()

    def write(self, name: str, content: dict[str, Any]) -> None:
        """Written beside and renamed: a reader sees the whole file or none."""
        beside = self.directory / f".{name}"
        beside.write_text(json.dumps(content), encoding="utf-8")
        beside.replace(self.directory / name)

    def progress(self, phase: str, step: int = 0, steps: int = 0) -> None:
        if self.rank == 0:
            self.write("progress.json", {"phase": phase, "step": step, "steps": steps})


def record_failure(place: Place) -> None:
    """Whatever ends this rank is left in a file: in the mixed output of all ranks the first cause is hard to find."""
    earlier = sys.excepthook

    def record(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        text = str(error).strip().partition("\n")[0]
        place.write(f"failed-{place.rank}.json", {
            "rank": place.rank, "kind": "values" if issubclass(kind, WrongValueError) else "error", "at": time.time(),
            "message": f"{kind.__name__}: {text}"})
        earlier(kind, error, trace)

    sys.excepthook = record


def versions(place: Place) -> dict[str, Any]:
    """As this rank sees them; None is what is not there."""
    nccl = torch.cuda.nccl.version() if place.cuda else None
    driver = None
    if DRIVER.is_file():
        found = re.search(r"Kernel Module(?: for \S+)?\s+(\d[\d.]*)", DRIVER.read_text(encoding="utf-8"))
        driver = found.group(1) if found else None
    return {
        "rank": place.rank, "local_rank": place.local_rank, "torch": str(torch.__version__), "cuda": torch.version.cuda,
        "nccl": ".".join(str(part) for part in nccl) if isinstance(nccl, tuple) else nccl, "driver": driver,
        "device": torch.cuda.get_device_name(place.device) if place.cuda else "cpu",
    }


def network(shape: tuple[int, int], seed: int, device: Any) -> Any:
    """Made on the CPU, so that one seed gives the same parameters on every kind of GPU."""
    width, depth = shape
    torch.manual_seed(seed)
    layers: list[Any] = []
    for _layer in range(depth):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).to(device)


def require_equal(what: str, found: Any, expected: Any) -> None:
    flat, wanted = found.detach().reshape(-1), expected.detach().reshape(-1)
    wrong = torch.nonzero(flat != wanted).reshape(-1)
    if wrong.numel():
        at = int(wrong[0])
        raise WrongValueError(f"{what}: {wrong.numel()} of {flat.numel()} values are wrong, "
                              f"the first at {at}: {flat[at].item()}, not {wanted[at].item()}")


def check_all_reduce(place: Place) -> None:
    """The sum over all ranks, exact in whole numbers, and in floats as long as it is small."""
    for kind in (torch.int64, torch.float32):
        for elements in CHECK_ELEMENTS:
            pattern = (torch.arange(elements, device=place.device) % PATTERN + 1).to(kind)
            data = pattern * (place.rank + 1)
            dist.all_reduce(data)
            total = place.world_size * (place.world_size + 1) // 2
            if kind is torch.int64 or PATTERN * total < 1 << 24:  # beyond that a float32 is not exact
                require_equal(f"all_reduce of {elements} {kind} on rank {place.rank}", data, pattern * total)


def check_broadcast(place: Place) -> None:
    """Parameters of the first and of the last rank reach every other one; each starts with others, so that nothing arrives by chance."""
    for source in sorted({0, place.world_size - 1}):
        own, wanted = network(CHECK_MODEL, SEED + place.rank, place.device), network(CHECK_MODEL, SEED + source, place.device)
        label = f"broadcast from rank {source} on rank {place.rank}"
        for number, (parameter, expected) in enumerate(zip(own.parameters(), wanted.parameters())):
            if place.rank != source and torch.equal(parameter, expected):
                raise WrongValueError(f"{label}: parameter {number} was the same before: the check shows nothing")
            dist.broadcast(parameter.data, source)
            require_equal(f"{label}, parameter {number}", parameter, expected)


def check_gradients(place: Place, model: Any, loss_of: Callable[[], Any]) -> None:
    """What DDP leaves in ``grad`` is the mean of all ranks' own gradients, which differ as their data do."""
    with model.no_sync():
        loss_of().backward()
    own = [parameter.grad.detach().clone() for parameter in model.parameters()]
    model.zero_grad(set_to_none=True)
    loss_of().backward()
    means = [parameter.grad.detach() for parameter in model.parameters()]
    for number, (mine, mean) in enumerate(zip(own, means)):
        expected = mine.clone()
        dist.all_reduce(expected)
        expected /= place.world_size
        largest = float(expected.abs().max())
        if not float((mean - expected).abs().max()) <= TOLERANCE * largest:  # "not <=": a nan is wrong too
            raise WrongValueError(f"gradients on rank {place.rank}: parameter {number} is not the mean of all ranks")
        if place.world_size > 1 and torch.equal(mine, mean):
            raise WrongValueError(f"gradients on rank {place.rank}: parameter {number} was not reduced")
    model.zero_grad(set_to_none=True)


def mean_loss(place: Place, loss_of: Callable[[], Any]) -> float:
    """Over all ranks: it is their common mean that training lowers, not each rank's own."""
    with torch.no_grad():
        loss = loss_of()
        dist.all_reduce(loss)
    return float(loss) / place.world_size


def measure(place: Place, options: argparse.Namespace, one_step: Callable[[], Any]) -> tuple[list[float], float]:
    """(seconds of each step on the slowest rank, seconds from barrier to barrier)."""
    place.progress("warm-up")
    for _step in range(options.warmup):
        one_step()
    place.barrier()
    times = []
    begun = shown = time.perf_counter()
    for step in range(options.steps):
        before = time.perf_counter()
        one_step()
        place.synchronize()
        after = time.perf_counter()
        times.append(after - before)
        if after - shown > PROGRESS_S:
            place.progress("steps", step + 1, options.steps)
            shown = after
    place.barrier()
    slowest = torch.tensor([*times, time.perf_counter() - begun], dtype=torch.float64, device=place.device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    found = [float(item) for item in slowest.tolist()]
    return found[:-1], found[-1]


def arrivals(place: Place, model: Any, loss_of: Callable[[], Any]) -> dict[str, list[float]]:
    """Milliseconds of each of some more steps: this rank's own work, and the all-reduce of the gradients behind it.

    All ranks leave an all-reduce together: the one that is in it for the shortest time came last, and no clocks are compared. The timed
    steps cannot tell it, as there the all-reduce runs beside the work, and what watched it would slow it down.
    """
    place.progress("arrivals")
    found: dict[str, list[float]] = {"own_ms": [], "wait_ms": []}
    place.barrier()
    left = time.perf_counter()
    for _step in range(WATCHED):
        with model.no_sync():
            loss_of().backward()
        gradients = torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters()])
        model.zero_grad(set_to_none=True)
        place.synchronize()
        came, begun = time.perf_counter(), left
        dist.all_reduce(gradients)
        place.synchronize()
        left = time.perf_counter()
        found["own_ms"].append(round((came - begun) * 1000.0, 4))
        found["wait_ms"].append(round((left - came) * 1000.0, 4))
    return found


def make_repeatable() -> None:
    """Whatever could give other bits the next time is off, or fails: PyTorch's notes on reproducibility. What cuBLAS and NCCL need is in
    the environment (module_utils/measure/ddp/launch.py)."""
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False


def checksum(model: Any) -> str:
    """sha256 of the bytes of all parameters. By their address: what torch has for it needs numpy."""
    found = hashlib.sha256()
    for parameter in model.parameters():
        data = parameter.detach().cpu().contiguous()
        found.update(ctypes.string_at(data.data_ptr(), data.numel() * data.element_size()))
    return found.hexdigest()


def alone(place: Place, options: argparse.Namespace) -> str:
    """The same training, of the same data, on every rank by itself: GPUs of one kind end with the same bits, and a GPU that computes
    wrongly is the one that does not. In the common training its gradients reach all ranks, which then agree on what is wrong."""
    place.progress("alone")
    shape = GPU_MODEL if place.cuda else CPU_MODEL
    model, criterion = network(shape, SEED, place.device), nn.MSELoss()
    torch.manual_seed(SEED)
    inputs, targets = (torch.randn(options.batch, shape[0]).to(place.device) for _each in range(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _step in range(ALONE):
        optimizer.zero_grad(set_to_none=True)
        criterion(model(inputs), targets).backward()
        optimizer.step()
    return checksum(model)


def train(place: Place, options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """The benchmark itself, gradients checked first, and how this rank arrives. Every rank has data of its own, made on its device."""
    shape = GPU_MODEL if place.cuda else CPU_MODEL
    model = DistributedDataParallel(network(shape, SEED + place.rank, place.device), device_ids=[place.local_rank] if place.cuda else None)
    torch.manual_seed(SEED + 1000 + place.rank)
    inputs = torch.randn(options.batch, shape[0], device=place.device)
    targets = torch.randn(options.batch, shape[0], device=place.device) + 1.0  # a mean that can be learned from any number of ranks
    criterion, optimizer = nn.MSELoss(), torch.optim.SGD(model.parameters(), lr=0.1)

    def loss_of() -> Any:
        return criterion(model(inputs), targets)

    def one_step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss

    check_gradients(place, model, loss_of)
    first = mean_loss(place, loss_of)
    times, elapsed = measure(place, options, one_step)
    last = mean_loss(place, loss_of)
    if not last < first:  # "not <": a nan is no training either
        raise WrongValueError(f"training: the loss of all ranks went from {first:g} to {last:g}")
    size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    found = ddp_report.figures(times, elapsed, place.world_size, options.batch)
    found.update(gradient_bytes=size, loss=[first, last])
    own: dict[str, Any] = {}
    if options.repeatable:
        uuid = getattr(torch.cuda.get_device_properties(place.device), "uuid", None) if place.cuda else None  # since torch 2.4
        own = {"together": checksum(model), "alone": alone(place, options), "uuid": None if uuid is None else str(uuid)}
    return found, {**own, **arrivals(place, model, loss_of)}


def run(options: argparse.Namespace) -> None:
    place = Place(options.backend, options.directory)
    record_failure(place)
    if options.repeatable:
        make_repeatable()
    own = versions(place)
    place.write(f"rank-{place.rank}.json", own)
    place.progress("rendezvous")
    dist.init_process_group(options.backend, timeout=timedelta(seconds=options.patience))
    place.progress("values")
    check_all_reduce(place)
    check_broadcast(place)
    found, arrived = train(place, options)
    place.write(f"rank-{place.rank}.json", {**own, **arrived})
    place.barrier()
    if place.rank == 0:
        place.write("result.json", {
            "backend": options.backend, "world_size": place.world_size, "steps": options.steps, "batch": options.batch,
            "checks": ["all_reduce", "broadcast", "gradients"], **found})
        place.progress("done", options.steps, options.steps)
        label = f"{place.world_size} ranks, {options.backend}, {found['gradient_bytes'] / 1e6:.1f} MB of gradients"
        sys.stdout.write(f"{ddp_report.line(found, label)}\n{found['samples_per_s']:.0f} samples/s\n")
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description="Data-parallel training benchmark; start it with torchrun.")
    parser.add_argument("--directory", type=Path, default=Path(), help="where the files go")
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--steps", type=int, default=100, help="timed steps")
    parser.add_argument("--warmup", type=int, default=10, help="untimed steps before them")
    parser.add_argument("--batch", type=int, default=64, help="samples of a step on each rank")
    parser.add_argument("--patience", type=int, default=120, help="seconds after which a rank that waits for another one gives up")
    parser.add_argument("--repeatable", action="store_true", help="the same bits every time, which costs speed, and their checksums")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
