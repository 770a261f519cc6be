# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventories as Ansible reads them: forms, precedence, limits, origins, Vault; and inventories that cannot be read."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from railwright.exitcodes import InputError
from railwright.inventory import load_inventory
from railwright.lint import lint

Make = Callable[[Mapping[str, object]], Path]
pytestmark = pytest.mark.core

INI = """[rdma]
gpu[01:02] rdma_rails='[{"name": "rail0", "match": {"pci": "1a:00.0"}}]'
# a comment
[opensm]
gpu01
[rdma:vars]
rdma_fabric=infiniband
rdma_mtu=4092
"""


def test_values_are_templated_and_plain(make: Make) -> None:
    site = "rdma_fabric: roce\nrdma_mtu: '{{ _jumbo }}'\n_jumbo: 9000\nrdma_consent: ['{{ \"link\" }}']\n"
    inventory = load_inventory(make({"site": site}))
    assert list(inventory.hosts) == ["n1", "n2"]
    values = inventory.hosts["n1"]
    assert str(values["rdma_mtu"]) == "9000"  # text under 2.16, a number under 2.19; build_spec takes both
    assert [type(item) for item in values["rdma_consent"]] == [str]
    assert values["_jumbo"] is None, "of what is not ours the name alone"
    assert lint(Path("inv")) == []


def test_group_vars_of_the_working_directory_are_not_the_inventorys(make: Make) -> None:
    """A run does not read them: its playbook lies elsewhere. So a site that lacks its MTU is refused here, not on the way."""
    path = make({"site": "rdma_fabric: roce\n"})
    Path("group_vars").mkdir()
    Path("group_vars/all.yml").write_text("rdma_mtu: 9000\nno_key_of_ours: 1\n", encoding="utf-8")
    # a process of its own, since Ansible keeps where "." was the first time
    said = subprocess.run([sys.executable, "-m", "railwright", "lint", "-i", str(path)], capture_output=True, text=True, check=False)
    errors = [line for line in said.stdout.splitlines() if ": warning: " not in line]  # of example MACs
    assert errors == ["inv: rdma_mtu: is missing; allowed: 1280 to 9216; 9000 is usual"]


def test_ini_with_ranges_and_vars(make: Make) -> None:
    make({})
    path = Path("hosts.ini")
    path.write_text(INI, encoding="utf-8")
    inventory = load_inventory(path)
    assert list(inventory.hosts) == ["gpu01", "gpu02"]
    assert lint(path) == []
    origins = [inventory.origin("gpu02", key) for key in ("rdma_rails", "rdma_mtu", "nothing")]
    assert [(str(origin.file), origin.line) if origin else None for origin in origins] == [("hosts.ini", 2), ("hosts.ini", 8), None]
    assert inventory.hosts["gpu01"]["group_names"] == ["opensm", "rdma"]


def test_the_line_that_wins_is_named(make: Make) -> None:
    directory = make(
        {
            "site": "rdma_fabric: roce\nrdma_mtu: 1300\n",
            "files": {
                "group_vars/rdma/a.yml": "# later than all\n\nrdma_mtu: 1400\n",
                "host_vars/n1.yml": "host_tuning_nofile: 2048\nrdma_mtu: 1500\n",
            },
        }
    )
    inventory = load_inventory(directory)
    assert [inventory.hosts[host]["rdma_mtu"] for host in ("n1", "n2")] == [1500, 1400]
    origins = [origin for host in ("n1", "n2") if (origin := inventory.origin(host, "rdma_mtu"))]
    assert [(str(origin.file), origin.line) for origin in origins] == [("inv/host_vars/n1.yml", 2), ("inv/group_vars/rdma/a.yml", 3)]


def test_inventories_in_nested_directories(make: Make) -> None:
    directory = make({})
    (directory / "racks").mkdir()
    (directory / "hosts.yml").rename(directory / "racks" / "one.yml")
    (directory / "README.md").write_text("not an inventory\n", encoding="utf-8")
    inventory = load_inventory(directory)
    origin = inventory.origin("n1", "rdma_rails")
    assert origin is not None
    assert str(origin.file) == "inv/racks/one.yml"
    assert lint(directory) == []


def test_the_deepest_line_of_a_path_is_named(make: Make) -> None:
    directory = make({"n1": 'rdma_rails:\n  - name: rail0\n    match:\n      mac: "02:00:00:00:01:00"\n    address: 198.51.100.11/25\n'})
    inventory = load_inventory(directory)
    keys = ("rdma_rails", "rdma_rails[0]", "rdma_rails[0].match.mac", "rdma_rails[0].gateway")
    lines = {key: origin.line for key in keys if (origin := inventory.origin("n1", key))}
    assert lines == {"rdma_rails": 6, "rdma_rails[0]": 7, "rdma_rails[0].match.mac": 9, "rdma_rails[0].gateway": 7}


