# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that are no key of ours: a misspelt key is named, other people's variables are let be."""

from collections.abc import Iterable, Mapping
from functools import cache

from .findings import Findings, did_you_mean
from .schema import BY_NAME, SITE_PREFIX

SLIPS = 2  # letters left out, added, replaced or swapped with their neighbour
SHORT = 5  # a word of so few letters has one slip at most, and keeps its first letter: cudnn is no cuda, api no mpi, rccl no nccl
LET_BE = frozenset(("container_image", "container_images", "container_runtime", "mpi_installed", "nccl_installed"))  # names that others use
_WORDS = {name: name.split("_") for name in BY_NAME}
_JOINED = {name.replace("_", ""): name for name in BY_NAME}
# Variables that decide how Ansible reaches a node: one that it does not know it passes over, and goes to the host's own name, say.
_REACH = {f"ansible_{name}": ["ansible", *name.split("_")] for name in (
    "become", "become_exe", "become_flags", "become_method", "become_pass", "become_password", "become_user", "connection", "host",
    "host_key_checking", "password", "pipelining", "port", "private_key_file", "python_interpreter", "remote_tmp", "shell_executable",
    "shell_type", "ssh_args", "ssh_common_args", "ssh_executable", "ssh_extra_args", "ssh_host", "ssh_host_key_checking", "ssh_pass",
    "ssh_password", "ssh_pipelining", "ssh_port", "ssh_private_key_file", "ssh_retries", "ssh_timeout", "ssh_transfer_method",
    "ssh_user", "sudo_pass", "su_pass", "timeout", "user")}


def check_unknown(names: Iterable[str], findings: Findings) -> None:
    """An error for every misspelt key, a warning for an unknown ``rdma_*``. Values are not shown: they may be secrets of somebody else."""
    for name in sorted(names):
        if name in BY_NAME or name in LET_BE or name.startswith("_"):
            continue
        meant = misspelt(name)
        if meant is not None:
            findings.error(name, None, f"is no known key; did you mean {meant}?", meant)
        elif (reach := misspelt_reach(name)) is not None:
            findings.warning(name, None, f"is no variable that Ansible reads; did you mean {reach}?", reach)
        elif name.startswith(SITE_PREFIX):
            findings.warning(name, None, "is no key of railwright" + did_you_mean(name, tuple(BY_NAME)),
                             "a key of the reference; variables of your own may have any other name")


@cache  # 400 hosts share one typo
def misspelt(name: str) -> str | None:
    """The key that a variable is meant to be: at most SLIPS letters off, or with its underscores elsewhere. None: somebody else's."""
    return _nearest(name.split("_"), _WORDS) or _JOINED.get(name.replace("_", ""))


@cache
def misspelt_reach(name: str) -> str | None:
    """The same of Ansible's own; a fact or a variable of somebody else's that begins so is let be."""
    return _nearest(name.replace("-", "_").split("_"), _REACH) if name[:1] == "a" and name not in _REACH else None


def _nearest(words: list[str], keys: Mapping[str, list[str]]) -> str | None:
    near = [(slips, key) for key, own in keys.items() if len(own) == len(words) and (slips := _slips(words, own)) <= SLIPS]
    return min(near)[1] if near else None


def _slips(words: list[str], key: list[str]) -> int:
    """Between the words of a variable and those of a key; more than SLIPS where they are different words."""
    count = 0
    for word, own in zip(words, key, strict=True):
        if word != own:
            short = len(own) <= SHORT
            if abs(len(word) - len(own)) > SLIPS or (short and word[:1] != own[0]):
                return SLIPS + 1
            slips = distance(word, own)
            count += slips if slips < 2 or not short else SLIPS + 1
    return count


def distance(one: str, other: str) -> int:
    """Letters to leave out, add, replace, or swap with their neighbour, until one word is the other (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one):
        older, before, row = before, row, [at + 1]
        for index, theirs in enumerate(other):
            steps = [before[index + 1] + 1, row[index] + 1, before[index] + (letter != theirs)]
            if at and index and letter == other[index - 1] and theirs == one[at - 1]:
                steps.append(older[index - 1] + 1)
            row.append(min(steps))
    return row[-1]
