# SPDX-License-Identifier: GPL-3.0-or-later
"""What tools/check-seeds finds, on small documents of our own: the five are not in this repository."""

import subprocess
import sys
from pathlib import Path

import pytest

import repo
from seed_documents import Document, Item, Nothing, faults_against, faults_of_list, looks_like

TOOL = repo.ROOT / "tools/check-seeds"
LINES = ["部署", "sudo apt install -y rdma-core 然后重启", "export A=1 export B=2", "import os", "import sys", "使用NCCL的原理", "# 注释"]
WHOLE = Document("a small one", "small.txt", "small.md", (
    Item("2a", "command", "sudo apt install -y rdma-core"), Item("2b", "instruction", "然后重启"), Item("3a", "setting", "export A=1"),
    Item("3b", "setting", "export B=2"), Item("4-5", "code", "import os\nimport sys"),
), (Nothing(7, "", "a comment"),))


def without(number: str) -> Document:
    return WHOLE._replace(items=tuple(item for item in WHOLE.items if item.id != number))


def with_text(number: str, text: str) -> Document:
    return WHOLE._replace(items=tuple(item._replace(text=text) if item.id == number else item for item in WHOLE.items))


def test_a_whole_list_has_no_fault() -> None:
    assert faults_of_list(WHOLE) == []
    assert faults_against(WHOLE, LINES) == []


@pytest.mark.parametrize(("document", "said"), [
    (without("2a"), "line 2: not in the list: command 'sudo'"),
    (without("2b"), "line 2: not in the list: instruction '重启'"),
    (without("3b"), "line 3: not in the list: command 'export'"),
    (without("4-5"), "line 4: not in the list: code 'import o"),
    (WHOLE._replace(nothing=()), "line 7: not in the list: prompt or comment '#'"),
    (with_text("3a", "export A=3"), "3a: not on line 3, or not behind the item before it: export A=3"),
    (with_text("3b", "export A=1"), "3b: not on line 3, or not behind the item before it: export A=1"),
    (with_text("4-5", "import os\nimport re"), "4-5: not on line 5, or not behind the item before it: import re"),
    (with_text("3a", "export A"), "line 3: not in the list: assignment"),
    (WHOLE._replace(nothing=(*WHOLE.nothing, Nothing(6, "", "an explanation"))), "line 6: left out without need"),
    (WHOLE._replace(nothing=(*WHOLE.nothing, Nothing(6, "NCCL", "an explanation"))), "line 6: left out without need: NCCL"),
    (WHOLE._replace(nothing=(*WHOLE.nothing, Nothing(6, "MPI", "an explanation"))), "line 6: left out, and not there: MPI"),
    (WHOLE._replace(nothing=(*WHOLE.nothing, Nothing(9, "", "an explanation"))), "line 9: left out, and the document has 7"),
])
def test_one_disagreement_is_found(document: Document, said: str) -> None:
    found = faults_against(document, LINES)
    assert any(fault.startswith(said) for fault in found), found


@pytest.mark.parametrize(("items", "said"), [
    ([("2a", "command"), ("2a", "command")], "2a: follows 2a: letters go a, b, c …, each once"),
    ([("2a", "command"), ("2c", "command")], "2c: follows 2a: letters go a, b, c …, each once"),
    ([("2", "command"), ("2a", "command")], "2a: follows 2: letters go a, b, c …, each once"),
    ([("2b", "command")], "2b: out of order"),
    ([("3", "command"), ("2", "command")], "2: out of order"),
    ([("2", "commando")], "2: commando is no kind"),
    ([("4-5", "code")], "4-5: 1 lines of text for 2 lines"),
])
def test_a_list_that_is_not_sound_is_found(items: list[tuple[str, str]], said: str) -> None:
    document = Document("x", "x", "x", tuple(Item(number, kind, "text") for number, kind in items), ())
    assert any(fault.startswith(said) for fault in faults_of_list(document)), faults_of_list(document)


def test_a_reason_is_asked_for() -> None:
    assert faults_of_list(WHOLE._replace(nothing=(Nothing(7, "", ""),))) == ["line 7: left out without a reason"]


def test_a_gap_stays_on_its_line_and_in_its_order() -> None:
    table = ["8 2 float sum 9.1 0.0 16 4 float sum 9.2 0.0 32 8 float sum 9.3 0.1"]
    listed = Document("x", "x", "x", (Item("1", "output", "8 2 float … 32 8 float sum 9.3 0.1"),), ())
    assert faults_against(listed, table) == []
    turned = Document("x", "x", "x", (Item("1", "output", "32 8 float … 8 2 float"),), ())
    assert faults_against(turned, table)[0].startswith("1: not on line 1")


@pytest.mark.parametrize("text", [
    "$ ls", "yum install git", "依次运行git", "LD_LIBRARY_PATH=/usr/local/lib", "name = ERDMA", "[erdma]", "State: Active", "CA 'mlx5_0'",
    "--ipc=host", "-np 2", "/etc/yum.repos.d", "hostfile.txt", "https://mirrors.example.com/x", "172.20.20.145",
    "X.X.X.X manager", "dist.broadcast",
    "print(", "mlx5_0", "ethX", "NCCL INFO Connected", "0[9000] via NET", "4 1 0.5 7", "PORT_ACTIVE", "nvidia-driver>=535", "OFED 5.8",
    ":wq", "请安装驱动", "启用PFC",
])
def test_what_looks_like_an_item(text: str) -> None:
    assert looks_like(text)


@pytest.mark.parametrize("text", [
    "简介", "RDMA(Remote Direct Memory Access)", "mpi/gloo后端多用于CPU", "TCP/IP网络协议栈", "GPU Direct RDMA",
    "Data-Parallel", "RoCE v2(RDMA",
    "- 规格",
])
def test_what_does_not(text: str) -> None:
    assert looks_like(text) == []


def test_the_tool_without_the_documents_fails_and_says_so(tmp_path: Path) -> None:
    done = subprocess.run((sys.executable, str(TOOL), str(tmp_path)), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "0 files are called" in done.stdout
    usage = subprocess.run((sys.executable, str(TOOL)), capture_output=True, text=True, check=False)
    assert (usage.returncode, usage.stdout) == (64, "")
