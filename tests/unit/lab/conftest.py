# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab that exists only as data, and programs that are never run."""

from __future__ import annotations

from pathlib import Path

import pytest

from railwright.lab import net, tools
from railwright.lab.image import Image
from railwright.lab.state import LabState


def make_state(root: Path, nodes: int = 2, rails: int = 1) -> LabState:
    """The ports do not depend on which ones of this machine are free: a lab may be running."""
    ports = {f"node{index}": 2200 + index for index in range(1, nodes + 1)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(net, "port_is_free", lambda _port: True)
        made = net.make_nodes(nodes, rails, ports)
    return LabState(
        root=root,
        image="0123456789abcdef",
        accel="tcg",
        shape="shape",
        nodes=made,
        socket_dir=str(root / "sock"),
    )


@pytest.fixture
def state(tmp_path: Path) -> LabState:
    return make_state(tmp_path / "lab")


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image("0123456789abcdef", tmp_path / "cache" / "0123456789abcdef")


@pytest.fixture
def no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every tool is found under its own name, so that an argv can be built on a machine without QEMU."""
    monkeypatch.setattr(tools, "find_tool", lambda name: f"/usr/bin/{name}")
