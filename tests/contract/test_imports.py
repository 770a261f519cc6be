# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may import what: the core is pure, host.py alone does I/O, the controller is above the collection."""

import ast
import re
import sys
from collections.abc import Iterator

import repo

CORE = repo.python("plugins/module_utils/")
HOST = "plugins/module_utils/host/host.py"
WRITER = "plugins/module_utils/host/write.py"  # its other half
RUNNER = "plugins/module_utils/host/run.py"  # how it runs a command
DRIVERS = "plugins/module_utils/host/drivers.py"  # what drivers tell past files: ioctl, a library of the node
STREAM = "plugins/module_utils/host/stream.py"  # lines again and again on standard output
BOOT = "plugins/module_utils/entry/boot.py"  # what runs before there is a Host: it takes the code over standard input
ADAPTER = "plugins/module_utils/entry/state.py"
MODULE = "plugins/module_utils/entry/node_module.py"  # the only one that knows AnsibleModule
IO_MODULES = {"os", "io", "pathlib", "shutil", "subprocess", "socket", "tempfile", "glob", "urllib", "http", "fcntl", "signal", "ctypes"}
# What those modules hold that computes and touches nothing: path text, address text, numbers of signals.
PURE = re.compile(r"os\.path\.(basename|dirname|join|normpath)|socket\.(inet_(aton|ntoa|ntop|pton)|AF_INET6?)|signal\.SIG[A-Z0-9]+"
                  r"|io\.BytesIO"  # bytes that are in memory already
                  # types, and places of values of ours; the library itself is opened by DRIVERS
                  r"|ctypes\.(c_[a-z_]+|Structure|Union|byref|create_string_buffer)")
# Judged on captured facts and inventories alone; a Host has no business there.
WITHOUT_HOST = ("catalogue/", "checks/", "spec/", "errors.py", "types.py")
IO_CALLS = {"open", "exec", "eval", "compile", "input", "print", "__import__"}


def test_the_core_is_there() -> None:
    """An empty list would let every other test here pass."""
    assert {HOST, ADAPTER, "plugins/module_utils/types.py"} <= set(CORE)


def imported(names: list[str]) -> Iterator[tuple[str, str, str]]:
    """(file, file:line: module, module) of every import of these files."""
    for name in names:
        yield from ((name, f"{name}:{line}: {module}", module) for line, module in repo.imports(name))


def test_core_imports_only_the_standard_library_and_itself() -> None:
    known = set(sys.stdlib_module_names)
    foreign = [(name, place) for name, place, module in imported(CORE) if not module.startswith(".") and module.split(".")[0] not in known]
    wrong = [place for name, place in foreign if name != MODULE]
    assert not wrong, "AnsiballZ ships the core to nodes that have only Python"


def test_relative_imports_stay_in_module_utils() -> None:
    def too_far(name: str, module: str) -> bool:
        return len(module) - len(module.lstrip(".")) > name.removeprefix("plugins/module_utils/").count("/") + 1

    assert not [place for name, place, module in imported(CORE) if too_far(name, module)]


