# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi, asked for fields of every GPU. One that fell off the bus can make it hang, so it has a short limit."""

import re
from typing import List, Optional, Tuple

from ..formats import sysfs_values
from ..formats.outside import lines_in
from ..host.host import Host

PERSISTENCE = ("pci.bus_id", "persistence_mode")
GPU_LINE = re.compile(r"GPU [0-9]{1,3}: [^()]{1,100} \(UUID: (GPU-[0-9a-f-]{36})\)\Z")  # above the rows of its NVLinks
SMI_SECONDS = 30.0  # initialises every GPU first when nothing keeps the driver awake: 2 s each


def query(fields: Tuple[str, ...]) -> Tuple[str, ...]:
    return ("nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader")


def smi_rows(host: Host, fields: Tuple[str, ...]) -> Optional[List[List[str]]]:
    """One row a GPU from nvidia-smi; None when it is not there, fails or answers in another form."""
    if host.which("nvidia-smi") is None:
        return None
    answer = host.run(query(fields), SMI_SECONDS)
    if not answer.ok:
        return None
    rows = [[value.strip() for value in line.split(",")] for line in lines_in(answer.out) if line.strip()]
    if not rows or any(len(row) != len(fields) or any(sysfs_values.token(value) is None for value in row) for row in rows):
        return None
    return rows
