# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of a vault, of ``!unsafe`` and of lookups: which variables hold one, and that no text about them does. With both ansible-cores."""

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.inventory.manager import InventoryManager
from ansible.parsing import vault
from ansible.parsing.dataloader import DataLoader
from ansible.parsing.vault import VaultSecret
from ansible.template import Templar
from ansible.vars.manager import VariableManager

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import HIDDEN, OPEN, hidden, hide, masked, sealed, unsealed
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Finding
from ansible_collections.railwright.rdma.plugins.plugin_utils.answers.gate import passed
from ansible_collections.railwright.rdma.plugins.plugin_utils.host_spec import host_spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.saved_plan import departure
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.opened import Opened, Sources
from ansible_collections.railwright.rdma.plugins.plugin_utils.text import printable, short
from opened_site import OPENS, new_secrets, right_site, wrong_site
from opened_site import sealed as in_vault
from railwright.inventory import ready_plugins

pytestmark = pytest.mark.core


def variables(directory: Path) -> tuple[Templar, dict[str, Any]]:
    """A host's variables as a task has them."""
    secrets = [("default", VaultSecret(OPENS.encode()))]
    if hasattr(vault, "VaultSecretsContext"):
        vault.VaultSecretsContext._current = None
        vault.VaultSecretsContext.initialize(vault.VaultSecretsContext(secrets))
    ready_plugins()
    loader = DataLoader()
    loader.set_vault_secrets(secrets)
    manager = InventoryManager(loader=loader, sources=[str(directory / "hosts.yml")])
    found = VariableManager(loader=loader, inventory=manager).get_vars(host=manager.get_host("n1"))
    found["hostvars"] = {"n1": {}}
    return Templar(loader=loader, variables=found), found


def test_a_plain_playbooks_errors_hold_no_secret(tmp_path: Path) -> None:
    planted = new_secrets()
    with pytest.raises(AnsibleActionFail) as said:
        host_spec(*variables(wrong_site(tmp_path / "inv", planted, {})))
    text = str(said.value)
    assert [name for name in ("rdma_mtu:", "agent_flaps:", "nccl_tests_environment.HF-TOKEN:", "upgrade_drain_command:", "rdma_keep_code:")
            if f"{name} '{HIDDEN}'" not in text] == []
    assert "rdma_nccl_profile: 'scnett': is no NCCL profile; did you mean scnet?" in text, "no secret is in that value"
    assert [secret for secret in (*planted, "77123") if secret in text] == []


def test_a_node_gets_its_secrets_and_nobody_is_shown_them(tmp_path: Path) -> None:
    planted = new_secrets()
    spec = host_spec(*variables(right_site(tmp_path / "inv", planted, {})))
    assert spec["nccl_tests_environment"] == {"SITE_NOTE": planted[6]}
    assert spec["upgrade_drain_command"] == ["/bin/true", "{node}", planted[7]]
    kept = json.dumps(hidden(spec.as_dict()))
    assert [secret for secret in (*planted, planted[5][:9]) if secret in kept] == []
    assert hidden(spec["upgrade_drain_command"]) == ["/bin/true", "{node}", HIDDEN], "what stands beside a secret is none"


@pytest.mark.parametrize("template", [
    "{{ vault_token | from_json }}", "{{ {}[vault_token] }}", "{{ vault_token.nothing }}", "{{ lookup('pipe', 'exit 3') }}"])
def test_why_the_template_of_a_secret_fails_is_hidden(template: str, tmp_path: Path) -> None:
    planted = new_secrets()
    directory = right_site(tmp_path / "inv", planted, {"rdma_mtu": template})
    whole = f"vault_token: '{planted[0]} {{'\nvault_path: x\nvault_word: y\nvault_number: 1\n"
    (directory / "group_vars/all/vault.yml").write_text(in_vault(whole))
    with pytest.raises(AnsibleActionFail, match="rdma_mtu: ") as said:
        host_spec(*variables(directory))
    assert planted[0] not in str(said.value)
    assert said.value.__cause__ is None


def test_a_missing_variable_is_named_all_the_same(tmp_path: Path) -> None:
    directory = right_site(tmp_path / "inv", new_secrets(), {"rdma_mtu": "{{ vault_path ~ vault_pth }}"})
    with pytest.raises(AnsibleActionFail, match="rdma_mtu: 'vault_pth' is undefined"):
        host_spec(*variables(directory))


