# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that are written and never in force; other warnings about a site; nesting; several inventories; places in JSON."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from railwright.cli import console
from railwright.cli.main import run
from railwright.exitcodes import InputError
from railwright.inventories import inventories
from railwright.inventory import load_inventory
from railwright.lint import lint
from railwright.runs import site_path

Make = Callable[[Mapping[str, object]], Path]
SITE = "rdma_fabric: roce\nrdma_mtu: 9000\n"
TWO = {"group_vars/a.yml": "rdma_consent: [link]\n", "group_vars/b.yml": "rdma_consent: []\n"}
GROUPS = """all:
  children:
    rdma:
      hosts: {n1: {rdma_rails: []}, n2: {rdma_rails: []}}
      %s
"""
QUIET = "the host has no rails"


def shadows(directory: Path) -> list[str]:
    return [str(finding) for finding in lint(directory) if "is shadowed by" in finding.message]


def said(directory: Path) -> list[str]:
    return [str(finding) for finding in lint(directory) if QUIET not in finding.message]


@pytest.mark.parametrize(("own", "files", "found"), [
    # a group's own vars, and a file of the same group: consent is widened
    ("vars: {rdma_consent: [link]}", {"group_vars/rdma.yml": "rdma_consent: [link, reboot]\n"},
     ["inv/hosts.yml:5: warning: rdma_consent: is shadowed by inv/group_vars/rdma.yml:1, which says something else"]),
    # Ansible puts every file over every vars:, that of all too
    ("vars: {rdma_consent: [link]}", {"group_vars/all.yml": SITE + "rdma_consent: []\n"},
     ["inv/hosts.yml:5: warning: rdma_consent: is shadowed by inv/group_vars/all.yml:3 of group all, which says something else"]),
    ("vars: {rdma_consent: [link]}", {"group_vars/rdma.yml": "rdma_consent: ['link']\n"}, []),
    # a group below another may say otherwise
    ("vars: {network_backend: auto}\n      children: {old: {hosts: {n1: }, vars: {network_backend: networkd}}}", {}, []),
    ("", {"group_vars/all.yml": SITE + "rdma_consent: []\n", "group_vars/rdma.yml": "rdma_consent: [link]\n"}, []),
    # two groups side by side: the alphabet decides
    ("\n    a: {hosts: {n1: }}\n    b: {hosts: {n1: }}", TWO,
     ["inv/group_vars/a.yml:1: warning: rdma_consent: is shadowed by inv/group_vars/b.yml:1 of group b, which says something else (n1)"]),
    ("\n    a: {hosts: {n1: }, vars: {ansible_group_priority: 9}}\n    b: {hosts: {n1: }}",
     TWO, []),
    # the host's own word stands above both
    ("\n    a: {hosts: {n1: }}\n    b: {hosts: {n1: }}",
     {**TWO, "host_vars/n1.yml": "rdma_consent: []\n"}, []),
    ("\n    a: {hosts: {n1: }}\n    b: {hosts: {n2: }}", TWO, []),
    # two files of one group, of one host
    ("", {"group_vars/rdma/a.yml": "rdma_consent: [link]\n", "group_vars/rdma/b.yml": "rdma_consent: []\n"},
     ["inv/group_vars/rdma/a.yml:1: warning: rdma_consent: is shadowed by inv/group_vars/rdma/b.yml:1, which says something else"]),
    ("", {"host_vars/n2.yml": "rdma_rails: [{name: rail0}]\n"},
     ["inv/hosts.yml:4: warning: rdma_rails: is shadowed by inv/host_vars/n2.yml:1, which says something else (n2)"]),
    # other people's variables are nobody's business
    ("vars: {theirs: 1}", {"group_vars/rdma.yml": "theirs: 2\n"}, []),
])  # fmt: skip
def test_a_value_that_is_not_in_force_is_named(make: Make, own: str, files: dict[str, str], found: list[str]) -> None:
    directory = make({"hosts": GROUPS % own, "files": files})
    assert shadows(directory) == [line + "; allowed: one value in one place" for line in found]