def test_limit(make: Make) -> None:
    directory = make({})
    assert list(load_inventory(directory, "n2").hosts) == ["n2"]
    assert list(load_inventory(directory, "rdma:!n2").hosts) == ["n1"]
    assert list(load_inventory(directory, "n*").hosts) == ["n1", "n2"]
    assert list(load_inventory(directory, "rdma[1]").hosts) == ["n2"]
    assert list(load_inventory(directory, "~n[12]").hosts) == ["n1", "n2"]
    with pytest.raises(InputError, match=r"--limit n3: n3 is no host or group of inv; allowed: n1, n2"):
        load_inventory(directory, "n3")
    with pytest.raises(InputError, match=r"--limit n1,m\*: m\* is no host or group"):
        load_inventory(directory, "n1,m*")
    with pytest.raises(InputError, match=r"--limit n1:!n1: matches no host of group rdma"):
        load_inventory(directory, "n1:!n1")


def test_localhost_is_never_implied(make: Make) -> None:
    directory = make({"hosts": "all:\n  children:\n    rdma:\n      hosts: {}\n"})
    for limit in (None, "localhost"):
        with pytest.raises(InputError, match="has no hosts"):
            load_inventory(directory, limit)


SECTIONS = r"; allowed: \[GROUP\], \[GROUP:vars\] or \[GROUP:children\]$"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[rdma]\nn1 foo bar=x "\n', r"^hosts: is not an inventory: [^\n]+; allowed: YAML or INI as Ansible reads it$"),
        ("[rdma:nothing]\nn1\n", r"^hosts:1: \[rdma:nothing\]: a group has no such part" + SECTIONS),
        ("# a comment\n[rdma\nn1\n", r"^hosts:2: \[rdma: is no section" + SECTIONS),
        ("[rdma]\nn[5:1]\n", r"^hosts:2: n\[5:1\]: this range holds no host; allowed: a range that runs upwards"),
    ],
)
def test_broken_ini(make: Make, text: str, line: str) -> None:
    make({})
    Path("hosts").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=line):
        load_inventory(Path("hosts"))


@pytest.mark.parametrize("name", ["hosts.yml", "group_vars/pipe.yml", "host_vars/n1.yml"])
def test_a_pipe_is_refused_not_waited_for(make: Make, name: str) -> None:
    path = make({}) / name
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    with pytest.raises(InputError, match=rf"^inv/{name}: is not a regular file; allowed: a file of YAML or INI text$"):
        load_inventory(Path("inv"))


def test_aliases_that_do_not_multiply_are_welcome(make: Make) -> None:
    assert lint(make({"site": "_f: &f roce\nrdma_fabric: *f\n_x: &x {rdma_mtu: 9000}\n<<: *x\n"})) == []


def test_paths_that_cannot_be_read(make: Make, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^nowhere: does not exist; allowed"):
        load_inventory(Path("nowhere"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty: holds no inventory file; allowed"):
        load_inventory(tmp_path / "empty")
    binary = make({"files": {"group_vars/rdma.yml": ""}})
    (binary / "group_vars/rdma.yml").write_bytes(b"rdma_mtu: \xff\xfe9000\n")
    with pytest.raises(InputError, match=r"rdma.yml: is not UTF-8 text \(byte 10\)"):
        load_inventory(binary)


def test_a_file_that_cannot_be_opened(make: Make) -> None:
    """A link that leads nowhere, not a missing permission: root has every permission."""
    directory = make({})
    (directory / "group_vars/rdma.yml").symlink_to("nowhere.yml")
    with pytest.raises(InputError, match=r"group_vars/rdma.yml: cannot be read: no such file or directory"):
        load_inventory(directory)


def test_vault_with_its_password(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible import constants
    from ansible.parsing.vault import VaultLib, VaultSecret

    secret = VaultSecret(b"open sesame")
    text = VaultLib([("default", secret)]).encrypt("performance", secret).decode()
    block = "\n".join("  " + line for line in text.splitlines())
    (tmp_path / "password").write_text("open sesame\n", encoding="utf-8")
    monkeypatch.setattr(constants, "DEFAULT_VAULT_PASSWORD_FILE", str(tmp_path / "password"))
    inventory = load_inventory(make({"site": f"rdma_fabric: roce\nrdma_mtu: 9000\nhost_tuning_governor: !vault |\n{block}\n"}))
    assert inventory.hosts["n1"]["host_tuning_governor"] == "performance"
    assert type(inventory.hosts["n1"]["host_tuning_governor"]) is str


def test_a_vaulted_file_without_password(make: Make) -> None:
    directory = make({"files": {"group_vars/rdma.yml": "$ANSIBLE_VAULT;1.1;AES256\n36616261\n"}})
    with pytest.raises(InputError, match=r"^inv/group_vars/rdma\.yml: is encrypted with Ansible Vault and no password fits; allowed"):
        load_inventory(directory)


def test_the_display_is_given_back(make: Make) -> None:
    from ansible.utils.display import Display

    before = Display().display
    load_inventory(make({}))
    assert Display().display == before
