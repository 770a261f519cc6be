# SPDX-License-Identifier: GPL-3.0-or-later
"""PAM's configuration of a service, as its files say."""

from typing import Iterator, List

from ..host.host import Host

PAM = "/etc/pam.d"
MAX_INCLUDES = 8
# Slurm's modules that end a login of a user without a job on the node (slurm.schedmd.com/pam_slurm_adopt.html). Root is let in.
NEED_JOB = ("pam_slurm_adopt.so", "pam_slurm.so")
LISTS = ("pam_access.so", "pam_listfile.so")  # with "sufficient" before them: a site's list of users who need no job


def pam_lines(host: Host, service: str, depth: int = 0) -> Iterator[List[str]]:
    """Yield the words of each line of a service, with those of the files that it includes in their place."""
    for line in (host.read("%s/%s" % (PAM, service)) or "").split("\n"):
        words = line.partition("#")[0].split()
        if words[:1] != ["@include"] and words[1:2] not in (["include"], ["substack"]):
            yield words
        elif "/" not in words[-1] and depth < MAX_INCLUDES:
            for more in pam_lines(host, words[-1], depth + 1):
                yield more


def modules_of(words: List[str]) -> List[str]:
    """Return the base names of the words of a line; the module is among them."""
    return [word.rpartition("/")[2] for word in words]


def logins_need_job(host: Host) -> bool:
    """Whether sshd refuses a user who has no job of Slurm's on this node."""
    for words in pam_lines(host, "sshd"):
        names = modules_of(words) if words and words[0].lstrip("-") == "account" else []
        if "sufficient" in names and not set(LISTS).isdisjoint(names):
            return False
        if not set(NEED_JOB).isdisjoint(names) and "optional" not in names:
            return "action_no_jobs=ignore" not in words
    return False
