# SPDX-License-Identifier: GPL-3.0-or-later
"""Which keys of ours a host has, where each value comes from, and what else is written and not in force."""

import json
from collections.abc import Mapping
from typing import Any

from ansible import constants

from ansible_collections.railwright.rdma.plugins.module_utils.formats.masking import HIDDEN, masked_value
from ansible_collections.railwright.rdma.plugins.module_utils.spec.model import Spec
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.opened import TEMPLATE
from ansible_collections.railwright.rdma.plugins.plugin_utils.spec.schema import KEYS, Key
from railwright.inventory import Inventory

DEFAULT = "default"
PLACE = ("file", "line", "of")


class Origins:
    """What an inventory says of its hosts. ``specs``: of each without errors, for defaults that depend on other keys."""

    def __init__(self, inventory: Inventory, specs: Mapping[str, Spec]) -> None:
        self.inventory, self.index, self._specs = inventory, inventory.index, specs

    def keys(self, host: str) -> list[dict[str, Any]]:
        """Each key of ours, those that somebody has set first."""
        return sorted((self.key(host, key) for key in KEYS), key=lambda row: row["source"] == DEFAULT)

    def folded(self, key: Key) -> list[dict[str, Any]]:
        """What all hosts have, alike ones in one row with their names."""
        found: dict[str, dict[str, Any]] = {}
        for host in self.inventory.hosts:
            row = self.key(host, key)
            found.setdefault(repr(row), {"hosts": [], **row})["hosts"].append(host)
        return list(found.values())

    def key(self, host: str, key: Key) -> dict[str, Any]:
        """``{key, value, source, file, line, of, shadowed: [{value, file, line, of, by}]}``; ``source``: the place as text; ``file`` None
        where it has no lines; ``of``: whose variable it is there, ``group all``. The last to be overruled is the first of the shadowed.
        """
        told = self.inventory.hosts[host].get(key.name)
        said = self._places(host, key.name)
        elsewhere = self._elsewhere(told, said[-1]["value"] if said else None)
        last = said.pop() if said and elsewhere is None else {"value": None, **dict.fromkeys(PLACE)}
        source = elsewhere or (DEFAULT if last["file"] is None else f"{last['file']}:{last['line']}")
        value = HIDDEN if key.name in self.inventory.secret[host] else _shown(key.name, told)
        if told is None:
            source = source if source == DEFAULT else f"{DEFAULT}: {source} is empty"
            value = self._specs[host][key.field] if host in self._specs else key.default
        shadowed = [{**lost, "value": _shown(key.name, lost["value"]), "by": source} for lost in reversed(said)]
        return {"key": key.name, "value": value, "source": source, **{name: last[name] for name in PLACE}, "shadowed": shadowed}

    def _places(self, host: str, key: str) -> list[dict[str, Any]]:
        """In rising precedence, each once: two inventories may lie in one directory."""
        found: dict[tuple[str, int, str], dict[str, Any]] = {}
        for owner, said in self.index.places(host, self.inventory.membership[host], key):
            at = self.index.place(said)
            place = (str(at.file), at.line, " ".join(owner))
            found.pop(place, None)
            found[place] = {"value": self.index.value(owner, key, said), **dict(zip(PLACE, place, strict=True))}
        return list(found.values())

    def _elsewhere(self, told: Any, written: Any) -> str | None:
        """Where a value comes from that is not what the last of the lines says. A template or a secret cannot be held against it."""
        text = str(written)
        if told is None or told == written or TEMPLATE.search(text) or HIDDEN in text:
            return None
        if constants.DEFAULT_HASH_BEHAVIOUR == "merge" and isinstance(told, dict) and isinstance(written, dict):
            return "several places, merged (hash_behaviour)"
        scripts = ", ".join(map(str, self.index.scripts))
        return f"from an inventory script or plugin ({scripts})" if scripts else "from a plugin of Ansible"


def _shown(key: str, value: Any) -> Any:
    """Masked, and JSON: lint refuses a date, and it is shown all the same."""
    try:
        json.dumps(value, sort_keys=True)
    except TypeError:
        value = str(value)
    return masked_value(key, value)
