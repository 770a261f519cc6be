# SPDX-License-Identifier: GPL-3.0-or-later
"""What tasks of roles and playbooks may do: no shell, no unexplained command, nothing unsigned, nothing unchecked."""

import re

import pytest

import repo

FILES = repo.task_files()
SHELLS = {"shell", "ansible.builtin.shell", "expect", "ansible.builtin.expect"}
COMMANDS = {"command", "ansible.builtin.command"}
DOWNLOADS = {"get_url", "ansible.builtin.get_url", "uri", "ansible.builtin.uri", "unarchive", "ansible.builtin.unarchive"}
REPOSITORIES = {"yum_repository", "ansible.builtin.yum_repository", "deb822_repository", "ansible.builtin.deb822_repository"}
# Where a setting that trusts anybody would weaken a user; this test names them itself.
UNSAFE = re.compile(
    r"gpgcheck['\"]?\s*[:=]\s*(false|no\b|0|off)|validate_certs['\"]?\s*[:=]\s*(false|no\b)|StrictHostKeyChecking[\s=]+(no|off)\b"
    r"|host_key_checking['\"]?\s*[:=]\s*(false|no\b)|ANSIBLE_HOST_KEY_CHECKING['\"]?\s*[:=,]\s*['\"]?(false|no\b|0)|allow_unauthenticated['\"]?\s*[:=]\s*(true|yes)"
    r"|trusted['\"]?\s*[:=]\s*yes|--no-gpg|--nogpgcheck|--allow-unauthenticated|--insecure\b|curl -k\b|verify\s*=\s*False",
    re.IGNORECASE,
)


def wrong_tasks(name: str) -> list[str]:
    """What the tasks of a file do that they may not."""
    wrong = []
    for task in repo.tasks(repo.read_yaml(name)):
        label = f"{name}: {task.get('name', task)}"
        if SHELLS & set(task):
            wrong.append(f"{label}: no shell: name the command as argv, or write a module")
        for key in COMMANDS & set(task):
            if not isinstance(task[key], dict) or "argv" not in task[key]:
                wrong.append(f"{label}: command only with argv")
            if "changed_when" not in task:
                wrong.append(f"{label}: command needs changed_when")
        for key in DOWNLOADS & set(task):
            options = task[key] if isinstance(task[key], dict) else {}
            if "checksum" not in options and "://" in str(options.get("url", options.get("src", ""))):
                wrong.append(f"{label}: a download needs its sha256")
        keyless = [key for key in REPOSITORIES & set(task) if not {"gpgkey", "signed_by"} & set(task[key])]
        wrong += [f"{label}: {key}: a repository is checked against its own key" for key in keyless]
    return wrong


def test_tasks() -> None:
    assert FILES
    assert not [line for name in FILES for line in wrong_tasks(name)]


def test_every_command_has_a_reason() -> None:
    """Among the four lines above the name of the module stands a comment that says why no module does it."""
    silent = []
    for name in FILES:
        lines = repo.text(name).splitlines()
        for number, line in enumerate(lines):
            if re.match(r"\s*(- )?ansible\.builtin\.(command|raw):", line) and "#" not in "".join(lines[max(0, number - 4) : number]):
                silent.append(f"{name}:{number + 1}")
    assert not silent


# Says to ssh what Ansible does, where the operator has switched the checks off; and what is made of it.
SAYS_WHAT_ANSIBLE_SAYS = ("src/railwright/scan/login.py", "src/railwright/scan/options.py")


def test_nothing_trusts_just_anybody() -> None:
    found = []
    for name in repo.files():
        if not name.startswith(("tests/contract/", "docs/", "CHANGELOG", *SAYS_WHAT_ANSIBLE_SAYS)):
            content = (repo.ROOT / name).read_bytes().decode("utf-8", "replace")
            found += [
                f"{name}:{number}: {line.strip()}"
                for number, line in enumerate(content.splitlines(), 1)
                if UNSAFE.search(line) and "not in" not in line
            ]
    assert not found


@pytest.mark.parametrize(
    "sample", ["gpgcheck: false", "gpgcheck=0", "validate_certs: no", "-o StrictHostKeyChecking=no", "dnf --nogpgcheck", "verify=False"]
)
def test_the_pattern_sees_what_it_is_for(sample: str) -> None:
    assert UNSAFE.search(sample)
