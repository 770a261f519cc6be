# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node answered to its probes, in our words: it may say what it saw, and nothing about what it was asked."""

import re
from collections.abc import Sequence
from typing import Any

MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z")
MACS = 4  # of one address
LONGEST = 200  # characters of a text of the node's


def merged(probes: Sequence[dict[str, Any]], answers: Any) -> list[dict[str, Any]] | None:
    """Every probe with its answer; None when they do not belong together."""
    if not isinstance(answers, list) or len(answers) != len(probes):
        return None
    return [{**probe, **_answer(probe, answer if isinstance(answer, dict) else {})} for probe, answer in zip(probes, answers, strict=True)]


def _answer(probe: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    heard = answer.get("heard")
    asked = [probe["address"], *probe["others"]]
    return {
        "full": _flag(answer.get("full")),
        "small": _flag(answer.get("small")),
        "device": _text(answer.get("device")),
        "no_route": _text(answer.get("no_route")),
        "why": _text(answer.get("why")),
        "heard": {address: _macs(heard.get(address)) for address in asked} if isinstance(heard, dict) else {},
    }


def holders(rails: Sequence[dict[str, Any]], answers: Any) -> list[dict[str, Any]]:
    """For each rail that was asked about who else holds its address."""
    items = [item for item in answers if isinstance(item, dict)] if isinstance(answers, list) else []
    return [_holder(rail["name"], next((item for item in items if item.get("name") == rail["name"]), {})) for rail in rails]


def _holder(name: str, item: dict[str, Any]) -> dict[str, Any]:
    macs = item.get("macs")
    return {"name": name, "macs": _macs(macs) if isinstance(macs, list) else None, "dad_failed": item.get("dad_failed") is True}


def _macs(value: Any) -> list[str]:
    return [mac for mac in value[:MACS] if isinstance(mac, str) and MAC.match(mac)] if isinstance(value, list) else []


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: Any) -> str | None:
    return value[:LONGEST] if isinstance(value, str) else None