def test_of_two_forms_of_one_groups_variables_ansible_reads_one(make: Make) -> None:
    """And so do we: the line of a value is that of the file that is in force."""
    files = {"group_vars/rdma.yml": "rdma_consent: [reboot]\n", "group_vars/rdma/site.yml": "rdma_consent: [link]\n"}
    directory = make({"files": files})
    (line,) = said(directory)
    assert line.startswith("inv/group_vars/rdma.yml: warning: rdma.yml: is never read: of one name Ansible reads inv/group_vars/rdma alone")
    inventory = load_inventory(directory)
    origin = inventory.origin("n1", "rdma_consent")
    assert (inventory.hosts["n1"]["rdma_consent"], origin and origin.file) == (["link"], Path("inv/group_vars/rdma/site.yml"))


def test_a_rail_that_the_node_is_reached_by_is_a_warning(make: Make) -> None:
    n1 = 'ansible_host: 198.51.100.11\nrdma_rails: [{name: rail0, match: {mac: "02:00:00:00:01:00"}, address: 198.51.100.11/25}]'
    (finding,) = lint(make({"n1": n1}))
    assert (finding.severity, finding.line, finding.key) == ("warning", 7, "rdma_rails[0].address")
    assert "a change of this rail can cut it off" in finding.message


N1, N2 = (f'rdma_rails: [{{name: rail0, match: {{mac: "02:00:00:00:0{end}:00"}}, address: 198.51.100.1{end}/25}}]' for end in (1, 2))
IN_ONE_NETWORK = {"n1": "ansible_host: 198.51.100.101\n" + N1, "n2": "ansible_host: 198.51.100.102\n" + N2}


@pytest.mark.parametrize(("parts", "key", "hosts", "text"), [
    (IN_ONE_NETWORK, "rdma_rails[0].address", ("n1",), "rail0 is in 198.51.100.0/25, and so is ansible_host of n1, n2: of two interfaces"),
    ({"n1": "ansible_host: 2001:db8::99\n" + N1.replace("198.51.100.11/25", "2001:db8::11/64"), "n2": "rdma_rails: []"},
     "rdma_rails[0].address", ("n1",), "rail0 is in 2001:db8::/64, and so is ansible_host of n1"),
    ({"site": SITE + "firewall_peers: [10.0.0.0/8]\n"}, "firewall_peers", ("n1", "n2"), "has no address of this node"),
    ({"hosts": "all: {children: {rdma: {hosts: {n0: {rdma_rails: []}}}, late: {hosts: {n1: {rdma_rails: []}}}}}"}, "rdma_rails", ("n1",),
     "of hosts outside of group rdma: nothing is set up there"),
])  # fmt: skip
def test_what_is_seldom_meant_is_a_warning(
    make: Make, parts: Mapping[str, object], key: str, hosts: tuple[str, ...], text: str
) -> None:
    found = [item for item in lint(make(parts)) if item.key == key and item.hosts == hosts]
    assert [item.severity for item in found] == ["warning"]
    assert text in found[0].message
    assert found[0].line is not None


@pytest.mark.parametrize("parts", [
    {"site": SITE + "firewall_peers: [198.51.100.0/24]\n"},
    {"site": SITE + "firewall_peers: [10.0.0.0/8]\nfirewall_manage: false\n"},
    {"site": SITE + "nic_firmware_config: {LINK_TYPE_P1: ETH, LINK_TYPE_P2: IB}\n"},
    {"site": SITE + "nic_firmware_config: {LINK_TYPE_P1: IB, LINK_TYPE_P2: ETH}\n"},
    {"site": SITE + "host_tuning_sysctls: {net.ipv4.neigh.default.gc_thresh3: 8192, net.ipv4.neigh.default.gc_thresh1: null}\n"},
    {"n1": "ansible_host: gpu01.example.com\n" + N1, "n2": "ansible_host: 2001:db8::12\n" + N2},
])  # fmt: skip
def test_what_is_meant_is_no_finding(make: Make, parts: Mapping[str, object]) -> None:
    assert said(make(parts)) == []


