# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory's keys by name. ``keys.pyi`` beside this has the type of each: it is generated from the key table."""

from typing import Any, Dict


class Keys:
    """What a Spec is to those who know the name of a key."""

    _values: Dict[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self._values[key]
