# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ansible's own options of the command line say, for all that reads an inventory or reaches a node.

An option that Ansible has a variable of the environment for becomes that: Ansible's code in this process, ansible-playbook, and the
railwright that a run of ours starts see it alike, with Ansible's own precedence. The rest is here. A password is in our memory alone.
"""

import os
import re
from dataclasses import dataclass

# What a run tells its playbooks itself: of an extra variable of that name nobody would know whose it is.
OURS = re.compile(r"rdma_(run_id|batch|areas|(container|remediate|rollback|upgrade|isolate)_[a-z_]+)|burn_in_diag|__railwright_[a-z_]+")


@dataclass
class Given:
    extra_vars: tuple[str, ...] = ()  # as they are written
    vault_ids: tuple[str, ...] = ()  # with a file each: what was typed is one in memory
    vault_files: tuple[str, ...] = ()
    password: str | None = None  # of ssh
    become_password: str | None = None
    forks: int | None = None

    def arguments(self) -> list[str]:
        """What has no variable of the environment, for a command line of Ansible's or our own."""
        named = (("-e", self.extra_vars), ("--vault-id", self.vault_ids), ("--vault-password-file", self.vault_files))
        return [word for option, values in named for value in values for word in (option, value)]

    def for_ourselves(self) -> list[str]:
        """The same for another railwright, which finds the passwords in our memory."""
        named = (("--connection-password-file", self.password), ("--become-password-file", self.become_password))
        return [*self.arguments(), *(word for option, text in named if text for word in (option, in_memory(text.encode())))]


given = Given()


def in_memory(secret: bytes) -> str:
    """The path of a file that is in memory alone and ends with this process, however that ends. Who may open it may read our memory."""
    number = os.memfd_create("railwright")
    os.fchmod(number, 0o400)  # it is made executable, and then Ansible would run it
    os.write(number, secret)
    return f"/proc/{os.getpid()}/fd/{number}"