@pytest.mark.parametrize("own", [
    ("ansible_host: 192.0.2.1\nansible_port: 22", "ansible_host: 192.0.2.1\nansible_port: 2222"),
    ("ansible_host: 192.0.2.1\nansible_ssh_common_args: -J a", "ansible_host: 192.0.2.1\nansible_ssh_common_args: -J b"),
    ("ansible_host: localhost\nansible_connection: local", "ansible_host: localhost\nansible_connection: local"),
    ("ansible_host: '{{ inventory_hostname }}.example.com'", "ansible_host: '{{ inventory_hostname_short }}.example.com'"),
    ("ansible_host: '{{ nowhere }}'", "ansible_host: '{{ nowhere }}'"),
])  # fmt: skip
def test_two_ways_are_no_duplicate(make: Make, own: tuple[str, str]) -> None:
    assert said(make({"n1": own[0] + "\nrdma_rails: []", "n2": own[1] + "\nrdma_rails: []"})) == []


@pytest.mark.parametrize(("name", "meant"), [
    ("ansible_hots", "ansible_host"), ("ansible_usr", "ansible_user"), ("ansilbe_host", "ansible_host"),
    ("ansible_ssh_comon_args", "ansible_ssh_common_args"),
    ("ansible_host", None), ("ansible_distribution", None), ("ansible_hostname", None), ("ansible_winrm_port", None), ("answers", None),
])  # fmt: skip
def test_a_misspelt_variable_of_ansible(make: Make, name: str, meant: str | None) -> None:
    found = [line for line in said(make({"n1": f"{name}: 192.0.2.1\nrdma_rails: []"})) if "host has" not in line]
    assert found == ([] if meant is None else [
        f"inv/hosts.yml:6: warning: {name}: is no variable that Ansible reads; did you mean {meant}? (n1); allowed: {meant}"])  # fmt: skip


@pytest.mark.parametrize(("mode", "warned"), [("default", True), ("compat", False)])
def test_a_mode_that_the_fabrics_own_profile_does_not_go_with(make: Make, mode: str, warned: bool) -> None:
    site = f"rdma_fabric: erdma\nrdma_mtu: 8500\nerdma_mode: {mode}\n"
    found = [item for item in lint(make({"site": site})) if item.key == "erdma_mode"]
    assert [(item.severity, item.line) for item in found] == ([("warning", 3)] if warned else [])


def test_sockets_are_no_matter_to_a_plugin_with_a_transport_of_its_own(make: Make) -> None:
    site = SITE + "rdma_nccl_profile: aws-efa\nrdma_qos_profile: none\nnccl_overrides: {NCCL_IB_DISABLE: 1}\n"
    assert not [line for line in said(make({"site": site, "n1": "rdma_rails: []", "n2": "rdma_rails: []"})) if "RDMA off" in line]


def test_rdma_off_in_a_run_is_a_warning(make: Make) -> None:
    found = said(make({"site": SITE + "nccl_tests_environment: {NCCL_NET: Socket}\n"}))
    where = "inv/group_vars/all.yml:3: warning: nccl_tests_environment.NCCL_NET: Socket"
    assert [line.partition(": turns")[0] for line in found] == [where]


@pytest.mark.parametrize("value", [
    "[" * 600 + "]" * 600, "{a: " * 600 + "1" + "}" * 600,
    "\n" + "".join(" " * depth + "a:\n" for depth in range(1, 200)), "\n " + "- " * 200 + "1",
    "[" * 100000,
])  # fmt: skip
@pytest.mark.parametrize("name", ["theirs", "nccl_overrides"])
def test_what_is_nested_too_deeply_has_a_place(make: Make, name: str, value: str) -> None:
    with pytest.raises(InputError, match=r"inv/group_vars/all.yml:\d+:\d+: values are nested more than 100 levels deep") as caught:
        lint(make({"site": SITE + f"{name}: {value}\n"}))
    assert caught.value.line is not None


def test_brackets_in_a_text_are_no_nesting(make: Make) -> None:
    assert said(make({"site": SITE + f"theirs: '{'[' * 500}'\nmore: [{', '.join(['[]'] * 500)}]\n"})) == []


