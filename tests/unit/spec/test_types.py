# SPDX-License-Identifier: GPL-3.0-or-later
"""What keys.pyi says of a Spec's keys is what a Spec holds, whatever the fabric and whatever is left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.spec import keys
from field_specs import build_spec

STUB = Path(keys.__file__).with_suffix(".pyi")
KINDS: dict[str, Any] = {"str": str, "int": int, "float": (int, float), "bool": bool, "Dict[str, Any]": dict}
MTUS = {"roce": 9000, "infiniband": 2044, "erdma": 8500}


def declared() -> Iterator[tuple[str, str]]:
    """(key, type) of every overload that names its keys."""
    for node in ast.walk(ast.parse(STUB.read_text())):
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            named = node.args.args[1].annotation
            if isinstance(named, ast.Subscript):
                names = [part.value for part in ast.walk(named.slice) if isinstance(part, ast.Constant)]
                yield from ((str(name), ast.unparse(node.returns)) for name in names)


def fits(kind: str, value: Any) -> bool:
    if kind.startswith("Optional["):
        return value is None or fits(kind[len("Optional[") : -1], value)
    if kind.startswith("List["):
        return isinstance(value, list) and all(fits(kind[len("List[") : -1], item) for item in value)
    return kind == "Any" or (isinstance(value, KINDS[kind]) and (kind == "bool" or not isinstance(value, bool)))


@pytest.mark.parametrize("fabric", MTUS)
@pytest.mark.parametrize("more", [{}, {"aiacc_install": None, "rails": [{"name": "r0", "match": {"pci": "0000:1a:00.0"}}]}])
def test_every_key_has_its_declared_type(fabric: str, more: dict[str, Any]) -> None:
    spec, findings = build_spec({"fabric": fabric, "mtu": MTUS[fabric], **more}, "n1")
    assert spec is not None, findings
    kinds = dict(declared())
    assert set(kinds) == {key for key in spec.as_dict() if not key.endswith("_derived")}
    assert not {key: (kind, spec[key]) for key, kind in kinds.items() if not fits(kind, spec[key])}


def test_a_wrong_type_does_not_fit() -> None:
    assert [fits("Optional[str]", None), fits("str", None), fits("List[str]", ["a"]), fits("List[str]", [1]), fits("int", True)] == [
        True, False, True, False, False]
