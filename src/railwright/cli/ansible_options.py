# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible's own options, on every verb that reads an inventory or reaches nodes: spelt, and meaning, as with ansible-playbook.

Passwords are asked for here, once, before anything else is done.
"""

import getpass
import os
import re
import stat
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import typer

from railwright.cli.options import settings
from railwright.exitcodes import InputError
from railwright.given import given, in_memory

ONE_LINE = {"plan", "drift", "validate", "check", "agent status", "agent drain"}
SECOND_NAMES = {
    "--subset": "--limit", "--inventory-file": "--inventory", "--key-file": "--private-key", "--ask-vault-password": "--ask-vault-pass",
    "--conn-pass-file": "--connection-password-file", "--become-pass-file": "--become-password-file",
    "--vault-pass-file": "--vault-password-file",
}  # fmt: skip
WITHOUT_VALUE = "bJkKv"  # letters that may stand before f in one word

own = partial(typer.Option, show_default=False, rich_help_panel="Ansible's options")
EXTRA_HELP = "Variables over all others: KEY=VALUE, YAML or JSON text, or @FILE. May be repeated."
VAULT_ID_HELP = "A vault password: [LABEL@]FILE, a script among them, or [LABEL@]prompt. May be repeated."


def take(
    extra_vars: Annotated[list[str] | None, own("--extra-vars", "-e", metavar="VARIABLES", help=EXTRA_HELP)] = None,
    user: Annotated[str | None, own("--user", "-u", metavar="USER", help="Log in so where the inventory says nothing.")] = None,
    private_key: Annotated[Path | None, own("--private-key", metavar="FILE", help="Log in with this key, likewise.")] = None,
    ask_pass: Annotated[bool, own("--ask-pass", "-k", help="Ask for ssh's password.")] = False,
    pass_file: Annotated[Path | None, own("--connection-password-file", metavar="FILE", help="Ssh's password is there.")] = None,
    become: Annotated[bool, own("--become", "-b", help="Taken, for it is always so: ansible_become: false says otherwise.")] = False,
    ask_become_pass: Annotated[bool, own("--ask-become-pass", "-K", help="Ask for sudo's password.")] = False,
    become_file: Annotated[Path | None, own("--become-password-file", metavar="FILE", help="Sudo's password is there.")] = None,
    ask_vault_pass: Annotated[bool, own("--ask-vault-pass", "-J", help="Ask for the vault's password.")] = False,
    vault_id: Annotated[list[str] | None, own("--vault-id", metavar="ID", help=VAULT_ID_HELP)] = None,
    vault_file: Annotated[
        list[Path] | None, own("--vault-password-file", metavar="FILE", help="A vault's password is there, or is what it prints.")
    ] = None,
    forks: Annotated[int | None, own("--forks", min=1, metavar="N", help="So many nodes at once; -f N is the same.")] = None,
    verbose: Annotated[int, own("--verbose", "-v", count=True, help="--debug, and Ansible says more: up to -vvvv.")] = 0,
    one_line: Annotated[bool, typer.Option("--one-line", help="A line for each node or finding, which begins with the node.")] = False,
) -> None:
    del become
    given.extra_vars = tuple(_variables(text) for text in extra_vars or ())
    given.forks, settings.one_line = forks, one_line
    settings.debug = settings.debug or verbose > 0
    key = None if private_key is None else str(_there("--private-key ", private_key).absolute())
    for name, value in (("REMOTE_USER", user), ("PRIVATE_KEY_FILE", key), ("FORKS", forks), ("VERBOSITY", verbose or None)):
        if value is not None:
            os.environ[f"ANSIBLE_{name}"] = str(value)
    given.password, given.become_password = (
        _password(f"--{what}-password-file", path) for what, path in (("connection", pass_file), ("become", become_file)))
    if ask_pass:
        given.password = _asked("SSH password", "--connection-password-file FILE")
    if ask_become_pass:
        hint = "[defaults to SSH password]" if ask_pass else ""
        given.become_password = _asked(f"BECOME password{hint}", "--become-password-file FILE") or given.password
    ids = [_vault_id(text) for text in vault_id or ()]
    given.vault_files = tuple(_kept("--vault-password-file", path) for path in vault_file or ())
    given.vault_ids = (*ids, *([_typed("", "Vault password")] if ask_vault_pass else ()))


def _variables(text: str) -> str:
    if not text.startswith("@"):
        return text
    path = _there("-e @", Path(text[1:])).absolute()
    if not path.is_file():
        raise InputError(f"-e {text}: can be read but once; allowed: a file")
    return f"@{path}"


def _vault_id(text: str) -> str:
    """With a file: the one that is named, or one of what was typed."""
    label, at, where = text.partition("@") if "@" in text else ("", "", text)
    if where == "prompt":
        return _typed(label + at, f"Vault password ({label or 'default'})")
    return label + at + _kept("--vault-id", Path(where))


def _typed(label: str, what: str) -> str:
    found = _asked(what, "--vault-password-file FILE, or --vault-id LABEL@FILE")
    if not found:
        raise InputError(f"{what}: an empty one opens nothing")
    return label + in_memory(found.encode())


def _asked(what: str, unattended: str) -> str:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
        return getpass.getpass(f"{what}: ")
    except OSError as error:
        raise InputError(f"{what}: there is no terminal to ask on; allowed: {unattended}") from error
    except EOFError as error:
        raise InputError(f"{what}: none was given") from error


def _password(option: str, path: Path | None) -> str | None:
    """What a file says, or, as with Ansible, a script prints."""
    if path is None:
        return None
    from ansible.errors import AnsibleError

    from railwright.scan.login import password_in

    try:
        return password_in(str(_there(f"{option} ", path)))
    except AnsibleError as error:
        raise InputError(f"{option} {path}: {error}") from error


def _there(option: str, path: Path) -> Path:
    path = path.expanduser()
    if not path.exists() or path.is_dir() or not os.access(path, os.R_OK):
        raise InputError(f"{option}{path}: is no file that can be read")
    return path


def _kept(option: str, path: Path) -> str:
    """What can be read but once, such as <(pass show vault), is in memory from now on: several will read it."""
    path = _there(f"{option} ", path)
    return str(path.absolute()) if stat.S_ISREG(path.stat().st_mode) else in_memory(path.read_bytes())


def ours(arguments: Sequence[str]) -> list[str]:
    """Ansible's second names are its first ones here. -f is --format with us and --forks with Ansible: with a number it is Ansible's."""
    found: list[str] = []
    for place, word in enumerate(arguments):
        if word == "--":
            return [*found, *arguments[place:]]
        name, *value = word.split("=", 1)
        joined = re.fullmatch(rf"-([{WITHOUT_VALUE}]*)f([0-9]{{0,9}})", word)
        if joined and (joined[2] or re.fullmatch(r"[0-9]{1,9}", "".join(arguments[place + 1 : place + 2]))):
            found += [*([f"-{joined[1]}"] if joined[1] else []), f"--forks={joined[2]}" if joined[2] else "--forks"]
        else:
            found.append("=".join((SECOND_NAMES.get(name, name), *value)))
    return found


@cache
def options() -> Any:
    """The options as a command of their own, which takes them."""
    app = typer.Typer(add_completion=False)
    app.command()(take)
    return typer.main.get_command(app)


def add(verb: Any, name: str) -> None:
    """Give them to a verb that can use them. Its function does not see them."""
    if not {option.name for option in verb.params} & {"inventory", "hosts", "sudo"}:
        return
    found = [option for option in options().params if option.name != "one_line" or name in ONE_LINE]
    verb.params += found
    invoke = verb.invoke

    def take_and_invoke(context: Any) -> Any:
        options().callback(**{option.name: context.params.pop(option.name) for option in found})
        return invoke(context)

    verb.invoke = take_and_invoke
