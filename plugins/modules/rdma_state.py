#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plan or apply the RDMA state of one node; the logic is in module_utils."""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import STATE
from ansible_collections.railwright.rdma.plugins.module_utils.entry.state import answer


def main() -> None:
    serve(STATE, answer)


if __name__ == "__main__":
    main()
