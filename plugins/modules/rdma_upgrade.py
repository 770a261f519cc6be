#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The lease that an upgrade has on a node, and what an upgrade knows of the node; the logic is in module_utils/entry/upgrade.py."""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import UPGRADE
from ansible_collections.railwright.rdma.plugins.module_utils.entry.upgrade import answer


def main() -> None:
    serve(UPGRADE, answer)


if __name__ == "__main__":
    main()
