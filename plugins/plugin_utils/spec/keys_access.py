# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of the schema for how the nodes reach each other: the ssh mesh that mpirun starts its ranks over. ``schema.py`` joins them."""

from __future__ import annotations

from .key import Key

SSH_MESH = (
    Key("ssh_mesh_state", "ssh_mesh", "str", "present",
        "present: the job user logs into every other node of the mesh with the mesh's key. absent: key, authorization, host keys and "
        "client configuration are taken away, and the other nodes get another key.",
        "choice", choices=("present", "absent")),
    Key("ssh_mesh_user", "ssh_mesh", "str", None,
        "The user that starts jobs; the same on every node. Unset: the user that Ansible logs in as.",
        "ERC (passwordless ssh between the nodes for the user that runs mpirun)", pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,31}$",
        form="a user name of at most 32 characters, without blanks", example="mpi"),
    Key("ssh_mesh_generation", "ssh_mesh", "int", 1,
        "Number of the mesh's key. Another number makes a new key on the next apply, and the old one stops working.",
        "choice: a key that may have leaked is replaced by a change in the inventory, so that everybody sees when and why",
        minimum=1, maximum=999999999),
    Key("ssh_mesh_addresses", "ssh_mesh", "list", [],
        "Addresses of a host that the mesh is made of: where it is reached and where it comes from (from= of the key); the first one is "
        "what its name leads to. Empty: what ansible_host or the name of the host leads to on the controller, then those of its rails.",
        "choice: the addresses that the controller and the inventory know", elements="str", pattern=r"^[0-9a-fA-F.:]+$",
        form="a list of IP addresses", example=["192.0.2.11"]),
)

ACCESS_ROLES = ("ssh_mesh",)
ACCESS_KEYS = SSH_MESH
