# SPDX-License-Identifier: GPL-3.0-or-later
"""What a shell gets to complete, as bash, zsh and fish ask for it: each question is a process of its own, as in a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SITE = str(ROOT / "inventories/roce")


def asked(line: str, shell: str = "bash", **more: str) -> list[str]:
    """What completes the last word of the line; nothing on stderr."""
    words = line.split(" ")
    env = {**os.environ, "_RAILWRIGHT_COMPLETE": f"complete_{shell}", **more}
    env |= ({"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)} if shell == "bash" else
            {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"})  # fmt: skip
    program = str(Path(sys.executable).with_name("railwright"))
    done = subprocess.run([program], env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(("line", "words"), [
    (f"railwright plan -i {SITE} --limit all:!nod", {"all:!node1", "all:!node2"}), (f"railwright apply -i {SITE} -l rd", {"rdma"}),
    ("railwright apply --consent link,reb", {"link,reboot"}), ("railwright nccl explain NCCL_IB_QPS_", {"NCCL_IB_QPS_PER_CONNECTION"}),
    ("railwright plan --area netw", {"network"}), ("railwright explain rdma_mt", {"rdma_mtu"}),
    ("railwright explain NCCL_IB_TC", {"NCCL_IB_TC"}), ("railwright explain port.flap", {"port.flaps"}),
    (f"railwright explain -i {SITE} host nod", {"node1", "node2"}),
    (f"railwright explain -i {SITE} path node1:", {"node1:rail0", "node1:rail1"}),
    ("railwright plan -i /nowhere --limit n", set()), ("railwright remed", {"remediate"})])
def test_bash_gets_the_words_of_this_line(line: str, words: set[str]) -> None:
    assert set(asked(line)) == words


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_get_them_too(shell: str) -> None:
    assert "node1" in " ".join(asked(f"railwright plan -i {SITE} --limit nod", shell))


def test_stored_runs_are_completed(tmp_path: Path) -> None:
    run = tmp_path / "railwright/runs/20260101T120000Z-drift-0000abcd"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    assert asked("railwright report --run 2026", XDG_STATE_HOME=str(tmp_path)) == [run.name]
