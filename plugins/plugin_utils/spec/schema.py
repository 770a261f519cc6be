# SPDX-License-Identifier: GPL-3.0-or-later
"""Every inventory key: what a row of tables/keys.yml says.

Everything else is generated from it (``tools/generate``): argument specs and
defaults of the roles, the reference page, the tables in the roles' READMEs. Site keys
start with ``rdma_``, a role's keys with the role's name.
"""

from functools import cache
from typing import Any, NamedTuple

from ..tables.rows import read_table, rows

SITE_PREFIX = "rdma_"  # keeps a site key apart from other people's variables; a role key has its role's name
ROLES = (
    "preflight", "rdma_stack", "erdma", "gpu_driver", "cuda", "gpudirect", "nic_firmware", "pci_tuning", "network", "firewall", "roce_qos",
    "host_tuning", "containers", "ssh_mesh", "validate", "agent", "ai_environment", "nccl", "mpi", "nccl_tests",
    "ddp_benchmark", "aiacc", "upgrade")


@cache
def owner_of(name: str) -> str:
    """The role that a key's name begins with, or "site"."""
    return max((role for role in ROLES if name.startswith(role + "_")), key=len, default="site")


class Key(NamedTuple):
    """One inventory key. ``default`` None of an optional key means: unset, see ``doc``."""

    name: str  # what the operator writes, and what every message says
    type: str  # str, int, number, bool, list, dict
    default: Any
    doc: str
    source: str  # where the default (or the rule) comes from
    choices: tuple[str, ...] = ()
    pattern: str | None = None  # of a str, or of each element of a list
    form: str = ""  # the pattern in words
    minimum: float | None = None
    maximum: float | None = None
    required: bool = False
    elements: str | None = None  # type of a list's elements
    site_wide: bool = False  # read for all hosts at once, so that all have the same; cross_host.site_value reads it
    example: Any = None  # what ``init`` and the documentation show when the default says nothing

    @property
    def owner(self) -> str:
        return owner_of(self.name)

    @property
    def field(self) -> str:
        """Its name in the Spec: a site key's without the prefix, but for rdma_stack, whose role has that name."""
        return self.name.removeprefix(SITE_PREFIX) if self.owner == "site" and self.name != "rdma_stack" else self.name

    def allowed(self) -> str:
        """What the key accepts, in one line for people."""
        if self.choices:
            return ", ".join(self.choices)
        if self.form:
            return self.form
        if self.minimum is not None or self.maximum is not None:
            low, high = _number(self.minimum), _number(self.maximum)
            what = "a number" if self.type == "number" else "an integer"
            return what + (f" from {low} to {high}" if low and high else f" of at least {low}" if low else f" of at most {high}")
        return TYPE_WORDS[self.type]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value}" if value == int(value) else "%g" % value


TYPE_WORDS = {
    "str": "text",
    "int": "an integer",
    "number": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a mapping",
}
_TABLE = read_table("keys")
FORMS: dict[str, dict[str, str]] = _TABLE["forms"]  # by name: the ``pattern`` and the ``form`` that several keys have
KEYS = rows(Key, _TABLE["keys"])
BY_NAME: dict[str, Key] = {key.name: key for key in KEYS}  # every name that an inventory may set
ROLE_KEYS: dict[str, tuple[str, ...]] = {role: tuple(key.name for key in KEYS if key.owner == role) for role in ROLES}
FABRICS = BY_NAME["rdma_fabric"].choices
