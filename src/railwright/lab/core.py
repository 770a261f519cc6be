# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's verbs. Each takes the state directory, holds the lab's lock while it works and leaves state.json true."""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeVar

from ansible_collections.railwright.rdma.plugins.module_utils.formats.outside import lines_in
from railwright.lab import image as images
from railwright.lab import machine, net, reach, seed, tools
from railwright.lab.image import Image, Progress
from railwright.lab.recipe import PLAIN, Recipe
from railwright.lab.state import ORDINARY, Hardware, LabPaths, LabState, Node, cache_root, load_state, locked, save_state
from railwright.lab.tools import LabError

T = TypeVar("T")

BARE = "bare"
# sun_path holds 108 bytes; QEMU's own limit is the same.
_SOCKET_PATH_MAX = 100


class NodeStatus(NamedTuple):
    name: str
    running: bool
    pid: int | None
    ssh_port: int
    ssh_answers: bool


def silent(_: str) -> None:
    """The progress callback of callers that want none."""


def current(state_dir: Path | None = None) -> LabState:
    """The lab that `up` made, running or not."""
    state = load_state(LabPaths.of(state_dir))
    if state is None:
        raise LabError("there is no lab yet; start one with `railwright lab up`")
    return state


def up(
    nodes: int = 2, *, state_dir: Path | None = None, fresh: bool = False, rails: int = 1, recipe: Recipe = PLAIN,
    hardware: Hardware = ORDINARY, progress: Progress = silent,
) -> LabState:  # fmt: skip
    """Bring up a lab of bare nodes and return when every node answers over ssh.

    A stopped lab starts from its bare snapshot, so its nodes are bare again; machines that run are left as they are, and a
    node that was powered off beside running ones boots from its disk. fresh makes new disks and a new inventory.
    recipe and hardware are for tests that need a boot loader, a compiler or PCI Express; both stay as they are while nodes run.
    """
    net.check_size(nodes, rails)
    tools.require()
    paths = LabPaths.of(state_dir)
    seed.private_directory(paths.root)
    with locked(paths.root / "lock"):
        state = load_state(paths)
        if state is not None and _running(state):
            if not fresh:
                return _complete(state, nodes, rails, progress)
            _stop_all(state, progress)
        image = images.ensure(progress, recipe)
        planned = _plan(paths, state, image, nodes, rails, recipe.offset, hardware, progress)
        return _start(planned, state, image, recipe, fresh=fresh, progress=progress)


def _plan(
    paths: LabPaths, old: LabState | None, image: Image, nodes: int, rails: int, offset: int, hardware: Hardware, progress: Progress
) -> LabState:
    """Decide everything about the lab before anything is started."""
    keep = {node.name: node.ssh_port for node in old.nodes} if old else {}
    accel = machine.choose_accelerator(image, progress)
    # A memory snapshot loads only into the machine it was taken of: same QEMU, devices, memory and accelerator.
    version = lines_in(tools.run_tool(["qemu-system-x86_64", "--version"]))[0]
    parts = [image.key, *machine.ARGV[accel], str(rails), str(machine.MEMORY_MB), machine.DIRECT_ARGS, version, *hardware.words()]
    shape = sha256("\0".join(parts).encode()).hexdigest()[:16]
    made = net.make_nodes(nodes, rails, keep)
    return LabState(paths.root, image.key, accel, shape, made, _socket_dir(paths, old), old.site_hash if old else "", offset, hardware)


def _socket_dir(paths: LabPaths, old: LabState | None) -> str:
    """Beside the state where the path is short enough for a socket, else a private directory of its own."""
    beside = paths.root / "sock"
    if len(str(beside)) + len("/node32.rail7") <= _SOCKET_PATH_MAX:
        seed.private_directory(beside)
        return str(beside)
    if old and Path(old.socket_dir).is_dir():
        return old.socket_dir
    return tempfile.mkdtemp(prefix="railwright-lab-")


def _start(state: LabState, old: LabState | None, image: Image, recipe: Recipe, *, fresh: bool, progress: Progress) -> LabState:
    reusable = old is not None and old.shape == state.shape and not fresh
    if old is not None and not fresh and not reusable:
        progress("the image or the machines' shape changed: making new disks")
    save_state(state)  # Before the first process, so that `down` finds whatever a failure leaves behind.
    net.remove_bridges(state.paths)  # Its taps belong to the old number of nodes.
    restored = [node for node in state.nodes if reusable and BARE in machine.snapshots(state, node)]
    cold = [node for node in state.nodes if node not in restored]
    seed.keypair(state.paths.ssh_key, "railwright-lab")  # Once, before the nodes ask for it side by side.
    _each(cold, lambda node: seed.make_disk(state, node, image))
    seed.write_known_hosts(state)
    state = replace(state, site_hash=reach.write(state, fresh=fresh))
    save_state(state)
    if cold:
        progress(f"booting {_names(cold)} ({'KVM' if state.accel == 'kvm' else 'plain emulation, about a minute'})")
    if restored:
        progress(f"restoring {_names(restored)} from the bare snapshot")
    try:
        _boot(state, image, recipe, cold, restored, progress)
    except BaseException:
        # Half a lab would pass for a whole one at the next `up`, but without its bare snapshot.
        _stop_all(state, progress)
        raise
    return state


