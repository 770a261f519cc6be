# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents that any JSON reader takes: what JSON has no number for is text.

Python writes NaN and Infinity, which RFC 8259 (section 6) has not, and a strict reader refuses all of a document that holds one. Both
may come from a node's answer or from an inventory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def dumps(document: Any) -> str:
    """Indented, in ASCII, so that no locale can break it, with a newline at the end."""
    try:
        return json.dumps(document, indent=2, allow_nan=False) + "\n"
    except ValueError:
        return json.dumps(_finite(document), indent=2, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return json.dumps(value) if isinstance(value, float) and not math.isfinite(value) else value