@pytest.mark.parametrize(("name", "text", "line"), [
    ("group_vars/all.yml", "rdma_mtu: [\n", 2), ("group_vars/all.yml", "rdma_mtu: 9000\nrdma_mtu: 9000\n", 2),
    ("group_vars/all.yml", SITE + "rdma_stack: '{{ none_such }}'\n", 3), ("hosts.yml", "all:\n  host: {}\n", 2),
])  # fmt: skip
def test_json_has_the_place_that_the_text_has(make: Make, capfd: pytest.CaptureFixture[str], name: str, text: str, line: int) -> None:
    console.out.cache_clear()
    directory = make({"files": {name: text}})
    assert run(["lint", "-i", str(directory), "--format", "json"]) == 64
    console.out.cache_clear()
    (finding,) = json.loads(capfd.readouterr().out)["findings"]
    assert (finding["file"], finding["line"]) == (f"inv/{name}", line)
    assert finding["message"].startswith(f"inv/{name}:{line}:")


def test_an_ini_line_hides_its_password(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    console.out.cache_clear()
    make({})
    Path("hosts.ini").write_text("[rdma]\nn1 https://me:hunter2@mirror.example.com\n", encoding="utf-8")
    assert run(["lint", "-i", "hosts.ini", "--format", "json"]) == 64
    console.out.cache_clear()
    said = capfd.readouterr()
    (finding,) = json.loads(said.out)["findings"]
    assert Path(finding["file"]).name == "hosts.ini"  # ansible-core 2.16 says the line too
    assert "hunter2" not in said.out + said.err


def test_several_inventories_are_one(make: Make) -> None:
    """As Ansible merges them: hosts of both, and of what both say the later."""
    make({})
    Path("more/group_vars").mkdir(parents=True)
    hosts = "all: {children: {rdma: {hosts: {n3: {rdma_rails: []}, n1: {rdma_accept_eol: true}}}}}\n"
    Path("more/hosts.yml").write_text(hosts, encoding="utf-8")
    Path("more/group_vars/all.yml").write_text("rdma_mtu: 4200\n", encoding="utf-8")
    both = load_inventory([Path("inv"), Path("more")])
    assert list(both.hosts) == ["n1", "n2", "n3"]
    assert [(host["rdma_mtu"], host["rdma_fabric"]) for host in both.hosts.values()] == [(4200, "roce")] * 3
    assert both.hosts["n1"]["rdma_accept_eol"] is True
    assert str(both.path) == "inv -i more"
    origin = both.origin("n3", "rdma_mtu")
    assert (origin and origin.file) == Path("more/group_vars/all.yml")
    assert "inv/group_vars/all.yml:2: warning: rdma_mtu: is shadowed by more/group_vars/all.yml:1" in said([Path("inv"), Path("more")])[0]
    assert [host["rdma_mtu"] for host in load_inventory([Path("more"), Path("inv")]).hosts.values()] == [9000] * 3


def test_a_verb_takes_all_of_them(make: Make, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its nodes are those of both, and what it hands to Ansible, shows and remembers names both."""
    from railwright import run as runner
    from railwright.drift import Remedy

    make({})
    Path("more.yml").write_text("all: {children: {rdma: {hosts: {n3: {rdma_rails: []}}}}}\n", encoding="utf-8")
    given: list[object] = []

    def init_runner(**more: object) -> object:
        given.append(more["inventory"])
        raise InputError("enough")

    monkeypatch.setattr(runner, "init_runner", init_runner)
    console.err.cache_clear()
    assert run(["plan", "-i", "inv", "-i", "more.yml", "--transport", "ansible"]) == 64
    assert given == [[str(Path("inv").absolute()), str(Path("more.yml").absolute())]]
    assert run(["plan", "-i", "inv", "-i", "gone.yml"]) == 64
    assert "inventory gone.yml does not exist" in capfd.readouterr().err
    console.err.cache_clear()
    both = inventories([Path("inv"), Path("more.yml"), Path("inv")])
    assert site_path(both) == f"{Path('inv').absolute()} -i {Path('more.yml').absolute()}" != site_path(Path("inv"))
    line = Remedy("apply").line(str(inventories([Path("a b"), Path("c")])), ["n1"])
    assert line == "railwright apply -i 'a b' -i c --limit n1"
