# SPDX-License-Identifier: GPL-3.0-or-later
"""How our own ssh reaches a node: from its Ansible variables, by Ansible's own options of its ssh and sudo plugins.

What Ansible would honour and this cannot is a reason, in a few words, why the node goes by Ansible.
"""

import importlib
import os
import shlex
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ansible import constants
from ansible.errors import AnsibleError
from ansible.playbook.play_context import PlayContext
from ansible.plugins.loader import become_loader, connection_loader, shell_loader

from ansible_collections.railwright.rdma.plugins.plugin_utils.preflight import explicit_interpreter
from railwright.ansible_env import SUDO_UNLESS_ROOT
from railwright.given import given
from railwright.scan.ssh_config import Resolved, SshConfig, Unreadable

SSH = ("ssh", "smart", "ansible.builtin.ssh")
SUDO = ("sudo", "ansible.builtin.sudo")
HOST = ("ansible_host", "ansible_ssh_host")  # by which Ansible calls the host of an ssh connection
ROOT = "root"
# Options of Ansible's ssh plugin that our ssh has no counterpart of, and those of its sudo plugin.
SSH_ONLY = ("pkcs11_provider", "private_key", "private_key_passphrase", "sshpass_prompt")
# Says what there is to log in by where no password is given: Ansible's own arguments.
WITHOUT_PASSWORD = (
    "-o", "KbdInteractiveAuthentication=no", "-o", "PreferredAuthentications=gssapi-with-mic,gssapi-keyex,hostbased,publickey",
    "-o", "PasswordAuthentication=no",
)  # fmt: skip


class ByAnsible(Exception):
    """Why a node goes by Ansible, in a few words."""


class Become(NamedTuple):
    """sudo, as Ansible's plugin calls it. ``wrap``: a command of sh's -> the command line that runs it as root, and the prompt after
    which sudo waits for the password (empty: it asks for none). Ansible makes another prompt at every call."""

    wrap: Callable[[str], tuple[str, str]]
    password: str


class Login(NamedTuple):
    """``config``: hosts with the very same ``shared`` part differ in their names alone."""

    node: str
    host: str  # by which ssh is called
    config: Resolved
    password: str | None
    become: Become | None
    interpreter: str | None  # the inventory's own
    post_quantum: bool  # whether the key exchange must be


class _Class(NamedTuple):
    """What hosts share whose variables differ in their addresses alone."""

    arguments: tuple[str, ...]
    password: str | None
    become: Become | None
    interpreter: str | None


class Logins:
    """Of one run; hosts of the same kind cost little."""

    def __init__(self) -> None:
        self.config = SshConfig()
        self._classes: dict[tuple[tuple[str, str], ...], _Class | ByAnsible] = {}

    def login(self, node: str, variables: Mapping[str, Any], *, post_quantum: bool) -> Login:
        """``variables``: templated, of those that begin with ``ansible_``. Raises ByAnsible."""
        own = [str(variables[name]) for name in HOST if variables.get(name) is not None]
        if len(own) > 1:
            raise ByAnsible("ansible_host and ansible_ssh_host")
        shared = {name: value for name, value in variables.items() if name not in HOST and name.startswith("ansible_")}
        key = tuple(sorted((name, repr(value)) for name, value in shared.items()))
        if key not in self._classes:
            try:
                self._classes[key] = _class(shared)
            except ByAnsible as reason:
                self._classes[key] = reason
        found = self._classes[key]
        if isinstance(found, ByAnsible):
            raise found
        host = own[0] if own else node
        try:
            config = self.config.resolve(found.arguments, host)
        except Unreadable as error:
            raise ByAnsible(str(error)) from error
        if foreign := self.config.unhonoured(config.shared):
            raise ByAnsible(f"{', '.join(foreign)} in ssh's configuration")
        return Login(node, host, config, found.password, found.become, found.interpreter, post_quantum)


