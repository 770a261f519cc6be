# SPDX-License-Identifier: GPL-3.0-or-later
"""A release is read whole or refused in one clear line a mistake, with the line of the file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import BY_NAME
from railwright.exitcodes import ExitCode, InputError
from railwright.upgrade.release import PINS, Release, ReleaseError, read_release

Read = Callable[[str], Release]
GOOD = """\
name: "2026-11"
pins:
  rdma_kernel_version: 6.1.0-48-amd64
  rdma_stack: doca
  rdma_stack_version: "3.2.3"
  rdma_stack_pins: {rdma-core: "52.0-1"}
  gpu_driver_branch: 580
"""
ALLOWED = "; allowed: " + ", ".join(PINS)
NAME = "; allowed: a name of letters, digits and . _ -, in quotes"
VERSION = "; allowed: a version in quotes, like '44.0-2'"
ARTIFACT = "; allowed: a name that `railwright artifacts` lists"
WITHOUT = "; allowed: a mapping of at least one pin, such as rdma_stack_version: '3.2.3'"


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    monkeypatch.chdir(tmp_path)

    def read(text: str) -> Release:
        Path("release.yml").write_text(text, encoding="utf-8")
        return read_release(Path("release.yml"))

    return read


def test_a_good_one(reading: Read) -> None:
    release = reading(GOOD)
    assert release.name == "2026-11"
    assert release.pins == {
        "rdma_kernel_version": "6.1.0-48-amd64",
        "rdma_stack": "doca",
        "rdma_stack_version": "3.2.3",
        "rdma_stack_pins": {"rdma-core": "52.0-1"},
        "gpu_driver_branch": "580",
    }
    assert release.places()["rdma_stack_version"] == "release.yml:5"
    assert release.sha256 != reading(GOOD + "\n").sha256, "another content is another release"


def test_every_pin_is_a_key_of_the_inventory() -> None:
    assert [name for name in PINS if name not in BY_NAME] == []


PIN = 'name: "1"\npins:\n  '
BAD = {
    "unknown-part": ('name: "1"\nversion: 2\npins: {cuda_version: "13.0"}\n', "2: version: is no part of a release; allowed: name, pins"),
    "misspelt-part": (
        'name: "1"\npin:\n  cuda_version: "13.0"\n',
        "2: pin: is no part of a release; did you mean pins?; allowed: name, pins",
    ),
    "no-name": ('pins: {cuda_version: "13.0"}\n', "1: name: is missing" + NAME),
    "name-with-a-slash": ('name: ../etc\npins: {cuda_version: "13.0"}\n', "1: name: ../etc: is not the name of a release" + NAME),
    "name-as-a-number": (
        'name: 2026.10\npins: {cuda_version: "13.0"}\n',
        "1: name: 2026.10: was read as a number by YAML (2026.1); put quotes around it" + NAME,
    ),
    "empty-pins": ('name: "1"\npins:\n', "2: pins: is empty" + WITHOUT),
    "pins-as-a-list": ('name: "1"\npins: [cuda_version]\n', "2: pins: must be a mapping, not a list" + WITHOUT),
    "misspelt-pin": (PIN + "rdma_stak_version: '3.2.3'\n", "3: rdma_stak_version: is no pin; did you mean rdma_stack_version?" + ALLOWED),
    "a-key-that-is-no-pin": (
        PIN + "rdma_mtu: 9000\n",
        "3: rdma_mtu: is the inventory's: a release holds versions and where they come from" + ALLOWED,
    ),
    "pin-outside": ('name: "1"\nnccl_version: "2.30.7"\n', "2: nccl_version: stands outside of pins; allowed: the same line below pins:"),
    "unquoted-version": (
        PIN + "rdma_stack_version: 3.10\n",
        "3: rdma_stack_version: 3.10: was read as a number by YAML (3.1); put quotes around it; allowed: a release, in quotes",
    ),
    "empty-pin": (
        PIN + "rdma_stack_version:\n",
        "3: rdma_stack_version: is empty: what a release does not name stays as the inventory has it; allowed: a release, in quotes",
    ),
    "wrong-choice": (
        PIN + "rdma_stack: ofed\n",
        "3: rdma_stack: ofed: is not a value that rdma_stack can have; allowed: auto, inbox, soft_roce, doca, mlnx_ofed",
    ),
    "package-version-as-a-number": (
        PIN + "rdma_stack_pins:\n    ucx: '1.18'\n    rdma-core: 52.0\n",
        "5: rdma_stack_pins.rdma-core: 52.0: was read as a number by YAML; put quotes around the version" + VERSION,
    ),
    "unknown-artifact": (
        PIN + "rdma_artifact_pins:\n    nccl-sorce: aa\n",
        "4: rdma_artifact_pins.nccl-sorce: aa: is no artifact of the catalogue; did you mean nccl-source?" + ARTIFACT,
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_one_clear_line(name: str, reading: Read) -> None:
    text, line = BAD[name]
    with pytest.raises(ReleaseError) as caught:
        reading(text)
    said = [str(finding) for finding in caught.value.findings]
    assert "release.yml:" + line in said
    assert len(said) == 1 + (name in ("misspelt-part", "pin-outside")), said  # these leave pins out as well
    assert caught.value.code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("name: [\n", "release.yml:2:1: is not YAML: "),
        ("- name\n", "release.yml:1: a release must be a mapping; allowed: name, pins"),
        ("", "release.yml:1: a release must be a mapping; allowed: name, pins"),
        ('name: "1"\nname: "2"\n', "release.yml:2:1: name: is written twice"),
    ],
)
def test_no_release_at_all(text: str, line: str, reading: Read) -> None:
    with pytest.raises(InputError) as caught:
        reading(text)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_every_mistake_has_its_line(reading: Read) -> None:
    with pytest.raises(ReleaseError) as caught:
        reading("name: 7.50\npins:\n  rdma_mtu: 9000\n  cuda_version: 13.0\n")
    assert [finding.line for finding in caught.value.findings] == [1, 3, 4]
    assert str(caught.value) == "release.yml: 3 errors; no node was contacted"


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(InputError, match=r"does not exist; allowed: a release file"):
        read_release(Path("nowhere.yml"))
