# SPDX-License-Identifier: GPL-3.0-or-later
"""`railwright explain` of a host, a key and a check: real inventories, what is in force and where from, and no node contacted."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import BY_NAME, KEYS
from ansible_collections.railwright.rdma.plugins.plugin_utils.tables.checks import BY_CODE
from railwright.inventory_text import LONG
from repo import ROOT
from verb_said import said_by

Explain = Callable[..., tuple[int, str, str]]
HOSTS = """all:
  children:
    rdma:
      vars: {rdma_mtu: 4200}
      children:
        rack1: {hosts: {n1: {rdma_rails: []}}}
        rack2: {hosts: {n2: {rdma_rails: []}}}
    login: {hosts: {door: }}
"""
PASSWORD = {"ANSIBLE_VAULT_PASSWORD_FILE": "password"}
SITE = "rdma_fabric: roce\nrdma_mtu: 9000\n"


def write(texts: dict[str, str]) -> None:
    for name, text in texts.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")


@pytest.fixture
def explain(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Explain:
    """The verb in an empty directory with an inventory ``inv``: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    write({"inv/hosts.yml": HOSTS, "inv/group_vars/all.yml": SITE})

    def call(*argv: str) -> tuple[int, str, str]:
        return said_by(capfd, "explain", *argv)

    return call


def keys(explain: Explain, *argv: str) -> dict[str, dict[str, Any]]:
    code, out, _err = explain("host", *argv, "--format", "json")
    assert code == 0
    return {row["key"]: row for row in json.loads(out)["keys"]}


