# SPDX-License-Identifier: GPL-3.0-or-later
"""The code that an apply leaves on a node: planned, made by the node's Python, undone; and which files a Python that is asked believes."""

import base64
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.apply.apply import carry_out
from ansible_collections.railwright.rdma.plugins.module_utils.apply.journal import Journal
from ansible_collections.railwright.rdma.plugins.module_utils.apply.transaction import roll_back
from ansible_collections.railwright.rdma.plugins.module_utils.areas.system import node_code
from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.host.host import Host
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change
from ansible_collections.railwright.rdma.plugins.plugin_utils.node_code import boot_text, code_digest, needed_files, packed_code
from rooted import RootedHost

MakeSpec = Callable[..., Spec]
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="what is believed must be root's")
ANSWER = "def answer(spec, call):\n    return {'spec': spec, 'call': call}\n"
SOURCES = {"railwright_node/__init__.py": "", "railwright_node/entry/__init__.py": "", "railwright_node/entry/inspection.py": ANSWER}


def coded(spec: Spec, sources: dict[str, str], *, sent: bool = True) -> Spec:
    data = json.dumps(sources).encode()
    code = {"code": base64.b64encode(zlib.compress(data)).decode()} if sent else {}
    return Spec({**spec.as_dict(), "code_derived": {"digest": sha256(data).hexdigest(), **code}})


def planned(host: Host, spec: Spec) -> list[Change]:
    wanted = node_code.desired(spec, None)  # type: ignore[arg-type]  # the same for every node
    return node_code.plan(wanted, node_code.observe(host, wanted))


def applied(host: Host, spec: Spec) -> Journal:
    journal = Journal(host, "r1")
    carry_out(host, planned(host, spec), journal)
    return journal


def place(host: Host) -> Path:
    return Path(host.path(node_code.DIRECTORY))


def files(host: Host) -> list[Path]:
    return sorted(place(host).iterdir()) if place(host).is_dir() else []


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return RootedHost(tmp_path)


@pytest.fixture
def spec(make_spec: MakeSpec) -> Spec:
    return coded(make_spec(), SOURCES)


