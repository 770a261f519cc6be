# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with any file or directory missing, cut short or overwritten is still observed: no error, plain JSON."""

import json
import random
import shutil
from pathlib import Path

import pytest

from ansible_collections.railwright.rdma.plugins.module_utils.host.host import TreeHost
from ansible_collections.railwright.rdma.plugins.module_utils.observe.facts import facts_of_tree
from ansible_collections.railwright.rdma.plugins.module_utils.observe.identity import observe_identity

DAMAGE = ("remove", "truncate", "binary", "directory", "loop", "escape")
ROUNDS = 5


def hurt(path: Path, kind: str, chance: random.Random) -> None:
    """Do one kind of damage to one path of a tree."""
    content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
    if kind == "truncate":
        path.write_bytes(content[: chance.randrange(len(content) + 1)])
    elif kind == "binary":
        path.write_bytes(bytes(chance.randrange(256) for _ in range(300)))
    elif kind == "directory":
        path.mkdir()
        (path / "x").write_text("x")
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "escape":
        path.symlink_to("../" * 30 + "etc")


@pytest.mark.parametrize("name", ["roce8-bond", "rxe", "erdma2", "multiport", "ib8"])
def test_damage_anywhere_never_raises(nodes: Path, tmp_path: Path, name: str) -> None:
    chance = random.Random(name)
    tree = tmp_path / name
    shutil.copytree(nodes / name, tree, symlinks=True)
    for number in range(ROUNDS):
        for kind in DAMAGE:
            paths = sorted(path for path in tree.rglob("*"))
            deep = [path for path in paths if len(path.relative_to(tree).parts) > 3] or paths
            if not deep:
                return
            victim = chance.choice(deep)
            hurt(victim, kind, chance)
            text = json.dumps(facts_of_tree(str(tree)), allow_nan=False)
            assert text.isascii(), (number, kind, victim)
            observe_identity(TreeHost(str(tree)), "10.10.0.11")


def test_every_part_of_a_node_may_be_missing(nodes: Path, tmp_path: Path) -> None:
    """Each directory of two levels on its own: what a hasty capture leaves out."""
    tree = tmp_path / "node"
    shutil.copytree(nodes / "roce8-bond", tree, symlinks=True)
    parts = sorted({path for pattern in ("*", "*/*", "*/*/*") for path in tree.glob(pattern)})
    assert len(parts) > 15
    for part in parts:
        part.rename(tmp_path / "aside")
        json.dumps(facts_of_tree(str(tree)), allow_nan=False)
        (tmp_path / "aside").rename(part)


def test_links_do_not_lead_out_of_a_tree(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("4: ACTIVE\n")
    port = tmp_path / "node" / "sys/class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    (port / "state").symlink_to("../" * 20 + str(secret).lstrip("/"))
    (port / "phys_state").symlink_to(secret)
    found = facts_of_tree(str(tmp_path / "node"))["hcas"][0]["ports"][0]
    assert (found["state"], found["phys_state"]) == (None, None)
