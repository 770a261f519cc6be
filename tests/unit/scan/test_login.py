# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible's variables as our own ssh takes them, by Ansible's own plugins; and why a node goes by Ansible."""

from typing import Any

import pytest

from railwright.inventory import _quiet
from railwright.scan.login import ByAnsible, Login, Logins

pytestmark = pytest.mark.core
WORDS = ("one", "two")
NO_FILE = {"ansible_ssh_common_args": "-F none"}


def login(node: str = "gpu1", **variables: Any) -> Login:
    with _quiet():
        return Logins().login(node, {**NO_FILE, **variables}, post_quantum=False)


def test_variables_mean_what_they_mean_to_ansible() -> None:
    found = login(ansible_host="192.0.2.1", ansible_port=2222, ansible_user="ops", ansible_ssh_private_key_file="/k/id",
                  ansible_ssh_extra_args="-o Ciphers=aes256-ctr", ansible_ssh_timeout=7)  # fmt: skip
    settings = found.config.shared
    assert found.config.hostname == found.host == "192.0.2.1"
    assert [settings[name] for name in ("port", "user", "ciphers", "connecttimeout")] == [("2222",), ("ops",), ("aes256-ctr",), ("7",)]
    assert settings["identityfile"][0] == "/k/id"
    assert settings["passwordauthentication"] == ("no",)


def test_a_host_without_an_address_is_called_by_its_name() -> None:
    assert login("gpu7").host == "gpu7"


def test_a_password_is_for_ssh_and_for_sudo() -> None:
    found = login(ansible_user="ops", **dict(zip(("ansible_password", "ansible_become_password"), WORDS, strict=True)))
    assert found.password == WORDS[0]
    assert found.config.shared["passwordauthentication"] == ("yes",)
    assert found.become is not None
    assert found.become.password == WORDS[1]
    line, prompt = found.become.wrap("true")
    assert prompt
    assert f'-p "{prompt}"' in line
    assert "-n" not in line.split()


def test_without_a_password_sudo_must_not_ask() -> None:
    found = login(ansible_user="ops")
    assert found.become is not None
    line, prompt = found.become.wrap("true")
    assert (prompt, " sudo -H -S -n " in line) == ("", True)


def test_an_own_sudo_of_the_operator_is_kept() -> None:
    found = login(ansible_user="ops", ansible_become_exe="/opt/bin/sudo")
    assert found.become is not None
    assert found.become.wrap("true")[0].startswith("/opt/bin/sudo -H -S -n ")


@pytest.mark.parametrize("variables", [{"ansible_become": False}, {"ansible_become": "no"}, {"ansible_user": "root"}])
def test_nobody_becomes_what_he_is(variables: dict[str, Any]) -> None:
    assert login(**variables).become is None


@pytest.mark.parametrize(("variables", "reason"), [
    ({"ansible_connection": "local"}, "ansible_connection is local"),
    ({"ansible_connection": "paramiko"}, "ansible_connection is paramiko"),
    ({"ansible_become_method": "doas"}, "ansible_become_method is doas"),
    ({"ansible_become_user": "admin"}, "ansible_become_user is admin"),
    ({"ansible_shell_type": "csh"}, "its shell is csh /bin/sh"),
    ({"ansible_ssh_executable": "/opt/ssh"}, "ssh_executable is /opt/ssh"),
    ({"ansible_ssh_pkcs11_provider": "/x.so"}, "its ssh option pkcs11_provider"),
    ({"ansible_host": "a", "ansible_ssh_host": "b"}, "ansible_host and ansible_ssh_host"),
    ({"ansible_python_interpreter": "/usr/bin/env python3"}, "ansible_python_interpreter is more than one word"),
    ({"ansible_ssh_extra_args": "-o RequestTTY=force"}, "requesttty in ssh's configuration"),
    ({"ansible_ssh_extra_args": "-o Nonsense=1"}, "onsense"),
])  # fmt: skip
def test_what_cannot_be_honoured_goes_by_ansible(variables: dict[str, Any], reason: str) -> None:
    with pytest.raises(ByAnsible, match=reason):
        login(**variables)


def test_hosts_that_differ_in_their_address_alone_share_all_else() -> None:
    logins = Logins()
    with _quiet():
        one, two = (
            logins.login(f"gpu{number}", {**NO_FILE, "ansible_host": f"192.0.2.{number}", "ansible_user": "ops"}, post_quantum=False)
            for number in (1, 2)
        )
    assert one.config.shared is two.config.shared
    assert one.become is two.become
    assert (one.host, two.host) == ("192.0.2.1", "192.0.2.2")


@pytest.mark.parametrize(("value", "found"), [("auto", None), ("auto_silent", None), ("/opt/python3", "/opt/python3"), (None, None)])
def test_the_interpreter_is_the_inventorys_or_none(value: Any, found: str | None) -> None:
    assert login(ansible_python_interpreter=value).interpreter == found