@pytest.mark.parametrize(("template", "secret"), [
    ("{{ plain }}", False), ("{{ vault_path }}", True), ("{{ between }}", True), ("{{ groups.rdma | length }}", False),
    ("{{ lookup('env', 'HOME') }}", True), ("{{ query('community.hashi_vault.vault_read', 'x') }}", True),
    ("{{ hostvars.n2.plain }}", True),
    ("{{ vars['vault_' ~ 'path'] }}", True), ("{{ round }}", True), ("{{ about }}", True),
    ("{{ itself }}", False), ([1, {"a": "{{ vault_path }}"}], True), ([1, {"a": "plain"}], False),
])  # fmt: skip
def test_which_variables_hold_a_secret(template: Any, secret: bool, tmp_path: Path) -> None:
    _templar, found = variables(right_site(tmp_path / "inv", new_secrets(), {}))
    own = {"rdma_consent": template, "plain": "x", "between": "a {{ vault_path | b64encode }}", "itself": "{{ itself }}",
           "about": "{{ 'round' }} {{ vault_path }}", "round": "{{ about }}"}
    assert Sources({**found, **own}, lambda _file: False, {"vault_path"}).named("rdma_consent") is secret


def test_a_finding_keeps_its_key_and_what_is_allowed() -> None:
    opened = Opened()
    opened.add("upgrade_drain_command", ["--token=abcd1234"])
    said = opened.shown(Finding("n1", "upgrade_drain_command[2]", "--token=abcd1234", "{abcd1234} stands for nothing; did you mean node?",
                                "{node}, {reason}", "error"))  # fmt: skip
    assert said == ("n1", "upgrade_drain_command[2]", HIDDEN, "{(hidden)} stands for nothing", "{node}, {reason}", "error")
    other = opened.shown(Finding("n1", "rdma_mtu", 9000, "is 9000, and --token=abcd1234 is not", "1500", "error"))
    assert other[3] == f"is 9000, and {HIDDEN} is not"


def test_texts_are_hidden_where_they_are_printed() -> None:
    hide(["s3cr3t value", "true1", "98765", 'a"b\\c\nd', "ab"])
    assert printable("x s3cr3t valuey true12 true1. 987654 98765") == f"x {HIDDEN}y true12 {HIDDEN}. 987654 {HIDDEN}"
    assert short("x" * 30 + "s3cr3t value" + "y" * 30) == "x" * 30 + HIDDEN + "y" * 9 + "…", "before it is cut"
    assert hidden({"before": 98765, "rate": 98765, "key": "s3cr3t value"}, OPEN) == {"before": HIDDEN, "rate": 98765, "key": "s3cr3t value"}
    assert masked('{"x": "a\\"b\\\\c\\nd"}') == f'{{"x": "{HIDDEN}"}}', "as JSON has it"
    assert hidden("ab") == "ab", "so short a text stands in every other one"
    assert hidden([None, True, 1.5]) == [None, True, 1.5]


def test_answers_are_hidden_or_sealed() -> None:
    hide(["https://mirror/s3cr3t"])
    told = passed("railwright.rdma.rdma_drain", None, {"failed": True, "msg": "x" * 16380 + "https://mirror/s3cr3t"})
    assert told["msg"].endswith(HIDDEN[:4]) and "mirror" not in told["msg"], "also where the text is cut in it"
    parts = {"downloads": [{"url": "https://mirror/s3cr3t/a"}], "needed": True}
    assert "s3cr3t" not in json.dumps(sealed(parts))
    assert unsealed(sealed(parts)) == parts
    assert unsealed("(hidden 99)") == HIDDEN, "a node may say what it likes"


@pytest.mark.parametrize(("was", "now", "same"), [
    ("a (hidden) b", "a s3cr3t b", True), ("a (hidden) b", "a (hidden) b", True), ("a (hidden) b", "a s3cr3t c", False), ("a", "b", False),
    ("(hidden)", 9000, True), ("x(hidden)y(hidden)z", "x1y2z", True), ("x(hidden)y(hidden)z", "x1z", False),
    ({"a": ["(hidden)"]}, {"a": ["s"]}, True),
])  # fmt: skip
def test_a_saved_plan_fits_where_a_secret_is_hidden(was: Any, now: Any, same: bool) -> None:
    row = {"key": "k", "before": None, "disruption": "none"}
    assert (departure({"changes": [{**row, "after": was}], "begun": False}, [{**row, "after": now}]) == "") is same
