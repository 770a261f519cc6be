# SPDX-License-Identifier: GPL-3.0-or-later
"""What would take minutes and gigabytes is refused at once: ranges of hosts before they are expanded, and what templates give."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from railwright.exitcodes import InputError
from railwright.inventory import load_inventory
from railwright.inventory_index import WIDEST, expand, width

Make = Callable[[Mapping[str, object]], Path]
SECONDS = 20.0  # refused within one; before, the smallest of these took more than 50
YAML = "all:\n  children:\n    rdma:\n      hosts:\n        {}:\n"


@pytest.mark.core
@pytest.mark.parametrize("pattern", ["gpu[1:3000000]", "gpu[1:1000]-[1:1000]", f"gpu[0:{'9' * 500}]", "gpu[a:z][a:z][a:z][a:z]"])
@pytest.mark.parametrize(("name", "text", "line"), [
    ("hosts.yml", YAML, 5), ("hosts", "[rdma]\n{}\n", 2), ("hosts", YAML, 5), ("hosts.toml", '[rdma.hosts]\n"{}" = {{}}\n', 2)])
def test_a_range_of_too_many_hosts(tmp_path: Path, pattern: str, name: str, text: str, line: int) -> None:
    path = tmp_path / name
    path.write_text(text.format(pattern), encoding="utf-8")
    began = time.monotonic()
    with pytest.raises(InputError) as refused:
        load_inventory(path)
    assert time.monotonic() - began < SECONDS
    assert str(refused.value).startswith(f"{path}:{line}: {pattern}")
    assert str(refused.value).endswith(f"this range holds more than {WIDEST} hosts; allowed: at most {WIDEST} in one range")


def test_ansibles_own_readers_have_the_same_bound(tmp_path: Path) -> None:
    """TOML has forms that our reader of lines does not see."""
    path = tmp_path / "hosts.toml"
    path.write_text('rdma = {hosts = {"gpu[1:3000000]" = {}}}\n', encoding="utf-8")
    with pytest.raises(InputError, match=f"this range holds more than {WIDEST} hosts"):
        load_inventory(path)


@pytest.mark.parametrize("pattern", [
    "gpu[1:20000]", "gpu[01:04]", "r[1:3]n[001:010:3]", "[a:f]x", "n1", "[::1]", "gpu[9:1]", "[5:z]", "a[1:3", "x[0:10:0]"])
def test_the_width_of_a_range_is_that_of_ansible(pattern: str) -> None:
    assert width(pattern) == len(expand(pattern)) or not expand(pattern)


@pytest.mark.parametrize(("template", "why"), [
    ("{{ 'x' * 100000000 }}", "the template gives more than 10000000 characters and items"),
    ("{{ range(30000000) | list }}", "range\\(0, 30000000\\) holds more than 100000 numbers")])
def test_a_template_that_gives_too_much(make: Make, template: str, why: str) -> None:
    directory = make({"site": f'rdma_fabric: roce\nrdma_mtu: 9000\nrdma_leaves: "{template}"\n'})
    with pytest.raises(InputError, match=f"inv/group_vars/all.yml:3: rdma_leaves: .*{why}"):
        load_inventory(directory)


def test_what_twenty_thousand_nodes_need_is_less(make: Make) -> None:
    directory = make({"site": 'rdma_fabric: roce\nrdma_mtu: 9000\n'
                              'rdma_leaves: "{{ range(20000) | map(\'string\') | map(\'regex_replace\', \'^\', \'leaf\') | list }}"\n'})
    assert len(load_inventory(directory).hosts["n1"]["rdma_leaves"]) == 20000


@pytest.mark.core
@pytest.mark.parametrize(("limit", "why"), [
    ("~n[", "brackets do not match"), ("~(n", "~\\(n is no regular expression: missing \\)"), ("n1,~n[", "brackets do not match"),
    ("!~*", "~\\* is no regular expression: nothing to repeat")])
def test_an_invalid_regular_expression_of_a_limit(make: Make, limit: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        load_inventory(make({}), limit)


@pytest.mark.core
@pytest.mark.parametrize(("limit", "hosts"), [("~n[12]", ["n1", "n2"]), ("~^n2$", ["n2"]), ("rdma[0]", ["n1"]), ("all:!~n1", ["n2"])])
def test_a_valid_one_is_matched(make: Make, limit: str, hosts: list[str]) -> None:
    assert list(load_inventory(make({}), limit).hosts) == hosts
