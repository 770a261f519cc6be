# SPDX-License-Identifier: GPL-3.0-or-later
"""The real yaml-language-server on what `railwright init` writes: silent on good files; faults by line; hover; completion."""

import itertools
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import BY_NAME, FABRICS, KEYS
from language_server import LanguageServer
from railwright.init import files, write_inventory

SITE = "group_vars/all/site.yml"
NUMBERS = itertools.count()
HOST_VARS = "# yaml-language-server: $schema=../.railwright.schema.json\nansible_host: 192.0.2.11\nmy_own: [1]\nrdma_rails:\n"


def opened(server: LanguageServer, beside: Path, text: str) -> tuple[Path, list[tuple[int, str]]]:
    """A file in the same directory, and (line, message) of each diagnostic."""
    path = beside.with_name(f"{next(NUMBERS)}.yml")
    return path, [(item["range"]["start"]["line"], item["message"]) for item in server.open(path, text)]


def line_of(text: str, start: str) -> int:
    [found] = [number for number, line in enumerate(text.split("\n")) if line.startswith(start)]
    return found


def with_line(site: Path, line: str) -> tuple[str, int]:
    """site.yml with one more line, in place of what it has for the key; its number."""
    key = line.partition(":")[0]
    kept = [old for old in (site / SITE).read_text(encoding="utf-8").split("\n") if not old.startswith(f"{key}:")]
    return "\n".join([*kept, line, ""]), len(kept)


@pytest.mark.parametrize("minimal", [False, True])
@pytest.mark.parametrize("fabric", FABRICS)
def test_what_init_writes_is_good(server: LanguageServer, tmp_path: Path, fabric: str, minimal: bool) -> None:
    for path in write_inventory(tmp_path / "site", files(fabric, minimal=minimal)):
        assert server.open(path, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(("line", "said"), [
    ("rdma_fabrik: roce", "Property rdma_fabrik is not allowed."),
    ("rdma_fabric: token-ring", "rdma_fabric: allowed: roce, infiniband, erdma"),
    ("rdma_mtu: many", "rdma_mtu: allowed: an integer from 1280 to 65520"),
    ("rdma_mtu: 9", "Value is below the minimum of 1280."),
    ("rdma_mtu: [9000]", 'Incorrect type. Expected "integer | string".'),
    ("network_manage_addresses: perhaps", "network_manage_addresses: allowed: true or false"),
    ("rdma_consent: [reboot, everything]", f"rdma_consent: allowed: {BY_NAME['rdma_consent'].allowed()}"),
    ("rdma_rails: [{name: rail0, match: {pcy: x}}]", "Property pcy is not allowed."),
])
def test_a_fault_is_marked_on_its_line(server: LanguageServer, site: Path, line: str, said: str) -> None:
    text, number = with_line(site, line)
    _path, found = opened(server, site / SITE, text)
    assert (number, said) in found
    assert {place for place, _message in found} == {number}


@pytest.mark.parametrize("line", [
    "rdma_mtu: '9000'", 'rdma_mtu: "{{ mtu_of_rack }}"', "rdma_consent: [reboot, '{{ more }}']", "erdma_vars_of_mine: 1", "rdma_region:"])
def test_what_lint_takes_is_not_marked(server: LanguageServer, site: Path, line: str) -> None:
    text, _number = with_line(site, line)
    assert opened(server, site / SITE, text)[1] == []


def test_files_of_hosts_are_judged_by_the_line_that_names_the_schema(server: LanguageServer, site: Path) -> None:
    assert opened(server, site / "host_vars/node1.yml", HOST_VARS + '  - {name: rail0, match: {pci: "0000:1a:00.0"}}\n')[1] == []
    _path, found = opened(server, site / "host_vars/node1.yml", HOST_VARS + "  - {nam: rail0}\n")
    assert [place for place, _message in found] == [4]


@pytest.mark.parametrize("fabric", FABRICS)
def test_every_key_has_its_meaning_on_hover(server: LanguageServer, site: Path, fabric: str) -> None:
    """Once each, below the key's name."""
    text = (site / SITE).read_text(encoding="utf-8").replace("rdma_fabric: roce", f"rdma_fabric: {fabric}")
    text += "".join(f'{key.name}: "{{{{ x }}}}"\n' for key in KEYS if f"\n{key.name}:" not in text)
    path, _found = opened(server, site / SITE, text)
    for key in KEYS:
        shown = server.at("textDocument/hover", path, line_of(text, f"{key.name}:"), 2)["contents"]["value"].replace("\\", "")
        title, _blank, rest = shown.partition("\n\n")
        assert title.split(" (")[0] == f"#### {key.name}"
        assert "||" not in shown
        assert rest.split("\n")[0].startswith(key.doc[:20])
        assert rest.count("\n\nAllowed: ") == 1


def test_keys_and_values_are_completed(server: LanguageServer, site: Path) -> None:
    text = (site / SITE).read_text(encoding="utf-8") + "rdma_c\n"
    path, _found = opened(server, site / SITE, text)
    offered = {item["label"]: item for item in server.at("textDocument/completion", path, line_of(text, "rdma_c"), 6)["items"]}
    assert {"rdma_consent", "rdma_cabling", "network_opensm"} <= offered.keys()
    assert offered["rdma_consent"]["insertText"].startswith("rdma_consent:")
    assert BY_NAME["rdma_consent"].doc[:20] in str(offered["rdma_consent"]["documentation"])
    assert not {"rdma_fabric", "rdma_mtu"} & offered.keys()  # they are there already
    text, number = with_line(site, "rdma_fabric: ")
    path, _found = opened(server, site / SITE, text)
    values = [item["label"] for item in server.at("textDocument/completion", path, number, len("rdma_fabric: "))["items"]]
    assert values == list(FABRICS)


def test_the_words_of_a_rail_are_completed(server: LanguageServer, site: Path) -> None:
    text = HOST_VARS + "  - name: rail0\n    \n"
    path, _found = opened(server, site / "host_vars/node1.yml", text)
    offered = {item["label"] for item in server.at("textDocument/completion", path, 5, 4)["items"]}
    assert {"match", "address", "gateway", "mtu"} <= offered
