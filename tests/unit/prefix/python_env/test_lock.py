# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks: what has a version and checksums is taken, and everything else that pip or conda would take is refused by file and line."""

import itertools

import pytest
from packaging.tags import cpython_tags

from ansible_collections.railwright.rdma.plugins.module_utils.errors import RailwrightError
from ansible_collections.railwright.rdma.plugins.module_utils.prefix.python_env.lock import (
    Python,
    lock_of_wheels,
    lock_text,
    missing_wheels,
    parse_explicit,
    parse_lock,
    wheel_fits,
    wheel_of,
)

A, B = "a" * 64, "b" * 64
PY311 = Python(11, "x86_64", (2, 36))


def test_a_lock_as_tools_write_it() -> None:
    """Comments, continued lines, several checksums, a marker, an extra."""
    found = parse_lock(
        f"# by uv\ntorch==2.9.1+cu126 \\\n    --hash=sha256:{B} \\\n    --hash=sha256:{A}\n    # via -r in.txt\n\n"
        f"Typing_Extensions[x]==4.12.2 ; python_version < '3.13' --hash=sha256:{A}\n", "lock")
    assert [(entry.name, entry.version, entry.marker, entry.hashes) for entry in found] == [
        ("torch", "2.9.1+cu126", "", (A, B)), ("typing-extensions", "4.12.2", "; python_version < '3.13'", (A,))]


def test_the_same_lock_in_another_order_is_the_same_environment() -> None:
    one, other = f"a==1 --hash=sha256:{A}\nb==2 --hash=sha256:{B}\n", f"b==2 --hash=sha256:{B}\n# x\na==1 --hash=sha256:{A}\n"
    assert lock_text(parse_lock(one, "l")) == lock_text(parse_lock(other, "l"))


NOT_PINNED = "is no pinned package; allowed: NAME==VERSION --hash=sha256:…, and no options, files or URLs"


@pytest.mark.parametrize(("line", "said"), [
    ("torch==2.9.1", "torch==2.9.1 has no checksum; allowed: --hash=sha256:… behind every package"),
    ("torch==2.9.1 --hash=md5:00", "--hash=md5:00 is no sha256; allowed: --hash=sha256: and 64 hexadecimal digits"),
    (f"torch>=2.9 --hash=sha256:{A}", f"torch>=2.9 {NOT_PINNED}"),
    ("-r other.txt", f"-r {NOT_PINNED}"),
    ("--extra-index-url https://u:secret@index/simple", f"--extra-index-url {NOT_PINNED}"),
    ("https://u:secret@host/torch.whl", f"a URL {NOT_PINNED}"),
    (f"torch @ file:///x.whl --hash=sha256:{A}", f"torch {NOT_PINNED}"),
])
def test_what_is_not_pinned_is_refused_without_its_secrets(line: str, said: str) -> None:
    with pytest.raises(RailwrightError) as caught:
        parse_lock(f"a==1 --hash=sha256:{A}\n{line}\n", "lock")
    assert str(caught.value) == f"lock:2: {said}"
    assert "secret" not in said


def test_an_empty_lock() -> None:
    with pytest.raises(RailwrightError, match="holds no package"):
        parse_lock("# nothing\n", "lock")


TAGS = [f"{python}-{abi}-{platform}" for python, abi, platform in itertools.product(
    ("cp39", "cp310", "cp311", "cp312", "py3", "py39", "py312", "py2", "pp310"), ("cp39", "cp311", "cp311t", "abi3", "none"),
    ("any", "linux_x86_64", "manylinux1_x86_64", "manylinux2014_x86_64", "manylinux_2_28_x86_64", "manylinux_2_39_x86_64",
     "manylinux_2_28_aarch64", "win_amd64", "musllinux_1_2_x86_64", "macosx_11_0_arm64"))]


def test_tags_fit_where_pips_own_library_says_so() -> None:
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(36, 4, -1)] + ["linux_x86_64"]
    platforms += [f"manylinux{name}_x86_64" for name in ("1", "2010", "2014")]
    known = {str(tag) for tag in cpython_tags((3, 11), ["cp311"], platforms)} | {f"py3{minor or ''}-none-any" for minor in ("", *range(12))}
    known |= {f"py3{minor or ''}-none-{platform}" for minor in ("", *range(12)) for platform in platforms} | {"cp311-none-any"}
    ours = {tag for tag in TAGS if (found := wheel_of(f"x-1-{tag}.whl")) is not None and wheel_fits(found, PY311)}
    assert ours == {tag for tag in TAGS if tag in known}
    assert ours


