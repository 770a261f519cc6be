#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Observe the RDMA side of one node; the logic is in module_utils, the schema in docs/reference/facts.md."""

from ansible_collections.railwright.rdma.plugins.module_utils.entry.facts import answer
from ansible_collections.railwright.rdma.plugins.module_utils.entry.node_module import serve
from ansible_collections.railwright.rdma.plugins.module_utils.entry.options import FACTS


def main() -> None:
    serve(FACTS, answer)


if __name__ == "__main__":
    main()