def dotted(node: ast.AST) -> str | None:
    """``os.path.join`` of an attribute chain; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        left = dotted(node.value)
        return f"{left}.{node.attr}" if left else None
    return None


def io_of(name: str) -> list[str]:
    """Every place of a file that does I/O past Host."""
    wrong = []
    nodes = list(ast.walk(repo.tree(name)))
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").split(".")[0] in IO_MODULES:
            wrong += [
                f"{name}:{node.lineno}: from {node.module}" for alias in node.names if not PURE.fullmatch(f"{node.module}.{alias.name}")
            ]
        if isinstance(node, ast.Import):
            wrong += [
                f"{name}:{node.lineno}: {alias.name} as {alias.asname}" for alias in node.names if alias.asname and alias.name in IO_MODULES
            ]
        used = dotted(node) if isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner else None
        if used and used.split(".")[0] in IO_MODULES and not PURE.fullmatch(used) and used.split(".")[0] in _imported(name):
            wrong.append(f"{name}:{node.lineno}: {used}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IO_CALLS:
            wrong.append(f"{name}:{node.lineno}: {node.func.id}()")
    return wrong


def _imported(name: str) -> set[str]:
    return {module for _line, module in repo.imports(name)}


def test_only_host_does_io() -> None:
    assert not [place for name in CORE if name not in (HOST, WRITER, RUNNER, DRIVERS, STREAM, BOOT) for place in io_of(name)], (
        "what the core reads, lists, runs or writes goes through Host: a captured tree must answer for it too"
    )


def test_host_would_be_caught() -> None:
    """The same eyes on the files that do I/O: they see it there."""
    seen = "\n".join(io_of(HOST) + io_of(WRITER) + io_of(RUNNER))
    assert "os.open" in seen
    assert "subprocess.Popen" in seen
    assert "tempfile.mkstemp" in seen


def test_judging_needs_no_host() -> None:
    judges = [name for name in CORE if name.removeprefix("plugins/module_utils/").startswith(WITHOUT_HOST)]
    assert not [place for _name, place, module in imported(judges) if re.match(r"\.+host\b", module)]


def test_plugins_never_import_the_controller() -> None:
    wrong = [place for _name, place, module in imported(repo.python("plugins/")) if module.split(".")[0] == "railwright"]
    assert not wrong, "the collection works from plain ansible-playbook, without the railwright package"


def test_only_what_runs_playbooks_imports_ansible_runner() -> None:
    users = {
        name for name in repo.python("src/", "plugins/") for _line, module in repo.imports(name) if module.startswith("ansible_runner")
    }
    assert users == {f"src/railwright/{name}.py" for name in ("run", "regions/__init__", "regions/answer", "region_worker")}


# From the ground up: a room imports from itself and from floors below it. ``areas`` are rooms of their own.
FLOORS = (
    ("module_utils/types", "module_utils/errors"),
    ("module_utils/formats", "module_utils/host", "module_utils/spec"),  # forms of text; the only I/O; the validated wishes of a node
    ("module_utils/catalogue", "module_utils/rules", "module_utils/scheduler"),
    ("module_utils/observe",),
    ("module_utils/areas/common",),
    ("module_utils/areas/kernel", "module_utils/areas/network"),
    ("module_utils/areas/stack", "module_utils/areas/qos", "module_utils/areas/system"),
    ("module_utils/areas/gpu",),
    ("module_utils/areas/nccl", "module_utils/areas/erdma"),
    ("module_utils/areas/firewall",),
    ("module_utils/plan",),
    ("module_utils/checks", "module_utils/ssh_mesh"),
    ("module_utils/apply", "module_utils/measure"),
    ("module_utils/rollback", "module_utils/prefix"),
    ("module_utils/entry",),  # bodies of modules
    ("module_utils/agent",),  # looks by the same code as a check
    ("modules", "doc_fragments", "plugin_utils/tables"),
    ("plugin_utils/nccl_catalogue", "plugin_utils/speed"),
    ("plugin_utils/spec",),
    ("plugin_utils/answers", "plugin_utils/cluster", "plugin_utils/nccl_tests"),
    ("plugin_utils",),
    ("action",),
)
FLOOR = {room: number for number, floor in enumerate(FLOORS) for room in floor}


def room_of(path: str) -> str:
    """The longest name in FLOORS that a path below plugins/ begins with, without its suffix."""
    inside = path.removesuffix(".py").removeprefix("plugins/")
    return max((room for room in FLOOR if f"{inside}/".startswith(f"{room}/")), key=len, default=inside)


def upward(name: str, source: str) -> list[str]:
    """Imports of the collection's own that do not go down. ``name``: where the source lies."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ImportFrom):
            continue
        absolute = f"{node.module}".removeprefix("ansible_collections.railwright.rdma.plugins.")
        parts = name.removeprefix("plugins/").split("/")[:-1]
        if node.level:
            base = parts[: len(parts) - node.level + 1] + (node.module.split(".") if node.module else [])
        elif absolute != node.module:
            base = absolute.split(".")
        else:
            continue
        for target in {room_of("/".join([*base, alias.name])) for alias in node.names}:
            if target != room_of(name) and FLOOR.get(target, len(FLOORS)) >= FLOOR[room_of(name)]:
                found.append(f"{name}:{node.lineno}: {room_of(name)} -> {target}")
    return found


def test_every_file_is_in_a_room() -> None:
    rooms = {room_of(name) for name in repo.python("plugins/") if not name.endswith("/__init__.py")}
    assert rooms == set(FLOOR)


def test_imports_go_down() -> None:
    assert not [place for name in repo.python("plugins/") if not name.endswith("/__init__.py") for place in upward(name, repo.text(name))]


def test_an_upward_import_is_seen() -> None:
    planted = "from ..plan.plan import make_plan\nfrom ..areas.common import files\nfrom ..host.host import Host\n"
    assert upward("plugins/module_utils/observe/hca.py", planted) == [
        "plugins/module_utils/observe/hca.py:1: module_utils/observe -> module_utils/plan",
        "plugins/module_utils/observe/hca.py:2: module_utils/observe -> module_utils/areas/common",
    ]
