#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Passwordless ssh between the nodes: one key, recorded host keys, and nobody else let in."""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import SSH_MESH
from ansible_collections.railwright.rdma.plugins.module_utils.entry.ssh_mesh import answer


def main() -> None:
    serve(SSH_MESH, answer, "ssh_mesh")


if __name__ == "__main__":
    main()
