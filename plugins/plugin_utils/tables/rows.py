# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables that only the controller reads, one YAML file each beside this one. Rows become NamedTuples, held to their annotations."""

from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import yaml

Row = TypeVar("Row", bound=tuple[Any, ...])
HERE = Path(__file__).resolve().parent
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_table(name: str) -> Any:
    """What ``NAME.yml`` holds."""
    return LOADER((HERE / f"{name}.yml").read_text(encoding="utf-8")).get_single_data()


def rows(kind: type[Row], given: list[Any]) -> tuple[Row, ...]:
    """One row an item: a mapping by field, or a list in the fields' order. Raises TypeError for a value of another type,
    ValueError or KeyError for one of no field."""
    hints = get_type_hints(kind)
    return tuple(kind(**{field: _typed(hints[field], value) for field, value in _named(kind, item).items()}) for item in given)


def _named(kind: Any, item: Any) -> dict[str, Any]:
    return item if isinstance(item, dict) else dict(zip(kind._fields[: len(item)], item, strict=True))


def _typed(kind: Any, value: Any) -> Any:
    if kind is Any:
        return value
    if get_origin(kind) is UnionType:
        return None if value is None else _typed(get_args(kind)[0], value)
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        if kinds[-1] is Ellipsis:
            return rows(kinds[0], value) if hasattr(kinds[0], "_fields") else tuple(_typed(kinds[0], item) for item in value)
        return tuple(_typed(one, item) for one, item in zip(kinds, value, strict=True))
    if not isinstance(value, (int, float) if kind is float else kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
