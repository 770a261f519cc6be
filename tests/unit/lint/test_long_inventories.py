# SPDX-License-Identifier: GPL-3.0-or-later
"""Long inventories: hosts that are like the one above them are not parsed, and are what the parser would have made of them."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from railwright import inventory_text
from railwright.exitcodes import InputError
from railwright.inventory import Inventory, load_inventory
from railwright.inventory_text import condensed
from railwright.lint import lint

pytestmark = pytest.mark.core

NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)  # an inventory takes too long to read
KEYS = ("ansible_host", "rdma_mtu", "rdma_stack", "host_tuning_sysctls", "rdma_consent", "rdma_rails", "unknown1", "network_opensm")
SCALARS = (
    "192.0.2.7", "192.0.2.7/24", "eth0", "rail1", "02:00:00:00:00:0a", "b8ce:f603:00ab:cdef", "0000:1a:00.0", "00:10:00:00:00:01", "12:30",
    "9000", 9000, 1.5, "1e3", 1e3, True, "yes", "no", None, "a b1 c2", "x: y1", "it's", 'a "b1"', "b1 # c1", "{{ ansible_host }}",
    "2026-01-02",
    "a\nb1\n", "é1", "", "~", "n1, n2", "[a1]", "- a1", "*a1", "0x1f", "1_000", "null", "a1:", "a1 : b1", "ends1 ", "a\\b1", "host0001",
)  # fmt: skip
VALUE = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("name", "match", "eth1", "a b")), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def dumped(data: Any, form: str) -> str:
    if form == "json":
        return json.dumps(data, indent=1) + "\n"
    return yaml.safe_dump(
        data, sort_keys=False, default_flow_style=None if form == "flow" else False, default_style="'" if form == "quoted" else None
    )


def told(path: Path) -> Any:
    try:
        inventory: Inventory = load_inventory(path)
    except InputError as error:
        return str(error).replace(str(path), "")
    places = {(host, key): inventory.origin(host, f"{key}[0].name") for host in inventory.hosts for key in KEYS}
    return {host: (dict(values), dict(inventory.connection[host])) for host, values in inventory.hosts.items()}, places


@settings(max_examples=100, deadline=None, phases=NO_SHRINKING)
@given(
    st.dictionaries(st.sampled_from(KEYS), VALUE, max_size=3),
    st.lists(st.dictionaries(st.sampled_from(KEYS), VALUE, max_size=2), max_size=6),
    st.lists(st.tuples(st.sampled_from(SCALARS), st.sampled_from(SCALARS)), min_size=6, max_size=6),
    st.sampled_from(("json", "flow", "block", "quoted")),
    st.booleans(), st.lists(st.sampled_from(("n1", "node2", "yes", "n.3", "n 4", "n[05:06]", "n6")), unique=True, min_size=6, max_size=6),
)  # fmt: skip
def test_hosts_are_what_the_parser_makes_of_them(
    shape: dict[str, Any], others: list[Any], varied: list[Any], form: str, alone: bool, names: list[str]
) -> None:
    hosts = {}
    for name, (one, two) in zip(names, varied, strict=True):
        hosts[name] = {**shape, "rack": "r1", "ansible_port": one, "rails": [{"name": two, "match": {"pci": one}}]}
    hosts |= {f"m{number}": own for number, own in enumerate(others)}
    text = dumped({"all": {"children": {"rdma": {"hosts": hosts, "vars": {"rdma_fabric": "roce", "rdma_mtu": 9000}}}}}, form)
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        path = Path(directory)
        (path / "hosts.yml").write_text(text, encoding="utf-8")
        if not alone:
            (path / "more.yml").write_text("rdma: {hosts: {n1: {rdma_mtu: 1500}}}\n", encoding="utf-8")
        whole = told(path)
        patch.setattr(inventory_text, "LONG", 0)
        patch.setattr(inventory_text, "SHORTER", 1.0)
        patch.setattr(inventory_text, "MANY", 1)
        assert told(path) == whole


@pytest.fixture
def long(tmp_path: Path) -> Callable[..., Path]:
    def write(form: str, change: Callable[[str], str] = str) -> Path:
        rails = [{"name": "rail0", "match": {"mac": "02:00:00:00:01:%02x"}, "address": "198.51.100.%d/24"}]
        hosts = {
            f"n{at:03}": json.loads(json.dumps({"rdma_rails": rails}).replace("%02x", f"{at:02x}").replace("%d", str(at)))
            for at in range(1, 250)
        }
        site = {"rdma_fabric": "roce", "rdma_mtu": 9000}
        text = change(dumped({"all": {"children": {"rdma": {"hosts": hosts, "vars": site}}}}, form))
        (tmp_path / "hosts.yml").write_text(text, encoding="utf-8")
        return tmp_path

    return write


@pytest.mark.parametrize("form", ["json", "flow", "block"])
def test_a_long_file_is_condensed_and_its_findings_have_their_lines(
    long: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(inventory_text, "LONG", 1000)
    path = long(form, lambda text: text.replace("198.51.100.200/24", "198.51.100.20/33").replace("198.51.100.31/24", "198.51.100.30/24"))
    text = (path / "hosts.yml").read_text(encoding="utf-8")
    short = condensed(text)
    assert short is not None
    assert len(short.text) < len(text) / 20
    rows = text.splitlines()
    found = [(rows[finding.line - 1].split("198.51.100.")[1][:5], finding.hosts) for finding in lint(path) if finding.line is not None]
    assert found == [("30/24", ("n031",)), ("20/33", ("n200",))]


@pytest.mark.parametrize("form", ["json", "block"])
def test_templates_of_a_long_file_are_templates(long: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr(inventory_text, "LONG", 1000)
    template = json.dumps("{{ 8000 + 1000 }}")
    inventory = load_inventory(long(form, lambda text: text.replace("9000", template)))
    assert inventory.index.condensed
    assert {str(values["rdma_mtu"]) for values in inventory.hosts.values()} == {"9000"}


def test_what_is_wrong_in_a_long_file_is_said_with_its_line(long: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory_text, "LONG", 1000)
    path = long("block", lambda text: text.replace("        n200:\n", "        n100:\n"))
    with pytest.raises(InputError, match=r"hosts\.yml:1199:9: n100: is written twice \(first in line 599\)"):
        load_inventory(path)
