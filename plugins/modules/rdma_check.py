#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Judge one node against its inventory; the logic is in module_utils/checks."""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.check import answer
from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import CHECK


def main() -> None:
    serve(CHECK, answer)


if __name__ == "__main__":
    main()
