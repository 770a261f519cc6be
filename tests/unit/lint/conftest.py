# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventories for lint tests: a good one of two hosts, with parts replaced."""

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Make = Callable[[Mapping[str, object]], Path]
SITE = "rdma_fabric: roce\nrdma_mtu: 9000\n"
N1 = 'rdma_rails: [{name: rail0, match: {mac: "02:00:00:00:01:00"}, address: 198.51.100.11/25}]'
N2 = 'rdma_rails: [{name: rail0, match: {mac: "02:00:00:00:02:00"}, address: 198.51.100.12/25}]'
HOSTS = "all:\n  children:\n    rdma:\n      hosts:\n        n1:\n{n1}        n2:\n{n2}"


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Write an inventory ``inv`` below an empty working directory. Parts: site, n1, n2, hosts, files."""
    monkeypatch.chdir(tmp_path)

    def write(parts: Mapping[str, object]) -> Path:
        variables = [str(parts.get(name, default)).rstrip("\n") + "\n" for name, default in (("n1", N1), ("n2", N2))]
        n1, n2 = (textwrap.indent(text, " " * 10) for text in variables)
        extra = parts.get("files", {})
        assert isinstance(extra, Mapping)
        texts = {
            "hosts.yml": str(parts.get("hosts", HOSTS.replace("{n1}", n1).replace("{n2}", n2))),
            "group_vars/all.yml": str(parts.get("site", SITE)),
            **{str(name): str(text) for name, text in extra.items()},
        }
        for name, text in texts.items():
            path = Path("inv") / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return Path("inv")

    return write
