# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts share is read, templated and judged once: the same values and Specs as when each host is asked for itself."""

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.validate import build_spec, validate_site
from railwright import inventory_values
from railwright.exitcodes import InputError
from railwright.given import given as options
from railwright.inventory import Inventory, load_inventory
from railwright.lint import build_specs

Make = Callable[[Mapping[str, object]], Path]
pytestmark = pytest.mark.core

HOSTS = ("gpu1", "gpu2", "gpu3", "gpu4")
PLACES = ("inv/group_vars/all.yml", "inv/group_vars/pod1.yml", "inv/group_vars/pod2.yml", *(f"inv/host_vars/{host}.yml" for host in HOSTS))
VARIABLES = (
    "jumbo",
    "rdma_mtu",
    "network_opensm",
    "host_tuning_sysctls",
    "ansible_port",
    "inventory_dir",
    "rdma_consent",
    "rdma_rails",
    "rdma_mut",
)
VALUES = (
    9000, 1500, "9000", True, "link", "{{ jumbo }}", "{{ jumbo | int + 1 }}", "{{ jumbo | default(1) }}", "{{ inventory_hostname }}",
    "{{ group_names | length * 4000 }}", "{{ lookup('env', 'HOME') }}", "{{ nothing }}", "{% if jumbo is defined %}9000{% endif %}",
    "{{ hostvars }}",
    ["{{ jumbo }}"], {"vm.swappiness": "{{ jumbo }}"}, {"vm.swappiness": 10}, ["link"],
)  # fmt: skip
ADDRESSES = (
    "198.51.100.1/24",
    "198.51.100.2/24",
    "198.51.100.0/24",
    "198.51.101.1/24",
    "192.0.2.9/31",
    "2001:db8::1/64",
    "198.51.100.7",
    "nothing",
    5,
    None,
)
MATCHES = (
    {"mac": "02:00:00:00:00:01"},
    {"mac": "02-00-00-00-00-01"},
    {"mac": "01:00:00:00:00:01"},
    {"pci": "1a:00.0"},
    {"pci": "0000:1b:00.0"},
    {"if": "eth0"},
    "x",
)
RAIL = st.fixed_dictionaries(
    {"name": st.sampled_from(("rail0", "rail1", "Rail", 5)), "match": st.sampled_from(MATCHES)},
    optional={
        "address": st.sampled_from(ADDRESSES), "mtu": st.sampled_from((9000, 1500, "x", None)), "adress": st.just(1),
        "gateway": st.sampled_from(("198.51.100.254", "198.51.100.1", "x", None)),
    },
)  # fmt: skip
VARS = st.dictionaries(st.sampled_from(VARIABLES), st.one_of(st.sampled_from(VALUES), st.lists(RAIL, max_size=3)), max_size=3)
SITES = st.tuples(
    st.fixed_dictionaries({}, optional=dict.fromkeys(PLACES, VARS)),
    st.lists(VARS, min_size=4, max_size=4), st.lists(st.sampled_from(("pod1", "pod2")), min_size=4, max_size=4),
)  # fmt: skip


def write(directory: Path, files: Mapping[str, Any], own: list[Any], pods: list[str]) -> Path:
    groups: dict[str, Any] = {pod: {"hosts": {}} for pod in ("pod1", "pod2")}
    for host, variables, pod in zip(HOSTS, own, pods, strict=True):
        groups[pod]["hosts"][host] = variables
    site = {"rdma_fabric": "roce", "rdma_mtu": 9000}
    texts = {"inv/hosts.yml": {"all": {"vars": site, "children": {"rdma": {"children": groups}}}}, **files}
    for name, data in texts.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(json.dumps(data), encoding="utf-8")
    return directory / "inv"


def told(path: Path) -> Any:
    """Everything that an inventory says, or that it says nothing: which of several wrong values is named first is no matter."""
    try:
        inventory = load_inventory(path)
    except InputError:
        return None
    return {host: (dict(values), dict(inventory.connection[host]), inventory.membership[host]) for host, values in inventory.hosts.items()}


# What -e says lies over everything, but for what is Ansible's own (inventory_dir).
EXTRA = st.dictionaries(st.sampled_from((*VARIABLES, "inventory_hostname")), st.sampled_from((1500, "{{ jumbo }}", "gpu9")), max_size=2)


@settings(max_examples=90, deadline=None)
@given(SITES, EXTRA)
def test_shared_values_are_what_each_host_would_have(site: tuple[Mapping[str, Any], list[Any], list[str]], extra: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(options, "extra_vars", (json.dumps(extra),) if extra else ())
        path = write(Path(directory), *site)
        shared = told(path)
        patch.setattr(inventory_values, "only_files", lambda: False)
        assert shared == told(path)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.booleans(), VARS, st.lists(RAIL, max_size=3)), min_size=1, max_size=6))
def test_shared_specs_are_what_each_host_would_have(hosts: list[tuple[bool, dict[str, Any], list[Any]]]) -> None:
    base = {"rdma_fabric": "roce", "rdma_mtu": 9000, "group_names": []}
    values = {}
    for number, (empty, own, rails) in enumerate(hosts):
        values[f"n{number}"] = inventory_values.Layered(base, {} if empty else {**own, "rdma_rails": rails})
    inventory = Inventory(Path("inv"), None, values, {}, {}, None)  # type: ignore[arg-type]  # nothing asks for a line
    specs, findings = build_specs(inventory)
    alone = {host: build_spec(dict(own), host) for host, own in values.items()}
    assert findings == [finding for _spec, found in alone.values() for finding in found]
    assert {host: spec.as_dict() for host, spec in specs.items()} == {host: spec.as_dict() for host, (spec, _f) in alone.items() if spec}
    assert {host: spec.rails for host, spec in specs.items()} == {host: spec.rails for host, (spec, _f) in alone.items() if spec}
    reach = {"n0": "198.51.100.1", "n1": "198.51.100.9", "n2": "gpu2", "n3": "2001:db8::2", "n4": "192.0.2.8"}
    assert validate_site(specs, reach) == validate_site({host: spec for host, (spec, _f) in alone.items() if spec}, reach)


def test_a_template_of_the_groups_is_filled_in_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make({"site": "rdma_fabric: roce\nrdma_mtu: '{{ jumbo }}'\njumbo: 9000\nrdma_consent: ['{{ inventory_hostname }}']\n"})
    made: list[str] = []

    class Counting(inventory_values.Templar):  # type: ignore[misc]  # Ansible has no types
        def template(self, variable: Any, *args: Any, **named: Any) -> Any:
            made.append(str(variable))
            return super().template(variable, *args, **named)

    monkeypatch.setattr(inventory_values, "Templar", Counting)
    inventory = load_inventory(path)
    assert made.count("{{ jumbo }}") == 1
    assert [inventory.hosts[host]["rdma_consent"] for host in ("n1", "n2")] == [["n1"], ["n2"]]


def test_hosts_that_differ_in_addresses_only_are_judged_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.railwright.rdma.plugins.plugin_utils.spec import validate

    seen: list[str] = []
    monkeypatch.setattr(validate, "RULES", (lambda _values, rails, _findings: seen.append(rails[0]["address"]),))
    specs, _findings = build_specs(load_inventory(make({})))
    assert [spec.rails[0].address for spec in specs.values()] == ["198.51.100.11/25", "198.51.100.12/25"]
    assert seen == ["198.51.100.11/25", "198.51.100.0/25"], "the first host, and once what it shares with others"