def alone(directory: Path, *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own."""
    variables = os.environ | {"PYTHONPATH": f"{ROOT / '.dev'}:{ROOT / 'src'}"} | more
    command = [sys.executable, "-m", "railwright", "explain", *argv]
    return subprocess.run(command, env=variables, cwd=directory, capture_output=True, text=True, timeout=60, check=False)


def lost(row: dict[str, Any]) -> list[tuple[Any, str]]:
    return [(item["value"], f"{item['file']}:{item['line']} {item['of']}") for item in row["shadowed"]]


def test_a_hosts_own_file_stands_over_all_else(explain: Explain) -> None:
    write({"inv/host_vars/n1.yml": "# its own\nrdma_mtu: 1500\n", "inv/group_vars/rack1.yml": "rdma_mtu: 8500\n"})
    row = keys(explain, "n1", "-i", "inv")["rdma_mtu"]
    assert (row["value"], row["source"], row["of"]) == (1500, "inv/host_vars/n1.yml:2", "host n1")
    assert lost(row) == [(8500, "inv/group_vars/rack1.yml:1 group rack1"), (9000, "inv/group_vars/all.yml:2 group all"),
                         (4200, "inv/hosts.yml:4 group rdma")]
    assert {item["by"] for item in row["shadowed"]} == {"inv/host_vars/n1.yml:2"}
    code, text, err = explain("host", "n1", "-i", "inv")
    assert (code, err) == (0, "")
    assert [line.split() for line in text.splitlines()] == [
        ["n1", "in", "all,", "rdma,", "rack1"], ["key", "value", "from"], text.splitlines()[2].split(),
        ["rdma_fabric", "roce", "inv/group_vars/all.yml:1"], ["rdma_mtu", "1500", "inv/host_vars/n1.yml:2"],
        ["not", "in", "force", "8500", "inv/group_vars/rack1.yml:1"], ["not", "in", "force", "9000", "inv/group_vars/all.yml:2"],
        ["not", "in", "force", "4200", "inv/hosts.yml:4"], ["rdma_rails", "[]", "inv/hosts.yml:6"],
        [str(len(KEYS) - 3), "more", "keys", "by", "default:", "--all"]]
    assert max(map(len, text.splitlines())) <= 80
    assert len(explain("host", "n1", "-i", "inv", "--all")[1].splitlines()) == len(KEYS) + 6


def test_files_beside_a_later_inventory_win_whatever_group_they_are_of(explain: Explain) -> None:
    write({"inv/group_vars/rack1.yml": "rdma_mtu: 8500\n", "more/hosts.yml": "rdma: {hosts: {n1: }}\n", "more/group_vars/rdma.yml":
           "rdma_mtu: 1500\n"})
    row = keys(explain, "n1", "-i", "inv", "-i", "more")["rdma_mtu"]
    assert (row["value"], row["source"]) == (1500, "more/group_vars/rdma.yml:1")
    assert [value for value, _at in lost(row)] == [8500, 9000, 4200]
    assert keys(explain, "n1", "-i", "more", "-i", "inv")["rdma_mtu"]["source"] == "inv/group_vars/rack1.yml:1"


PLACES = ("group_vars/all.yml", "group_vars/rdma/a.yml", "group_vars/rdma/b.yml", "group_vars/rack1.yml", "group_vars/odd.yml",
          "host_vars/n1.yml")  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_what_wins_is_what_ansible_says(seed: int, explain: Explain) -> None:
    """Every place has a value of its own, so a wrong order shows: Ansible's value is then that of no winning line."""
    chance = random.Random(seed)
    values = iter(chance.sample(range(1280, 9000), 40))
    for name in ("one", "two"):
        site = "rdma_fabric: roce\nrdma_rails: []\n"
        write({f"{name}/{place}": (site if place == PLACES[0] else "") + f"rdma_mtu: {next(values)}\n"
               for place in PLACES if chance.random() < 0.4 or place == PLACES[0]})
        inline = [f"vars: {{rdma_mtu: {next(values)}, ansible_group_priority: {chance.randint(1, 3)}}}" if chance.random() < 0.5 else
                  "vars: {}" for _group in range(3)]
        own = f"rdma_mtu: {next(values)}" if chance.random() < 0.2 else ""
        write({f"{name}/hosts.yml": f"rdma:\n  {inline[0]}\n  children:\n    rack1: {{hosts: {{n1: {{{own}}}}}, {inline[1]}}}\n"
                                    f"    odd: {{hosts: {{n1: }}, {inline[2]}}}\n"})
    row = keys(explain, "n1", "-i", "one", "-i", "two")["rdma_mtu"]
    assert row["file"] is not None
    assert f"rdma_mtu: {row['value']}" in Path(row["file"]).read_text().splitlines()[row["line"] - 1]
    written = sum(path.read_text().count("rdma_mtu") for name in ("one", "two") for path in Path(name).rglob("*.yml"))
    assert len(row["shadowed"]) == written - 1


def test_values_of_aliases_merges_and_templates(explain: Explain) -> None:
    write({"inv/hosts.yml": """rdma:
  vars:
    _usual: &usual {rdma_mtu: 4200, rdma_consent: [link]}
    rdma_stack: "{{ _stack }}"
    _stack: inbox
  hosts:
    n1: {<<: *usual, rdma_rails: [], rdma_mtu: 1500}
    n2: *usual
"""})
    found = keys(explain, "n1", "-i", "inv")
    assert (found["rdma_mtu"]["value"], lost(found["rdma_mtu"])) == (1500, [(9000, "inv/group_vars/all.yml:2 group all")])
    assert (found["rdma_consent"]["value"], found["rdma_consent"]["source"]) == (["link"], "inv/hosts.yml:3")
    assert (found["rdma_stack"]["value"], found["rdma_stack"]["source"]) == ("inbox", "inv/hosts.yml:4")
    assert keys(explain, "n2", "-i", "inv")["rdma_mtu"]["value"] == 4200
    write({"inv/host_vars/n1.yml": "rdma_stack: auto\n"})
    assert lost(keys(explain, "n1", "-i", "inv")["rdma_stack"]) == [("{{ _stack }}", "inv/hosts.yml:4 group rdma")]


def test_an_ini_inventory(explain: Explain) -> None:
    write({"ini/hosts": "[rdma]\nn[1:2]\trdma_rails=[] rdma_expect='{\"hcas\": 8, \"x=y\": 1}' # eight\n[rdma:vars]\nrdma_fabric = roce\n"
                        "rdma_mtu = 9000\n", "ini/host_vars/n2": "rdma_expect: {hcas: 4}\n"})
    code, out, _err = explain("host", "n2", "-i", "ini/hosts", "--format", "json")
    found = {row["key"]: row for row in json.loads(out)["keys"]}
    assert code == 0
    assert (found["rdma_mtu"]["value"], found["rdma_mtu"]["source"]) == (9000, "ini/hosts:5")
    assert found["rdma_expect"]["source"] == "ini/host_vars/n2:1"
    assert lost(found["rdma_expect"]) == [({"hcas": 8, "x=y": 1}, "ini/hosts:2 host n2")]
    assert "rdma_expect" not in [row["key"] for row in found.values() if row["source"] == "default"]


def test_what_is_encrypted_is_not_shown(explain: Explain, tmp_path: Path) -> None:
    """Neither in force nor shadowed, by itself, in a file that is encrypted whole, or behind a template. Ansible takes passwords once a
    process.
    """
    from ansible.parsing.vault import VaultLib, VaultSecret

    def sealed(text: str) -> str:
        secret = VaultSecret(b"open sesame")
        return str(VaultLib([("default", secret)]).encrypt(text, secret), "utf-8")

    def tagged(text: str) -> str:
        return "!vault |\n" + "".join(f"  {line}\n" for line in sealed(text).splitlines())

    write({"password": "open sesame\n", "inv/group_vars/all.yml": SITE + "_word: " + tagged("hunter2") + "_more: '{{ _hush }}'\n",
           "inv/group_vars/rdma/sealed.yml": sealed("---\n_hush: hunter3\nhost_tuning_governor: powersave\n"),
           "inv/group_vars/rack1.yml": "host_tuning_governor: performance\nrdma_bootstrap_interface: '{{ _word }}'\n"
           "rdma_kernel_version: '{{ _hush | replace(3, \" 4\") }}'\n"
           "nccl_overrides: {NCCL_DEBUG_FILE: '/tmp/{{ _more }}', NCCL_DEBUG: WARN}\nnccl_tests_slurm_options: ['{{ rdma_fabric }}']\n"})
    said = [alone(tmp_path, *argv, "-i", "inv", "--format", "json", **PASSWORD)
            for argv in (("host", "n1"), ("host_tuning_governor",))]
    found = {row["key"]: row for row in json.loads(said[0].stdout)["keys"]}
    assert found["host_tuning_governor"]["value"] == "performance"
    assert lost(found["host_tuning_governor"]) == [("(hidden)", "inv/group_vars/rdma/sealed.yml:3 group rdma")]
    assert [found[key]["value"] for key in ("rdma_bootstrap_interface", "nccl_overrides", "rdma_kernel_version")] == ["(hidden)"] * 3
    assert said[0].returncode == 64
    assert "rack1.yml:3: rdma_kernel_version: (hidden): must be " in said[0].stderr
    assert found["nccl_tests_slurm_options"]["value"] == ["roce"]
    row = json.loads(said[1].stdout)["hosts"][1]
    assert (row["hosts"], row["value"], row["source"]) == (["n2"], "(hidden)", "inv/group_vars/rdma/sealed.yml:3")
    assert [word for word in ("hunter2", "hunter3", "hunter 4") for done in said if word in done.stdout + done.stderr] == []
    code, _out, err = explain("host", "n1", "-i", "inv")
    assert (code, err.count("inv/group_vars/rdma/sealed.yml: is encrypted with Ansible Vault and no password fits")) == (64, 1)


def test_secrets_are_masked_by_their_names(explain: Explain) -> None:
    write({"inv/group_vars/rack1.yml": "rdma_artifact_mirror: https://me:hunter2@pypi.example.com/\n"})
    code, out, err = explain("host", "n1", "-i", "inv")
    assert code == 64
    assert "https://(hidden)@pypi.example.com/" in out
    assert "hunter2" not in out + err


def test_a_value_of_an_inventory_script(explain: Explain) -> None:
    write({"dyn/more": "#!/bin/sh\necho '{\"rdma\": {\"hosts\": [\"n1\"]}, \"_meta\": {\"hostvars\": {\"n1\": {\"rdma_mtu\": 1500}}}}'\n"})
    Path("dyn/more").chmod(0o755)
    row = keys(explain, "n1", "-i", "inv", "-i", "dyn/more")["rdma_mtu"]
    assert (row["value"], row["source"], row["file"]) == (1500, "from an inventory script or plugin (dyn/more)", None)
    assert [value for value, _at in lost(row)] == [9000, 4200]


def test_a_host_of_a_long_inventory_has_its_own_values(explain: Explain) -> None:
    """Hosts that are like the one above them are not parsed."""
    one = "    gpu%05d:\n      rdma_rails: []\n      rdma_bootstrap_interface: eth%d\n      ansible_host: 10.0.%d.%d\n"
    hosts = "".join(one % (number, number, *divmod(number, 256)) for number in range(LONG // 60))
    write({"inv/hosts.yml": "rdma:\n  hosts:\n" + hosts, "inv/host_vars/gpu00700.yml": "rdma_bootstrap_interface: eno1\n"})
    row = keys(explain, "gpu00700", "-i", "inv")["rdma_bootstrap_interface"]
    assert (row["value"], lost(row)) == ("eno1", [("eth700", f"inv/hosts.yml:{3 + 4 * 700 + 2} host gpu00700")])
    assert keys(explain, "gpu00701", "-i", "inv")["rdma_bootstrap_interface"]["source"] == f"inv/hosts.yml:{3 + 4 * 701 + 2}"


def test_defaults_and_empty_keys(explain: Explain) -> None:
    write({"inv/group_vars/rack1.yml": "rdma_consent:\n"})
    found = keys(explain, "n1", "-i", "inv")
    assert (found["rdma_consent"]["value"], found["rdma_consent"]["source"]) == ([], "default: inv/group_vars/rack1.yml:1 is empty")
    assert [found[key]["value"] for key in ("rdma_nccl_profile", "rdma_qos_profile")] == ["roce", "dscp26-prio3"]  # of its fabric
    assert list(found) == [*(key for key in found if found[key]["source"] != "default"),
                           *(key for key in found if found[key]["source"] == "default")]
    assert set(found) == set(BY_NAME)


def test_a_host_with_an_error_is_shown_with_it(explain: Explain) -> None:
    write({"inv/host_vars/n1.yml": "rdma_mtu: 12\n"})
    code, out, err = explain("host", "n1", "-i", "inv", "--format", "json")
    assert code == 64
    assert next(row["value"] for row in json.loads(out)["keys"] if row["key"] == "rdma_mtu") == 12
    assert [item["key"] for item in json.loads(out)["errors"]] == ["rdma_mtu"]
    assert err.startswith("inv/host_vars/n1.yml:1: rdma_mtu: 12: ")
    assert explain("host", "n2", "-i", "inv")[0] == 0


@pytest.mark.parametrize(("argv", "said"), [
    (["host", "n11", "-i", "inv"], "n11: is no host of group rdma of inv; nearest: n1; allowed: n1, n2"),
    (["host", "door", "-i", "inv"], "door: is in the inventory, but not in group rdma of inv; allowed: n1, n2"),
    (["host", "n1"], "explain host takes one host of an inventory; allowed: railwright explain host NODE -i INVENTORY"),
    (["host", "-i", "inv"], "explain host takes one host of an inventory"),
    (["host", "n1", "-i", "inv", "--limit", "n1"], "explain host takes one host of an inventory"),
    (["host", "n1", "--sysroot", "."], "host is explained without a node"),
    (["rdma_mtu", "n1"], "explain takes one name; allowed: railwright explain rdma_mtu"),
    (["rdma_mtu", "--all"], "--all is for explain host; allowed: railwright explain rdma_mtu"),
    (["port.flaps", "-i", "inv"], "port.flaps is a check's code, which is explained without an inventory"),
    (["rdma_mtt"], "rdma_mtt: is nothing that explain knows; nearest: rdma_mtu, "),
    (["port.flap"], "port.flap: is nothing that explain knows; nearest: port.flaps, "),
    (["config.nothing"], "config.nothing: is nothing that explain knows; "),
    (["xyzzyxyzzy"], "xyzzyxyzzy: is nothing that explain knows; allowed: host NODE, gpudirect, "),
])  # fmt: skip
def test_wrong_names(argv: list[str], said: str, explain: Explain) -> None:
    code, out, err = explain(*argv)
    assert (code, out, err.count("\n")) == (64, "", 1)
    assert said in err


def test_a_key_and_what_each_host_has(explain: Explain) -> None:
    write({"inv/host_vars/n2.yml": "rdma_mtu: 1500\n"})
    code, out, _err = explain("rdma_mtu", "-i", "inv", "--format", "json")
    found = json.loads(out)
    key = BY_NAME["rdma_mtu"]
    assert (code, found["meaning"], found["allowed"], found["default"]) == (0, key.doc, key.allowed(), None)
    assert "ping.mtu" in found["checks"]
    assert [(row["hosts"], row["value"], row["source"]) for row in found["hosts"]] == [
        (["n1"], 9000, "inv/group_vars/all.yml:2"), (["n2"], 1500, "inv/host_vars/n2.yml:1")]
    code, text, _err = explain("rdma_fabric", "-i", "inv")
    assert ["n1,", "n2", "roce", "inv/group_vars/all.yml:1"] in [line.split() for line in text.splitlines()]
    assert len(json.loads(explain("rdma_fabric", "-i", "inv", "--limit", "n2", "--format", "json")[1])["hosts"][0]["hosts"]) == 1


def test_every_key_and_every_check(explain: Explain) -> None:
    for name, key in BY_NAME.items():
        code, out, _err = explain(name)
        assert (code, key.doc in out, key.source in out) == (0, True, True)
    for name, row in BY_CODE.items():
        code, out, _err = explain(name.replace("<area>", "network"), "--format", "json")
        found = json.loads(out)
        assert (code, found["check"]) == (0, name.replace("<area>", "network"))
        assert "`" not in out
        assert ("](" in out) is False
        assert found["command"] or not row.command


def test_a_check_in_full(explain: Explain) -> None:
    code, text, _err = explain("port.flaps")
    assert code == 0
    said = {line[:12].strip(): line[13:] for line in text.splitlines()}
    assert (said["passes"], said["to do"]) == ("links stay up", "clean or replace cable and transceiver, inspect the switch's port")
    assert "3 in 12 hours fail, 1 warns" in said["note"]
    assert json.loads(explain("qos.chain", "--format", "json")[1])["passes"].endswith("(how to read it: docs/roce.md)")
    assert json.loads(explain("port.fec", "--format", "json")[1])["else"] == "warn"


@pytest.mark.parametrize("name", ["rdma_mtu", "port.flaps", "scnet"])
def test_a_name_alone_imports_no_ansible(name: str, tmp_path: Path) -> None:
    done = alone(tmp_path, name, PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines() if line.startswith("import time")}
    assert imported & {"railwright", "ansible"} == {"railwright"}