def asked(path: Path, sources: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """A real Python plays the node: what it says first, and its answer. It is sent the sources unless it has code."""
    argv = [sys.executable, "-I", "-c", boot_text(), "word", str(path)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"\n"
    said = process.stdout.readline().decode().split()[-1]
    parts = [b"" if said == "have" else zlib.compress(json.dumps(sources).encode()), b'{"a": 1}', b'{"b": 2}']
    out, _err = process.communicate(b"%d %d %d\n" % tuple(map(len, parts)) + b"".join(parts), timeout=60)
    return said, json.loads(out.strip().partition(b"\n")[2])


def test_nothing_is_planned_where_nobody_named_code_or_the_site_says_no(host: Host, make_spec: MakeSpec) -> None:
    assert planned(host, make_spec()) == []
    assert planned(host, coded(make_spec(rdma_keep_code=False), SOURCES)) == []


def test_an_apply_leaves_it_and_a_rollback_removes_it(host: Host, spec: Spec) -> None:
    (change,) = planned(host, spec)
    digest = spec["code_derived"]["digest"]
    assert (change.before, change.after) == (None, f"railwright's code {digest[:12]} for {sys.implementation.cache_tag}")
    assert (change.disruption, change.when, change.external) == ("none", "now", False)
    journal = applied(host, spec)
    (path,) = files(host)
    assert (path.name, path.stat().st_mode & 0o777) == (f"{digest}.{sys.implementation.cache_tag}", 0o644)
    assert planned(host, spec) == []
    assert roll_back(host, journal.entries) == []
    assert not place(host).exists()


def test_a_plan_needs_the_name_alone(host: Host, spec: Spec) -> None:
    (change,) = planned(host, coded(spec, SOURCES, sent=False))
    assert change._replace(ops=()) == planned(host, spec)[0]._replace(ops=())


def test_older_code_goes_in_the_same_change_and_comes_back_with_a_rollback(host: Host, spec: Spec) -> None:
    applied(host, spec)
    (old,) = files(host)
    kept = old.read_bytes()
    (place(host) / "README").write_text("somebody else's\n")
    newer = coded(spec, {**SOURCES, "railwright_node/new.py": ""})
    (change,) = planned(host, newer)
    assert change.before == node_code.title(old.name)
    journal = applied(host, newer)
    assert [path.name for path in files(host)] == sorted([change.subject.name.rpartition("/")[2], "README"])
    assert roll_back(host, journal.entries) == []
    assert old.read_bytes() == kept


def test_other_code_than_was_named_is_not_installed(host: Host, spec: Spec) -> None:
    other = coded(spec, {"railwright_node/evil.py": ""})
    wrong = Spec({**spec.as_dict(), "code_derived": {**spec["code_derived"], "code": other["code_derived"]["code"]}})
    with pytest.raises(RailwrightError, match="not the code"):
        planned(host, wrong)
    assert files(host) == []


def damage_owner(path: Path) -> None:
    os.chown(path, 12345, 0)


def damage_directory(path: Path) -> None:
    path.parent.chmod(0o777)


def damage_mode(path: Path) -> None:
    path.chmod(0o666)


def damage_length(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 10)


def damage_python(path: Path) -> None:
    head, told, body = path.read_bytes().split(b"\n", 2)
    path.write_bytes(b"\n".join((head, b"00000000" + told[8:], body)))


def damage_link(path: Path) -> None:
    path.rename(path.parent / "elsewhere")
    path.symlink_to("elsewhere")


def damage_all(path: Path) -> None:
    path.write_bytes(b"")


DAMAGES = (damage_owner, damage_directory, damage_mode, damage_length, damage_python, damage_link, damage_all)


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_may_be_somebody_elses_is_not_run(
    host: Host, spec: Spec, damage: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    applied(host, spec)
    (path,) = files(host)
    assert asked(path.with_suffix(""), SOURCES)[0] == "have"
    damage(path)
    said, answer = asked(path.with_suffix(""), SOURCES)
    assert (said, answer["spec"], answer["call"]) == ("send", {"a": 1}, {"b": 2})
    monkeypatch.setattr(host, "run", lambda argv, *rest, **named: Host.run(host, (*argv[:-1], host.path(argv[-1])), *rest, **named))
    (change,) = planned(host, spec)
    assert change.before is None
    journal = applied(host, spec)
    assert planned(host, spec) == []
    assert asked(path.with_suffix(""), SOURCES)[0] == "have"
    assert roll_back(host, journal.entries) == []
    assert asked(path.with_suffix(""), SOURCES)[0] == "send"


def damage_bytes(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-40] + (b"A" if content[-40] != ord("A") else b"B") + content[-39:])


def damage_kind(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("damage", [damage_bytes, damage_kind])
def test_what_no_user_could_have_done_is_not_run_either(host: Host, spec: Spec, damage: Callable[[Path], None]) -> None:
    applied(host, spec)
    (path,) = files(host)
    damage(path)
    assert asked(path.with_suffix(""), SOURCES)[0] == "send"


def test_the_real_code_answers_from_where_it_was_installed(host: Host, make_spec: MakeSpec) -> None:
    """All of ours as bytecode, and not a byte of it sent."""
    code = {"digest": code_digest(), "code": base64.b64encode(packed_code()).decode()}
    applied(host, Spec({**make_spec().as_dict(), "code_derived": code}))
    (path,) = files(host)
    spec, call = make_spec().as_dict(), {"module": "rdma_facts", "given": {}, "derived": {"code_derived": {}}}
    sent = [b"", json.dumps(spec).encode(), json.dumps(call).encode()]
    argv = [sys.executable, "-I", "-c", boot_text(), "word", str(path.with_suffix(""))]
    given = b"%d %d %d\n" % tuple(map(len, sent)) + b"".join(sent)
    done = subprocess.run(argv, input=given, capture_output=True, timeout=120, check=True)
    assert done.stdout.startswith(b"\n#railwright word have\n")
    assert "rdma" in json.loads(done.stdout.strip().rpartition(b"\n")[2])


def test_the_bodies_of_all_questions_are_in_it() -> None:
    found = needed_files()
    assert {"entry/inspection.py", "entry/check.py", "entry/facts.py", "entry/state.py", "areas/nccl/environment.py"} <= found.keys()
    assert "entry/rollback.py" not in found