def _boot(state: LabState, image: Image, recipe: Recipe, cold: list[Node], restored: list[Node], progress: Progress) -> None:
    for node in state.nodes:
        machine.start(state, node, image, BARE if node in restored else None)
    reach.wait(state, state.nodes, progress)
    _each(restored, lambda node: reach.set_clock(state, node))
    _right_clocks(state, image, cold, progress)
    if cold:
        for command in recipe.first_boot:
            _each(cold, partial(reach.run_on_node, state, command=list(command), timeout=reach.BOOT_SECONDS))
        progress("taking the bare snapshot")
        _each(cold, lambda node: _take(state, node, BARE))


def _right_clocks(state: LabState, image: Image, cold: list[Node], progress: Progress) -> None:
    """A kernel measures the TSC in a few milliseconds of its boot. Where the machine waits for a processor just then, its time runs several
    times too fast until the next boot, and every snapshot keeps that."""
    for _attempt in range(3):
        wrong = [node for node, so in zip(cold, _each(cold, lambda node: reach.clock_is_wrong(state, node)), strict=True) if so]
        if not wrong:
            return
        progress(f"booting {_names(wrong)} again: the clock there runs at a wrong speed")
        for node in wrong:
            machine.ask_power_off(state, node)
            machine.stop(state, node)
            machine.start(state, node, image)
        reach.wait(state, wrong, progress)
    raise LabError(f"the clock of {_names(wrong)} ran at a wrong speed three times; this machine is too busy for the lab")


def _complete(state: LabState, nodes: int, rails: int, progress: Progress) -> LabState:
    """The lab is up: start what is not, and refuse to be another lab at the same time."""
    have = (len(state.nodes), len(state.nodes[0].rails))
    if have != (nodes, rails):
        raise LabError(
            f"a lab of {have[0]} nodes with {have[1]} rail(s) is up, not {nodes} with {rails}; stop it first with `railwright lab down`"
        )
    off = _stopped(state)
    if off:
        progress(f"starting {_names(off)}")
    for node in off:
        machine.start(state, node, _image(state))
    reach.wait(state, state.nodes, progress)
    return state


def status(state_dir: Path | None = None) -> list[NodeStatus]:
    """One entry a node; an empty list when there is no lab."""
    state = load_state(LabPaths.of(state_dir))
    if state is None:
        return []

    def status_of(node: Node) -> NodeStatus:
        number = machine.pid(state, node)
        alive = number is not None
        return NodeStatus(node.name, alive, number, node.ssh_port, alive and reach.answers(node))

    return _each(state.nodes, status_of)


def ssh_argv(node: str, command: list[str] | None = None, *, state_dir: Path | None = None) -> list[str]:
    state = current(state_dir)
    return reach.argv(state, state.node(node), command)


def down(*, destroy: bool = False, state_dir: Path | None = None, progress: Progress = silent) -> None:
    """Stop every node; destroy also removes disks, keys, state and inventory. Nothing to do is not an error."""
    paths = LabPaths.of(state_dir)
    if not paths.root.is_dir():
        return
    with locked(paths.root / "lock"):
        try:
            state = load_state(paths)
        except LabError:
            if not destroy:
                raise
            state = None  # Unreadable: what it says does not matter any more, and the pid files are still there.
        if state is not None:
            _stop_all(state, progress)
        machine.end_strays(paths)
        net.remove_bridges(paths)
        if destroy:
            _remove(paths, state)


def _remove(paths: LabPaths, state: LabState | None) -> None:
    """Only what the lab made, by name: the directory may have been chosen by somebody with other things in it."""
    for directory in (paths.nodes, paths.ssh_key.parent, paths.inventory, paths.root / "sock"):
        shutil.rmtree(directory, ignore_errors=True)
    if state is not None and Path(state.socket_dir).name.startswith("railwright-lab-"):
        shutil.rmtree(state.socket_dir, ignore_errors=True)
    paths.state_file.unlink(missing_ok=True)
    (paths.root / "lock").unlink(missing_ok=True)
    with suppress(OSError):  # Somebody else's files are in it.
        paths.root.rmdir()


def _stopped(state: LabState) -> list[Node]:
    return [node for node in state.nodes if machine.pid(state, node) is None]


def _running(state: LabState) -> list[Node]:
    return [node for node in state.nodes if machine.pid(state, node) is not None]


def _stop_all(state: LabState, progress: Progress) -> None:
    """At once: no disk is ever booted again as it was left."""
    running = _running(state)
    if running:
        progress(f"stopping {_names(running)}")
    _each(running, lambda node: machine.stop(state, node, grace=0))


def _take(state: LabState, node: Node, name: str) -> None:
    reach.settle(state, node)
    reach.run_on_node(state, node, ["sync"])
    machine.save(state, node, name)


def _image(state: LabState) -> Image:
    image = Image(state.image, cache_root() / state.image)
    if not image.exists():
        raise LabError("the lab's kernel is no longer in the cache; `railwright lab down`, then `railwright lab up`")
    return image


def _names(nodes: Iterable[Node]) -> str:
    return ", ".join(node.name for node in nodes)


def _each(nodes: Sequence[Node], work: Callable[[Node], T]) -> list[T]:
    """Do the same with every node at once; the first failure is raised when all have ended."""
    if not nodes:
        return []
    with ThreadPoolExecutor(max_workers=len(nodes)) as pool:
        return list(pool.map(work, nodes))
