# SPDX-License-Identifier: GPL-3.0-or-later
"""Rank and master flags get into torchrun's command line, where they belong and only once."""

import pytest

from railwright.container_flags.torchrun import Job, launch

JOB = Job(2, 1, "192.0.2.11", 29500, "read on zeta")
ALL = ("--nnodes=2", "--node_rank=1", "--master_addr=192.0.2.11", "--master_port=29500", "--nproc_per_node=8")


@pytest.mark.parametrize("starter", [
    ("torchrun",), ("/opt/ai/bin/torchrun",), ("numactl", "--cpunodebind=0", "torchrun"), ("python3", "-m", "torch.distributed.run"),
])
def test_behind_whatever_starts_it(starter: tuple[str, ...]) -> None:
    found = launch((*starter, "train.py", "--epochs", "3"), JOB, 8)
    assert found.command == (*starter, *ALL, "train.py", "--epochs", "3")
    assert found.notes == ()


def test_another_command_stays_as_it_is() -> None:
    found = launch(("python3", "torchrun.py"), JOB, 8)
    assert (found.command, found.flags, found.notes) == (("python3", "torchrun.py"), ALL, ())


@pytest.mark.parametrize(("own", "kept"), [
    (("--nproc_per_node", "4"), "nproc_per_node"), (("--nproc-per-node=gpu",), "nproc_per_node"), (("--node-rank=0",), "node_rank"),
    (("-t", "3", "--master_port", "6000"), "master_port"),
])
def test_what_the_command_says_itself_stays(own: tuple[str, ...], kept: str) -> None:
    found = launch(("torchrun", *own, "train.py"), JOB, 8)
    assert found.command == ("torchrun", *(flag for flag in ALL if not flag.startswith(f"--{kept}=")), *own, "train.py")
    assert [note.partition(" stay")[0] for note in found.notes] == [f"the command's own --{kept}"]


def test_options_of_the_script_are_not_torchruns() -> None:
    """The eRDMA document's benchmark.py has a --master-addr of its own."""
    script = ("benchmark.py", "--master-addr=172.20.20.148", "--nnodes", "9")
    assert launch(("torchrun", "--no-python", "-m", *script), JOB, 8).command == ("torchrun", *ALL, "--no-python", "-m", *script)


@pytest.mark.parametrize("own", [("--standalone",), ("--rdzv-endpoint=host:1",), ("--rdzv_endpoint", "host:1")])
def test_another_rendezvous_is_left_alone(own: tuple[str, ...]) -> None:
    found = launch(("torchrun", *own, "train.py"), JOB, 8)
    assert found.command == ("torchrun", *own, "train.py")
    assert "rendezvous of its own" in found.notes[0]


def test_the_documents_launcher_is_deprecated() -> None:
    found = launch(("python", "-m", "torch.distributed.launch", "benchmark.py"), JOB, 8)
    assert found.command == ("python", "-m", "torch.distributed.launch", *ALL, "benchmark.py")
    assert "deprecated" in found.notes[0]


def test_without_an_address_nothing_is_invented() -> None:
    found = launch(("torchrun", "train.py"), Job(2, 1, None, 29500), None)
    assert found.command == ("torchrun", "--nnodes=2", "--node_rank=1", "--master_port=29500", "train.py")
    assert "--master-addr" in found.notes[0]
    own = launch(("torchrun", "--master_addr=node9", "train.py"), Job(2, 1, None, 29500), None)
    assert not any("nothing says" in note for note in own.notes)