def _class(variables: Mapping[str, Any], *, by_key: bool = False) -> _Class:
    """``by_key``: whatever password the command line has is another host's."""
    transport = str(variables.get("ansible_connection") or constants.DEFAULT_TRANSPORT)
    if transport not in SSH:
        raise ByAnsible(f"ansible_connection is {transport}")
    shell = variables.get("ansible_shell_type", "sh"), variables.get("ansible_shell_executable", constants.DEFAULT_EXECUTABLE)
    if shell != ("sh", "/bin/sh"):
        raise ByAnsible(f"its shell is {' '.join(map(str, shell))}")
    try:
        ssh = connection_loader.get(SSH[-1], PlayContext(), os.devnull)
        ssh.set_options({"password": None if by_key else given.password or _configured("CONNECTION_PASSWORD_FILE")}, dict(variables))
        arguments = ssh_arguments(ssh.get_option)
        become = _become(variables, ssh.get_option("remote_user"))
    except (AnsibleError, KeyError, ValueError) as error:
        raise ByAnsible(" ".join(str(error).split())[:200]) from error
    password = ssh.get_option("password")
    interpreter = explicit_interpreter(variables.get("ansible_python_interpreter", constants.config.get_config_value("INTERPRETER_PYTHON")))
    if interpreter is not None and len(interpreter.split()) != 1:
        raise ByAnsible("ansible_python_interpreter is more than one word")
    return _Class(arguments, None if password is None else str(password), become, interpreter)


def ssh_words(variables: Mapping[str, Any]) -> tuple[tuple[str, ...], str | None]:
    """(arguments, the address where the host is not called by its name) for OpenSSH's own client. Raises ByAnsible, also for a host that
    wants a password."""
    if lost := next((f"{name}: {value.why}" for name, value in variables.items() if hasattr(value, "why")), None):
        raise ByAnsible(lost)
    if variables.get("ansible_password") or variables.get("ansible_ssh_pass"):
        raise ByAnsible("it has a password")
    found = _class({name: value for name, value in variables.items() if name not in HOST and name.startswith("ansible_")}, by_key=True)
    return found.arguments, next((str(variables[name]) for name in HOST if variables.get(name) is not None), None)


@cache
def password_in(file: str) -> str:
    """Of a file or a script, as Ansible has it, asked once. Raises AnsibleError."""
    return str(importlib.import_module("ansible.cli").CLI.get_password_from_file(file))


def _configured(setting: str) -> str | None:
    """The password of all hosts that the operator's configuration of Ansible names a file for."""
    file = constants.config.get_config_value(setting)
    return password_in(str(file)) if file else None


def ssh_arguments(option: Callable[[str], Any]) -> tuple[str, ...]:
    """What Ansible's ssh plugin tells ssh, in its order: to ssh the first word on a matter counts."""
    for name in SSH_ONLY:
        try:
            value = option(name)
        except KeyError:  # this release of ansible-core has no such option
            continue
        if value:
            raise ByAnsible(f"its ssh option {name}")
    if option("ssh_executable") != "ssh":
        raise ByAnsible(f"ssh_executable is {option('ssh_executable')}")
    found = shlex.split(option("ssh_args") or "")
    if option("host_key_checking") is False:
        found += ["-o", "StrictHostKeyChecking=no"]
    if option("port") is not None:
        found += ["-o", f"Port={option('port')}"]
    if option("private_key_file"):
        found += ["-o", f'IdentityFile="{Path(option("private_key_file")).expanduser()}"']
    if not option("password"):
        found += WITHOUT_PASSWORD
    if option("remote_user"):
        found += ["-o", f'User="{option("remote_user")}"']
    found += ["-o", f"ConnectTimeout={option('timeout')}"]
    return (*found, *shlex.split(option("ssh_common_args") or ""), *shlex.split(option("ssh_extra_args") or ""))


def _become(variables: Mapping[str, Any], user: str | None) -> Become | None:
    """Our plays ask for root; the inventory may say that a node needs none."""
    if not _truth(variables.get("ansible_become", True)):
        return None
    method = str(variables.get("ansible_become_method") or constants.DEFAULT_BECOME_METHOD)
    if method not in SUDO:
        raise ByAnsible(f"ansible_become_method is {method}")
    sudo = become_loader.get(SUDO[-1])
    sudo.set_options({"become_pass": given.become_password or _configured("BECOME_PASSWORD_FILE")}, dict(variables))
    if sudo.get_option_and_origin("become_exe", hostvars=dict(variables))[1] == "default":
        sudo.set_option("become_exe", SUDO_UNLESS_ROOT)
    target = sudo.get_option("become_user") or ROOT
    if target == user and not constants.BECOME_ALLOW_SAME_USER:
        return None
    if target != ROOT:
        raise ByAnsible(f"ansible_become_user is {target}")
    shell = shell_loader.get("sh")
    shell.executable = "/bin/sh"

    def wrap(command: str) -> tuple[str, str]:
        line = str(sudo.build_become_command(command, shell))
        return line, str(sudo.prompt or "")

    return Become(wrap, str(sudo.get_option("become_pass") or ""))


def _truth(value: Any) -> bool:
    return value if isinstance(value, bool) else str(value).strip().lower() in ("1", "true", "yes", "on", "y", "t")