def test_several_tags_in_one_name() -> None:
    found = wheel_of("MarkupSafe-3.0.2-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl")
    assert found is not None
    assert (found.name, found.version) == ("markupsafe", "3.0.2")
    assert wheel_fits(found, PY311)
    assert not wheel_fits(found, Python(12, "x86_64", (2, 36)))
    assert not wheel_fits(found, Python(11, "x86_64", (2, 12)))
    old = wheel_of("torch-2.10.0-3-cp310-cp310-manylinux_2_28_x86_64.whl")  # with the number of a build, as PyPI has it
    assert old is not None
    assert (old.name, old.version, old.python) == ("torch", "2.10.0", ("cp310",))
    assert wheel_of("torch-2.9.1.tar.gz") is None


FILES = {
    "torch-2.9.1+cu126-cp311-cp311-linux_x86_64.whl": A, "torch-2.9.1+cu126-cp312-cp312-linux_x86_64.whl": B, "a-1-py3-none-any.whl": B,
}


def test_a_directory_is_the_lock_of_what_fits() -> None:
    assert lock_text(lock_of_wheels(FILES, PY311, "/w")) == f"a==1 --hash=sha256:{B}\ntorch==2.9.1+cu126 --hash=sha256:{A}\n"


def test_two_versions_that_fit_are_no_lock() -> None:
    with pytest.raises(RailwrightError) as caught:
        lock_of_wheels({**FILES, "a-2-py3-none-any.whl": A}, PY311, "/w")
    assert str(caught.value) == ("/w has a in 2 versions that fit this node (1, 2); allowed: one, or ai_environment_requirements that says "
                                 "which")


def test_entries_that_no_fitting_wheel_has() -> None:
    """A wheel for another Python has the checksum, and does not help."""
    lines = (f"torch==2.9.1+cu126 --hash=sha256:{B}", f"a==1 --hash=sha256:{B}", f"c==1;sys_platform=='win32' --hash=sha256:{A}")
    entries = parse_lock("\n".join(lines), "lock")
    assert [(entry.name, names) for entry, names in missing_wheels(entries, FILES, PY311)] == [("torch", sorted(FILES)[1:])]


EXPLICIT = f"# platform: linux-64\n@EXPLICIT\nhttps://h/conda-forge/linux-64/python-3.11.9-hb806964_0_cpython.conda#{A}\n"


def test_an_explicit_list_as_conda_documents_it() -> None:
    text = EXPLICIT + "https://h/conda-forge/noarch/typing_extensions-4.12.2-pyha770c72_1.tar.bz2#" + "c" * 32 + "\n"
    assert parse_explicit(text, "e") == {"python": "3.11.9", "typing_extensions": "4.12.2"}


UNSUMMED = "is no package with a checksum; allowed: URL#SHA256, as conda list --explicit --sha256 writes it"
CREDENTIAL = "has a password or a token in its URL; allowed: URLs without; conda takes them from the node"
INCOMPLETE = "allowed: @EXPLICIT on a line of its own, and python among the packages"


@pytest.mark.parametrize(("text", "said"), [
    (EXPLICIT + "https://h/noarch/x-1-0.conda\n", f"e:4: {UNSUMMED}"),
    (EXPLICIT + f"https://h/t/to-12-ken/x-1-0.conda#{A}\n", f"e:4: {CREDENTIAL}"),
    (EXPLICIT + f"https://u:secret@h/x-1-0.conda#{A}\n", f"e:4: {CREDENTIAL}"),
    (EXPLICIT.replace("@EXPLICIT\n", ""), f"e: holds no @EXPLICIT; {INCOMPLETE}"),
    ("@EXPLICIT\n" + f"https://h/x-1-0.conda#{A}\n", f"e: holds no python; {INCOMPLETE}"),
    ("python=3.11\n", f"e:1: {UNSUMMED}"),
])
def test_what_conda_would_solve_or_take_unseen_is_refused(text: str, said: str) -> None:
    with pytest.raises(RailwrightError) as caught:
        parse_explicit(text, "e")
    assert str(caught.value) == said
