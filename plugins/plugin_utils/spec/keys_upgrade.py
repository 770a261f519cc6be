# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the schema for rolling upgrades: who runs jobs, how many nodes may be away, what a node must pass. ``schema.py`` joins them."""

from __future__ import annotations

from .key import Key

NODE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
COMMAND_FORM = "a list of words, the first one a program; {node} and {reason} stand for what they say"

UPGRADE = (
    Key("upgrade_scheduler", "upgrade", "str", "none",
        "Who puts jobs on the nodes, so that a node is drained before it changes: slurm, kubernetes, or command (upgrade_drain_command, "
        "upgrade_drained_command, upgrade_undrain_command). none: nobody is asked, and a job on the node dies with its reboot.",
        "choice: which scheduler a site has cannot be guessed", choices=("none", "slurm", "kubernetes", "command")),
    Key("upgrade_scheduler_host", "upgrade", "str", "localhost",
        "Where scontrol, kubectl or the commands run: a host of the inventory, or localhost (the controller).",
        "choice: the controller is where an operator has kubectl; Slurm's sites name their login or controller node",
        pattern=NODE_NAME, form="the name of a host of the inventory, or localhost", example="slurm1"),
    Key("upgrade_node_name", "upgrade", "str", None,
        "The node's name at the scheduler. Unset: its name in the inventory.", "choice: most sites use one name for both",
        pattern=NODE_NAME, form="a name of letters, digits and . _ -", example="gpu-001"),
    Key("upgrade_drain_timeout_s", "upgrade", "int", 86400,
        "How long the jobs of a node may still run after its drain began. A node that is not empty by then fails and takes jobs again, "
        "since nothing was changed on it; its jobs go on. `railwright upgrade --resume` drains it anew.",
        "choice: a day, the time limit that most partitions give; Slurm itself waits without end (scontrol(1), State=DRAIN)",
        minimum=0, maximum=2592000),
    Key("upgrade_drain_command", "upgrade", "list", [],
        "upgrade_scheduler command: lets no new work come to {node}. Exit code 0: done.", "choice", elements="str", form=COMMAND_FORM,
        example=["/usr/local/sbin/drain", "{node}", "{reason}"]),
    Key("upgrade_drained_command", "upgrade", "list", [],
        "upgrade_scheduler command: says whether {node} is empty. Exit code 0: no work is left, 75: not yet, anything else: an error.",
        "sysexits.h (75 is EX_TEMPFAIL: try again later)", elements="str", form=COMMAND_FORM,
        example=["/usr/local/sbin/is-empty", "{node}"]),
    Key("upgrade_undrain_command", "upgrade", "list", [],
        "upgrade_scheduler command: lets work come to {node} again. Exit code 0: done.", "choice", elements="str", form=COMMAND_FORM,
        example=["/usr/local/sbin/undrain", "{node}"]),
    Key("upgrade_failure_domain", "upgrade", "str", None,
        "What the node shares with its neighbours: a rack, a power feed, a switch. Nodes of two domains are never upgraded at the same "
        "time. Unset: all nodes without one are one domain.", "domain F5 (per-rack grouping of batches)", pattern=NODE_NAME,
        form="a name of letters, digits and . _ -", example="rack07"),
    Key("upgrade_max_unavailable", "upgrade", "str", "1",
        "How many nodes may be away at the same time, for the upgrade or for any other reason: a number, or a share of all nodes in "
        "quotes, rounded down and at least 1. With 1 no node has a partner, so that perftest between nodes proves nothing.",
        "NVIDIA Network Operator (maxParallelUpgrades 1)", pattern=r"^([1-9][0-9]{0,4}|([1-9][0-9]?|100)%)$",
        form="a number of nodes of at least 1, or a share like '10%'", example=4),
    Key("upgrade_canary", "upgrade", "list", [],
        "Nodes that are upgraded before all others, as many at a time as upgrade_max_unavailable says. Empty: the first node of the order.",
        "domain F5 (canary batch)", elements="str", form="a list of hosts of group rdma", example=["node1"]),
    Key("upgrade_gate", "upgrade", "str", "validate",
        "What the nodes of a batch must pass before jobs come back: validate, nccl_tests (validate, then nccl-tests over the batch), or "
        "none.",
        "domain F1 (validate, then resume)", choices=("none", "validate", "nccl_tests")),
    Key("upgrade_reboot", "upgrade", "str", "needed",
        "Whether a node that was changed reboots before it is validated: needed (where a change asks for it) or always, so that no node "
        "goes back to its jobs that was not seen to boot with the new set. Either needs consent to reboot.",
        "domain F1 (reboot after stack and driver, before validation); choice of needed", choices=("needed", "always")),
)

UPGRADE_ROLES = ("upgrade",)
UPGRADE_KEYS = UPGRADE
