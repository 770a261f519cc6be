# SPDX-License-Identifier: GPL-3.0-or-later
"""What people see of values: names tell which are secrets. And a module that tells nobody what it was given."""

import json
from typing import Any

import pytest
from ansible.module_utils import basic

from ansible_collections.railwright.rdma.plugins.module_utils.areas.common.package_changes import package_change
from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import NodeModule
from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import HIDDEN, masked, masked_change, masked_text, secret_name
from ansible_collections.railwright.rdma.plugins.module_utils.types import Change, Subject, set_value


@pytest.mark.parametrize("name", [
    "password", "ansible_become_password", "HF_TOKEN", "accessToken", "client-secret", "WANDB_API_KEY", "apikey", "credentials", "psk",
    "net.ipv4.tcp_fastopen_key", "AWS_SECRET_ACCESS_KEY", "passphrase",
    "wep-key0", "StoragePass", "AccountingStoragePass", "ansible_ssh_pass", "tokens",
])
def test_names_of_secrets(name: str) -> None:
    assert secret_name(name)


@pytest.mark.parametrize("name", [
    "key", "keys", "kernel.keys.maxkeys", "public_key", "rdma_stack_repository_key_url", "/etc/passwd", "TOKENIZERS_PARALLELISM",
    "NCCL_DEBUG", "keyring", "", "mtu", "pass", "bypass", "public_key1",
])
def test_names_of_what_is_none(name: str) -> None:
    assert not secret_name(name)


@pytest.mark.parametrize(("text", "shown"), [
    ('export HF_TOKEN="a b c"', f"export HF_TOKEN={HIDDEN}"),
    ("URIs: https://m/doca?access_token=s3cret&suite=a stable", f"URIs: https://m/doca?access_token={HIDDEN}&suite=a stable"),
    ("https://user:s3cret@host/x@y http://s3cret@h", f"https://{HIDDEN}@host/x@y http://{HIDDEN}@h"),
    ("password: 's3cret'\nmtu: 9000", f"password: {HIDDEN}\nmtu: 9000"),
    ("{'api_token': 's3cret'}", f"{{'api_token': {HIDDEN}"),
    ("net.ipv4.tcp_fastopen_key = s3cret", f"net.ipv4.tcp_fastopen_key = {HIDDEN}"),
    ("/etc/passwd: no such file", "/etc/passwd: no such file"),
    ("signing key: not the fingerprint", "signing key: not the fingerprint"),
    ("mail admin@example.com; token=", "mail admin@example.com; token="),
    ("NCCL_IB_HCA==mlx5_0,mlx5_1", "NCCL_IB_HCA==mlx5_0,mlx5_1"),
])
def test_text(text: str, shown: str) -> None:
    assert masked_text(text) == shown
    assert masked_text(shown) == shown


def test_values_below_names_words_of_commands_and_what_others_refer_to() -> None:
    assert masked(["curl", "--password", "s3cret", "--token=s3cret", "-v"]) == ["curl", "--password", HIDDEN, f"--token={HIDDEN}", "-v"]
    assert masked({"key": "a: token=1", "what": "token=1", "API_TOKEN": 5, "has_token": True, "psk": None}) == {
        "key": "a: token=1", "what": "token=1", "API_TOKEN": HIDDEN, "has_token": True, "psk": None}


def test_a_change_keeps_what_it_does() -> None:
    path = "/proc/sys/net/ipv4/tcp_fastopen_key"
    change = Change("sysctl", "sysctl net.ipv4.tcp_fastopen_key", "0-0", "s3cret", "none", "", "", (set_value(path, "s3cret"),),
                    Subject("sysctl", "net.ipv4.tcp_fastopen_key"))
    shown = masked_change(change)
    assert (shown.before, shown.after, shown.ops, shown.key) == (HIDDEN, HIDDEN, change.ops, change.key)
    package = package_change("packages", "libsecret", None, "0.20-1", "", "")
    assert masked_change(package) == package, "its version is what gets installed"


Told = tuple[list[str], dict[str, Any]]


def told(kind: type, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **result: Any) -> Told:
    """What comes to the node's syslog, and what the module returns, when a controller runs it as controllers do."""
    logged: list[str] = []
    given = {"ANSIBLE_MODULE_ARGS": {"spec": {"HF_TOKEN": "s3cret"}, "_ansible_no_log": False}}
    monkeypatch.setattr(basic, "_ANSIBLE_ARGS", json.dumps(given).encode())
    monkeypatch.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
    monkeypatch.setattr(basic, "has_journal", False)
    monkeypatch.setattr(basic.syslog, "syslog", lambda _level, text: logged.append(text))
    module = kind(argument_spec={"spec": {"type": "dict"}}, no_log=True)
    module.log("s3cret")
    with pytest.raises(SystemExit):
        (module.fail_json if "msg" in result else module.exit_json)(**result)
    return logged, json.loads(capsys.readouterr().out)


def test_a_module_logs_nothing_and_returns_no_arguments(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    logged, result = told(NodeModule, monkeypatch, capsys, plan=[{"after": "TOKEN=s3cret"}], packages=["https://m?token=s3cret"])
    assert logged == []
    assert result == {"plan": [{"after": f"TOKEN={HIDDEN}"}], "packages": ["https://m?token=s3cret"], "invocation": {}}
    logged, result = told(NodeModule, monkeypatch, capsys, msg="https://u:s3cret@m: 404", problems=["psk=s3cret"])
    assert (logged, result["msg"], result["problems"]) == ([], f"https://{HIDDEN}@m: 404", [f"psk={HIDDEN}"])
    assert "s3cret" not in json.dumps(result)


def test_no_log_of_ansible_would_not_have_been_enough(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The controller's own answer comes with the arguments and replaces what the module said."""
    logged, result = told(basic.AnsibleModule, monkeypatch, capsys, changed=False)
    assert any("s3cret" in line for line in logged)
    assert "s3cret" in json.dumps(result)
