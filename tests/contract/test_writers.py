# SPDX-License-Identifier: GPL-3.0-or-later
"""Files are written by functions that follow no link of another user: ``open_own`` (host/write.py), ``Writer`` above it, and writing.py.

What else opens a file for writing, copies, renames or changes one stands below, with the reason why nobody else can plant anything there.
"""

import ast

import pytest

import repo

WRITERS = {"plugins/module_utils/host/write.py", "src/railwright/writing.py"}
DEVICE = "the null device"
PRIVATE = "a directory of this run that only its user can open"
OWN = "a directory of this user alone; a new name, then a rename"
LAB = "below a directory that mkdtemp made, or in the lab's own"
JOB = "memory of the job's own namespace: nobody else sees it"
ALLOWED = {
    "plugins/module_utils/host/run.py: os.open": DEVICE,
    "src/railwright/cli/main.py: os.open": DEVICE,
    "src/railwright/cli/completing.py: open": DEVICE,
    "src/railwright/cli/ansible_options.py: os.open": "/dev/tty, to learn whether there is a terminal",
    "src/railwright/cli/top.py: open": "O_EXCL: a name that was there, a link among them, is an error",
    "src/railwright/run.py: tempfile.TemporaryDirectory": PRIVATE,
    "src/railwright/run.py: write_text": PRIVATE,
    "src/railwright/run.py: chmod": PRIVATE,
    "src/railwright/regions/answer.py: TemporaryDirectory": PRIVATE,
    "src/railwright/cli/session.py: TemporaryDirectory": PRIVATE,
    "src/railwright/cli/apply.py: TemporaryDirectory": PRIVATE,
    "src/railwright/cli/switch_read.py: TemporaryDirectory": PRIVATE,
    "src/railwright/region_worker.py: write_text": JOB,
    "src/railwright/region_worker.py: shutil.copytree": JOB,
    "src/railwright/mirror/fill.py: replace": "the file that was judged: it is compared with the open one",
    "src/railwright/lab/core.py: tempfile.mkdtemp": LAB,
    "src/railwright/lab/image.py: tempfile.mkdtemp": LAB,
    "src/railwright/lab/image.py: write_bytes": LAB,
    "src/railwright/lab/image.py: chmod": LAB,
    "src/railwright/lab/image.py: open": LAB,
    "src/railwright/lab/image.py: rename": LAB,
    "src/railwright/lab/seed.py: write_text": LAB,
    "src/railwright/lab/seed.py: chmod": LAB,
    "src/railwright/check.py: open": "tar's, into memory",
    "src/railwright/lab/tapexec.py: os.open": "/dev/net/tun",
    "plugins/plugin_utils/controller_files.py: tempfile.mkstemp": OWN,
    "plugins/plugin_utils/controller_files.py: replace": OWN,
    "plugins/plugin_utils/cluster_addresses.py: tempfile.mkstemp": OWN,
    "plugins/plugin_utils/cluster_addresses.py: replace": OWN,
    "plugins/plugin_utils/cluster_addresses.py: open": "a lock in Ansible's own temporary directory of this run (0700)",
    "plugins/plugin_utils/nccl_tests_build.py: tempfile.mkdtemp": PRIVATE,
    "plugins/plugin_utils/scanned.py: write_text": PRIVATE,
}
ALWAYS = {"write_text", "write_bytes", "touch", "symlink_to", "hardlink_to", "chmod", "lchmod", "fdopen"}
MODULES = ("tempfile.", "shutil.copy", "shutil.move")
OS = {"os.rename", "os.replace", "os.link", "os.symlink", "os.chmod", "os.chown", "os.lchown", "os.mkfifo", "os.mknod", "os.truncate"}


def writers(name: str, tree: ast.AST) -> set[str]:
    return {f"{name}: {called}" for call in ast.walk(tree) if isinstance(call, ast.Call) and (called := _writes(call))}


def _writes(call: ast.Call) -> str:
    """How the call writes a file; '' where it does not."""
    name = ast.unparse(call.func)
    last = name.rpartition(".")[2]
    if name in ("open", "io.open") or (last == "open" and not name.startswith("os.") and len(call.args) < 3):
        modes = [*call.args[int(name in ("open", "io.open")) :][:1], *(word.value for word in call.keywords if word.arg == "mode")]
        return "open" if any(isinstance(mode, ast.Constant) and set(str(mode.value)) & set("wax+") for mode in modes) else ""
    if name == "os.open":
        return name if any(flag in ast.unparse(call.args[1]) for flag in ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC")) else ""
    if name.startswith(MODULES) or name in OS or name in ("TemporaryDirectory", "NamedTemporaryFile", "mkstemp", "mkdtemp"):
        return name if name != "tempfile.gettempdir" else ""
    if last in ("rename", "replace") and len(call.args) == 1 and not call.keywords and "." in name:  # Path's: text and dates have more
        return last
    if last in ALWAYS and "." in name and not name.startswith(("os.fdopen", "os.fchmod")):
        return last
    return ""


def test_files_are_written_by_the_writers() -> None:
    names = [name for part in ("src/railwright/", "plugins/") for name in repo.python(part) if name not in WRITERS]
    found = set().union(*(writers(name, repo.tree(name)) for name in names))
    assert found - set(ALLOWED) == set(), "use open_own or Writer of module_utils/host/write.py, on the controller railwright/writing.py"
    assert set(ALLOWED) - found == set(), "these write no more"


@pytest.mark.parametrize(("text", "how"), [
    ("open(path, 'w')", "open"), ("path.open('ab')", "open"), ("path.open(mode='r+b')", "open"), ("open(path, mode='x')", "open"),
    ("os.open(path, os.O_RDWR | os.O_CREAT)", "os.open"), ("Path(x).write_text('')", "write_text"), ("a.write_bytes(b'')", "write_bytes"),
    ("tempfile.mkstemp()", "tempfile.mkstemp"), ("shutil.copyfile(a, b)", "shutil.copyfile"), ("os.replace(a, b)", "os.replace"),
    ("part.replace(target)", "replace"), ("part.chmod(0o644)", "chmod"),
])  # fmt: skip
def test_a_writer_would_be_found(text: str, how: str) -> None:
    assert writers("x.py", ast.parse(text)) == {f"x.py: {how}"}


@pytest.mark.parametrize("text", ["open(path)", "path.open('rb')", "os.open(path, os.O_RDONLY)", "text.replace('a', 'b')",
                                  "moment.replace(tzinfo=None)", "os.fdopen(number, 'wb')", "opener.open(url, timeout=3)"])
def test_a_reader_is_none(text: str) -> None:
    assert writers("x.py", ast.parse(text)) == set()
